#include "engine/model/blocks/offload_inputs.h"

#include "engine/model/blocks/layers.h"

// ---- memory -------------------------------------------------------------------------------------------------------------

ft_status ft_model_hold_inputs(ft_model *m, ft_capacity train) {
    ft_offloaded_inputs *in = &m->inputs;
    const int checkpoints = ft_model_checkpoints(m);
    if (!in->on || checkpoints < 2 || train.tokens == 0) return FT_OK;
    void *host;
    in->place = (size_t)train.tokens * (size_t)m->hidden * ft_dtype_size(m->row_dtype);
    FT_TRY(ft_memory_alloc_pinned(m->memory, (size_t)(checkpoints - 1) * in->place, "inputs of layers", &host));
    in->host = host;
    in->count = checkpoints - 1;
    FT_TRY(m->device->functions->event_create(m->device, &in->ready));
    for (int i = 0; i < FT_INPUTS_ON_THE_WAY; i++) FT_TRY(m->device->functions->event_create(m->device, &in->moved[i]));
    return FT_OK;
}

void ft_model_release_inputs(ft_model *m) {
    ft_offloaded_inputs *in = &m->inputs;
    if (in->host == NULL) return;
    ft_memory_free_pinned(m->memory, in->host);
    m->device->functions->event_destroy(m->device, in->ready);
    for (int i = 0; i < FT_INPUTS_ON_THE_WAY; i++) m->device->functions->event_destroy(m->device, in->moved[i]);
    *in = (ft_offloaded_inputs){.on = in->on};
}

// ---- there and back -----------------------------------------------------------------------------------------------------

bool ft_input_travels(const ft_pass *pass, int n) { return n >= 0 && n < pass->model->inputs.count; }

static ft_event *moved(const ft_offloaded_inputs *in, int n) { return in->moved[n % FT_INPUTS_ON_THE_WAY]; }
static char *place(const ft_offloaded_inputs *in, int n) { return in->host + (size_t)n * in->place; }
static size_t bytes_of(ft_tensor x) { return (size_t)x.rows * (size_t)x.cols * ft_dtype_size(x.dtype); }

// What is copied from here on finds done what was computed until now.
static ft_status copy_behind(const ft_model *m) {
    FT_TRY(m->device->functions->event_record(m->device, m->inputs.ready, FT_STREAM_COMPUTE));
    return m->device->functions->stream_wait(m->device, FT_STREAM_COPY, m->inputs.ready);
}

ft_status ft_input_send(ft_pass *pass, int n, ft_tensor x) {
    const ft_model *m = pass->model;
    const ft_device_functions *f = m->device->functions;
    FT_TRY(copy_behind(m));
    FT_TRY(f->download_beside(m->device, place(&m->inputs, n), x.data, bytes_of(x)));
    return f->event_record(m->device, moved(&m->inputs, n), FT_STREAM_COPY);
}

ft_status ft_input_sent(ft_pass *pass, int n, ft_tensor *x) {
    const ft_model *m = pass->model;
    FT_TRY(m->device->functions->stream_wait(m->device, FT_STREAM_COMPUTE, moved(&m->inputs, n)));
    ft_pass_free(pass, x);
    return FT_OK;
}

ft_status ft_input_fetch(ft_pass *pass, int n, ft_tensor *x) {
    const ft_model *m = pass->model;
    const ft_device_functions *f = m->device->functions;
    FT_TRY(ft_pass_row_tensor(pass, FT_ROWS_TOKENS, m->hidden, -1, "input from the host", x));
    FT_TRY(copy_behind(m));
    FT_TRY(f->upload_beside(m->device, x->data, place(&m->inputs, n), bytes_of(*x)));
    return f->event_record(m->device, moved(&m->inputs, n), FT_STREAM_COPY);
}

ft_status ft_input_fetched(ft_pass *pass, int n) {
    const ft_model *m = pass->model;
    return m->device->functions->stream_wait(m->device, FT_STREAM_COMPUTE, moved(&m->inputs, n));
}

void ft_inputs_abandon(const ft_model *m) {
    if (m->inputs.count == 0) return;
    const ft_device_functions *f = m->device->functions;
    ft_error error; // the first is the news; of a device that does nothing any more nothing is to be feared either
    ft_error_save(&error);
    if (f->event_record(m->device, m->inputs.ready, FT_STREAM_COPY) == FT_OK)
        (void)f->stream_wait(m->device, FT_STREAM_COMPUTE, m->inputs.ready);
    ft_error_restore(&error);
}
