// classifier_load.c - what a saved model's process will hold, known before its weights are read; the weights; and a pass over texts.
#include "engine/commands/commands.h"

#include "base/heap.h"
#include "base/log.h"
#include "engine/files/weights.h"
#include "engine/memory/process.h"
#include "engine/model/adapter_files.h"
#include "engine/model/mapped_files.h"
#include "engine/model/model_files.h"
#include "engine/train/fit/prediction.h"
#include "engine/train/job/fit.h"
#include "engine/train/job/run_plan.h"
#include "engine/train/job/task.h"
#include "engine/train/room/observer.h"
#include "engine/train/step/attention_path.h"
#include "engine/train/step/rehearsal.h"
#include "kernels/devices/devices.h"

#include <string.h>
#include <unistd.h>

static ft_status check_drawn(const ft_classifier *c, const ft_load_report *report) {
    const ft_parameters *p = &c->room.model.parameters;
    const bool adapter = c->weights != c->path; // which brings what is trained
    for (int i = 0; i < report->drawn_count; i++) {
        if (adapter && p->list[ft_parameters_find(p, report->drawn[i])].trainable) continue;
        ft_fail(FT_INVALID, c->path, adapter ? "%s is missing in the adapter and in its model" : "the model has no trained classifier (%s is missing)",
                report->drawn[i]);
        if (adapter) ft_hint("it was drawn when the adapter was trained, and not saved: PEFT saves what modules_to_save names");
        else ft_hint("train one: ftengine train model.path=%s data.train=...", c->path);
        return FT_INVALID;
    }
    return FT_OK;
}

static ft_status read_weights(ft_classifier *c) {
    ft_model *model = &c->room.model;
    ft_attention_tell(c->room.device, &c->config, c->options.train.precision);
    FT_TRY(ft_model_create(c->room.memory, &c->config, &c->options, c->labels.count, model));
    FT_TRY(ft_model_set_loss(model, &(ft_loss){.kind = ft_task_loss(c->task->id)}));
    ft_load_report report;
    model->ignore_mismatched_sizes = c->rows || c->weights != c->path; // the base's head may have been for other labels
    FT_TRY(ft_model_load(model, c->weights, c->config.initializer_range, 0, &c->arena, &report));
    if (!c->rows) FT_TRY(check_drawn(c, &report));
    return c->weights != c->path ? ft_model_load_adapter(model, c->path) : FT_OK;
}

// Where the files are small no micro-batch is larger than all of their texts.
static void bound_by_input(ft_classifier *c, size_t bytes) {
    const size_t most = 2 * bytes + 1024; // tokens; few are shorter than a byte, and nothing but more micro-batches would follow
    if (bytes > 0 && c->limits.max_tokens > 0 && most < (size_t)c->limits.max_tokens) c->limits.max_tokens = (int64_t)most;
}

// What is read of files of weights: mapped, so that it is in addresses alone.
static size_t mapped_bytes(const ft_classifier *c) {
    return ft_weights_bytes(c->weights) + (c->weights != c->path ? ft_weights_bytes(c->path) : 0);
}

// Who computes and writes nothing into the model reads its weights where they lie (memory.map_weights).
static void map_weights(ft_classifier *c, const ft_classifier_work *work) {
    ft_error present;
    if (!work->computes || c->files != NULL || !ft_model_may_map(c->options.memory.map_weights, ft_weights_bytes(c->weights))) return;
    ft_error_save(&present); // what is wrong with the files is said by who loads them
    if (ft_weights_open(c->weights, &c->files) != FT_OK) c->files = NULL;
    ft_error_restore(&present);
    c->config.files = c->files;
    c->config.only_read = c->weights == c->path; // else an adapter has parts of its own for it
}

