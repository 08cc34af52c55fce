#include "engine/model/gradients/gradient_parts.h"

#include "base/heap.h"
#include "engine/model/gradients/gradients.h"
#include "engine/model/gradients/word_sums.h"
#include "kernels/ops/backend.h"

#include <assert.h>
#include <stdlib.h>

static size_t in_places(size_t bytes) { return (bytes + FT_MEMORY_PLACE - 1) / FT_MEMORY_PLACE * FT_MEMORY_PLACE; }
static size_t room_of(const ft_gradient_piece *head) { return (size_t)head->room * sizeof(float); }

// Where the word table's gradient begins, whose rows count one by one; behind everything where it is not trained.
static int64_t table_at(const ft_parameters *p) {
    if (p->table < 0 || !p->list[p->table].trainable) return p->trainable;
    const ft_parameter *table = &p->list[p->table];
    return p->stores[table->store].first + table->offset;
}

// Elements of a piece in front of the table.
static int64_t flat_of(const ft_parameters *p, const ft_bucket *b) {
    const int64_t left = table_at(p) - b->first;
    return left >= b->count ? b->count : left > 0 ? left : 0;
}

static void number_sums(const ft_parameters *p, ft_gradient_parts *g) {
    for (int i = 0; i < g->count; i++) {
        const int64_t flat = flat_of(p, &g->piece[i].bucket);
        g->piece[i].first_sum = g->sums;
        g->sums += ft_norm_sums(flat, flat < g->piece[i].bucket.count ? p->list[p->table].rows : 0);
    }
}

static int piece_with(const ft_gradient_parts *g, int64_t element) {
    for (int i = 0; i < g->count; i++)
        if (element >= g->piece[i].bucket.first && element < g->piece[i].bucket.first + g->piece[i].bucket.count)
            return i;
    return 0;
}

// Where a group ends in several pieces they lie side by side: products write all of it as one matrix.
static int head_of(const ft_gradient_parts *g, int piece) {
    while (g->piece[piece].bucket.joins)
        piece = piece_with(g, g->piece[piece].bucket.first - 1);
    return piece;
}

static void find_heads(ft_gradient_parts *g) {
    for (int i = 0; i < g->count; i++) {
        ft_gradient_piece *head = &g->piece[g->piece[i].head = head_of(g, i)];
        head->room += g->piece[i].bucket.count;
        head->stays = head->stays || g->piece[i].bucket.late;
    }
    for (int i = 0; i < g->count; i++)
        g->piece[i].stays = g->piece[g->piece[i].head].stays;
}

static ft_status find_places(ft_parameters *p, ft_gradient_parts *g) {
    int64_t own = 0;
    g->piece_of = ft_calloc((size_t)p->count + 1, sizeof *g->piece_of, "gradients that are dealt out");
    g->own_first = ft_calloc((size_t)p->store_count + 1, sizeof *g->own_first, "gradients that are dealt out");
    g->ranges = ft_calloc((size_t)g->count, sizeof *g->ranges, "gradients that are dealt out");
    if (g->piece_of == NULL || g->own_first == NULL || g->ranges == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < p->count; i++)
        if (p->list[i].trainable) g->piece_of[i] = piece_with(g, p->stores[p->list[i].store].first + p->list[i].offset);
    for (int i = 0; i < p->store_count; i++) {
        g->own_first[i] = own;
        if (p->stores[i].trainable) own += p->stores[i].own.room;
    }
    g->own_bytes = in_places((size_t)own * sizeof(float));
    find_heads(g);
    for (int i = 0; i < g->count; i++) {
        g->piece[i].place = g->late_bytes;
        if (g->piece[i].stays && g->piece[i].head == i) g->late_bytes += in_places(room_of(&g->piece[i]));
    }
    void *sums;
    FT_TRY(ft_memory_alloc(p->memory, (size_t)g->sums * sizeof(double), FT_MEM_COMMUNICATION,
                           "sums of squares of pieces", &sums));
    p->norm_sums = sums;
    return FT_OK;
}

ft_status ft_gradient_parts_open(ft_parameters *p) {
    if (ft_memory_ranks_of(p->memory).ranks < 2 || !ft_memory_ranks_of(p->memory).apart) return FT_OK;
    ft_bucket *buckets;
    int count;
    FT_TRY(ft_buckets_of_step(p, FT_BUCKET_FIRST, FT_BUCKET_BYTES, &buckets, &count));
    ft_gradient_parts *g = ft_calloc(1, sizeof *g, "pieces of gradients");
    ft_gradient_piece *piece = ft_calloc((size_t)count, sizeof *piece, "pieces of gradients");
    if (g == NULL || piece == NULL) return free(buckets), free(g), free(piece), FT_NO_MEMORY;
    for (int i = 0; i < count; i++)
        piece[i].bucket = buckets[i];
    free(buckets);
    *g = (ft_gradient_parts){.piece = piece, .count = count, .deals = p->deals_gradients && p->gradients_in_steps};
    p->parts = g;
    number_sums(p, g);
    return g->deals ? find_places(p, g) : FT_OK;
}

