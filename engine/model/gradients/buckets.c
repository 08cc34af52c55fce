#include "engine/model/gradients/buckets.h"

#include "base/heap.h"
#include "engine/model/gradients/gradients.h"

#include <stdlib.h>

static bool is_late(const ft_parameter *q) { return q->completes > q->last; }

static void take(ft_bucket *b, const ft_parameter *q) {
    if (q->arrives < b->arrives) b->arrives = q->arrives;
    if (q->completes > b->completes) b->completes = q->completes;
    b->late = b->late || is_late(q);
}

// Nothing else adds to it (a head that it is tied to), and nothing is trained behind it.
bool ft_bucket_is_words(const ft_parameters *p, int index) {
    const ft_parameter *q = &p->list[index];
    const int64_t end = q->offset + q->trained * q->cols;
    return index == p->table && q->trained > 0 && q->arrives == q->completes && q->arrives == q->last &&
           p->trainable >= end && p->trainable - end < FT_BUCKET_PADDING;
}

// One group of parameters, up to the begin of the next one, or where what the end of the step adds to begins or ends.
static ft_bucket group_at(const ft_parameters *p, int *index) {
    const ft_parameter *first = &p->list[*index];
    ft_bucket group = {.first = first->offset,
                       .count = p->trainable - first->offset,
                       .arrives = first->arrives,
                       .completes = first->completes,
                       .late = is_late(first),
                       .joins = !first->starts_group,
                       .words = ft_bucket_is_words(p, *index)};
    while (++*index < p->count) {
        const ft_parameter *q = &p->list[*index];
        if (!q->trainable || q->store != FT_STORE_TRAINED) continue;
        if (q->starts_group || is_late(q) != group.late) {
            group.count = q->offset - group.first;
            break;
        }
        take(&group, q);
    }
    return group;
}

static int first_trained(const ft_parameters *p) {
    int i = 0;
    while (i < p->count && (!p->list[i].trainable || p->list[i].store != FT_STORE_TRAINED))
        i++;
    return i;
}

// All of them, front to back. Returns how many.
static int find_groups(const ft_parameters *p, ft_bucket *groups) {
    int count = 0;
    for (int at = first_trained(p); at < p->count;)
        groups[count++] = group_at(p, &at);
    if (count > 0) groups[0].joins = false; // what it would join is frozen
    return count;
}

// Parts of one group stand alone.
static bool is_apart(const ft_bucket *b, int count, int i) {
    return b[i].joins || (i > 0 && b[i - 1].joins) || (i + 1 < count && b[i + 1].joins);
}

// Merges what is small, from `count` groups into fewer. Late ones, behind which something is complete before them,
// stand by themselves.
static int merge(ft_bucket *b, int count, const bool *late, size_t first_bytes, size_t bytes) {
    int made = 0;
    for (int i = 0; i < count; i++) {
        ft_bucket *open = made > 0 ? &b[made - 1] : NULL;
        const size_t enough = made == 1 ? first_bytes : bytes;
        if (open == NULL || (size_t)open->count * sizeof(float) >= enough || late[i] != late[i - 1] || b[i].words ||
            is_apart(b, count, i)) {
            b[made++] = b[i];
            continue;
        }
        open->count += b[i].count;
        if (b[i].arrives < open->arrives) open->arrives = b[i].arrives;
        if (b[i].completes > open->completes) open->completes = b[i].completes;
        open->late = open->late || b[i].late;
    }
    return made;
}

ft_status ft_buckets_cut(const ft_parameters *p, size_t first_bytes, size_t bytes, ft_bucket **buckets, int *count) {
    *count = 0;
    *buckets = ft_calloc((size_t)p->count + 1, sizeof **buckets, "the order of gradients");
    bool *late = ft_calloc((size_t)p->count + 1, sizeof *late, "the order of gradients");
    if (*buckets == NULL || late == NULL) {
        free(*buckets);
        free(late);
        return *buckets = NULL, FT_NO_MEMORY;
    }
    const int groups = find_groups(p, *buckets);
    for (int i = groups - 1, first = FT_BACKWARD_DONE; i >= 0; i--) {
        const int completes = (*buckets)[i].completes;
        late[i] = completes > first;
        if (completes < first) first = completes;
    }
    *count = merge(*buckets, groups, late, first_bytes, bytes);
    free(late);
    return FT_OK;
}

// Where the same point completes several, in their order.
static int by_completion(const void *a, const void *b) {
    const ft_bucket *x = a, *y = b;
    if (x->completes != y->completes) return x->completes < y->completes ? -1 : 1;
    return (x->first > y->first) - (x->first < y->first);
}

ft_status ft_buckets_of_step(const ft_parameters *p, size_t first_bytes, size_t bytes, ft_bucket **buckets, int *count) {
    FT_TRY(ft_buckets_cut(p, first_bytes, bytes, buckets, count));
    if (*count == 0) (*buckets)[(*count)++] = (ft_bucket){.arrives = FT_BACKWARD_DONE};
    ft_bucket *last = &(*buckets)[*count - 1];
    for (int i = 0; i < p->count; i++)
        if (p->list[i].trainable && p->list[i].store != FT_STORE_TRAINED) take(last, &p->list[i]);
    last->count = p->trainable - last->first;
    qsort(*buckets, (size_t)*count, sizeof **buckets, by_completion);
    return FT_OK;
}

int ft_buckets_at_once(const ft_bucket *b, int count, int at) {
    int end = at + 1;
    while (end < count && b[end].completes == b[at].completes)
        end++;
    return end - at;
}

int64_t ft_bucket_part(const ft_bucket *bucket, int ranks) {
    const int64_t chunks = (bucket->count + FT_BUCKET_CHUNK - 1) / FT_BUCKET_CHUNK;
    return (chunks + ranks - 1) / ranks * FT_BUCKET_CHUNK;
}
