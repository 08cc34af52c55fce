#include "engine/model/state/parameters.h"

#include "engine/model/state/points.h"
#include "engine/model/state/shards.h"
#include "engine/model/state/trunk.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GROUP_ALIGN = 64, KEPT_ALIGN = 256 }; // elements; bytes

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
                                       .side = spec.side,
                                       .leading = spec.leading,
                                       .layer = -1,
                                       .trainable = spec.trainable,
                                       .decay = spec.decay,
                                       .starts_group = !spec.joins_group,
                                       .wide = spec.wide,
                                       .column = spec.column,
                                       .factor = spec.factor,
                                       .swapped = spec.swapped,
                                       .head = spec.head,
                                       .adapter = spec.adapter,
                                       .drawn = spec.drawn,
                                       .depth = spec.depth,
                                       .arrives = spec.point,
                                       .completes = spec.point,
                                       .last = spec.point,
                                       .lowest = spec.point};
    return p->count++;
}

void ft_parameters_share(ft_parameters *p, int index, int point) {
    ft_parameter *q = &p->list[index];
    if (point < q->arrives) q->arrives = point;
    if (point > q->completes) q->completes = point;
    if (point > q->last) q->last = point;
}

void ft_parameters_share_end(ft_parameters *p, int index, int end) {
    if (end > p->list[index].completes) p->list[index].completes = end;
}

void ft_parameters_share_block(ft_parameters *p, int index, int point) {
    ft_parameters_share(p, index, point);
    if (point > p->list[index].lowest) p->list[index].lowest = point;
}

void ft_parameters_set_table(ft_parameters *p, int index, int64_t held, int64_t trained) {
    ft_parameter *q = &p->list[index];
    p->table = index;
    q->held = held;
    q->trained = q->trainable ? trained : 0;
}

static int64_t align(int64_t at) { return (at + GROUP_ALIGN - 1) / GROUP_ALIGN * GROUP_ALIGN; }

static int64_t elements(const ft_parameter *q, int64_t rows) { return q->rows > 0 ? rows * q->cols : q->cols; }

// ---- stores -------------------------------------------------------------------------------------------------------------

// The first two, where parameters stand as they are trained or frozen; behind them those that are kept in another form, if any are,
// and then wide weights in 16 bits.
enum { TRAINED = FT_STORE_TRAINED, FROZEN = FT_STORE_FROZEN, MOST_STORES = 6 };

// Is it frozen, and in another store than the first two?
static bool stands_elsewhere(const ft_parameters *p, int index) {
    const ft_parameter *q = &p->list[index];
    return q->mapped != NULL || q->kept || q->layer >= 0 || (index == p->table && p->table_store >= 0);
}

// At element `at` of a store of what is frozen, in the form that ops read; returns its end.
static int64_t place_one(ft_parameter *q, int store, int64_t at) {
    if (q->starts_group) at = align(at);
    q->store = store;
    q->offset = at + q->gap;
    return q->offset + elements(q, q->held);
}

// Places the parameters of one kind from element `at` of the block on; returns the end, rounded up.
static int64_t place(ft_parameters *p, bool trainable, int64_t at) {
    for (int i = 0; i < p->count; i++) {
        ft_parameter *q = &p->list[i];
        if (q->mapped != NULL) q->store = FROZEN; // though it stands in none
        if (q->trainable != trainable || stands_elsewhere(p, i)) continue;
        if (q->starts_group) at = align(at);
        q->store = trainable ? TRAINED : FROZEN;
        q->offset = at + q->gap - p->stores[q->store].first;
        at += q->gap + elements(q, trainable ? q->trained : q->held);
    }
    return align(at);
}

// At element `at` of a store in the other form; returns where the next one stands.
static int64_t place_one_kept(const ft_parameters *p, ft_parameter *q, int store, int64_t at) {
    const bool quantised = p->storage.kind == FT_STORAGE_QUANTISED;
    q->store = store;
    q->offset = at;
    at += quantised ? (int64_t)ft_quantised_layout_of(p->storage.format, q->rows, q->cols).bytes : q->count;
    return quantised ? (at + KEPT_ALIGN - 1) / KEPT_ALIGN * KEPT_ALIGN : align(at);
}

// Elements of the store in the other form.
static int64_t place_kept(ft_parameters *p, int store) {
    int64_t at = 0;
    for (int i = 0; i < p->count; i++)
        if (p->list[i].kept && p->list[i].layer < 0 && p->list[i].mapped == NULL) at = place_one_kept(p, &p->list[i], store, at);
    return at;
}

