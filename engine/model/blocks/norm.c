#include "engine/model/blocks/norm.h"

#include "engine/model/gradients/gradients.h"
#include "engine/model/blocks/run_op.h"

#include <stdio.h>

ft_status ft_norm_keep(ft_pass *pass, ft_rows_kind kind, int layer, const char *name, ft_norm_saved *saved) {
    const struct {
        const char *what;
        ft_tensor *out;
    } numbers[] = {{"mean", &saved->mean}, {"rstd", &saved->rstd}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        char site[48];
        snprintf(site, sizeof site, "%s %s", name, numbers[i].what);
        FT_TRY(ft_pass_statistics(pass, kind, layer, site, numbers[i].out));
    }
    return FT_OK;
}

void ft_norm_forget(ft_pass *pass, ft_norm_saved *saved) {
    ft_pass_free(pass, &saved->mean);
    ft_pass_free(pass, &saved->rstd);
}

ft_layernorm_forward_args ft_norm_args(const ft_pass *pass, const ft_norm *norm, const ft_norm_saved *saved, ft_layernorm_forward_args args) {
    if (saved != NULL) args.mean = saved->mean, args.rstd = saved->rstd;
    args.gamma = ft_parameter_weight(&pass->model->parameters, norm->gamma);
    args.beta = norm->beta >= 0 ? ft_parameter_weight(&pass->model->parameters, norm->beta) : ft_absent();
    args.epsilon = pass->model->epsilon;
    args.rms = norm->rms;
    return args;
}

ft_layernorm_forward_args ft_norm_largest(const ft_pass *pass, ft_rows_kind kind, ft_layernorm_forward_args args) {
    ft_layernorm_forward_args largest = args;
    int64_t rows = ft_pass_capacity(pass, kind);
    largest.x.rows = largest.y.rows = rows;
    if (args.residual.data != NULL) largest.residual.rows = rows;
    if (args.s.data != NULL) largest.s.rows = rows;
    if (args.wide.data != NULL) largest.wide.rows = rows;
    if (args.stream.data != NULL) largest.stream.rows = rows;
    if (args.mean.data != NULL) largest.mean.cols = rows;
    if (args.rstd.data != NULL) largest.rstd.cols = rows;
    return largest;
}

ft_status ft_norm_forward(ft_pass *pass, ft_rows_kind kind, const ft_norm *norm, const ft_norm_saved *saved,
                          ft_layernorm_forward_args args) {
    args = ft_norm_args(pass, norm, saved, args);
    ft_layernorm_forward_args largest = ft_norm_largest(pass, kind, args);
    RUN_WITH_WORKSPACE(pass, layernorm_forward, args, largest);
}

ft_status ft_norm_backward(ft_pass *pass, ft_rows_kind kind, const ft_norm *norm, const ft_norm_saved *saved,
                           ft_layernorm_backward_args args) {
    args.mean = saved->mean;
    args.rstd = saved->rstd;
    args.rms = norm->rms;
    args.gamma = ft_parameter_weight(&pass->model->parameters, norm->gamma);
    args.dgamma = ft_parameter_gradient(&pass->model->parameters, norm->gamma);
    args.dbeta = norm->beta >= 0 ? ft_parameter_gradient(&pass->model->parameters, norm->beta) : ft_absent();
    ft_layernorm_backward_args largest = args;
    int64_t rows = ft_pass_capacity(pass, kind);
    largest.dy.rows = largest.s.rows = rows;
    largest.mean.cols = largest.rstd.cols = rows;
    if (args.past.data != NULL) largest.past.rows = rows;
    if (args.ds.data != NULL) largest.ds.rows = rows;
    if (args.dx.data != NULL) largest.dx.rows = rows;
    RUN_WITH_WORKSPACE(pass, layernorm_backward, args, largest);
}
