#include "engine/train/step/pass.h"

static int64_t columns(const ft_data_pass *p) { return p->kind == FT_PASS_LOGITS ? p->model->labels : p->model->read_width; }
static ft_dtype dtype(const ft_data_pass *p) { return p->kind == FT_PASS_LOGITS ? FT_F32 : p->model->dtype; }

size_t ft_data_pass_row_bytes(const ft_data_pass *p) { return (size_t)columns(p) * ft_dtype_size(dtype(p)); }

static ft_status compute(ft_data_pass *p, const ft_batch *batch) {
    const ft_tensor rows = ft_matrix(p->rows, batch->reads, columns(p), dtype(p));
    return (p->kind == FT_PASS_LOGITS ? ft_model_predict_batch : ft_model_features_batch)(p->model, batch, p->capacity, rows);
}

// Queues the way home of the micro-batch that was queued last, or takes it home where there are no queues.
static ft_status send_home(ft_data_pass *p, ft_rows_home *h, int64_t first, int64_t count, void *home) {
    const ft_device_functions *f = p->model->device->functions;
    *h = (ft_rows_home){.first = first, .count = count, .rows = h->rows, .come = h->come};
    FT_TRY(f->download(p->model->device, h->rows != NULL ? h->rows : home, p->rows, (size_t)p->buffers.device.reads * ft_data_pass_row_bytes(p)));
    return h->rows != NULL ? f->event_record(p->model->device, h->come, FT_STREAM_COMPUTE) : f->sync(p->model->device);
}

typedef struct run {
    ft_row_sink *sink;
    void *context, *home;
    int64_t done; // sequences that are there, behind all that came before
} run;

// Waits for them.
static ft_status arrive(ft_data_pass *p, ft_rows_home *h, run *r) {
    if (h->count == 0) return FT_OK;
    if (h->rows != NULL) FT_TRY(p->model->device->functions->event_sync(p->model->device, h->come));
    FT_TRY(r->sink(r->context, h->first, h->count, h->rows != NULL ? h->rows : r->home));
    r->done = h->first + h->count;
    h->count = 0;
    return FT_OK;
}

// Several ranks: a micro-batch each in a round, and then every rank takes the rows of all, in order. Rows lie in two places by turns: while somebody still
// reads those of a round, the next one comes.
static char *rows_of(const ft_data_pass *p, int64_t round, int rank, int ranks) {
    return (char *)p->dealt + (size_t)(round % 2 * ranks + rank) * (size_t)p->capacity.reads * ft_data_pass_row_bytes(p);
}

static int64_t reads_of(const ft_dataset *data, int64_t first, int64_t count) {
    int64_t reads = 0;
    for (int64_t i = first; i < first + count; i++) reads += ft_dataset_reads(data, i);
    return reads;
}

static ft_status compute_mine(ft_data_pass *p, const ft_dataset *data, int64_t first, int64_t count, char *rows) {
    ft_device *device = p->model->device;
    if (count == 0 || reads_of(data, first, count) == 0) return FT_OK;
    FT_TRY(ft_batch_buffers_load(&p->buffers, data, NULL, first, count, 0));
    FT_TRY(compute(p, &p->buffers.device));
    FT_TRY(device->functions->download(device, rows, p->rows, (size_t)p->buffers.device.reads * ft_data_pass_row_bytes(p)));
    return device->functions->sync(device);
}

// Ranks that share memory: each writes where all of its host see it, and hosts tell each other.
static ft_status show_all(ft_data_pass *p, const ft_dataset *data, ft_memory_ranks m, const int64_t *at, int64_t round) {
    const int64_t row_bytes = (int64_t)p->capacity.reads * (int64_t)ft_data_pass_row_bytes(p);
    FT_TRY(compute_mine(p, data, at[m.run_rank], at[m.run_rank + 1] - at[m.run_rank], rows_of(p, round, m.run_rank, m.run_ranks)));
    return ft_group_complete(m.run, (ft_range){rows_of(p, round, 0, m.run_ranks), m.run_ranks * row_bytes, FT_U8});
}

