// loss.c - the loss of a micro-batch and the gradient of its logits.
#include "engine/model/blocks/layers.h"

static ft_status loss_of(ft_pass *pass, ft_tensor logits, ft_tensor losses) {
    const ft_model *m = pass->model;
    const ft_batch *b = pass->batch;
    ft_tensor weight = m->class_weight != NULL ? ft_vector(m->class_weight, m->labels, FT_F32) : ft_absent();
    ft_tensor targets = ft_matrix(b->target, logits.rows, m->labels, FT_F32);
    if (m->loss.kind == FT_LOSS_BCE)
        return ft_pass_binary_cross_entropy(pass, (ft_binary_cross_entropy_args){.logits = logits,
                                                                                 .targets = targets,
                                                                                 .positive_weight = weight,
                                                                                 .gamma = m->loss.gamma,
                                                                                 .step = pass->step,
                                                                                 .losses = losses,
                                                                                 .dlogits = logits});
    if (m->loss.kind == FT_LOSS_MSE)
        return ft_pass_squared_error(
            pass, (ft_squared_error_args){
                      .logits = logits, .targets = targets, .step = pass->step, .losses = losses, .dlogits = logits});
    if (m->class_weight == NULL && m->loss.smoothing == 0 && m->loss.gamma == 0)
        return ft_pass_cross_entropy(
            pass, (ft_cross_entropy_args){
                      .logits = logits, .labels = b->label, .step = pass->step, .losses = losses, .dlogits = logits});
    return ft_pass_weighted_cross_entropy(pass, (ft_weighted_cross_entropy_args){.logits = logits,
                                                                                 .labels = b->label,
                                                                                 .class_weight = weight,
                                                                                 .smoothing = m->loss.smoothing,
                                                                                 .gamma = m->loss.gamma,
                                                                                 .step = pass->step,
                                                                                 .losses = losses,
                                                                                 .dlogits = logits});
}

// What fills a batch up teaches nothing: where its logits have no gradient, neither has anything before them.
static ft_status forget_filler(ft_pass *pass, ft_tensor dlogits) {
    ft_device *device = pass->model->device;
    const size_t row = (size_t)dlogits.cols * sizeof(float);
    if (pass->batch->filler == 0) return FT_OK;
    for (int k = 1; k <= FT_DATASET_READS; k++) // the last sequence is read as the others are
        FT_TRY(device->functions->fill(device, (float *)dlogits.data + (dlogits.rows - k) * dlogits.stride, 0, row));
    return FT_OK;
}

ft_status ft_pass_loss(ft_pass *pass, ft_tensor logits, ft_tensor losses) {
    FT_TRY(loss_of(pass, logits, losses));
    return forget_filler(pass, logits);
}
