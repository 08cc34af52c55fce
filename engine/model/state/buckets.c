#include "engine/model/state/buckets.h"

#include "base/heap.h"

#include <stdlib.h>

// One group of parameters, up to the begin of the next one.
static ft_bucket group_at(const ft_parameters *p, int *index) {
    const ft_parameter *first = &p->list[*index];
    ft_bucket group = {.first = first->offset, .count = p->trainable - first->offset, .completes = first->completes};
    while (++*index < p->count) {
        const ft_parameter *q = &p->list[*index];
        if (!q->trainable || q->store != FT_STORE_TRAINED) continue;
        if (q->starts_group) {
            group.count = q->offset - group.first;
            break;
        }
        if (q->completes > group.completes) group.completes = q->completes;
    }
    return group;
}

static int first_trained(const ft_parameters *p) {
    int i = 0;
    while (i < p->count && (!p->list[i].trainable || p->list[i].store != FT_STORE_TRAINED))
        i++;
    return i;
}

// Does what is complete at the end of the step alone stand beside what is before?
static bool breaks_order(const ft_bucket *open, const ft_bucket *group, const ft_bucket *next) {
    if (group->completes < open->completes) return true;
    return group->completes > open->completes && next != NULL && next->completes < group->completes;
}

ft_status ft_buckets_cut(const ft_parameters *p, size_t first_bytes, size_t bytes, ft_bucket **buckets, int *count) {
    *count = 0;
    *buckets = ft_calloc((size_t)p->count + 1, sizeof **buckets, "the order of gradients");
    if (*buckets == NULL) return FT_NO_MEMORY;
    int at = first_trained(p);
    if (at == p->count) return FT_OK;
    ft_bucket group = group_at(p, &at), *open = NULL;
    for (bool more = true; more;) {
        ft_bucket next = {.count = 0};
        more = at < p->count;
        if (more) next = group_at(p, &at);
        const size_t enough = *count <= 1 ? first_bytes : bytes;
        if (open == NULL || (size_t)open->count * sizeof(float) >= enough ||
            breaks_order(open, &group, more ? &next : NULL)) {
            open = &(*buckets)[(*count)++];
            *open = group;
        } else {
            open->count += group.count;
            if (group.completes > open->completes) open->completes = group.completes;
        }
        group = next;
    }
    return FT_OK;
}

int64_t ft_bucket_part(const ft_bucket *bucket, int ranks) {
    const int64_t chunks = (bucket->count + FT_BUCKET_CHUNK - 1) / FT_BUCKET_CHUNK;
    return (chunks + ranks - 1) / ranks * FT_BUCKET_CHUNK;
}
