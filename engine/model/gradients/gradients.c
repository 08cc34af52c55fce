#include "engine/model/gradients/gradients.h"

#include "engine/model/gradients/chain.h"
#include "engine/model/gradients/gradient_parts.h"
#include "engine/model/gradients/gradient_sums.h"
#include "engine/model/gradients/word_sums.h"

#include <assert.h>

enum { FLOATS = FT_MEMORY_PLACE / sizeof(float) };
static const char site[] = "gradients";

ft_status ft_gradients_hold(ft_parameters *p, bool in_steps) {
    assert(p->gradients == NULL && !p->gradients_in_steps);
    p->gradients_in_steps = in_steps;
    p->gradients_reached = 0;
    FT_TRY(ft_gradient_parts_open(p));
    if (in_steps) return FT_OK;
    const ft_memory_ranks ranks = ft_memory_ranks_of(p->memory);
    const bool slots = ft_memory_has_common(p->memory) && ranks.sums;
    const size_t bytes = (size_t)(slots ? ranks.ranks * ft_gradient_slot(p) : p->trainable) * sizeof(float);
    void *data;
    FT_TRY(ft_memory_alloc_common(p->memory, bytes, FT_MEM_GRADIENTS, site, &data));
    p->gradients = data;
    p->gradients_in_slots = slots;
    if (slots) p->gradients += ranks.rank * ft_gradient_slot(p);
    if (!ft_memory_has_common(p->memory)) return FT_OK;
    const int64_t rows = p->table >= 0 ? p->list[p->table].rows : 0;
    FT_TRY(ft_memory_alloc_common(p->memory, (size_t)ft_norm_sums(p->trainable, rows) * sizeof(double), FT_MEM_COMMUNICATION, "sums of squares of all ranks", &data));
    p->norm_sums = data;
    return FT_OK;
}

int64_t ft_gradient_slot(const ft_parameters *p) { return (p->trainable + FLOATS - 1) / FLOATS * FLOATS; }

float *ft_gradients_summed(const ft_parameters *p) {
    return p->gradients_in_slots ? p->gradients - ft_memory_ranks_of(p->memory).rank * ft_gradient_slot(p) : p->gradients;
}

void ft_gradients_release(ft_parameters *p) {
    ft_gradient_parts_close(p);
    ft_memory_free(p->memory, p->norm_sums);
    p->norm_sums = NULL;
    if (!p->gradients_in_steps) ft_memory_free(p->memory, ft_gradients_summed(p));
    p->gradients = NULL;
    p->gradients_in_steps = p->gradients_in_slots = false;
}

ft_status ft_gradients_clear(ft_parameters *p) {
    if (p->gradients_in_steps) return FT_OK;
    if (p->gradients_in_slots) return p->gradients_reached = 0, FT_OK;
    if (p->chain != NULL) return ft_chain_clear(p->chain, p);
    ft_device *device = ft_memory_device(p->memory);
    return device->functions->fill(device, p->gradients, 0, (size_t)p->trainable * sizeof(float));
}

void ft_gradients_begin(ft_parameters *p) {
    p->gradients_point = -1;
    if (ft_gradient_parts_deal(p)) ft_gradient_parts_begin(p);
    if (p->gradients_in_steps) p->gradients_reached = 0;
}

static int64_t end_of(const ft_parameters *p, const ft_parameter *q) {
    return q->trainable ? p->stores[q->store].first + q->offset + (q->rows > 0 ? q->trained : 1) * q->cols : 0;
}

// The parts before element `end`, rounded up to whole places: what that takes of the next part is cleared with this one.
static ft_status make_room(ft_parameters *p, int64_t end) {
    const int64_t from = p->gradients_reached, to = (end + FLOATS - 1) / FLOATS * FLOATS;
    if ((!p->gradients_in_steps && !p->gradients_in_slots) || to <= from) return FT_OK;
    void *data = p->gradients_in_steps ? NULL : p->gradients + from;
    ft_device *device = ft_memory_device(p->memory);
    const size_t bytes = (size_t)(to - from) * sizeof(float);
    if (p->gradients_in_steps)
        FT_TRY(ft_memory_alloc_at(p->memory, (size_t)from * sizeof(float), bytes, FT_MEM_GRADIENTS, site, &data));
    if (from == 0 && p->gradients_in_steps) p->gradients = data;
    p->gradients_reached = to;
    return device->functions->fill(device, data, 0, bytes);
}

