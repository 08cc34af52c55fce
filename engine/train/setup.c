// setup.c - from a configuration to a trainer that can take its first step.
#include "engine/data/folds.h"
#include "engine/data/holdout.h"
#include "engine/hub/cache.h"
#include "engine/io/files.h"
#include "engine/io/weights.h"
#include "engine/model/known_models.h"
#include "engine/model/staging.h"
#include "engine/train/active_rows.h"
#include "engine/train/data_report.h"
#include "engine/train/device_choice.h"
#include "engine/train/eval_budget.h"
#include "engine/train/fit.h"
#include "engine/train/observer.h"
#include "engine/train/stages.h"
#include "engine/train/task.h"
#include "engine/train/trainer.h"
#include "engine/train/update.h"

#include "kernels/devices.h"
#include "kernels/log.h"
#include "kernels/stop.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *ft_split_name(ft_split split) {
    static const char *const names[FT_SPLITS] = {"train", "validation", "test"};
    return names[split];
}

// Refuses what can never be: memory beside that of a device which was asked for by name and has none of its own.
static ft_status check_offload(const ft_config *c, const ft_device *device) {
    const bool optimizer = (c->memory.offload & FT_OFFLOAD_OPTIMIZER) != 0, inputs = (c->memory.offload & FT_OFFLOAD_ACTIVATIONS) != 0;
    const char *name = ft_offload_name(optimizer, inputs);
    if ((!optimizer && !inputs) || ft_device_queues(device)) return FT_OK;
    if (strcmp(c->device.name, "auto") == 0)
        return ft_info("memory.offload=%s: the memory of the %s is the host's anyway", name, device->name), FT_OK;
    ft_fail(FT_INVALID, "memory.offload", "%s needs a device with memory of its own, and this run is computed on the %s", name, device->name);
    ft_hint("set memory.offload=none, or device.name=cuda where there is one");
    return FT_INVALID;
}

static ft_status open_device(ft_trainer *t, const ft_trainer_source *source) {
    const ft_config *c = t->room.config;
    t->room.device = source->device;
    if (t->room.device == NULL) {
        char why[FT_DEVICE_WHY], name[24];
        FT_TRY(ft_choose_device(c, name));
        FT_TRY(ft_device_open(name, (int)c->device.threads, c->device.isa, &t->room.device, why));
        if (why[0] != '\0') ft_info("device     device.name=auto is the CPU: %s", why);
        FT_TRY(ft_gemm_tuning_apply(c, t->room.device, t->room.gemm_tuning));
    }
    if (source->like == NULL) FT_TRY(ft_step_graphs_check(c, t->room.device)); // of a plan too, which is of what a run would do
    if (source->like == NULL) FT_TRY(check_offload(c, t->room.device));
    ft_memory_options options = {.allocator = ft_allocator_options_of(c, t->room.device, source->limit)};
    return ft_memory_create_with(t->room.device, &options, &t->room.memory);
}

static ft_status check_folds(const ft_config *c) {
    if (c->data.fold > c->data.folds)
        return ft_fail(FT_INVALID, "data.fold", "there are %lld folds (data.folds), got %lld", (long long)c->data.folds, (long long)c->data.fold);
    if (c->data.folds == 0 && c->data.validation_split == 0 && c->data.group[0] != '\0')
        return ft_fail(FT_INVALID, "data.group", "groups are kept together in folds, and neither data.folds nor data.validation_split is set");
    if (c->data.validation_split > 0 && (c->data.folds > 0 || c->data.validation[0] != '\0'))
        return ft_fail(FT_INVALID, "data.validation_split", "there is a validation set already (%s)", c->data.folds > 0 ? "data.folds" : "data.validation");
    return FT_OK;
}

