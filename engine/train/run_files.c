// run_files.c - what a run writes into its directory: its configuration, its line-by-line log, the best model, the predictions.
#include "engine/metrics/places.h"
#include "engine/data/picture_set.h"
#include "engine/data/question_set.h"
#include "engine/train/run_dir.h"
#include "engine/metrics/decision.h"
#include "engine/train/room/observer.h"
#include "engine/train/job/task.h"
#include "engine/train/ladder.h"
#include "engine/train/trainer.h"
#include "engine/train/step/update.h"

#include "base/files.h"
#include "base/json/json.h"
#include "base/log.h"
#include "engine/model/adapter_files.h"
#include "engine/model/spec/adapter_config.h"
#include "engine/model/spec/settings.h"
#include "engine/model/state/builder.h"
#include "engine/model/state/shards.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

ft_status ft_run_dir_open(ft_trainer *t) {
    if (ft_trainer_leads(t)) FT_TRY(ft_run_dir_take(t->room.config, &t->arena, &t->dir, &t->dir_lock));
    return t->room.ranks != NULL ? ft_ranks_path(t->room.ranks, &t->arena, &t->dir) : FT_OK;
}

ft_status ft_run_write_config(ft_trainer *t) {
    if (!ft_trainer_leads(t)) return FT_OK;
    char *path = ft_path_join(&t->arena, t->dir, "config.ini");
    if (path == NULL) return FT_NO_MEMORY;
    ft_atomic_file file;
    FT_TRY(ft_atomic_open(&file, path));
    ft_status status = ft_config_write(t->job.config, true, true, file.stream);
    if (status == FT_OK) return ft_atomic_commit(&file);
    ft_error_where_default("%s", path);
    ft_atomic_abort(&file);
    return status;
}

ft_status ft_run_log_open(ft_trainer *t) {
    const char *name = ft_trainer_leads(t) ? "train.log" : ft_arena_format(&t->arena, "rank-%d.log", t->room.rank);
    const char *path = name != NULL ? ft_path_join(&t->arena, t->dir, name) : NULL;
    if (path == NULL) return FT_NO_MEMORY;
    ft_log_copy_to(t->log, path);
    return FT_OK;
}

// ---- metrics.jsonl ----------------------------------------------------------------------------------------------------

// Writes one line and frees the object.
static ft_status append_line(ft_trainer *t, json_t *line) {
    if (!ft_trainer_leads(t)) return json_decref(line), FT_OK;
    char *text = ft_json_line(line);
    if (text != NULL) ft_run_track_line(t, line);
    json_decref(line);
    if (text == NULL) return FT_NO_MEMORY;
    int written = fprintf(t->metrics_file, "%s\n", text);
    free(text);
    if (written < 0 || fflush(t->metrics_file) != 0)
        return ft_fail_errno(FT_FAILED, errno, "metrics.jsonl", "cannot write in %s", t->dir);
    t->step.state.metrics_bytes += written;
    ft_run_alive(t->room.memory, t->step.state.step, t->room.plan.total_steps, true);
    return FT_OK;
}

static json_t *figure(double value) { return ft_json_rounded(value, 9); }
static double epoch_of(const ft_trainer *t) { return (double)t->step.state.step / (double)t->room.plan.steps_per_epoch; }

ft_status ft_run_log_refusal(ft_trainer *t, const ft_ladder_event *e) {
    return append_line(t, json_pack("{s:i, s:I, s:o, s:{s:s, s:I, s:I, s:s}}", "format_version", 1, "step",
                                    (json_int_t)t->step.state.step, "epoch", figure(epoch_of(t)), "out_of_memory",
                                    "site", e->site, "requested_bytes", (json_int_t)e->bytes, "reserved_bytes",
                                    (json_int_t)e->reserved, "action", e->action));
}

// Lines that the checkpoint counts on may be gone: to cut there would fill the file with zeros. What is left is kept, in whole lines.
static void count_what_is_left(ft_trainer *t, const char *path) {
    const int file = fileno(t->metrics_file);
    int64_t *bytes = &t->step.state.metrics_bytes;
    struct stat st;
    char last;
    if (fstat(file, &st) != 0 || st.st_size >= *bytes) return;
    ft_warn("%s has %lld bytes, and had %lld at the checkpoint: lines of it are gone", path, (long long)st.st_size, (long long)*bytes);
    for (*bytes = st.st_size; *bytes > 0 && (pread(file, &last, 1, *bytes - 1) != 1 || last != '\n');) --*bytes;
}