// Elements of the store of frozen layers, which has them all in one form. layer: where each of them begins, in bytes.
static int64_t place_layers(ft_parameters *p, ft_window_layer *layer) {
    const size_t size = ft_dtype_size(p->stores[p->layer_store].format.dtype);
    int64_t at = 0;
    for (int l = p->layers - 1; l >= 0; l--) { // the order of the registry
        layer[l].first = (size_t)at * size;
        for (int i = 0; i < p->count; i++) {
            ft_parameter *q = &p->list[i];
            if (q->layer == l) at = q->kept ? place_one_kept(p, q, p->layer_store, at) : place_one(q, p->layer_store, at);
        }
        at = align(at);
        layer[l].bytes = (size_t)at * size - layer[l].first;
    }
    return at;
}

static int64_t place_wide(ft_parameters *p) {
    int64_t at = 0;
    for (int i = 0; i < p->count; i++) {
        if (!p->list[i].wide) continue;
        p->list[i].wide_offset = at;
        at = align(at + p->list[i].count);
    }
    return at;
}

static ft_exactness exactness_of(ft_dtype dtype) {
    return dtype == FT_BF16 ? FT_EXACT_BY_TAILS : dtype == FT_F16 ? FT_EXACT_BY_MASTER : FT_EXACT_AS_READ;
}

int ft_parameters_frozen_factors(const ft_parameters *p) {
    int count = 0;
    for (int i = 0; i < p->count; i++) count += p->list[i].factor && !p->list[i].trainable;
    return count;
}

bool ft_parameters_in_layer(const ft_parameters *p, int index) {
    const ft_parameter *q = &p->list[index];
    const int block = ft_backward_block(q->arrives);
    return q->factor && !q->trainable && block > 0 && block <= p->layers;
}

int ft_parameters_frozen_in_layers(const ft_parameters *p) {
    int count = 0;
    for (int i = 0; i < p->count; i++) count += ft_parameters_in_layer(p, i);
    return count;
}

// Which may travel, layer by layer. Returns how many.
static int choose_layers(ft_parameters *p) {
    int count = 0;
    for (int i = 0; i < p->count; i++) {
        ft_parameter *q = &p->list[i];
        const bool stays = q->mapped != NULL && p->frozen_place == FT_PLACE_DEVICE;
        q->layer = ft_parameters_in_layer(p, i) && !stays ? p->layers - ft_backward_block(q->arrives) : -1;
        count += q->layer >= 0;
    }
    return count;
}

static bool is_kept(const ft_parameters *p, const ft_parameter *q) {
    const ft_storage *form = &p->storage;
    const bool other = form->kind == FT_STORAGE_QUANTISED || (form->kind == FT_STORAGE_TYPE && form->dtype != p->dtype);
    if (form->multiplied && !ft_parameters_in_layer(p, (int)(q - p->list))) return false;
    return other && q->factor && !q->trainable;
}

ft_dtype ft_parameters_form(const ft_parameters *p, int index) {
    if (!is_kept(p, &p->list[index])) return p->dtype;
    return p->storage.kind == FT_STORAGE_QUANTISED ? FT_U8 : p->storage.dtype;
}

// Which are kept in another form than ops read. Returns how many.
static int choose_kept(ft_parameters *p) {
    int count = 0;
    for (int i = 0; i < p->count; i++) {
        p->list[i].kept = is_kept(p, &p->list[i]);
        count += p->list[i].kept;
    }
    return count;
}

// Has what is trained a block of its own? Where there are adapters; but a table of which only some rows are trained goes on in the next store.
static bool stands_beside(const ft_parameters *p) {
    const ft_parameter *table = p->table >= 0 ? &p->list[p->table] : NULL;
    if (table != NULL && table->trainable && table->held > table->trained) return false;
    for (int i = 0; i < p->count; i++)
        if (p->list[i].adapter) return true;
    return false;
}

// All of those that travel, or none.
static bool layers_are_mapped(const ft_parameters *p) {
    for (int i = 0; i < p->count; i++)
        if (p->list[i].layer >= 0) return p->list[i].mapped != NULL;
    return false;
}