ft_status ft_classifier_load(ft_classifier *c, const ft_classifier_work *work) {
    if (c->loaded) return FT_OK;
    map_weights(c, work);
    bound_by_input(c, work->data == NULL ? work->input : 0);
    ft_heap_trim();
    c->held.data = ft_process_held(getpid());
    ft_prediction_work those = {.model = &c->config,
                                .labels = c->labels.count,
                                .loss = {.kind = ft_task_loss(c->task->id)},
                                .data = work->data,
                                .max_length = c->max_length,
                                .by_row = ft_task_has_tokens(c->task) || ft_task_has_spans(c->task) || c->config.all_rows,
                                .rows = c->rows,
                                .generator = work->generator,
                                .computes = work->computes && (work->data == NULL || work->data->examples > 0),
                                .limits = c->limits,
                                .held = c->held,
                                .host = work->host,
                                .files = work->files,
                                .mapped = mapped_bytes(c) + work->mapped};
    ft_status status = ft_prediction_forecast(&c->room, &those, &c->planned);
    if (status == FT_NO_MEMORY) ft_hint("this was found by planning it: nothing was computed");
    FT_TRY(status);
    c->limits = those.limits;
    c->generator = those.generator;
    if (work->only_judge) return FT_OK;
    ft_classifier_watch_end();
    char text[24];
    ft_detail("memory     %s for the whole process", ft_bytes_text(c->room.host.peak, text));
    FT_TRY(ft_room_reserve(&c->room, true));
    FT_TRY(read_weights(c));
    c->loaded = true;
    return FT_OK;
}

void ft_classifier_watch(const ft_classifier *c) {
    ft_host_limits limits;
    ft_run_limits(&limits);
    ft_host_watch(&c->options, &limits);
}

void ft_classifier_watch_end(void) { ft_heap_watch_end(); }

// ---- a pass -------------------------------------------------------------------------------------------------------------

// Everything that a pass takes, and what passes before it took. When that is refused in spite of the plan, half as many tokens at once will
// do, down to the longest text (memory.on_oom): logits do not depend on it.
static ft_status lay_out(ft_classifier *c, const ft_dataset *data) {
    while (data->examples > 0) {
        const ft_capacity those = ft_capacity_union(ft_eval_capacity(data, c->limits), c->planned), needed = ft_capacity_union(those, c->laid);
        if (memcmp(&needed, &c->laid, sizeof needed) == 0) return FT_OK;
        ft_memory_drop_layout(c->room.memory);
        ft_step_sizes sizes = {.loss = c->room.model.loss};
        *(c->rows ? &sizes.trunk : &sizes.predict) = needed;
        ft_status status = ft_lay_out_steps(c->room.memory, &c->config, &c->options, c->room.model.labels, &sizes);
        c->laid = status == FT_OK ? needed : (ft_capacity){.tokens = 0};
        ft_memory_refusal refusal;
        const bool smaller = c->limits.max_tokens > ft_eval_capacity(data, c->limits).longest && c->options.memory.on_oom == FT_OOM_LADDER;
        if (status != FT_NO_MEMORY || !smaller || !ft_memory_refused(c->room.memory, &refusal)) FT_TRY(status);
        else {
            ft_memory_trim(c->room.memory);
            c->planned = (ft_capacity){.tokens = 0};
            c->limits.max_tokens /= 2;
            ft_detail("out of memory, %s were refused: %lld tokens at once", refusal.site, (long long)c->limits.max_tokens);
        }
    }
    return FT_OK;
}

ft_status ft_classifier_lay_out(ft_classifier *c, const ft_dataset *data) {
    FT_TRY(ft_fit_types(data, &c->config, c->path));
    FT_TRY(ft_fit_last_tokens(data, &c->config, c->path));
    return lay_out(c, data);
}

ft_status ft_classifier_predict(ft_classifier *c, const ft_dataset *data, ft_logits *logits, float *losses,
                                ft_predict_progress progress, void *context) {
    FT_TRY(ft_classifier_lay_out(c, data));
    ft_window_pooling pooling = c->options.eval.window_pooling;
    if (pooling == FT_POOLING_AUTO) pooling = c->settings.window_pooling;
    FT_TRY(ft_predict_dataset(&c->room.model, c->task, data, c->limits, c->laid, pooling, logits, losses, progress, context));
    if (c->settings.temperature != 1) ft_logits_divide(logits, c->settings.temperature);
    return FT_OK;
}