ft_status ft_run_metrics_open(ft_trainer *t) {
    if (!ft_trainer_leads(t)) return FT_OK;
    char *path = ft_path_join(&t->arena, t->dir, "metrics.jsonl");
    if (path == NULL) return FT_NO_MEMORY;
    t->metrics_file = fopen(path, "a+");
    if (t->metrics_file == NULL) return ft_fail_errno(FT_FAILED, errno, path, "cannot open");
    count_what_is_left(t, path);
    if (ftruncate(fileno(t->metrics_file), t->step.state.metrics_bytes) != 0)
        return ft_fail_errno(FT_FAILED, errno, path, "cannot cut at the checkpoint's step");
    for (int i = 0; i < t->ladder.count; i++) FT_TRY(ft_run_log_refusal(t, &t->ladder.events[i])); // of the start
    return FT_OK;
}

ft_status ft_run_log_train(ft_trainer *t) {
    if (t->step.state.loss_steps == 0) return FT_OK;
    double loss = t->step.state.loss_sum / (double)t->step.state.loss_steps;
    double seconds = t->step.state.seconds_train - t->logged_seconds;
    double rate = seconds > 0 ? (double)(t->step.state.tokens - t->logged_tokens) / seconds : 0;
    json_t *line = json_pack("{s:i, s:I, s:o, s:o, s:o, s:o, s:o}", "format_version", 1, "step", (json_int_t)t->step.state.step,
                             "epoch", figure(epoch_of(t)), "loss", figure(loss), "learning_rate", figure(t->step.state.learning_rate),
                             "grad_norm", figure(t->step.state.gradient_norm), "tokens_per_second", ft_json_rounded(rate, 5));
    bool failed = line == NULL;
    if (ft_update_scales_loss(t->room.config)) {
        ft_json_put(line, "loss_scale", figure(t->step.state.loss_scale), &failed);
        ft_json_put(line, "skipped_steps", json_integer((json_int_t)t->step.state.skipped_steps), &failed);
    }
    if (failed) {
        json_decref(line);
        return ft_fail_memory(0, "a line of metrics.jsonl");
    }
    t->step.state.loss_sum = 0;
    t->step.state.loss_steps = 0;
    t->logged_tokens = t->step.state.tokens;
    t->logged_seconds = t->step.state.seconds_train;
    t->queueing_share = seconds > 0 ? (t->step.queueing_seconds - t->logged_queueing) / seconds : 0;
    t->logged_queueing = t->step.queueing_seconds;
    ft_progress_log(t, loss);
    return append_line(t, line);
}

ft_status ft_run_log_eval(ft_trainer *t, const ft_metrics *m) {
    json_t *line =
        json_pack("{s:i, s:I, s:o}", "format_version", 1, "step", (json_int_t)t->step.state.step, "epoch", figure(epoch_of(t)));
    bool failed = line == NULL;
    for (int k = 0; k < FT_METRIC_COUNT; k++) {
        char key[48];
        double value = ft_metric_value(m, (ft_metric)k);
        snprintf(key, sizeof key, "eval_%s", ft_metric_name((ft_metric)k));
        if (value == value) ft_json_put(line, key, figure(value), &failed);
    }
    if (!failed) return append_line(t, line);
    json_decref(line);
    return ft_fail_memory(0, "a line of metrics.jsonl");
}

// ---- model/ and predictions.jsonl -------------------------------------------------------------------------------------

// What was trained beside the model, in PEFT's files.
static ft_status save_adapter(ft_trainer *t, const char *dir) {
    const ft_model *m = &t->room.model;
    char *path = ft_path_join(&t->arena, dir, FT_ADAPTER_CONFIG);
    if (path == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_model_save_adapter(&t->room.model, dir));
    return ft_adapter_config_save(path, t->room.config, &t->job.model_config, t->room.config->model.path, m->modules->count, m->modules->names);
}

