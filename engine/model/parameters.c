#include "engine/model/parameters.h"

#include "engine/model/gradients.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GROUP_ALIGN = 64 };

int ft_parameters_add(ft_parameters *p, ft_parameter_spec spec) {
    if (p->count == p->capacity) {
        int capacity = p->capacity ? 2 * p->capacity : 64;
        ft_parameter *grown = ft_realloc(p->list, (size_t)capacity, sizeof *grown, "the parameter list");
        if (grown == NULL) return -1;
        p->list = grown;
        p->capacity = capacity;
    }
    char *name = ft_arena_strdup(&p->arena, spec.name);
    if (name == NULL) return -1;
    p->list[p->count] = (ft_parameter){.name = name,
                                       .rows = spec.rows,
                                       .cols = spec.cols,
                                       .count = (spec.rows ? spec.rows : 1) * spec.cols,
                                       .held = spec.rows,
                                       .trained = spec.rows,
                                       .gap = spec.gap,
                                       .heads = spec.heads,
                                       .taps = spec.taps,
                                       .trainable = spec.trainable,
                                       .decay = spec.decay,
                                       .starts_group = !spec.joins_group,
                                       .wide = spec.wide,
                                       .head = spec.head,
                                       .depth = spec.depth};
    return p->count++;
}

void ft_parameters_set_table(ft_parameters *p, int index, int64_t held, int64_t trained) {
    ft_parameter *q = &p->list[index];
    p->table = index;
    q->held = held;
    q->trained = q->trainable ? trained : 0;
}

static int64_t align(int64_t at) { return (at + GROUP_ALIGN - 1) / GROUP_ALIGN * GROUP_ALIGN; }

static int64_t elements(const ft_parameter *q, int64_t rows) { return q->rows > 0 ? rows * q->cols : q->cols; }

// Places the parameters of one kind behind `at`; returns the end of what is trained, or of all that is not, rounded up.
static int64_t place(ft_parameters *p, bool trainable, int64_t at) {
    for (int i = 0; i < p->count; i++) {
        ft_parameter *q = &p->list[i];
        if (q->trainable != trainable) continue;
        if (q->starts_group) at = align(at);
        q->offset = at + q->gap;
        at = q->offset + elements(q, trainable ? q->trained : q->held);
    }
    return align(at);
}

static void place_wide(ft_parameters *p) {
    p->wide_total = 0;
    for (int i = 0; i < p->count && p->dtype != FT_F32; i++) {
        if (!p->list[i].wide) continue;
        p->list[i].wide_offset = p->wide_total;
        p->wide_total = align(p->wide_total + p->list[i].count);
    }
}

static size_t narrow_bytes(const ft_parameters *p) { return (size_t)p->total * ft_dtype_size(p->dtype); }

size_t ft_parameters_weight_bytes(const ft_parameters *p) { return narrow_bytes(p) + (size_t)p->wide_total * sizeof(float); }

ft_status ft_parameters_allocate(ft_parameters *p, ft_memory *memory) {
    p->memory = memory;
    p->trainable = place(p, true, 0);
    int64_t end = p->trainable;
    if (p->table >= 0 && p->list[p->table].trainable) { // its rows that only evaluations read
        const ft_parameter *table = &p->list[p->table];
        if (table->held > table->trained) p->trainable = table->offset + table->trained * table->cols;
        end = align(table->offset + table->held * table->cols);
    }
    p->total = place(p, false, end);
    p->real_total = p->real_trainable = 0;
    for (int i = 0; i < p->count; i++) {
        p->real_total += p->list[i].count;
        if (p->list[i].trainable) p->real_trainable += p->list[i].count;
    }
    place_wide(p);
    void *data;
    size_t bytes = ft_parameters_weight_bytes(p);
    FT_TRY(ft_memory_alloc(memory, bytes, FT_MEM_WEIGHTS, "weights", &data));
    p->weights = data;
    ft_device *device = ft_memory_device(memory);
    return device->functions->fill(device, p->weights, 0, bytes);
}

// Of every trained element `size` bytes of zeros, which the optimizer needs: on the device, or in pinned memory of the host.
static ft_status allocate_state(ft_parameters *p, ft_memory_category category, const char *site, size_t size, void **out) {
    const size_t bytes = (size_t)p->trainable * size;
    ft_device *device = ft_memory_device(p->memory);
    if (p->state_on_host) return ft_memory_alloc_pinned(p->memory, bytes, site, out);
    FT_TRY(ft_memory_alloc(p->memory, bytes, category, site, out));
    return device->functions->fill(device, *out, 0, bytes);
}

static void free_state(const ft_parameters *p, void *data) {
    if (p->state_on_host) ft_memory_free_pinned(p->memory, data);
    else ft_memory_free(p->memory, data);
}

ft_status ft_parameters_allocate_master(ft_parameters *p) {
    void *data;
    switch (p->dtype) {
    case FT_BF16:
        FT_TRY(allocate_state(p, FT_MEM_WEIGHTS, "tails of weights", sizeof *p->tail, &data));
        p->tail = data;
        return FT_OK;
    case FT_F16:
        FT_TRY(allocate_state(p, FT_MEM_WEIGHTS, "master weights", sizeof *p->master, &data));
        p->master = data;
        return FT_OK;
    default: return FT_OK;
    }
}

static float *wide_of(const ft_parameters *p, const ft_parameter *q) {
    return q->wide && p->dtype != FT_F32 ? (float *)((char *)p->weights + narrow_bytes(p)) + q->wide_offset : NULL;
}

