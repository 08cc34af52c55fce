#include "engine/model/blocks/norm.h"

#include "engine/model/blocks/run_op.h"

ft_status ft_norm_forward(ft_pass *pass, ft_rows_kind kind, const ft_norm *norm, ft_layernorm_forward_args args) {
    args.gamma = ft_parameter_weight(&pass->model->parameters, norm->gamma);
    args.beta = ft_parameter_weight(&pass->model->parameters, norm->beta);
    args.epsilon = pass->model->epsilon;
    ft_layernorm_forward_args largest = args;
    int64_t rows = ft_pass_capacity(pass, kind);
    largest.x.rows = largest.y.rows = rows;
    if (args.residual.data != NULL) largest.residual.rows = rows;
    if (args.s.data != NULL) largest.s.rows = rows;
    if (args.wide.data != NULL) largest.wide.rows = rows;
    if (args.mean.data != NULL) largest.mean.cols = rows;
    if (args.rstd.data != NULL) largest.rstd.cols = rows;
    RUN_WITH_WORKSPACE(pass, layernorm_forward, args, largest);
}

ft_status ft_norm_backward(ft_pass *pass, ft_rows_kind kind, const ft_norm *norm, ft_layernorm_backward_args args) {
    args.gamma = ft_parameter_weight(&pass->model->parameters, norm->gamma);
    args.dgamma = ft_parameter_gradient(&pass->model->parameters, norm->gamma);
    args.dbeta = ft_parameter_gradient(&pass->model->parameters, norm->beta);
    ft_layernorm_backward_args largest = args;
    int64_t rows = ft_pass_capacity(pass, kind);
    largest.dy.rows = largest.s.rows = rows;
    largest.mean.cols = largest.rstd.cols = rows;
    if (args.ds.data != NULL) largest.ds.rows = rows;
    if (args.dx.data != NULL) largest.dx.rows = rows;
    RUN_WITH_WORKSPACE(pass, layernorm_backward, args, largest);
}