// One part of the training file becomes the validation set: a fold, or what data.validation_split holds out. Which one is data.fold; of a plan for all folds it is the first.
static ft_status cut_folds(ft_trainer *t) {
    const ft_config *c = t->room.config;
    ft_split_data *train = &t->job.split[FT_SPLIT_TRAIN], *validation = &t->job.split[FT_SPLIT_VALIDATION];
    if (c->data.folds == 0 && c->data.validation_split == 0) return FT_OK;
    size_t rows = (size_t)train->table.rows;
    int32_t *fold_of = ft_arena_alloc(&t->job.arena, rows * sizeof *fold_of);
    train->source_row = ft_arena_alloc(&t->job.arena, rows * sizeof *train->source_row);
    validation->source_row = ft_arena_alloc(&t->job.arena, rows * sizeof *validation->source_row);
    if (!fold_of || !train->source_row || !validation->source_row) return FT_NO_MEMORY;
    uint64_t seed = c->train.data_seed != FT_AUTO ? (uint64_t)c->train.data_seed : 42; // the same for all of train.seeds
    const ft_table *table = &train->table;
    if (c->data.folds > 0) FT_TRY(ft_folds_assign(table->label, table->id, table->rows, (int)c->data.folds, seed, "data.folds", fold_of));
    else FT_TRY(ft_holdout_assign(table->label, table->id, table->rows, c->data.validation_split, seed, "data.validation_split", fold_of));
    int fold = c->data.fold > 0 ? (int)c->data.fold - 1 : 0;
    FT_TRY(ft_table_split(&train->table, fold_of, fold, &validation->table, train->source_row, validation->source_row));
    validation->path = train->path;
    validation->present = true;
    return FT_OK;
}

static ft_status read_tables(ft_trainer *t) {
    const ft_config *c = t->room.config;
    const char *paths[FT_SPLITS] = {c->data.train, c->data.validation, c->data.test};
    if (paths[FT_SPLIT_TRAIN][0] == '\0') {
        ft_fail(FT_INVALID, "data.train", "no training data given");
        ft_hint("set data.train to a TSV, CSV or JSON lines file, for example data.train=train.tsv");
        return FT_INVALID;
    }
    FT_TRY(check_folds(c));
    for (int s = 0; s < FT_SPLITS; s++) {
        ft_split_data *d = &t->job.split[s];
        if (paths[s][0] == '\0') continue;
        d->path = paths[s];
        const ft_table_request request = {.format = c->data.format, .text = c->data.text_column, .pair = c->data.text_pair,
                                          .label = c->data.label_column, .empty_labels = ft_task_spec_of(c->train.task)->empty_labels,
                                          .id = s == FT_SPLIT_TRAIN && c->data.group[0] != '\0' ? c->data.group : NULL};
        FT_TRY(ft_table_read(d->path, &request, &d->table));
        d->present = true;
    }
    return cut_folds(t);
}

static ft_status tokenise(ft_trainer *t) {
    const char *cache;
    FT_TRY(ft_cache_directory(t->room.config->data.cache_dir, &t->job.arena, &cache));
    for (int s = 0; s < FT_SPLITS; s++) {
        ft_split_data *d = &t->job.split[s];
        if (!d->present) continue;
        FT_TRY(ft_dataset_build(&d->table, d->path, t->job.tokenizer, t->job.max_length, &t->job.long_text, &t->job.labels, cache, &d->data,
                                &d->from_cache));
        FT_TRY(ft_fit_types(&d->data, &t->job.model_config, t->room.config->model.path));
        char windows[48] = "";
        if (d->data.example != NULL) snprintf(windows, sizeof windows, " in %lld windows", (long long)d->data.sequences);
        ft_info("%-10s %lld examples%s, %lld tokens%s  %s", ft_split_name((ft_split)s), (long long)d->data.examples, windows,
                (long long)d->data.tokens, d->from_cache ? ", from cache" : "", d->path);
    }
    FT_TRY(ft_task_set_decision(t));
    return t->job.without_data ? FT_OK : ft_task_set_loss(t);
}

static void list_names(const char *what, int count, const char *const *names) {
    if (count == 0) return;
    char line[400];
    size_t at = 0;
    line[0] = '\0';
    for (int i = 0; i < count && at < sizeof line - 64; i++)
        at += (size_t)snprintf(line + at, sizeof line - at, "%s%s", i ? ", " : "", names[i]);
    ft_info("           %s: %s%s", what, line, at >= sizeof line - 64 ? ", ..." : "");
}

static void announce_model(const ft_trainer *t) {
    const ft_parameters *p = &t->room.model.parameters;
    ft_info("model      %s, %d layers, hidden %lld, %.1fM parameters, %.1fM trained  %s",
            t->job.model_config.model_type, t->room.model.layers, (long long)t->room.model.hidden,
            (double)p->real_total / 1e6, (double)p->real_trainable / 1e6, t->job.model_dir);
    list_names("newly drawn", t->room.load_report.drawn_count, t->room.load_report.drawn);
    list_names("not used", t->room.load_report.ignored_count, t->room.load_report.ignored);
}