static ft_status save_weights(ft_trainer *t, const char *dir) {
    const ft_config *c = t->room.config;
    ft_progress_saving saving = {.what = "saving the model"};
    ft_status saved = ft_model_save_weights(&t->room.model, dir, ft_progress_save, &saving);
    if (saving.shown > 0) ft_status_line("%s", "");
    FT_TRY(saved);
    char *config = ft_path_join(&t->arena, dir, "config.json");
    if (config == NULL) return FT_NO_MEMORY;
    const ft_custom_head head = {c->model.head.hidden, c->model.head.activation, t->room.model.head_dropout, c->model.head.pooling};
    const bool custom = ft_custom_head_is(&head);
    FT_TRY(ft_model_config_save(&t->job.model_config, config, t->job.labels.count, t->job.label_names, t->room.model.hidden_dropout,
                                t->room.model.attention_dropout, t->room.model.classifier_dropout, custom ? &head : NULL,
                                ft_task_problem_type(t->job.task->id)));
    return custom ? ft_custom_head_save_loader(t->job.model_config.family, dir) : FT_OK;
}

// A template in place of the model's own goes with what was trained by it, where transformers looks first.
static ft_status save_template(ft_trainer *t, const char *dir) {
    const char *from = t->room.config->data.chat_template;
    char *to = ft_path_join(&t->arena, dir, "chat_template.jinja");
    if (to == NULL) return FT_NO_MEMORY;
    return from[0] != '\0' ? ft_copy_file(from, to) : FT_OK;
}

// What ends a text that the model writes, as its files say.
static ft_status save_ends(ft_trainer *t, const char *dir) {
    static const char name[] = "generation_config.json";
    char *from = ft_path_join(&t->arena, t->job.model_dir, name), *to = ft_path_join(&t->arena, dir, name);
    if (from == NULL || to == NULL) return FT_NO_MEMORY;
    return ft_path_exists(from) ? ft_copy_file(from, to) : FT_OK;
}

static ft_status fill_model_dir(ft_trainer *t, const char *dir) {
    const ft_config *c = t->room.config;
    const bool adapter = c->adapter.type != FT_ADAPTER_NONE;
    char *settings = ft_path_join(&t->arena, dir, "ftengine.json");
    if (settings == NULL) return FT_NO_MEMORY;
    FT_TRY(adapter ? save_adapter(t, dir) : save_weights(t, dir));
    for (const char *const *name = ft_input_files(&t->job.input); *name != NULL; name++) {
        char *from = ft_path_join(&t->arena, t->job.tokenizer_dir, *name), *to = ft_path_join(&t->arena, dir, *name);
        if (from == NULL || to == NULL) return FT_NO_MEMORY;
        FT_TRY(ft_copy_file(from, to));
    }
    if (ft_task_has_language(t->job.task)) FT_TRY(save_template(t, dir));
    if (ft_task_has_language(t->job.task) && !adapter) FT_TRY(save_ends(t, dir)); // an adapter's are its model's
    const char *label = t->job.split[FT_SPLIT_TRAIN].table.label_column;
    ft_model_settings s = {.text_column = t->job.split[FT_SPLIT_TRAIN].table.text_column,
                           .pair_column = t->room.config->data.text_pair,
                           .group_column = t->job.task->grouped ? t->room.config->data.group : "",
                           .label_column = label != NULL ? label : "",
                           .learn = c->data.learn,
                           .chat_variables = c->data.chat_variables,
                           .max_length = t->job.max_length,
                           .truncation = ft_task_truncation(c, t->job.task),
                           .window_pooling = c->eval.window_pooling,
                           .tokenizer_rules = c->model.tokenizer_rules,
                           .task = t->job.task->id,
                           .temperature = t->temperature,
                           .threshold_count = t->threshold != NULL ? ft_threshold_count(&t->job.task->scoring, t->job.labels.count) : 0,
                           .threshold = t->threshold,
                           .label_separator = c->data.label_separator,
                           .label_count = t->job.labels.count,
                           .labels = t->job.labels.names,
                           .head_pooling = c->model.head.pooling,
                           .head_hidden = c->model.head.hidden,
                           .head_activation = c->model.head.activation,
                           .base_storage = c->model.storage,
                           .base_path = adapter ? c->model.path : "",
                           .base_sha256 = adapter ? t->job.base_sha256 : ""};
    FT_TRY(ft_model_settings_save(&s, settings));
    return ft_card_save(t, dir);
}

