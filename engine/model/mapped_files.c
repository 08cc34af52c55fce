#include "engine/model/mapped_files.h"

#include "engine/model/model_files.h"
#include "engine/model/spec/trained.h"

#include <stdint.h>
#include <string.h>

typedef struct mapping {
    ft_model *model;
    const ft_model_config *config;
    const void **data; // [parameters] where the file has it; NULL: it is copied
    bool travels;      // layers go to a device with memory of its own
    bool several;      // parts of a product may be read apart
} mapping;

// Read by products, or row by row: whatever else there is is small.
static bool is_matrix(const ft_model *m, int index) {
    const ft_parameter *q = &m->parameters.list[index];
    const bool whole_table = index == m->word && m->absent.word_rows == NULL;
    const bool head = m->vocabulary > 0 && index == m->head[0].weight && index != m->word;
    return q->factor || whole_table || head;
}

// Does the order of a file's numbers mean something else here?
static bool is_reordered(const ft_parameter *q) {
    return q->rows == 0 || q->heads > 0 || q->taps > 0 || q->side > 0 || q->leading > 0 || q->column || q->swapped ||
           q->wide;
}

// Where the file has the parameter as it is read; NULL: it has it otherwise.
static const void *find(const mapping *g, int index) {
    const ft_model *m = g->model;
    const ft_parameter *q = &m->parameters.list[index];
    const ft_dtype form = ft_parameters_form(&m->parameters, index);
    if (q->adapter || (q->trainable && !g->config->only_read) || !is_matrix(m, index) || is_reordered(q)) return NULL;
    if (g->travels && !ft_parameters_in_layer(&m->parameters, index)) return NULL;
    const int at = ft_model_files_find(g->config->files, m->family, q->name);
    if (at < 0 || ft_weights_packed(g->config->files, at) != NULL) return NULL;
    const ft_safetensor *t = ft_weights_at(g->config->files, at);
    if (t->dtype != form || form == FT_U8 || t->strides != NULL || t->rank != 2 || t->shape[0] != q->rows ||
        t->shape[1] != q->cols)
        return NULL;
    return (uintptr_t)t->data % ft_dtype_size(form) == 0 ? t->data : NULL;
}

// Of parts that one product reads: all of them come from the file, and are then products of their own, or none does.
// Those that are made for their product, or are not read together, stand alone anyway.
static void keep_together(const mapping *g, ft_linear *l) {
    const ft_parameters *p = &g->model->parameters;
    if (!l->each || l->apart || l->parts < 2 || ft_parameters_form(p, l->weight) != p->dtype) return;
    bool all = g->several;
    for (int n = 0; n < l->parts; n++)
        all = all && g->data[l->weight + n] != NULL;
    for (int n = 0; n < l->parts && !all; n++)
        g->data[l->weight + n] = NULL;
    l->scattered = all;
}

static void scatter(ft_model *m, bool scattered) {
    for (int l = 0; l < m->layers && !scattered; l++)
        m->layer[l].qkv.scattered = m->layer[l].up.scattered = false;
}

// Of layers that travel: is one of them not in the file as it is needed?
static bool lacks_some(const mapping *g) {
    const ft_parameters *p = &g->model->parameters;
    for (int i = 0; i < p->count; i++)
        if (ft_parameters_in_layer(p, i) && g->data[i] == NULL) return true;
    return false;
}

static size_t bytes_of(const mapping *g) {
    const ft_parameters *p = &g->model->parameters;
    size_t bytes = 0;
    for (int i = 0; i < p->count; i++)
        if (g->data[i] != NULL) bytes += (size_t)p->list[i].count * ft_dtype_size(ft_parameters_form(p, i));
    return bytes;
}

bool ft_model_may_map(ft_map_weights wanted, size_t bytes) {
    return wanted == FT_MAP_ON || (wanted == FT_MAP_AUTO && bytes >= FT_MAP_FROM_BYTES);
}

static const char *const too_small = "they are less than 256MiB (memory.map_weights)";
static const char *const other_form =
    "the file has them in another form than is needed (model.storage, train.precision)";
static const char *const not_wanted = "memory.map_weights is off";

// Why nothing is read where it lies; NULL: it is.
static const char *decide(mapping *g, ft_map_weights wanted) {
    ft_model *m = g->model;
    const ft_parameters *p = &m->parameters;
    for (int i = 0; i < p->count; i++)
        g->data[i] = find(g, i);
    if (g->travels && lacks_some(g)) return other_form;
    for (int l = 0; l < m->layers && !g->travels; l++) {
        keep_together(g, &m->layer[l].qkv);
        keep_together(g, &m->layer[l].up);
    }
    const size_t bytes = bytes_of(g);
    if (bytes == 0) return other_form;
    return ft_model_may_map(wanted, bytes) ? NULL : too_small;
}

ft_status ft_model_map_weights(ft_model *m, const ft_model_config *c, const ft_config *o) {
    ft_parameters *p = &m->parameters;
    const bool beside = c->only_read || o->adapter.type != FT_ADAPTER_NONE ||
                        ft_model_trunk_is_fixed(o); // checkpoints have all that is frozen otherwise
    const bool decays = m->word >= 0 && p->list[m->word].trainable &&
                        m->absent.word_rows != NULL; // the table is copied with what is frozen
    mapping g = {.model = m,
                 .config = c,
                 .travels = p->frozen_place == FT_PLACE_HOST,
                 .several = o->adapter.type != FT_ADAPTER_DORA && m->relative == NULL};
    p->copied = o->memory.map_weights == FT_MAP_OFF ? not_wanted : too_small;
    if (c->files == NULL || !beside || decays || p->trunk != NULL || (ft_device_queues(m->device) && !g.travels))
        return FT_OK;
    g.data = ft_arena_alloc(&m->arena, ((size_t)p->count + 1) * sizeof *g.data);
    if (g.data == NULL) return FT_NO_MEMORY;
    p->copied = decide(&g, o->memory.map_weights);
    scatter(m, p->copied == NULL);
    if (p->copied != NULL) return FT_OK;
    for (int i = 0; i < p->count; i++)
        p->list[i].mapped = g.data[i];
    p->mapped_bytes = bytes_of(&g);
    return FT_OK;
}