// Does the range go on with what follows it at `next`?
static bool goes_on(const ft_adamw_range *last, const ft_adamw_range *next) {
    if (last->weight_decay != next->weight_decay || last->lr_scale != next->lr_scale) return false;
    if (last->wide == NULL || next->wide == NULL) return last->wide == next->wide;
    return next->wide - last->wide == next->first - last->first;
}

static ft_status build_ranges(ft_parameters *p, double weight_decay, double lr_decay) {
    p->ranges = ft_arena_alloc(&p->arena, (size_t)(p->count + 1) * sizeof *p->ranges);
    if (p->ranges == NULL) return FT_NO_MEMORY;
    // Neighbours of one kind merge, padding between them included (it is zero and stays zero).
    p->range_count = 0;
    for (int i = 0; i < p->count; i++) {
        const ft_parameter *q = &p->list[i];
        if (!q->trainable) continue;
        float decay = q->decay ? (float)weight_decay : 0.0f;
        float scale = (float)pow(lr_decay, q->depth);
        int64_t count = elements(q, q->trained);
        const ft_adamw_range range = {q->offset, count, decay, scale, wide_of(p, q)};
        if (i == p->table) p->table_range = range;
        ft_adamw_range *last = p->range_count > 0 ? &p->ranges[p->range_count - 1] : NULL;
        if (last != NULL && goes_on(last, &range)) last->count = q->offset + count - last->first;
        else p->ranges[p->range_count++] = range;
    }
    return FT_OK;
}

static ft_status upload_blocks(ft_parameters *p, const int32_t *blocks) {
    ft_device *device = ft_memory_device(p->memory);
    size_t bytes = (size_t)(ft_norm_blocks(p->list[p->table].rows) + 1) * sizeof *blocks;
    void *data;
    FT_TRY(ft_memory_alloc(p->memory, bytes, FT_MEM_OPTIMIZER, "rows of the word table", &data));
    p->table_blocks = data;
    FT_TRY(device->functions->upload(device, data, blocks, bytes));
    return device->functions->sync(device);
}

ft_status ft_parameters_allocate_training(ft_parameters *p, double weight_decay, double lr_decay, const int32_t *blocks) {
    void *m, *v;
    FT_TRY(allocate_state(p, FT_MEM_OPTIMIZER, "adamw first moment", sizeof *p->m, &m));
    p->m = m;
    FT_TRY(allocate_state(p, FT_MEM_OPTIMIZER, "adamw second moment", sizeof *p->v, &v));
    p->v = v;
    if (blocks != NULL) FT_TRY(upload_blocks(p, blocks));
    FT_TRY(build_ranges(p, weight_decay, lr_decay));
    return p->state_on_host ? ft_offload_create(p) : FT_OK;
}

void ft_parameters_free(ft_parameters *p) {
    if (p->memory != NULL) {
        ft_memory_free(p->memory, p->weights);
        free_state(p, p->tail);
        free_state(p, p->master);
        ft_gradients_release(p);
        free_state(p, p->m);
        free_state(p, p->v);
        ft_memory_free(p->memory, p->table_blocks);
        ft_offload_free(p);
    }
    ft_arena_free(&p->arena);
    free(p->list);
    memset(p, 0, sizeof *p);
}

int ft_parameters_find(const ft_parameters *p, const char *name) {
    for (int i = 0; i < p->count; i++)
        if (strcmp(p->list[i].name, name) == 0) return i;
    return -1;
}

int ft_parameter_shape(const ft_parameter *p, int64_t shape[3]) {
    shape[0] = p->rows > 0 ? p->rows : p->cols;
    shape[1] = p->taps > 0 ? p->cols / p->taps : p->cols;
    shape[2] = p->taps;
    return p->rows == 0 ? 1 : p->taps == 0 ? 2 : 3;
}

int64_t ft_parameter_place(const ft_parameter *p, int64_t element, int64_t *count) {
    if (p->heads == 0) return element;
    int64_t hidden = p->rows / 3, width = hidden / p->heads, piece = width * p->cols;
    int64_t block = element / piece, within = element % piece; // Q, K, V of head 0, of head 1, ...
    if (*count > piece - within) *count = piece - within;
    return (block % 3 * hidden + block / 3 * width) * p->cols + within;
}

static ft_tensor view(const ft_parameter *q, void *base, int64_t rows, ft_dtype dtype) {
    return ft_matrix((char *)base + (size_t)q->offset * ft_dtype_size(dtype), q->rows ? rows : 1, q->cols, dtype);
}

ft_tensor ft_parameter_weight(const ft_parameters *p, int index) {
    const ft_parameter *q = &p->list[index];
    float *wide = wide_of(p, q);
    return wide != NULL ? ft_matrix(wide, 1, q->cols, FT_F32) : view(q, p->weights, q->held, p->dtype);
}

ft_staged ft_parameter_stored(const ft_parameters *p, int index) {
    const ft_parameter *q = &p->list[index];
    if (!q->trainable || wide_of(p, q) != NULL || (p->tail == NULL && p->master == NULL))
        return (ft_staged){.tensor = ft_parameter_weight(p, index)};
    const ft_tensor weights = view(q, p->weights, q->trained, p->dtype);
    if (p->tail != NULL) return (ft_staged){.tensor = weights, .tail = p->tail + q->offset};
    return (ft_staged){.tensor = view(q, p->master, q->trained, FT_F32), .copy = weights};
}

ft_tensor ft_parameter_gradient(const ft_parameters *p, int index) {
    const ft_parameter *q = &p->list[index];
    if (!q->trainable) return ft_absent();
    assert(!p->gradients_in_steps || q->offset + elements(q, q->trained) <= p->gradients_reached);
    if (p->gradients == NULL) return ft_absent();
    return view(q, p->gradients, q->trained, FT_F32);
}