ft_step_sizes ft_trainer_sizes(const ft_trainer *t) {
    const ft_run_plan *p = &t->room.plan;
    return (ft_step_sizes){.train = p->capacity,
                           .whole_steps = p->whole_steps,
                           .predict = t->room.eval_capacity,
                           .loss = t->job.loss,
                           .word_rows = t->job.word_rows,
                           .examples = p->effective_batch < p->sequences ? p->effective_batch : p->sequences};
}

bool ft_trainer_evaluates(const ft_trainer *t, ft_split split) {
    if (split == FT_SPLIT_TRAIN || !t->job.split[split].present) return false;
    return split == FT_SPLIT_TEST || t->room.config->eval.strategy != FT_EVAL_NO;
}

// Everything that comes from data files, or its worst case.
static ft_status open_data(ft_trainer *t, const ft_trainer_source *source) {
    const ft_config *config = t->room.config;
    if (source->like != NULL) {
        for (int s = 0; s < FT_SPLITS; s++) t->job.split[s].present = source->like->job.split[s].present;
        t->job.labels.count = source->like->job.labels.count;
        t->job.task = source->like->job.task;
        t->job.loss = source->like->job.loss;
        t->job.max_length = source->like->job.max_length;
        return FT_OK;
    }
    if (source->without_data) {
        t->job.labels.count = source->labels > 0 ? source->labels : (int)t->job.model_config.num_labels;
        FT_TRY(ft_task_assume(t));
        FT_TRY(ft_task_set_loss(t));
        return ft_fit_max_length(NULL, &t->job.model_config, config->data.max_length, FT_AUTO, &t->job.max_length);
    }
    FT_TRY(ft_fit_open_tokenizer(t->job.tokenizer_dir, config->model.tokenizer_rules, &t->job.tokenizer));
    FT_TRY(ft_fit_vocabulary(t->job.tokenizer, &t->job.model_config, t->job.tokenizer_dir));
    FT_TRY(ft_fit_truncation(config->data.truncation, "head", &t->job.long_text));
    FT_TRY(read_tables(t));
    FT_TRY(ft_task_choose(t));
    return ft_fit_max_length(t->job.tokenizer, &t->job.model_config, config->data.max_length, FT_AUTO, &t->job.max_length);
}

static ft_status plan_steps(ft_trainer *t, const ft_trainer_source *source) {
    if (source->like != NULL && !source->other_steps) {
        t->room.plan = source->like->room.plan;
        t->room.eval_capacity = source->like->room.eval_capacity;
        t->room.eval_limits = source->like->room.eval_limits;
        t->room.eval_extra = source->like->room.eval_extra;
        return FT_OK;
    }
    const ft_trainer *from = source->like != NULL ? source->like : t;
    if (source->without_data) ft_run_plan_worst(t->room.config, t->job.max_length, &t->room.plan);
    else FT_TRY(ft_run_plan_make(t->room.config, &from->job.split[FT_SPLIT_TRAIN].data, &t->room.plan));
    if (ft_step_graphs_wanted(t->room.config, t->room.device)) ft_run_plan_fill_up(&t->room.plan);
    return ft_eval_budget(t, from);
}

static void announce_fitting(const ft_trainer *t) {
    char text[FT_FITTING_TEXT], needs[24], limit[24];
    const ft_autofit *a = &t->room.autofit;
    ft_info("autofit    %s would need %s, and %s may be taken", ft_fitting_text(&a->ideal, text), ft_bytes_text(a->ideal.reserved, needs),
            ft_bytes_text(a->limit, limit));
    ft_info("           chosen: %s, a step predicted to take %.2f times as long", ft_fitting_text(&a->choice, text),
            a->choice.step_seconds / a->ideal.step_seconds);
    if (a->next.reserved > 0)
        ft_info("           next best: %s, %.2f times", ft_fitting_text(&a->next, text), a->next.step_seconds / a->ideal.step_seconds);
}

ft_status ft_trainer_plan_steps(ft_trainer *t) { return plan_steps(t, &(ft_trainer_source){.device = NULL}); }