static ft_status make_stores(ft_parameters *p) {
    p->stores = ft_arena_alloc(&p->arena, MOST_STORES * sizeof *p->stores);
    if (p->stores == NULL) return FT_NO_MEMORY;
    const ft_dtype form = p->storage.kind == FT_STORAGE_QUANTISED ? FT_U8 : p->storage.dtype;
    ft_store *s = p->stores;
    s[TRAINED] = (ft_store){.format = {p->dtype, exactness_of(p->dtype)}, .place = p->place, .trainable = true, .owner = p->memory,
                            .category = stands_beside(p) ? FT_MEM_ADAPTERS : FT_MEM_WEIGHTS};
    s[FROZEN] = (ft_store){.format = {p->dtype, FT_EXACT_AS_READ}, .owner = p->memory};
    p->store_count = FROZEN + 1;
    const bool kept = choose_kept(p) > 0, table = p->layers > 0 && p->table >= 0 && !p->list[p->table].trainable && p->list[p->table].mapped == NULL;
    p->layer_store = choose_layers(p) > 0 ? p->store_count++ : -1;
    const ft_place home = layers_are_mapped(p) ? FT_PLACE_FILE : p->frozen_place;
    if (p->layer_store >= 0)
        s[p->layer_store] = (ft_store){.format = {kept ? form : p->dtype, FT_EXACT_AS_READ}, .owner = p->memory, .home = home};
    p->table_store = table ? p->store_count++ : -1;
    if (p->table_store >= 0)
        s[p->table_store] = (ft_store){.format = {p->dtype, FT_EXACT_AS_READ}, .owner = p->memory, .home = p->table_is_factor ? FT_PLACE_DEVICE : p->frozen_place};
    if (p->head_alone && p->layer_store >= 0) s[p->layer_store].absent = true;
    if (p->head_alone && p->table_store >= 0) s[p->table_store].absent = !p->table_is_factor;
    p->kept_store = kept ? p->store_count++ : -1;
    if (p->kept_store >= 0) s[p->kept_store] = (ft_store){.format = {form, FT_EXACT_AS_READ}, .owner = p->memory};
    p->wide_store = p->dtype != FT_F32 ? p->store_count++ : -1;
    if (p->wide_store >= 0) s[p->wide_store] = (ft_store){.format = {FT_F32, FT_EXACT_AS_READ}, .owner = p->memory};
    return FT_OK;
}

static ft_status fill_stores(ft_parameters *p, ft_window_layer **layer) {
    ft_store *s = p->stores;
    int64_t end = place(p, true, 0);
    p->trainable = end;
    if (p->table >= 0 && p->list[p->table].trainable && p->list[p->table].mapped == NULL) { // its rows that only evaluations read
        const ft_parameter *table = &p->list[p->table];
        if (table->held > table->trained) p->trainable = table->offset + table->trained * table->cols;
        end = align(table->offset + table->held * table->cols);
    }
    s[TRAINED].count = s[FROZEN].first = p->trainable;
    end = place(p, false, end);
    s[FROZEN].count = end - p->trainable;
    *layer = ft_arena_alloc(&p->arena, (size_t)(p->layers + 1) * sizeof **layer);
    if (*layer == NULL) return FT_NO_MEMORY;
    if (p->layer_store >= 0) s[p->layer_store].first = end, s[p->layer_store].count = place_layers(p, *layer);
    if (p->table_store >= 0) s[p->table_store].first = end, s[p->table_store].count = align(place_one(&p->list[p->table], p->table_store, 0));
    if (p->kept_store >= 0) s[p->kept_store].first = end, s[p->kept_store].count = place_kept(p, p->kept_store);
    if (p->wide_store >= 0) s[p->wide_store].first = end, s[p->wide_store].count = place_wide(p);
    return FT_OK;
}

size_t ft_parameters_weight_bytes(const ft_parameters *p) {
    size_t bytes = 0;
    for (int i = 0; i < p->store_count; i++) bytes += ft_store_weight_bytes(&p->stores[i]);
    return bytes;
}

bool ft_parameters_state_on_host(const ft_parameters *p) {
    for (int i = 0; i < p->store_count; i++)
        if (p->stores[i].place == FT_PLACE_HOST) return true;
    return false;
}

static size_t bytes_on_device(const ft_store *s) { return s->home == FT_PLACE_DEVICE ? ft_store_weight_bytes(s) : 0; }