const char *ft_run_result(const ft_config *config) { return config->adapter.type != FT_ADAPTER_NONE ? "adapter" : "model"; }

static ft_status save_model(ft_trainer *t, void *context) {
    ft_memory_set_phase(t->room.memory, FT_PHASE_SAVE);
    ft_progress_note(t, "saves");
    char *path = ft_path_join(&t->arena, t->dir, ft_run_result(t->room.config));
    if (path == NULL) return FT_NO_MEMORY;
    ft_atomic_dir dir;
    FT_TRY(ft_atomic_dir_open(&dir, path));
    ft_status status = fill_model_dir(t, dir.temporary);
    if (status == FT_OK) return ft_atomic_dir_commit(&dir);
    ft_atomic_dir_abort(&dir);
    return status;
}

ft_status ft_run_save_model(ft_trainer *t) {
    const double before = ft_now();
    ft_status status = ft_shards_collect(&t->room.model.parameters);
    if (status == FT_OK && ft_trainer_leads(t)) status = ft_ladder_climb(t, FT_LADDER_STATE, save_model, NULL);
    ft_shards_release(&t->room.model.parameters);
    if (!ft_trainer_leads(t)) return status;
    ft_deadline_took(&t->deadline.model, before);
    return status;
}

// Of a text with a tag for every word.
static ft_status write_tags(const ft_trainer *t, ft_split split, int64_t example, ft_logits *logits, const ft_tag_set *set, FILE *out) {
    const ft_dataset *data = &t->job.split[split].data;
    const int64_t first = data->first_row[example], rows = data->first_row[example + 1] - first, *row = t->job.split[split].source_row;
    double *p = ft_calloc((size_t)(rows + 1) * (size_t)set->count, sizeof *p, "probabilities");
    if (p == NULL) return FT_NO_MEMORY;
    for (int64_t i = 0; i < rows; i++) ft_softmax(ft_logits_row(logits, first + i), set->count, p + i * set->count);
    const ft_token_answer answer = {.set = set, .names = t->job.label_names, .rows = rows, .word = data->read_word + first, .probability = p};
    bool failed = false;
    json_t *line = json_pack("{s:i, s:s, s:I}", "format_version", 1, "split", ft_split_name(split), "id",
                             (json_int_t)(row != NULL ? row[example] : example));
    ft_token_answer_put_tags(&answer, data->label + first, line, &failed);
    free(p);
    char *text = failed ? NULL : ft_json_line(line);
    json_decref(line);
    if (text == NULL) return ft_fail_memory(0, "a line of predictions.jsonl");
    fprintf(out, "%s\n", text);
    free(text);
    return ferror(out) ? ft_fail_errno(FT_FAILED, errno, "predictions.jsonl", "cannot write in %s", t->dir) : FT_OK;
}

static ft_status write_all_tags(const ft_trainer *t, ft_split split, ft_logits *logits, FILE *out) {
    ft_tag_set set;
    FT_TRY(ft_tag_set_open(t->job.label_names, t->job.labels.count, &set));
    ft_status status = FT_OK;
    for (int64_t i = 0; status == FT_OK && i < t->job.split[split].data.examples; i++) status = write_tags(t, split, i, logits, &set, out);
    ft_tag_set_close(&set);
    return status == FT_OK ? ft_logits_status(logits) : status;
}

