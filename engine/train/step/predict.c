#include "engine/train/step/predict.h"

#include "engine/train/job/run_plan.h"

#include <stdlib.h>
#include <string.h>

// Queues the way home of the micro-batch that was queued last, or takes it home where there are no queues.
static ft_status send_home(ft_prediction *p, ft_logits_home *h, int64_t first, int64_t count, float *logits) {
    const ft_device_functions *f = p->model->device->functions;
    const int classes = p->model->labels;
    const size_t bytes = (size_t)(count * classes) * sizeof(float);
    *h = (ft_logits_home){.first = first, .count = count, .logits = h->logits, .come = h->come};
    FT_TRY(f->download(p->model->device, h->logits != NULL ? h->logits : logits + first * classes, p->logits, bytes));
    return h->logits != NULL ? f->event_record(p->model->device, h->come, FT_STREAM_COMPUTE) : f->sync(p->model->device);
}

// Waits for them. *done: sequences that are there, behind all that came before.
static ft_status arrive(ft_prediction *p, ft_logits_home *h, float *logits, int64_t *done) {
    const int classes = p->model->labels;
    if (h->count == 0) return FT_OK;
    if (h->logits != NULL) {
        FT_TRY(p->model->device->functions->event_sync(p->model->device, h->come));
        memcpy(logits + h->first * classes, h->logits, (size_t)(h->count * classes) * sizeof(float));
    }
    *done = h->first + h->count;
    h->count = 0;
    return FT_OK;
}

static ft_status predict_all(ft_prediction *p, const ft_dataset *data, ft_batch_limits limits, float *logits,
                             ft_predict_progress progress, void *context) {
    const int classes = p->model->labels;
    const bool queues = p->home[0].logits != NULL;
    int64_t done = 0;
    for (int64_t first = 0, batch = 0; first < data->sequences; batch++) {
        ft_logits_home *present = &p->home[batch % FT_LOGITS_HOMES], *before = &p->home[(batch + 1) % FT_LOGITS_HOMES];
        const int64_t count = ft_batch_cut(data, NULL, first, data->sequences, limits);
        FT_TRY(ft_batch_buffers_load(&p->buffers, data, NULL, first, count, 0));
        const ft_tensor read = ft_matrix(p->logits, p->buffers.device.reads, classes, FT_F32);
        FT_TRY(ft_model_predict_batch(p->model, &p->buffers.device, p->capacity, read));
        FT_TRY(send_home(p, present, first, count, logits));
        FT_TRY(arrive(p, queues ? before : present, logits, &done));
        first += count;
        if (progress != NULL && done > 0) FT_TRY(progress(context, done, data->sequences));
    }
    const int64_t before = done;
    for (int i = 0; i < FT_LOGITS_HOMES; i++) FT_TRY(arrive(p, &p->home[i], logits, &done)); // of one at most
    return progress != NULL && done > before ? progress(context, done, data->sequences) : FT_OK;
}

static ft_status make_homes(ft_prediction *p) {
    const size_t bytes = (size_t)p->capacity.reads * (size_t)p->model->labels * sizeof(float);
    ft_device *device = p->model->device;
    for (int i = 0; i < FT_LOGITS_HOMES && ft_device_queues(device); i++) {
        void *pinned;
        FT_TRY(ft_memory_alloc_staging(p->model->memory, bytes, "logits on their way home", &pinned));
        p->home[i].logits = pinned;
        FT_TRY(device->functions->event_create(device, &p->home[i].come));
    }
    return FT_OK;
}

static void free_homes(ft_prediction *p) {
    ft_device *device = p->model->device;
    for (int i = 0; i < FT_LOGITS_HOMES && p->home[i].logits != NULL; i++) {
        ft_memory_free_staging(p->model->memory, p->home[i].logits); // waits for what is on its way
        device->functions->event_destroy(device, p->home[i].come);
    }
}

ft_status ft_predict_open(ft_model *model, ft_capacity capacity, ft_prediction *p) {
    *p = (ft_prediction){.model = model, .capacity = capacity, .own_positions = !ft_model_holds_positions(model)};
    ft_memory_set_phase(model->memory, FT_PHASE_EVAL);
    FT_TRY(ft_absent_rows_refresh(&model->absent));
    if (p->own_positions) FT_TRY(ft_model_hold_positions(model, (ft_capacity){.tokens = 0}, capacity));
    FT_TRY(ft_memory_scope_begin(model->memory, FT_SCOPE_PASS));
    p->in_scope = true;
    FT_TRY(ft_batch_buffers_create(model, capacity, false, &p->buffers));
    FT_TRY(ft_memory_alloc(model->memory, (size_t)capacity.reads * (size_t)model->labels * sizeof(float), FT_MEM_ACTIVATIONS,
                           "logits", &p->logits));
    FT_TRY(make_homes(p));
    return ft_model_begin_prediction(model, capacity);
}

ft_status ft_predict_close(ft_prediction *p, ft_status outcome) {
    ft_memory *memory = p->model->memory;
    ft_model_end_prediction(p->model);
    free_homes(p);
    ft_memory_free(memory, p->logits);
    ft_batch_buffers_free(&p->buffers);
    if (p->in_scope) outcome = ft_memory_scope_end(memory, outcome);
    if (p->own_positions) ft_model_release_positions(p->model);
    ft_memory_trim(memory);
    return outcome;
}

ft_status ft_predict_rehearse(ft_model *model, ft_capacity capacity) {
    ft_prediction p;
    ft_status status = ft_predict_open(model, capacity, &p);
    if (status == FT_OK) {
        ft_batch *batch = &p.buffers.device;
        batch->tokens = capacity.tokens;
        batch->sequences = capacity.sequences;
        batch->longest = capacity.longest;
        batch->reads = capacity.reads;
        batch->most_reads = capacity.most_reads;
        status = ft_model_predict_batch(model, batch, capacity, ft_matrix(p.logits, capacity.reads, model->labels, FT_F32));
    }
    return ft_predict_close(&p, status);
}

// The plain loss of a task: what evaluations tell, whatever weights and smoothing training has.
static float plain_loss(const ft_task_spec *task, const ft_dataset *data, int64_t example, const float *logits, int outputs) {
    return task->loss(logits, outputs, data->label != NULL ? data->label[example] : 0,
                      data->target != NULL ? data->target + example * outputs : NULL);
}

ft_status ft_predict_dataset(ft_model *model, const ft_task_spec *task, const ft_dataset *data, ft_batch_limits limits,
                             ft_capacity capacity, ft_window_pooling pooling, float *logits, float *losses,
                             ft_predict_progress progress, void *context) {
    const int outputs = model->labels;
    float *windows = logits;
    if (data->example != NULL) windows = ft_calloc((size_t)data->sequences * (size_t)outputs, sizeof *windows, "logits of windows");
    if (windows == NULL) return FT_NO_MEMORY;
    ft_prediction p;
    ft_status status = ft_predict_open(model, capacity, &p);
    if (status == FT_OK) status = predict_all(&p, data, limits, windows, progress, context);
    status = ft_predict_close(&p, status);
    if (windows != logits) {
        if (status == FT_OK) ft_pool_windows(data, task->pool, outputs, pooling, windows, logits);
        free(windows);
    }
    for (int64_t i = 0; status == FT_OK && losses != NULL && i < data->examples; i++)
        losses[i] = plain_loss(task, data, i, logits + i * outputs, outputs);
    return status;
}