// The weights of stores [first, end) on the device, zeroed.
static ft_status allocate_block(ft_parameters *p, int first, int end, const char *site, void **block) {
    size_t bytes = 0;
    for (int i = first; i < end; i++) bytes += bytes_on_device(&p->stores[i]);
    FT_TRY(ft_memory_alloc_common(p->memory, bytes, p->stores[first].category, site, block));
    char *at = *block;
    for (int i = first; i < end; at += bytes_on_device(&p->stores[i++]))
        if (p->stores[i].home == FT_PLACE_DEVICE && !p->stores[i].absent) p->stores[i].weights = at;
    return FT_OK;
}

// Of the layers, which piece of a file goes where.
static ft_status make_pieces(ft_parameters *p, ft_window_layer *layer) {
    const size_t size = ft_dtype_size(p->stores[p->layer_store].format.dtype);
    ft_window_piece *piece = ft_arena_alloc(&p->arena, ((size_t)p->count + 1) * sizeof *piece);
    if (piece == NULL) return FT_NO_MEMORY;
    for (int l = 0; l < p->layers; l++) {
        layer[l].piece = piece;
        for (int i = 0; i < p->count; i++) {
            const ft_parameter *q = &p->list[i];
            if (q->layer != l) continue;
            *piece++ = (ft_window_piece){q->mapped, (size_t)q->offset * size - layer[l].first, (size_t)q->count * size};
            layer[l].pieces++;
        }
    }
    return FT_OK;
}

// What has the host for its home, and the window through which layers are seen.
static ft_status allocate_on_host(ft_parameters *p, ft_window_layer *layer) {
    const int stores[] = {p->layer_store, p->table_store};
    static const char *const sites[] = {"frozen layers", "frozen word embeddings"};
    for (int i = 0; i < 2; i++) {
        ft_store *s = stores[i] >= 0 ? &p->stores[stores[i]] : NULL;
        if (s != NULL && s->home == FT_PLACE_HOST) FT_TRY(ft_memory_alloc_pinned(p->memory, ft_store_weight_bytes(s), sites[i], &s->weights));
    }
    if (p->layer_store < 0 || p->stores[p->layer_store].home == FT_PLACE_DEVICE) return FT_OK;
    if (p->stores[p->layer_store].home == FT_PLACE_FILE) FT_TRY(make_pieces(p, layer));
    return ft_window_open(p->memory, p->stores[p->layer_store].weights, p->layers, layer, &p->window);
}

static void free_on_host(ft_parameters *p) {
    for (int i = 0; i < p->store_count; i++)
        if (p->stores[i].home == FT_PLACE_HOST) ft_memory_free_pinned(p->memory, p->stores[i].weights);
}

static bool is_wide(const ft_parameters *p, const ft_parameter *q) { return q->wide && p->wide_store >= 0; }

bool ft_parameter_is_lent(const ft_parameters *p, int index) {
    const ft_parameter *q = &p->list[index];
    return p->trunk != NULL && p->trunk->filled && !q->trainable && !is_wide(p, q);
}

bool ft_parameter_is_absent(const ft_parameters *p, int index) {
    const ft_parameter *q = &p->list[index];
    return p->stores[q->store].absent && !is_wide(p, q);
}

// Frozen stores stand in the trunk; wide weights, which may be trained, in a block of the model's own.
static ft_status borrow(ft_parameters *p) {
    const int end = p->wide_store >= 0 ? p->wide_store : p->store_count;
    size_t bytes = 0;
    void *block;
    for (int i = FROZEN; i < end; i++) bytes += ft_store_weight_bytes(&p->stores[i]);
    FT_TRY(ft_trunk_lend(p->trunk, p->memory, bytes, &block));
    char *at = block;
    for (int i = FROZEN; i < end; at += ft_store_weight_bytes(&p->stores[i++])) p->stores[i].weights = at;
    return end < p->store_count ? allocate_block(p, end, p->store_count, "weights of norms", &p->block) : FT_OK;
}

ft_status ft_parameters_allocate(ft_parameters *p, ft_memory *memory) {
    p->memory = memory;
    ft_window_layer *layer;
    FT_TRY(make_stores(p));
    FT_TRY(fill_stores(p, &layer));
    ft_shards_find(p);
    p->real_total = p->real_trainable = 0;
    for (int i = 0; i < p->count; i++) {
        p->real_total += p->list[i].count;
        if (p->list[i].trainable) p->real_trainable += p->list[i].count;
    }
    const bool beside = p->stores[TRAINED].category == FT_MEM_ADAPTERS;
    if (beside) FT_TRY(allocate_block(p, TRAINED, TRAINED + 1, "adapters and head", &p->beside));
    FT_TRY(allocate_on_host(p, layer));
    if (p->trunk != NULL) return beside ? borrow(p) : ft_fail(FT_FAILED, "trunk", "what is trained does not stand beside what is frozen");
    return allocate_block(p, beside ? TRAINED + 1 : TRAINED, p->store_count, "weights", &p->block);
}