// Of a question: what is true, what is said.
static ft_status write_answer(const ft_trainer *t, ft_split split, int64_t i, const ft_found_answers *found, FILE *out) {
    const ft_dataset *data = &t->job.split[split].data;
    const ft_question_set *set = data->questions;
    const int64_t *row = t->job.split[split].source_row;
    const ft_span_answer answer = {.found = found, .passage = ft_question_passage(set, i), .threshold = t->threshold};
    bool failed = false;
    json_t *line = json_pack("{s:i, s:s, s:I}", "format_version", 1, "split", ft_split_name(split), "id", (json_int_t)(row != NULL ? row[i] : i));
    json_t *truth = json_array();
    const char *text = set->text + set->answer[i];
    for (int k = 0; k < set->answers[i]; k++, text += strlen(text) + 1) ft_json_append(truth, json_string(text), &failed);
    ft_json_put(line, "labels", truth, &failed);
    ft_span_answer_put(&answer, line, &failed);
    char *written = failed ? NULL : ft_json_line(line);
    json_decref(line);
    if (written == NULL) return ft_fail_memory(0, "a line of predictions.jsonl");
    fprintf(out, "%s\n", written);
    free(written);
    return ferror(out) ? ft_fail_errno(FT_FAILED, errno, "predictions.jsonl", "cannot write in %s", t->dir) : FT_OK;
}

static ft_status find_answers(const ft_trainer *t, const ft_dataset *data, int64_t i, ft_logits *logits, float **rows, ft_found_answers *found) {
    const ft_answer_rules rules = ft_answer_rules_of(t->room.config, t->threshold != NULL);
    const int64_t first = data->first_row[i], count = data->first_row[i + 1] - first;
    const int outputs = t->job.labels.count;
    float *grown = ft_realloc(*rows, (size_t)(count * outputs) + 1, sizeof *grown, "logits of a question");
    if (grown == NULL) return FT_NO_MEMORY;
    *rows = grown;
    for (int64_t k = 0; k < count; k++) memcpy(grown + k * outputs, ft_logits_row(logits, first + k), (size_t)outputs * sizeof *grown);
    return ft_answers_find(data, i, grown, &rules, found);
}

static ft_status write_all_answers(const ft_trainer *t, ft_split split, ft_logits *logits, FILE *out) {
    const ft_dataset *data = &t->job.split[split].data;
    ft_found_answers found = {.found = NULL};
    float *rows = NULL;
    ft_status status = FT_OK;
    for (int64_t i = 0; status == FT_OK && i < data->examples; i++) {
        status = find_answers(t, data, i, logits, &rows, &found);
        if (status == FT_OK) status = write_answer(t, split, i, &found, out);
    }
    free(rows);
    ft_found_answers_free(&found);
    return status == FT_OK ? ft_logits_status(logits) : status;
}

// One line of predictions.jsonl. keys: ft_answer_keys. p: room for a number an output, twice, and of single precision once.
static ft_status write_prediction(const ft_trainer *t, ft_split split, int64_t example, const float *logits, const char *const *keys,
                                  const ft_places *places, double *p, FILE *out) {
    const ft_task_spec *task = t->job.task;
    const int outputs = t->job.labels.count;
    const ft_dataset *data = &t->job.split[split].data;
    double *value = p + outputs;
    float *target = (float *)(value + outputs);
    const int64_t *row = t->job.split[split].source_row;
    const ft_answer answer = {.outputs = outputs,
                              .names = t->job.label_names,
                              .keys = keys,
                              .threshold = t->threshold,
                              .probability = p,
                              .value = value};
    bool failed = false;
    json_t *line = json_pack("{s:i, s:s, s:I}", "format_version", 1, "split", ft_split_name(split), "id",
                             (json_int_t)(row != NULL ? row[example] : example));
    if (data->pictures != NULL) ft_json_put(line, "file_name", ft_json_text(ft_picture_set_name(data->pictures, example)), &failed);
    if (places->rank != NULL) {
        ft_json_put(line, "query", json_integer(places->query[example]), &failed);
        ft_json_put(line, "rank", json_integer(places->rank[example]), &failed);
    }
    for (int k = 0; k < outputs; k++) value[k] = logits[k];
    if (ft_task_has_classes(task)) task->scoring.probabilities(logits, outputs, p);
    task->put_truth(&answer, data->label != NULL ? data->label[example] : 0,
                    ft_dataset_target(data, example, target), line, &failed);
    if (!failed) return ft_task_write_line(task, &answer, "predicted", false, line, out);
    json_decref(line);
    return ft_fail_memory(0, "a line of predictions.jsonl");
}