// Ranks that are apart: each has all rows on its device, and brings them home.
static ft_status gather_all(ft_data_pass *p, const ft_dataset *data, ft_memory_ranks m, const int64_t *at) {
    ft_device *device = p->model->device;
    const ft_device_functions *f = device->functions;
    const size_t most = (size_t)p->capacity.reads * ft_data_pass_row_bytes(p);
    const int64_t count = at[m.rank + 1] - at[m.rank];
    if (count > 0 && reads_of(data, at[m.rank], count) > 0) {
        FT_TRY(ft_batch_buffers_load(&p->buffers, data, NULL, at[m.rank], count, 0));
        FT_TRY(compute(p, &p->buffers.device));
        FT_TRY(f->copy(device, (char *)p->dealt + (size_t)m.rank * most, p->rows, (size_t)p->buffers.device.reads * ft_data_pass_row_bytes(p)));
    }
    FT_TRY(ft_group_all_gather(m.group, (ft_range){p->dealt, (int64_t)((size_t)m.ranks * most), FT_U8}));
    FT_TRY(ft_group_join(m.group));
    FT_TRY(f->download(device, p->home[0].rows, p->dealt, (size_t)m.ranks * most));
    FT_TRY(f->event_record(device, p->home[0].come, FT_STREAM_COMPUTE));
    return ft_memory_wait(p->model->memory, p->home[0].come);
}

static ft_status run_dealt(ft_data_pass *p, const ft_dataset *data, ft_batch_limits limits, run *r, ft_predict_progress progress, void *watcher) {
    const ft_memory_ranks m = ft_memory_ranks_of(p->model->memory);
    const size_t most = (size_t)p->capacity.reads * ft_data_pass_row_bytes(p);
    for (int64_t round = 0; r->done < data->sequences; round++) {
        int64_t at[FT_GROUP_RANKS + 1] = {r->done};
        for (int i = 0; i < m.run_ranks; i++)
            at[i + 1] = at[i] + (at[i] < data->sequences ? ft_batch_cut(data, NULL, at[i], data->sequences, limits) : 0);
        FT_TRY(m.apart ? gather_all(p, data, m, at) : show_all(p, data, m, at, round));
        for (int i = 0; i < m.run_ranks; i++) {
            const int64_t count = at[i + 1] - at[i];
            const char *rows = m.apart ? (char *)p->home[0].rows + (size_t)i * most : rows_of(p, round, i, m.run_ranks);
            if (count > 0 && reads_of(data, at[i], count) > 0) FT_TRY(r->sink(r->context, at[i], count, rows));
        }
        r->done = at[m.run_ranks];
        if (progress != NULL) FT_TRY(progress(watcher, r->done, data->sequences));
    }
    return FT_OK;
}

ft_status ft_data_pass_run(ft_data_pass *p, const ft_dataset *data, ft_batch_limits limits, void *home, ft_row_sink *sink,
                           void *context, ft_predict_progress progress, void *watcher) {
    run r = {.sink = sink, .context = context, .home = home};
    const bool queues = p->home[0].rows != NULL;
    if (p->dealt != NULL) return run_dealt(p, data, limits, &r, progress, watcher);
    for (int64_t first = 0, batch = 0; first < data->sequences;) {
        ft_rows_home *present = &p->home[batch % FT_ROWS_HOMES], *before = &p->home[(batch + 1) % FT_ROWS_HOMES];
        const int64_t count = ft_batch_cut(data, NULL, first, data->sequences, limits);
        FT_TRY(ft_batch_buffers_load(&p->buffers, data, NULL, first, count, 0));
        if (p->buffers.device.reads == 0) { // nobody asks for anything of it
            first += count;
            continue;
        }
        FT_TRY(compute(p, &p->buffers.device));
        FT_TRY(send_home(p, present, first, count, home));
        FT_TRY(arrive(p, queues ? before : present, &r));
        first += count;
        batch++;
        if (progress != NULL && r.done > 0) FT_TRY(progress(watcher, r.done, data->sequences));
    }
    const int64_t before = r.done;
    for (int i = 0; i < FT_ROWS_HOMES; i++) FT_TRY(arrive(p, &p->home[i], &r)); // of one at most
    return progress != NULL && r.done > before ? progress(watcher, r.done, data->sequences) : FT_OK;
}

