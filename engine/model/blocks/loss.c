// loss.c - the loss of a micro-batch and the gradient of its logits.
#include "engine/model/blocks/run_op.h"

// A loss of the rows that are read, with its scratch: `targets` for those that compare numbers, `labels` for those of a class.

static ft_tensor targets_of(const ft_pass *pass, ft_tensor logits) {
    return ft_matrix(pass->batch->target, logits.rows, pass->model->labels, FT_F32);
}

static ft_tensor class_weight(const ft_model *m) {
    return m->class_weight != NULL ? ft_vector(m->class_weight, m->labels, FT_F32) : ft_absent();
}

static ft_status binary_cross_entropy(ft_pass *pass, ft_tensor logits, ft_tensor losses) {
    ft_binary_cross_entropy_args args = {.logits = logits,
                                         .targets = targets_of(pass, logits),
                                         .positive_weight = class_weight(pass->model),
                                         .gamma = pass->model->loss.gamma,
                                         .step = pass->step,
                                         .losses = losses,
                                         .dlogits = logits};
    ft_binary_cross_entropy_args largest = args;
    largest.logits.rows = largest.targets.rows = largest.dlogits.rows = largest.losses.cols = pass->capacity.reads;
    RUN_WITH_WORKSPACE(pass, binary_cross_entropy, args, largest);
}

static ft_status squared_error(ft_pass *pass, ft_tensor logits, ft_tensor losses) {
    ft_squared_error_args args = {
        .logits = logits, .targets = targets_of(pass, logits), .step = pass->step, .losses = losses, .dlogits = logits};
    ft_squared_error_args largest = args;
    largest.logits.rows = largest.targets.rows = largest.dlogits.rows = largest.losses.cols = pass->capacity.reads;
    RUN_WITH_WORKSPACE(pass, squared_error, args, largest);
}

// dlogits: absent, or the logits' own place.
static ft_status plain_cross_entropy(ft_pass *pass, ft_tensor logits, ft_tensor losses, ft_tensor dlogits) {
    ft_cross_entropy_args args = {
        .logits = logits, .labels = pass->batch->label, .step = pass->step, .losses = losses, .dlogits = dlogits};
    ft_cross_entropy_args largest = args;
    largest.logits.rows = largest.losses.cols = pass->capacity.reads;
    if (dlogits.data != NULL) largest.dlogits.rows = pass->capacity.reads;
    RUN_WITH_WORKSPACE(pass, cross_entropy, args, largest);
}

ft_status ft_pass_plain_losses(ft_pass *pass, ft_tensor logits, ft_tensor losses) { return plain_cross_entropy(pass, logits, losses, ft_absent()); }

static ft_status cross_entropy(ft_pass *pass, ft_tensor logits, ft_tensor losses) {
    const ft_model *m = pass->model;
    const bool mixed = pass->batch->other_label != NULL;
    if (!mixed && m->class_weight == NULL && m->loss.smoothing == 0 && m->loss.gamma == 0) return plain_cross_entropy(pass, logits, losses, logits);
    ft_weighted_cross_entropy_args args = {.logits = logits,
                                           .labels = pass->batch->label,
                                           .other = pass->batch->other_label,
                                           .share = mixed ? pass->batch->share : NULL,
                                           .class_weight = class_weight(m),
                                           .smoothing = m->loss.smoothing,
                                           .gamma = m->loss.gamma,
                                           .step = pass->step,
                                           .losses = losses,
                                           .dlogits = logits};
    ft_weighted_cross_entropy_args largest = args;
    largest.logits.rows = largest.dlogits.rows = largest.losses.cols = pass->capacity.reads;
    RUN_WITH_WORKSPACE(pass, weighted_cross_entropy, args, largest);
}

// Of a filling sequence nobody has marked anything.
static ft_status spans(ft_pass *pass, ft_tensor logits, ft_tensor losses) {
    ft_span_cross_entropy_args args = {.logits = logits,
                                       .sequences = pass->batch->sequences,
                                       .cu_rows = pass->batch->cu_reads,
                                       .marks = pass->batch->label,
                                       .step = pass->step,
                                       .losses = losses,
                                       .dlogits = logits};
    ft_span_cross_entropy_args largest = args;
    largest.logits.rows = largest.dlogits.rows = largest.losses.cols = pass->capacity.reads;
    largest.sequences = pass->capacity.sequences;
    RUN_WITH_WORKSPACE(pass, span_cross_entropy, args, largest);
}

static ft_status loss_of(ft_pass *pass, ft_tensor logits, ft_tensor losses) {
    switch (pass->model->loss.kind) {
    case FT_LOSS_BCE: return binary_cross_entropy(pass, logits, losses);
    case FT_LOSS_MSE: return squared_error(pass, logits, losses);
    case FT_LOSS_SPANS: return spans(pass, logits, losses);
    default: return cross_entropy(pass, logits, losses);
    }
}

// What fills a batch up teaches nothing: where its logits have no gradient, neither has anything before them.
static ft_status forget_filler(ft_pass *pass, ft_tensor dlogits) {
    ft_device *device = pass->model->device;
    const size_t row = (size_t)dlogits.cols * sizeof(float);
    if (pass->batch->filler == 0) return FT_OK;
    for (int k = 1; k <= FT_FILLER_READS; k++) // they come last
        FT_TRY(device->functions->fill(device, (float *)dlogits.data + (dlogits.rows - k) * dlogits.stride, 0, row));
    return FT_OK;
}

ft_status ft_pass_loss(ft_pass *pass, ft_tensor logits, ft_tensor losses) {
    FT_TRY(loss_of(pass, logits, losses));
    return forget_filler(pass, logits);
}