// Of a language model: how well it foresees a text, as the mean over the tokens that count.
static ft_status write_all_texts(const ft_trainer *t, ft_split split, ft_logits *logits, FILE *out) {
    const ft_dataset *data = &t->job.split[split].data;
    const int64_t *source = t->job.split[split].source_row;
    for (int64_t i = 0; i < data->examples; i++) {
        const int64_t first = data->first_row[i], tokens = data->first_row[i + 1] - first;
        double sum = 0;
        for (int64_t k = 0; k < tokens; k++) sum += (double)*ft_logits_row(logits, first + k);
        char loss[FT_REAL_TEXT] = "null";
        if (tokens > 0) ft_rounded_text(sum / (double)tokens, 9, loss);
        fprintf(out, "{\"format_version\":1,\"split\":\"%s\",\"id\":%lld,\"tokens\":%lld,\"loss\":%s}\n", ft_split_name(split),
                (long long)(source != NULL ? source[i] : i), (long long)tokens, loss);
        if (ferror(out)) return ft_fail_errno(FT_FAILED, errno, "predictions.jsonl", "cannot write in %s", t->dir);
    }
    return ft_logits_status(logits);
}

static ft_status write_predictions(const ft_trainer *t, ft_split split, ft_logits *logits, FILE *out) {
    if (ft_task_has_tokens(t->job.task)) return write_all_tags(t, split, logits, out);
    if (ft_task_has_spans(t->job.task)) return write_all_answers(t, split, logits, out);
    if (ft_task_has_language(t->job.task)) return write_all_texts(t, split, logits, out);
    ft_arena arena = {0};
    const char *const *keys = NULL;
    double *p = ft_calloc(3 * (size_t)t->job.labels.count, sizeof *p, "probabilities");
    ft_status status = p != NULL ? ft_answer_keys(t->job.label_names, t->job.labels.count, &arena, &keys) : FT_NO_MEMORY;
    ft_places places = {.rank = NULL};
    if (status == FT_OK) status = ft_places_find(&t->job.split[split].data, logits, &places);
    for (int64_t i = 0; status == FT_OK && i < t->job.split[split].data.examples; i++) {
        status = write_prediction(t, split, i, ft_logits_row(logits, i), keys, &places, p, out);
        if (status == FT_OK && ferror(out)) status = ft_fail_errno(FT_FAILED, errno, "predictions.jsonl", "cannot write in %s", t->dir);
    }
    free(p);
    ft_places_free(&places);
    ft_arena_free(&arena);
    return status == FT_OK ? ft_logits_status(logits) : status;
}

// The validation lines of an earlier predictions.jsonl, line by line: the test set's come behind them.
static ft_status copy_validation(const char *path, FILE *out) {
    static const char test[] = "{\"format_version\":1,\"split\":\"test\"";
    if (!ft_path_exists(path)) return FT_OK;
    FILE *old = fopen(path, "re");
    if (old == NULL) return ft_fail_errno(FT_FAILED, errno, path, "cannot open");
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length;
    errno = 0;
    while ((length = getline(&line, &capacity, old)) > 0)
        if (strncmp(line, test, sizeof test - 1) != 0) fwrite(line, 1, (size_t)length, out);
    ft_status status = FT_OK;
    if (errno == ENOMEM) status = ft_fail_memory(0, "a line of predictions.jsonl");
    else if (ferror(old)) status = ft_fail_errno(FT_FAILED, errno, path, "cannot read the file");
    free(line);
    fclose(old);
    return status;
}

ft_status ft_run_save_predictions(ft_trainer *t, ft_split split, ft_logits *logits) {
    if (!ft_trainer_leads(t)) return FT_OK;
    char *path = ft_path_join(&t->arena, t->dir, "predictions.jsonl");
    if (path == NULL) return FT_NO_MEMORY;
    ft_atomic_file file;
    FT_TRY(ft_atomic_open(&file, path));
    ft_status status = split == FT_SPLIT_TEST ? copy_validation(path, file.stream) : FT_OK;
    if (status == FT_OK) status = write_predictions(t, split, logits, file.stream);
    if (status == FT_OK) return ft_atomic_commit(&file);
    ft_atomic_abort(&file);
    return status;
}
