#include "engine/train/update.h"

#include "engine/model/gradients.h"

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
    ft_gradient_norm_args norm = {.gradient = ft_vector(p->gradients, p->trainable, FT_F32),
                                  .losses = losses,
                                  .hyper = *hyper,
                                  .step = step,
                                  .update = update};
    if (ft_update_scales_loss(config)) norm.growth_interval = FT_LOSS_SCALE_GROWTH_INTERVAL;
    else norm.stops = true; // nothing can help
    if (p->table < 0 || !p->list[p->table].trainable) return norm;
    const ft_parameter *table = &p->list[p->table];
    norm.gradient = ft_vector(p->gradients, table->offset, FT_F32);
    norm.table = ft_parameter_gradient(p, p->table);
    norm.table_rows = table->rows;
    norm.table_blocks = p->table_blocks;
    return norm;
}

static ft_status run(ft_parameters *p, const ft_config *config, const ft_adamw_hyper *hyper, ft_tensor losses,
                     const ft_step_state *step, ft_update_state *update) {
    ft_device *device = ft_memory_device(p->memory);
    FT_TRY(ft_gradients_share(p));
    ft_gradient_norm_args norm = norm_of(p, config, hyper, &losses, step, update);
    size_t bytes = ft_gradient_norm_workspace(&device->target, &norm);
    void *scratch;
    FT_TRY(ft_memory_alloc(p->memory, bytes, FT_MEM_WORKSPACE, "gradient_norm scratch", &scratch));
    norm.workspace = (ft_workspace){scratch, bytes};
    FT_TRY(FT_RUN(device, gradient_norm, &norm));
    ft_memory_free(p->memory, scratch);
    const ft_tensor weights = ft_vector(p->weights, p->trainable, p->dtype);
    ft_adamw_args adamw = {.parameter = p->master != NULL ? ft_vector(p->master, p->trainable, FT_F32) : weights,
                           .tail = p->tail,
                           .compute = p->master != NULL ? weights : ft_absent(),
                           .gradient = ft_vector(p->gradients, p->trainable, FT_F32),
                           .m = ft_vector(p->m, p->trainable, FT_F32),
                           .v = ft_vector(p->v, p->trainable, FT_F32),
                           .ranges = p->ranges,
                           .range_count = p->range_count,
                           .hyper = *hyper,
                           .step = step,
                           .update = update};
    if (p->state_on_host) return ft_offload_update(p, &adamw);
    bytes = ft_adamw_workspace(&device->target, &adamw);
    FT_TRY(ft_memory_alloc(p->memory, bytes, FT_MEM_WORKSPACE, "adamw scratch", &scratch));
    adamw.workspace = (ft_workspace){scratch, bytes};
    FT_TRY(FT_RUN(device, adamw, &adamw));
    ft_memory_free(p->memory, scratch);
    return FT_OK;
}

ft_status ft_update_run(ft_parameters *p, const ft_config *config, ft_tensor losses, const ft_step_state *step,
                        ft_update_state *update) {
    ft_adamw_hyper hyper = hyper_of(config);
    ft_memory_set_phase(p->memory, FT_PHASE_OPTIMIZER);
    FT_TRY(ft_memory_scope_begin(p->memory, FT_SCOPE_UPDATE));
    return ft_memory_scope_end(p->memory, run(p, config, &hyper, losses, step, update));
}