// device.name = auto: a CUDA device that the run does not fit is left for the CPU. *reserved: there, at once.
static ft_status forecast(ft_trainer *t, bool *reserved) {
    char needs[24], there[24];
    ft_error error;
    *reserved = false;
    ft_status status = ft_trainer_forecast(t);
    const bool leaves = status == FT_NO_MEMORY && t->room.device->place[0] != '\0' && strcmp(t->job.config->device.name, "auto") == 0;
    if (!leaves || ft_run_observer_of() != NULL) return status;
    ft_error_save(&error);
    size_t limit = ft_memory_limit(t->room.memory), refused = t->room.refusal.reserved + t->room.refusal.bytes;
    *reserved = ft_trainer_move(t, "cpu") == FT_OK;
    ft_error_restore(&error);
    if (!*reserved) return status;
    ft_error_clear();
    ft_info("device     device.name=auto is the CPU: %s and more are needed, and %s may be taken on the CUDA device",
            ft_bytes_text(refused, needs), ft_bytes_text(limit, there));
    return FT_OK;
}

static bool offloads(const ft_trainer *t) {
    return ft_offloads_optimizer(t->room.config, t->room.device) || ft_offloads_inputs(t->room.config, t->room.device);
}

// What was asked to be on the host fits there, as far as that is known. What autofit puts there does.
static ft_status check_host(ft_trainer *t) {
    char needs[24], there[24];
    const size_t available = ft_cpu_available_bytes();
    if (!offloads(t) || available == 0 || t->room.planned.peak_pinned <= available) return FT_OK;
    if (t->room.config->device.wait && ft_run_observer_of() == NULL)
        return FT_OK; // what others hold comes back: admission knows what never can be
    ft_fail(FT_NO_MEMORY, "memory.offload", "%s of pinned memory of the host are needed, and %s are available",
            ft_bytes_text(t->room.planned.peak_pinned, needs), ft_bytes_text(available, there));
    t->room.refusal = (ft_memory_refusal){.bytes = t->room.planned.peak_pinned, .limit = available, .planned = true};
    ft_hint("memory.offload=none keeps everything on %s, auto puts on the host only what fits there%s", t->room.device->name,
            ft_offloads_inputs(t->room.config, t->room.device) ? "; a smaller train.micro_batch sends less of activations there" : "");
    return FT_NO_MEMORY;
}

static ft_status announce(ft_trainer *t, bool *reserved) {
    char allocated[24], reserved_text[24], limit[24];
    FT_TRY(ft_data_report_splits(t));
    ft_status status = forecast(t, reserved);
    if (status == FT_OK) status = check_host(t);
    if (status == FT_NO_MEMORY) ft_hint("this was found by planning the run: nothing was started");
    FT_TRY(status);
    if (t->room.autofit.chosen) announce_fitting(t);
    ft_info("memory     peak of %s allocated, %s reserved planned, %s may be taken",
            ft_bytes_text(t->room.planned.peak_allocated, allocated),
            ft_bytes_text(t->room.planned.peak_reserved, reserved_text),
            ft_bytes_text(t->room.autofit.chosen ? t->room.autofit.limit : ft_memory_limit(t->room.memory), limit));
    if (offloads(t))
        ft_info("           and %s of pinned memory of the host, for %s and copies", ft_bytes_text(t->room.planned.peak_pinned, allocated),
                ft_offload_text(ft_offloads_optimizer(t->room.config, t->room.device), ft_offloads_inputs(t->room.config, t->room.device)));
    if (t->room.eval_extra > 0) ft_info("           %s of them for evaluation alone", ft_bytes_text(t->room.eval_extra, allocated));
    ft_stage_log(t, "Run Start");
    return FT_OK;
}