ft_status ft_parameters_allocate_master(ft_parameters *p) {
    for (int i = 0; i < p->store_count; i++) FT_TRY(ft_store_allocate_state(&p->stores[i], FT_STATE_EXACT));
    return FT_OK;
}

static float *wide_of(const ft_parameters *p, const ft_parameter *q) {
    return is_wide(p, q) ? (float *)p->stores[p->wide_store].weights + q->wide_offset : NULL;
}

// Does the range go on with what follows it at `next`?
static bool goes_on(const ft_adamw_range *last, const ft_adamw_range *next) {
    if (last->weight_decay != next->weight_decay || last->lr_scale != next->lr_scale) return false;
    if (last->wide == NULL || next->wide == NULL) return last->wide == next->wide;
    return next->wide - last->wide == next->first - last->first;
}

static ft_status build_ranges(ft_parameters *p, int store, double weight_decay, double lr_decay) {
    ft_store *s = &p->stores[store];
    s->ranges = ft_arena_alloc(&p->arena, (size_t)(p->count + 1) * sizeof *s->ranges);
    if (s->ranges == NULL) return FT_NO_MEMORY;
    // Neighbours of one kind merge, padding between them included (it is zero and stays zero).
    s->range_count = 0;
    for (int i = 0; i < p->count; i++) {
        const ft_parameter *q = &p->list[i];
        if (q->store != store) continue;
        float decay = q->decay ? (float)weight_decay : 0.0f;
        float scale = (float)pow(lr_decay, q->depth);
        int64_t count = elements(q, q->trained);
        const ft_adamw_range range = {q->offset, count, decay, scale, wide_of(p, q)};
        if (i == p->table) p->table_range = range;
        ft_adamw_range *last = s->range_count > 0 ? &s->ranges[s->range_count - 1] : NULL;
        if (last != NULL && goes_on(last, &range)) last->count = q->offset + count - last->first;
        else s->ranges[s->range_count++] = range;
    }
    return FT_OK;
}

// Of several ranks each updates a part of every store: of its ranges what lies there.
static void cut_ranges(ft_store *s, ft_memory_ranks ranks) {
    const int64_t parts = align(s->count) / GROUP_ALIGN, first = parts * ranks.rank / ranks.ranks * GROUP_ALIGN, end = parts * (ranks.rank + 1) / ranks.ranks * GROUP_ALIGN;
    int kept = 0;
    for (int i = 0; i < s->range_count; i++) {
        ft_adamw_range r = s->ranges[i];
        const int64_t from = r.first > first ? r.first : first, to = r.first + r.count < end ? r.first + r.count : end;
        if (from >= to) continue;
        if (r.wide != NULL) r.wide += from - r.first;
        r.first = from;
        r.count = to - from;
        s->ranges[kept++] = r;
    }
    s->range_count = kept;
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
    for (int i = 0; i < p->store_count; i++) {
        FT_TRY(ft_store_allocate_state(&p->stores[i], FT_STATE_M));
        FT_TRY(ft_store_allocate_state(&p->stores[i], FT_STATE_V));
    }
    if (blocks != NULL) FT_TRY(upload_blocks(p, blocks));
    for (int i = 0; i < p->store_count; i++) {
        ft_store *s = &p->stores[i];
        if (!s->trainable) continue;
        FT_TRY(build_ranges(p, i, weight_decay, lr_decay));
        if (ft_memory_has_common(p->memory)) cut_ranges(s, ft_memory_ranks_of(p->memory));
        FT_TRY(ft_shards_cut(p, s));
        if (s->place == FT_PLACE_HOST) FT_TRY(ft_offload_create(s, &p->arena));
    }
    return FT_OK;
}