// Of ranks that are apart one for the rows of all: nothing is computed meanwhile.
static ft_status make_homes(ft_data_pass *p) {
    const ft_memory_ranks ranks = ft_memory_ranks_of(p->model->memory);
    const size_t bytes = (size_t)(ranks.apart ? ranks.ranks : 1) * (size_t)p->capacity.reads * ft_data_pass_row_bytes(p);
    ft_device *device = p->model->device;
    for (int i = 0; i < (ranks.apart ? 1 : FT_ROWS_HOMES) && ft_device_queues(device); i++) {
        void *pinned;
        FT_TRY(ft_memory_alloc_staging(p->model->memory, bytes, p->kind == FT_PASS_LOGITS ? "logits on their way home" : "rows on their way home",
                                       &pinned));
        p->home[i].rows = pinned;
        FT_TRY(device->functions->event_create(device, &p->home[i].come));
    }
    return FT_OK;
}

static void free_homes(ft_data_pass *p) {
    ft_device *device = p->model->device;
    for (int i = 0; i < FT_ROWS_HOMES && p->home[i].rows != NULL; i++) {
        ft_memory_free_staging(p->model->memory, p->home[i].rows); // waits for what is on its way
        device->functions->event_destroy(device, p->home[i].come);
    }
}

ft_status ft_data_pass_open(ft_model *model, ft_capacity capacity, ft_pass_kind kind, ft_data_pass *p) {
    *p = (ft_data_pass){.model = model, .capacity = capacity, .kind = kind, .own_positions = !ft_model_holds_positions(model)};
    ft_memory_set_phase(model->memory, FT_PHASE_EVAL);
    FT_TRY(ft_absent_rows_refresh(&model->absent));
    const ft_memory_ranks ranks = ft_memory_ranks_of(model->memory);
    if (ranks.group != NULL && !ranks.apart) FT_TRY(ft_group_barrier(ranks.group)); // rank 0 has refreshed them
    if (ranks.run_ranks > 1)
        FT_TRY(ft_memory_alloc_common(model->memory, (ranks.apart ? 1 : 2) * (size_t)ranks.run_ranks * (size_t)capacity.reads * ft_data_pass_row_bytes(p),
                                      FT_MEM_COMMUNICATION, "rows of all ranks", &p->dealt));
    if (p->own_positions) FT_TRY(ft_model_hold_positions(model, (ft_capacity){.tokens = 0}, capacity));
    FT_TRY(ft_memory_scope_begin(model->memory, FT_SCOPE_PASS));
    p->in_scope = true;
    FT_TRY(ft_batch_buffers_create(model, capacity, false, &p->buffers));
    FT_TRY(ft_memory_alloc(model->memory, (size_t)capacity.reads * ft_data_pass_row_bytes(p), FT_MEM_ACTIVATIONS,
                           kind == FT_PASS_LOGITS ? "logits" : "rows that the head reads", &p->rows));
    FT_TRY(make_homes(p));
    return ft_model_begin_prediction(model, capacity);
}

ft_status ft_data_pass_close(ft_data_pass *p, ft_status outcome) {
    ft_memory *memory = p->model->memory;
    ft_model_end_prediction(p->model);
    free_homes(p);
    ft_memory_free(memory, p->rows);
    ft_batch_buffers_free(&p->buffers);
    if (p->in_scope) outcome = ft_memory_scope_end(memory, outcome);
    ft_memory_free(memory, p->dealt); // which was there before it
    if (p->own_positions) ft_model_release_positions(p->model);
    ft_memory_trim(memory);
    return outcome;
}

ft_status ft_data_pass_rehearse(ft_model *model, ft_capacity capacity, ft_pass_kind kind) {
    ft_data_pass p;
    ft_status status = ft_data_pass_open(model, capacity, kind, &p);
    if (status == FT_OK) {
        ft_batch *batch = &p.buffers.device;
        batch->tokens = capacity.tokens;
        batch->sequences = capacity.sequences;
        batch->longest = capacity.longest;
        batch->reads = capacity.reads;
        batch->most_reads = capacity.most_reads;
        status = compute(&p, batch);
    }
    return ft_data_pass_close(&p, status);
}