// From here on all that completes before `point` is complete.
static void come_to(ft_parameters *p, int point) {
    ft_backward_notes *n = p->notes;
    p->gradients_point = point;
    if (n != NULL && n->count < n->capacity) n->list[n->count++] = (struct ft_backward_note){point, ft_plan_seconds(ft_memory_device(p->memory))};
}

ft_status ft_gradients_reach(ft_parameters *p, int point) {
    int64_t end = 0;
    assert(point >= p->gradients_point);
    come_to(p, point);
    for (int i = 0; i < p->count; i++)
        if (p->list[i].arrives <= point && end_of(p, &p->list[i]) > end) end = end_of(p, &p->list[i]);
    if (p->chain != NULL) FT_TRY(ft_chain_reach(p->chain, p, point));
    if (ft_gradient_parts_deal(p)) return ft_gradient_parts_reach(p, point);
    if (p->sums != NULL) FT_TRY(ft_gradient_sums_reach(p->sums, p, point));
    return make_room(p, end);
}

ft_status ft_gradients_leave(ft_parameters *p) { return ft_gradient_parts_deal(p) ? ft_gradient_parts_leave(p) : FT_OK; }

ft_status ft_gradients_settle(ft_parameters *p) { return p->gradients_in_slots ? make_room(p, p->trainable) : FT_OK; }

ft_status ft_gradients_keep(ft_parameters *p) { return ft_gradient_parts_deal(p) ? ft_gradient_parts_keep(p) : ft_word_sums_put(p); }

bool ft_gradient_is_complete(const ft_parameters *p, int index) { return p->list[index].completes < p->gradients_point; }

ft_status ft_gradients_share(ft_parameters *p, int point) {
    come_to(p, point);
    if (!p->gradients_in_steps) return FT_OK;
    if (ft_gradient_parts_deal(p)) return ft_gradient_parts_share(p);
    void *data;
    const size_t bytes = ((size_t)p->trainable + FLOATS - 1) / FLOATS * FT_MEMORY_PLACE;
    FT_TRY(ft_memory_alloc_at(p->memory, 0, bytes, FT_MEM_GRADIENTS, site, &data));
    p->gradients = data;
    p->gradients_reached = (int64_t)(bytes / sizeof(float));
    return FT_OK;
}

// What lies in the arena until then is of a step before.
ft_status ft_gradients_none(ft_parameters *p) {
    if (!p->gradients_in_steps) return FT_OK; // cleared at the step's begin
    ft_device *device = ft_memory_device(p->memory);
    FT_TRY(ft_memory_scope_begin(p->memory, FT_SCOPE_NOTHING));
    ft_gradients_begin(p);
    const bool deals = ft_gradient_parts_deal(p);
    ft_status status = deals ? ft_gradient_parts_leave(p) : ft_gradients_share(p, ft_backward_point(0, 0));
    if (status == FT_OK && !deals) status = device->functions->fill(device, p->gradients, 0, (size_t)p->gradients_reached * sizeof(float));
    return ft_memory_scope_end(p->memory, status);
}

ft_tensor ft_parameter_gradient(const ft_parameters *p, int index) {
    const ft_parameter *q = &p->list[index];
    const int64_t rows = q->rows > 0 ? q->trained : 1;
    if (!q->trainable) return ft_absent();
    if (ft_gradient_parts_deal(p)) return ft_matrix(ft_gradient_parts_at(p, index), rows, q->cols, FT_F32);
    const int64_t first = p->stores[q->store].first + q->offset;
    assert(!p->gradients_in_steps || first + rows * q->cols <= p->gradients_reached);
    if (p->gradients == NULL) return ft_absent();
    return ft_matrix(p->gradients + first, rows, q->cols, FT_F32);
}