void ft_parameters_free(ft_parameters *p) {
    if (p->memory != NULL) {
        ft_window_close(&p->window);
        ft_memory_free(p->memory, p->block);
        ft_memory_free(p->memory, p->beside);
        free_on_host(p);
        for (int i = 0; i < p->store_count; i++) ft_store_free_state(&p->stores[i]);
        ft_memory_free(p->memory, p->table_blocks);
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

int ft_parameter_shape(const ft_parameter *p, int64_t shape[FT_PARAMETER_RANK]) {
    int rank = 0;
    for (int i = 0; i < p->leading; i++) shape[rank++] = 1;
    shape[rank++] = p->rows > 0 ? p->rows : p->cols;
    if (p->rows == 0 || p->column) return rank;
    shape[rank++] = p->cols / (p->taps > 0 ? p->taps : 1) / (p->side > 0 ? (int64_t)p->side * p->side : 1);
    if (p->taps > 0) shape[rank++] = p->taps;
    for (int i = 0; p->side > 0 && i < 2; i++) shape[rank++] = p->side;
    return rank;
}

static int64_t in_other_half(const ft_parameter *p, int64_t element, int64_t *count) {
    const int64_t half = p->rows / 2 * p->cols, left = element < half ? half - element : p->count - element;
    if (*count > left) *count = left;
    return element < half ? element + half : element - half;
}

int64_t ft_parameter_place(const ft_parameter *p, int64_t element, int64_t *count) {
    if (p->swapped) return in_other_half(p, element, count);
    if (p->heads == 0) return element;
    int64_t hidden = p->rows / 3, width = hidden / p->heads, piece = width * p->cols;
    int64_t block = element / piece, within = element % piece; // Q, K, V of head 0, of head 1, ...
    if (*count > piece - within) *count = piece - within;
    return (block % 3 * hidden + block / 3 * width) * p->cols + within;
}

int64_t ft_parameter_source(const ft_parameter *p, int64_t element, int64_t *count) {
    if (p->swapped) return in_other_half(p, element, count);
    if (p->heads == 0) return element;
    int64_t piece = p->rows / 3 / p->heads * p->cols;
    int64_t block = element / piece, within = element % piece; // head 0 of Q, head 1 of Q, ..., head 0 of K, ...
    if (*count > piece - within) *count = piece - within;
    return (block % p->heads * 3 + block / p->heads) * piece + within;
}

static int64_t rows_of(const ft_parameter *q, int64_t rows) { return q->rows > 0 ? rows : 1; }

ft_tensor ft_parameter_home(const ft_parameters *p, int index) {
    const ft_parameter *q = &p->list[index];
    if (q->mapped != NULL) return ft_matrix((void *)q->mapped, q->rows, q->cols, q->kept ? p->storage.dtype : p->dtype);
    if (is_wide(p, q)) return ft_store_weights(&p->stores[p->wide_store], q->wide_offset, 1, q->count);
    if (q->kept && p->storage.kind == FT_STORAGE_QUANTISED)
        return ft_store_weights(&p->stores[q->store], q->offset, 1, (int64_t)ft_quantised_layout_of(p->storage.format, q->rows, q->cols).bytes);
    return ft_store_weights(&p->stores[q->store], q->offset, rows_of(q, q->held), q->cols);
}

ft_tensor ft_parameter_weight(const ft_parameters *p, int index) {
    const int layer = p->list[index].layer;
    ft_tensor t = ft_parameter_home(p, index);
    if (layer < 0 || !p->window.on) return t;
    const size_t at = (size_t)p->list[index].offset * ft_dtype_size(p->stores[p->layer_store].format.dtype) - p->window.layer[layer].first;
    char *here = ft_window_address(&p->window, layer);
    t.data = here != NULL ? here + at : NULL;
    return t;
}

ft_staged ft_parameter_stored(const ft_parameters *p, int index) {
    const ft_parameter *q = &p->list[index];
    if (q->mapped != NULL) return (ft_staged){.tensor = ft_parameter_home(p, index), .mapped = true};
    const ft_store *s = &p->stores[q->store];
    if (is_wide(p, q) || s->state[FT_STATE_EXACT] == NULL) return (ft_staged){.tensor = ft_parameter_home(p, index)};
    return ft_store_exact(s, q->offset, rows_of(q, q->trained), q->cols);
}

ft_tensor ft_parameter_moment(const ft_parameters *p, int index, ft_store_state moment) {
    const ft_parameter *q = &p->list[index];
    return ft_vector((float *)p->stores[q->store].state[moment] + q->offset, elements(q, q->trained), FT_F32);
}