void ft_gradient_parts_close(ft_parameters *p) {
    if (p->parts == NULL) return;
    free(p->parts->piece);
    free(p->parts->piece_of);
    free(p->parts->own_first);
    free(p->parts->ranges);
    free(p->parts);
    p->parts = NULL;
}

ft_status ft_gradient_parts_square(const ft_parameters *p, int piece, float *data, double *sums) {
    ft_device *device = ft_memory_device(p->memory);
    const ft_gradient_piece *of = &p->parts->piece[piece];
    const int64_t flat = flat_of(p, &of->bucket);
    ft_gradient_norm_args norm = {.gradient = ft_vector(data, flat, FT_F32), .pieces = {sums, of->first_sum, false}};
    if (flat < of->bucket.count) {
        const ft_parameter *table = &p->list[p->table];
        norm.table = ft_matrix(data + flat, table->trained, table->cols, FT_F32);
        norm.table_rows = table->rows;
        norm.table_blocks = p->table_blocks;
    }
    return FT_RUN(device, gradient_norm, &norm);
}

// ---- dealt out ------------------------------------------------------------------------------------------------------

void ft_gradient_parts_begin(ft_parameters *p) {
    ft_gradient_parts *g = p->parts;
    g->own = NULL;
    g->sent = g->kept = 0;
    for (int i = 0; i < g->count; i++)
        g->piece[i].data = NULL;
}

static float *data_in(const ft_gradient_piece *head, const ft_gradient_piece *piece) {
    return head->data + (piece->bucket.first - head->bucket.first);
}

static ft_status arrive_head(ft_parameters *p, ft_gradient_piece *piece) {
    ft_device *device = ft_memory_device(p->memory);
    const size_t bytes = room_of(piece);
    void *data;
    if (piece->data != NULL) return FT_OK;
    if (piece->stays)
        FT_TRY(ft_memory_alloc_at(p->memory, p->parts->own_bytes + piece->place, in_places(bytes), FT_MEM_GRADIENTS,
                                  "gradients", &data));
    else
        FT_TRY(ft_memory_alloc(p->memory, bytes, FT_MEM_GRADIENTS, "gradients on their way", &data));
    piece->data = data;
    return device->functions->fill(device, data, 0, bytes);
}

static ft_status arrive(ft_parameters *p, ft_gradient_piece *piece) {
    ft_gradient_piece *head = &p->parts->piece[piece->head];
    FT_TRY(arrive_head(p, head));
    piece->data = data_in(head, piece);
    return FT_OK;
}

// This rank's part, from when there is something for it.
static ft_status make_own(ft_parameters *p) {
    ft_gradient_parts *g = p->parts;
    void *data;
    if (g->own != NULL) return FT_OK;
    FT_TRY(ft_memory_alloc_at(p->memory, 0, g->own_bytes, FT_MEM_GRADIENTS, "gradients", &data));
    g->own = data;
    return FT_OK;
}

static ft_status copy_own(const ft_parameters *p, const ft_gradient_piece *piece) {
    ft_device *device = ft_memory_device(p->memory);
    for (int i = 0; i < p->store_count; i++) {
        const ft_store *s = &p->stores[i];
        const ft_bucket *b = &piece->bucket;
        const int64_t first = s->first + s->own.first, end = first + s->own.count,
                      from = first > b->first ? first : b->first,
                      to = end < b->first + b->count ? end : b->first + b->count;
        if (!s->trainable || from >= to) continue;
        FT_TRY(device->functions->copy(device, ft_gradient_parts_own(p, i) + (from - first),
                                       piece->data + (from - b->first), (size_t)(to - from) * sizeof(float)));
    }
    return FT_OK;
}

static bool has_rows(const ft_parameters *p, const ft_gradient_piece *piece) {
    return piece->bucket.words && ft_word_sums_hold_room(p);
}

// Their memory is there whether the step goes by them or not: all steps ask for the same.
static ft_status put_rows(ft_parameters *p, const ft_gradient_piece *piece) {
    const bool plan = ft_memory_ranks_of(p->memory).group == NULL;
    if (!has_rows(p, piece)) return FT_OK;
    if (ft_word_sums_go_by_row(p) && !plan) FT_TRY(ft_word_sums_put_rows(p, piece->data));
    ft_memory_free(p->memory, p->words->sums);
    p->words->sums = NULL;
    return FT_OK;
}

// What this rank has of the next piece whose sums have come.
static ft_status keep(ft_parameters *p) {
    ft_gradient_parts *g = p->parts;
    ft_gradient_piece *piece = &g->piece[g->kept];
    FT_TRY(put_rows(p, piece));
    FT_TRY(make_own(p));
    FT_TRY(copy_own(p, piece));
    FT_TRY(ft_gradient_parts_square(p, g->kept++, piece->data, p->norm_sums));
    if (piece->stays) return FT_OK;
    ft_memory_free(p->memory, piece->data);
    piece->data = NULL;
    return FT_OK;
}

