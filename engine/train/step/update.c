#include "engine/train/step/update.h"

#include "engine/model/gradients/gradient_parts.h"
#include "engine/model/gradients/gradients.h"
#include "kernels/ops/backend.h"

static ft_adamw_hyper hyper_of(const ft_config *c) {
    return (ft_adamw_hyper){.beta1 = c->train.adam_beta1,
                            .beta2 = c->train.adam_beta2,
                            .epsilon = c->train.adam_epsilon,
                            .max_gradient_norm = c->train.max_grad_norm};
}

bool ft_update_scales_loss(const ft_config *config) { return config->train.precision == FT_PRECISION_FP16; }

ft_update_state ft_update_first(const ft_config *config) {
    return (ft_update_state){.loss_scale = ft_update_scales_loss(config) ? FT_FIRST_LOSS_SCALE : 1};
}

ft_status ft_update_scale_step(ft_device *device, const ft_config *config, const ft_update_state *update, ft_step_state *step) {
    if (!ft_update_scales_loss(config)) return FT_OK;
    return device->functions->copy(device, &step->loss_scale, &update->loss_scale, sizeof update->loss_scale);
}

// The word table, where it is trained, is the last of the gradients, and its rows count one by one.
static ft_gradient_norm_args norm_of(const ft_parameters *p, const ft_config *config, const ft_adamw_hyper *hyper,
                                    const ft_tensor *losses, const ft_step_state *step, ft_update_state *update) {
    ft_gradient_norm_args norm = {.losses = losses,
                                  .hyper = *hyper,
                                  .step = step,
                                  .update = update};
    if (ft_update_scales_loss(config)) norm.growth_interval = FT_LOSS_SCALE_GROWTH_INTERVAL;
    else norm.stops = true; // nothing can help
    if (p->parts != NULL) return norm; // of the pieces
    float *sums = ft_gradients_summed(p);
    norm.gradient = ft_vector(sums, p->trainable, FT_F32);
    if (p->table < 0 || !p->list[p->table].trainable) return norm;
    const ft_parameter *table = &p->list[p->table];
    norm.gradient = ft_vector(sums, p->stores[table->store].first + table->offset, FT_F32);
    norm.table = ft_parameter_gradient(p, p->table);
    if (norm.table.data != NULL) norm.table.data = sums + norm.gradient.cols;
    norm.table_rows = table->rows;
    norm.table_blocks = p->table_blocks;
    return norm;
}

static ft_status meet(void *group) { return ft_group_barrier(group); }

static ft_status update_store(const ft_parameters *p, const ft_store *s, ft_adamw_args adamw) {
    ft_device *device = ft_memory_device(s->owner);
    const ft_tensor weights = ft_vector((char *)s->weights + (size_t)s->own.first * ft_dtype_size(s->format.dtype), s->own.count, s->format.dtype);
    void *exact = s->state[FT_STATE_EXACT];
    const bool master = s->format.exact == FT_EXACT_BY_MASTER;
    const int64_t first = s->own.first, count = s->own.count; // of all, but for ranks that have parts
    if (count == 0) return FT_OK;
    const int64_t of_exact = s->deals_exact ? 0 : first;
    adamw.parameter = master ? ft_vector((float *)exact + of_exact, count, FT_F32) : weights;
    adamw.tail = s->format.exact == FT_EXACT_BY_TAILS ? (uint16_t *)exact + of_exact : NULL;
    adamw.compute = master ? weights : ft_absent();
    adamw.gradient = ft_vector(ft_gradient_parts_deal(p) ? ft_gradient_parts_own(p, (int)(s - p->stores)) : ft_gradients_summed(p) + s->first + first, count, FT_F32);
    adamw.m = ft_vector(s->state[FT_STATE_M], count, FT_F32);
    adamw.v = ft_vector(s->state[FT_STATE_V], count, FT_F32);
    adamw.ranges = s->ranges;
    adamw.range_count = s->range_count;
    if (s->place == FT_PLACE_HOST) return ft_offload_update(s, &adamw);
    const size_t bytes = ft_adamw_workspace(&device->target, &adamw);
    void *scratch;
    FT_TRY(ft_memory_alloc(s->owner, bytes, FT_MEM_WORKSPACE, "adamw scratch", &scratch));
    adamw.workspace = (ft_workspace){scratch, bytes};
    FT_TRY(FT_RUN(device, adamw, &adamw));
    ft_memory_free(s->owner, scratch);
    return FT_OK;
}

// Of gradients that are not dealt out the squares are summed here.
static ft_status square_pieces(const ft_parameters *p, double *sums) {
    for (int i = 0; !p->parts->deals && i < p->parts->count; i++)
        FT_TRY(ft_gradient_parts_square(p, i, p->gradients + p->parts->piece[i].bucket.first, sums));
    return FT_OK;
}

static ft_status run(ft_parameters *p, const ft_config *config, const ft_adamw_hyper *hyper, ft_tensor losses,
                     const ft_step_state *step, ft_update_state *update) {
    ft_device *device = ft_memory_device(p->memory);
    FT_TRY(ft_gradients_share(p, FT_BACKWARD_DONE));
    ft_gradient_norm_args norm = norm_of(p, config, hyper, &losses, step, update);
    const ft_memory_ranks near = ft_memory_ranks_of(p->memory); // each host updates all of its copy
    if (near.group != NULL && ft_memory_has_common(p->memory)) norm.shares = (ft_norm_shares){p->norm_sums, near.rank, near.ranks, meet, near.group};
    size_t bytes = p->parts != NULL ? (size_t)(p->parts->deals ? 0 : p->parts->sums) * sizeof(double) : ft_gradient_norm_workspace(&device->target, &norm);
    void *scratch;
    FT_TRY(ft_memory_alloc(p->memory, bytes, FT_MEM_WORKSPACE, "gradient_norm scratch", &scratch));
    if (p->parts != NULL) {
        norm.pieces = (ft_norm_pieces){p->parts->deals ? p->norm_sums : scratch, p->parts->sums, true};
        FT_TRY(square_pieces(p, norm.pieces.sums));
    } else norm.workspace = (ft_workspace){scratch, bytes};
    FT_TRY(FT_RUN(device, gradient_norm, &norm));
    ft_memory_free(p->memory, scratch);
    for (int i = 0; i < p->store_count; i++)
        if (p->stores[i].trainable)
            FT_TRY(update_store(p, &p->stores[i], (ft_adamw_args){.hyper = *hyper, .step = step, .update = update}));
    return FT_OK;
}

ft_status ft_update_run(ft_parameters *p, const ft_config *config, ft_tensor losses, const ft_step_state *step,
                        ft_update_state *update) {
    ft_adamw_hyper hyper = hyper_of(config);
    ft_memory_set_phase(p->memory, FT_PHASE_OPTIMIZER);
    FT_TRY(ft_memory_scope_begin(p->memory, FT_SCOPE_UPDATE));
    return ft_memory_scope_end(p->memory, run(p, config, &hyper, losses, step, update));
}
