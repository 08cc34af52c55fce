#include "engine/model/blocks/together.h"

#include "engine/model/state/pack.h"

bool ft_together_on(const ft_pass *pass, ft_rows_kind kind) {
    return pass->model->parameters.trunk != NULL && pass->step != NULL && kind != FT_ROWS_RELATIVE;
}

// On the CPU as large as the rows of all may want it.
static size_t scratch_of(const ft_device *device, const ft_gemm_args *largest) {
    const size_t alone = ft_gemm_workspace(&device->target, largest);
    if (ft_device_queues(device)) return alone;
    ft_gemm_args all = *largest;
    all.a.rows = all.c.rows = FT_GEMM_MANY_ROWS;
    all.more = &(ft_gemm_rows){all.a, all.c};
    all.more_count = 1;
    const size_t together = ft_gemm_workspace(&device->target, &all);
    return alone > together ? alone : together;
}

ft_status ft_together_multiply(ft_pass *pass, ft_gemm_args args, const ft_gemm_args *largest) {
    const ft_model *m = pass->model;
    const size_t bytes = scratch_of(m->device, largest);
    void *scratch = NULL;
    if (bytes > 0) FT_TRY(ft_memory_alloc(m->memory, bytes, FT_MEM_WORKSPACE, "gemm scratch", &scratch));
    args.workspace = (ft_workspace){scratch, bytes};
    const ft_status status = ft_pack_multiply(m->member, m->device, &args);
    ft_memory_free(m->memory, scratch);
    return status;
}