// Where the model and its tokenizer come from: a directory, or a name whose snapshot is in the cache. Without weights a model
// can be planned by name alone; trained, it needs its files, or random weights and somebody else's tokenizer.
static ft_status find_model(ft_trainer *t, bool without_weights) {
    const ft_config *c = t->room.config;
    const char *found;
    if (c->model.path[0] == '\0') {
        ft_fail(FT_INVALID, "model.path", "no model given");
        ft_hint("set model.path to a Hugging Face model directory (config.json, model.safetensors, vocab.txt or tokenizer.json),"
                " or to a name that `ftengine pull` has fetched");
        return FT_INVALID;
    }
    FT_TRY(ft_hub_find(c->model.path, &t->job.arena, &found));
    t->job.model_dir = t->job.tokenizer_dir = found != NULL ? found : c->model.path;
    if (found != NULL) {
        if (found != c->model.path && !without_weights) ft_info("model      %s: from the cache", c->model.path);
        bool needed = !without_weights && c->model.init == FT_INIT_PRETRAINED;
        return needed && !ft_weights_exist(found) ? ft_hub_no_weights(c->model.path, found) : FT_OK;
    }
    const ft_known_model *known = ft_path_exists(c->model.path) ? NULL : ft_known_model_find(c->model.path);
    if (known != NULL && c->model.init == FT_INIT_RANDOM && c->model.stand_in_tokenizer[0] != '\0') {
        t->job.tokenizer_dir = c->model.stand_in_tokenizer;
        if (!without_weights)
            ft_warn("random weights in the shape of %s and the tokenizer of %s: good for memory and speed, the accuracy means nothing",
                    known->name, t->job.tokenizer_dir);
        return FT_OK;
    }
    if (without_weights && known != NULL) return FT_OK;
    ft_hub_not_found(c->model.path);
    if (known != NULL)
        ft_hint("to try %s without a download: model.init=random model.stand_in_tokenizer=DIRECTORY of a tokenizer", known->name);
    return FT_INVALID;
}

ft_status ft_trainer_open(const ft_config *config, const ft_trainer_source *source, ft_trainer *t) {
    memset(t, 0, sizeof *t);
    t->room.config = t->job.config = config;
    t->room.job = &t->job;
    t->step.room = &t->room;
    t->job.without_data = source->without_data;
    t->job.without_weights = source->without_weights;
    t->step.state.best_step = -1;
    t->step.state.loss_scale = (double)ft_update_first(config).loss_scale;
    t->step.order_epoch = -1;
    t->dir_lock = -1;
    FT_TRY(open_device(t, source)); // first: from here on `source` owns nothing
    FT_TRY(find_model(t, source->without_weights));
    FT_TRY(ft_model_config_load(t->job.model_dir, &t->job.model_config));
    FT_TRY(open_data(t, source));
    ft_info("device     %s", t->room.device->description);
    if (source->like == NULL) FT_TRY(tokenise(t));
    if (source->like == NULL) FT_TRY(ft_trainer_choose_rows(t));
    else t->job.word_rows = source->like->job.word_rows;
    if (ft_stop_signal() != 0) return ft_fail(ft_stop_status(ft_stop_signal()), NULL, "stopped before the first step");
    FT_TRY(plan_steps(t, source));
    if (config->memory.timeline && !source->without_weights) FT_TRY(ft_memory_trace(t->room.memory));
    if (!source->without_weights) { // before anything is taken
        bool reserved;
        FT_TRY(announce(t, &reserved));
        if (!reserved) FT_TRY(ft_trainer_reserve(t, true));
    }
    FT_TRY(ft_ladder_climb(t, FT_LADDER_LAYOUT, NULL, NULL));
    announce_model(t);
    return FT_OK;
}

ft_status ft_trainer_close(ft_trainer *t) {
    ft_trainer_drop_layout(t);
    ft_trainer_drop_state(t);
    free(t->room.carried.values);
    ft_absent_rows_free(&t->room.carried.absent);
    json_decref(t->earlier_devices);
    ft_status status = ft_memory_destroy(t->room.memory);
    ft_ledger_close(t->room.host_reservation);
    ft_ledger_close(t->room.reservation); // what was reserved is given back by now; it asks the device, which is open still
    ft_device_close(t->room.device);
    for (int s = 0; s < FT_SPLITS; s++) {
        ft_dataset_free(&t->job.split[s].data);
        ft_table_free(&t->job.split[s].table);
    }
    ft_metrics_free(&t->test_metrics);
    ft_tokenizer_close(t->job.tokenizer);
    ft_word_rows_free(&t->job.own_word_rows);
    ft_model_config_free(&t->job.model_config);
    free(t->step.order);
    if (t->metrics_file != NULL) fclose(t->metrics_file);
    if (t->dir_lock >= 0) close(t->dir_lock);
    ft_arena_free(&t->room.arena);
    ft_arena_free(&t->job.arena);
    ft_arena_free(&t->arena);
    memset(t, 0, sizeof *t);
    return status;
}