static ft_status keep_sent(ft_parameters *p) {
    ft_gradient_parts *g = p->parts;
    ft_group *group = ft_memory_ranks_of(p->memory).group;
    if (g->kept == g->sent) return FT_OK;
    if (group != NULL) FT_TRY(ft_group_join(group));
    while (g->kept < g->sent)
        FT_TRY(keep(p));
    return FT_OK;
}

// How many pieces go next: those that are complete at the same point.
static int at_once(const ft_gradient_parts *g) {
    int end = g->sent + 1;
    while (end < g->count && g->piece[end].bucket.completes == g->piece[g->sent].bucket.completes)
        end++;
    return end - g->sent;
}

// They have their memory.
static ft_status sum(ft_parameters *p, int count) {
    ft_gradient_parts *g = p->parts;
    ft_group *group = ft_memory_ranks_of(p->memory).group; // NULL: this is a plan
    float *table = NULL;
    for (int i = 0; i < count; i++) {
        const ft_gradient_piece *piece = &g->piece[g->sent + i];
        g->ranges[i] = (ft_range){piece->data, piece->bucket.count, FT_F32};
        if (!has_rows(p, piece)) continue;
        void *rows;
        FT_TRY(ft_memory_alloc(p->memory, ft_word_sums_bytes(p), FT_MEM_COMMUNICATION, "rows of words", &rows));
        p->words->sums = rows;
        if (!ft_word_sums_go_by_row(p) || group == NULL) continue;
        FT_TRY(ft_word_sums_gather_rows(p, table = piece->data, &g->ranges[i]));
    }
    g->sent += count;
    if (group != NULL) FT_TRY(ft_group_all_reduce_all(group, g->ranges, count));
    return table != NULL ? ft_word_sums_clear(p, table) : FT_OK;
}

// By now those before have had the time of these to be summed.
static ft_status send(ft_parameters *p) {
    ft_gradient_parts *g = p->parts;
    const int count = at_once(g);
    for (int i = 0; i < count; i++)
        FT_TRY(arrive(p, &g->piece[g->sent + i]));
    FT_TRY(keep_sent(p));
    return sum(p, count);
}

ft_status ft_gradient_parts_reach(ft_parameters *p, int point) {
    ft_gradient_parts *g = p->parts;
    while (g->sent < g->count && !g->piece[g->sent].bucket.late && g->piece[g->sent].bucket.completes < point)
        FT_TRY(send(p));
    for (int i = g->sent; i < g->count; i++)
        if (g->piece[i].bucket.arrives <= point) FT_TRY(arrive(p, &g->piece[i]));
    return FT_OK;
}

ft_status ft_gradient_parts_leave(ft_parameters *p) {
    ft_gradient_parts *g = p->parts;
    while (g->sent < g->count && !g->piece[g->sent].bucket.late)
        FT_TRY(send(p));
    FT_TRY(keep_sent(p));
    for (int i = g->sent; i < g->count; i++)
        FT_TRY(arrive(p, &g->piece[i]));
    return make_own(p);
}

// Also where a graph of it is recorded between two steps.
ft_status ft_gradient_parts_share(ft_parameters *p) {
    ft_gradient_parts *g = p->parts;
    void *data;
    FT_TRY(ft_memory_alloc_at(p->memory, 0, g->own_bytes + g->late_bytes, FT_MEM_GRADIENTS, "gradients", &data));
    g->own = data;
    for (int i = 0; i < g->count; i++) {
        const ft_gradient_piece *head = &g->piece[g->piece[i].head];
        if (!head->stays) continue;
        float *first = (float *)((char *)data + g->own_bytes + head->place);
        g->piece[i].data = first + (g->piece[i].bucket.first - head->bucket.first);
    }
    return FT_OK;
}

ft_status ft_gradient_parts_finish(ft_parameters *p) {
    ft_gradient_parts *g = p->parts;
    while (g->sent < g->count)
        FT_TRY(sum(p, at_once(g)));
    return FT_OK;
}

ft_status ft_gradient_parts_keep(ft_parameters *p) {
    ft_gradient_parts *g = p->parts;
    g->sent = g->count;
    while (g->kept < g->count)
        FT_TRY(keep(p));
    return FT_OK;
}

float *ft_gradient_parts_at(const ft_parameters *p, int index) {
    const ft_parameter *q = &p->list[index];
    const ft_gradient_piece *piece = &p->parts->piece[p->parts->piece_of[index]];
    assert(piece->data != NULL);
    return piece->data + (p->stores[q->store].first + q->offset - piece->bucket.first);
}

float *ft_gradient_parts_own(const ft_parameters *p, int store) { return p->parts->own + p->parts->own_first[store]; }
