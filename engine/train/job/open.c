// open.c - from a configuration to what is to be learned: model and tokenizer found, texts read and made into sequences.
#include "engine/train/job/job.h"

#include "base/arena.h"
#include "base/files.h"
#include "base/spill.h"
#include "engine/data/order/folds.h"
#include "engine/data/order/holdout.h"
#include "engine/data/picture_feed.h"
#include "engine/data/picture_set.h"
#include "engine/data/pictures/source.h"
#include "engine/data/order/shares.h"
#include "engine/data/tables/formats.h"
#include "engine/files/weights.h"
#include "engine/memory/process.h"
#include "engine/hub/cache.h"
#include "engine/hub/known_models.h"
#include "engine/metrics/entities.h"
#include "engine/model/mapped_files.h"
#include "engine/model/model_files.h"
#include "engine/train/job/active_rows.h"
#include "engine/train/job/features.h"
#include "engine/train/job/fit.h"
#include "engine/train/job/task.h"

#include "base/log.h"
#include "base/stop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *ft_split_name(ft_split split) {
    static const char *const names[FT_SPLITS] = {"train", "validation", "test"};
    return names[split];
}

static bool has_queries(const ft_config *c) { return ft_task_spec_of(c->train.task)->grouped; }
// What data files are read for: train.task, or, where that is auto, what the training file is seen to be for by its beginning.
static const ft_task_spec *wanted_task(const ft_job *job) {
    const ft_config *c = job->config;
    const bool looks = c->train.task == FT_TASK_AUTO && !job->without_data && c->data.train[0] != '\0' && ft_picture_source_is_file(c->data.train);
    return ft_task_spec_of(looks ? ft_file_task(c->data.train, c->data.format) : c->train.task);
}

static ft_status check_precision(const ft_config *c) {
    if (c->train.residual == FT_RESIDUAL_16BIT && !ft_precision_is_half(c->train.precision)) {
        ft_fail(FT_INVALID, "train.residual", "16bit is for train.precision=bf16 or fp16: where all numbers are fp32, so is what adds up from layer to layer");
        ft_hint("set train.residual=fp32, or train.precision=bf16");
        return FT_INVALID;
    }
    if (c->train.precision != FT_PRECISION_INT8) return FT_OK;
    ft_fail(FT_INVALID, "train.precision", "int8 is for eval and predict: nothing is trained in it");
    ft_hint("set train.precision=fp32 or bf16; ftengine predict RUN --data FILE --precision int8");
    return FT_INVALID;
}

static ft_status check_folds(const ft_config *c) {
    if (c->data.fold > c->data.folds)
        return ft_fail(FT_INVALID, "data.fold", "there are %lld folds (data.folds), got %lld", (long long)c->data.folds,
                       (long long)c->data.fold);
    if (c->data.folds == 0 && c->data.validation_split == 0 && c->data.group[0] != '\0' && !has_queries(c))
        return ft_fail(FT_INVALID, "data.group",
                       "groups are kept together in folds, and neither data.folds nor data.validation_split is set");
    if (c->data.validation_split > 0 && (c->data.folds > 0 || c->data.validation[0] != '\0'))
        return ft_fail(FT_INVALID, "data.validation_split", "there is a validation set already (%s)",
                       c->data.folds > 0 ? "data.folds" : "data.validation");
    return FT_OK;
}

// One part of the training file becomes the validation set: a fold, or what data.validation_split holds out. Which one is data.fold; of a plan for all folds it is the first.
static ft_status cut_by(ft_job *job, int32_t *fold_of) {
    const ft_config *c = job->config;
    ft_split_data *train = &job->split[FT_SPLIT_TRAIN], *validation = &job->split[FT_SPLIT_VALIDATION];
    size_t rows = (size_t)train->table.rows;
    train->source_row = ft_spill_calloc(rows, sizeof *train->source_row, "rows of parts");
    validation->source_row = ft_spill_calloc(rows, sizeof *validation->source_row, "rows of parts");
    if (!train->source_row || !validation->source_row) return FT_NO_MEMORY;
    uint64_t seed = c->train.data_seed != FT_AUTO ? (uint64_t)c->train.data_seed : 42; // the same for all of train.seeds
    const ft_table *table = &train->table;
    // No query is on both sides, and no context. Answers are no classes.
    const bool answers = ft_task_has_spans(job->wanted);
    const char *const *label = answers ? NULL : table->label, *const *group = table->id;
    if (answers && c->data.group[0] == '\0') group = table->pair;
    if (table->id == NULL && has_queries(c)) group = table->text;
    if (c->data.folds > 0) FT_TRY(ft_folds_assign(label, group, table->rows, (int)c->data.folds, seed, "data.folds", fold_of));
    else FT_TRY(ft_holdout_assign(label, group, table->rows, c->data.validation_split, seed, "data.validation_split", fold_of));
    int fold = c->data.fold > 0 ? (int)c->data.fold - 1 : 0;
    FT_TRY(ft_table_split(&train->table, fold_of, fold, &validation->table, train->source_row, validation->source_row));
    validation->path = train->path;
    validation->present = true;
    return FT_OK;
}

static ft_status cut_folds(ft_job *job) {
    if (job->config->data.folds == 0 && job->config->data.validation_split == 0) return FT_OK;
    int32_t *fold_of = ft_spill_calloc((size_t)job->split[FT_SPLIT_TRAIN].table.rows, sizeof *fold_of, "parts of a table");
    ft_status status = fold_of != NULL ? cut_by(job, fold_of) : FT_NO_MEMORY;
    ft_spill_free(fold_of);
    return status;
}

static ft_status leave_out_broken(ft_job *job, ft_split_data *d) {
    if (job->config->data.broken_pictures != FT_BROKEN_SKIP || !ft_model_config_reads_pictures(&job->model_config)) return FT_OK;
    FT_TRY(ft_picture_input_leave_out(&job->input, &d->table, d->path, &d->broken));
    return d->table.rows > 0 ? FT_OK : ft_fail(FT_INVALID, d->path, "none of its %lld pictures can be read", (long long)d->broken.count);
}

// A name for the column of a list, and no list.
static ft_status check_image(const ft_job *job) {
    const ft_config *c = job->config;
    if (c->data.image[0] == '\0') return FT_OK;
    for (int s = 0; s < FT_SPLITS; s++)
        if (job->split[s].present && ft_picture_source_is_file(job->split[s].path)) return FT_OK;
    ft_fail(FT_INVALID, "data.image", "there is no column \"%.100s\" in %s: it is no list of pictures", c->data.image, c->data.train);
    ft_hint("it is for CSV, TSV and JSON lines; folders, archives and well-known sets know where their pictures are");
    return FT_INVALID;
}

static ft_status read_tables(ft_job *job) {
    const ft_config *c = job->config;
    const char *column;
    const char *paths[FT_SPLITS] = {c->data.train, c->data.validation, c->data.test};
    if (paths[FT_SPLIT_TRAIN][0] == '\0') {
        ft_fail(FT_INVALID, "data.train", "no training data given");
        ft_hint("set data.train to a TSV, CSV or JSON lines file, for example data.train=train.tsv");
        return FT_INVALID;
    }
    FT_TRY(check_precision(c));
    FT_TRY(check_folds(c));
    FT_TRY(ft_picture_column(c, ft_model_config_reads_pictures(&job->model_config), c->model.path, &column));
    for (int s = 0; s < FT_SPLITS; s++) {
        ft_split_data *d = &job->split[s];
        if (paths[s][0] == '\0') continue;
        d->path = paths[s];
        const ft_table_request request = {.format = c->data.format, .text = column, .pair = c->data.text_pair,
                                          .label = c->data.label_column, .empty_labels = job->wanted->empty_labels, .words = ft_task_has_tokens(job->wanted),
                                          .questions = ft_task_has_spans(job->wanted), .language = ft_task_has_language(job->wanted), .need = ft_task_has_language(job->wanted) ? FT_LABEL_IGNORED : FT_LABEL_REQUIRED,
                                          .pictures = ft_model_config_reads_pictures(&job->model_config),
                                          .id = (s == FT_SPLIT_TRAIN || has_queries(c)) && c->data.group[0] != '\0' ? c->data.group : ft_task_has_spans(job->wanted) ? "" : NULL};
        int file; // a run's data is read again, by its digest and when it goes on: a pipe cannot be
        if (!request.pictures || ft_picture_source_is_file(d->path)) {
            FT_TRY(ft_open_input(d->path, &file));
            close(file);
        }
        FT_TRY((request.pictures ? ft_picture_source_read : ft_table_read)(d->path, &request, &d->table));
        FT_TRY(leave_out_broken(job, d));
        d->present = true;
    }
    FT_TRY(check_image(job));
    return cut_folds(job);
}

// Where the model and its tokenizer come from: a directory, or a name whose snapshot is in the cache. Without weights a model
// can be planned by name alone; trained, it needs its files, or random weights and somebody else's tokenizer.
static ft_status find_model(ft_job *job, bool without_weights) {
    const ft_config *c = job->config;
    const char *found;
    if (c->model.path[0] == '\0') {
        ft_fail(FT_INVALID, "model.path", "no model given");
        ft_hint("set model.path to a Hugging Face model directory (config.json, model.safetensors, vocab.txt or tokenizer.json),"
                " or to a name that `ftengine pull` has fetched");
        return FT_INVALID;
    }
    FT_TRY(ft_hub_find(c->model.path, &job->arena, &found));
    job->model_dir = job->tokenizer_dir = found != NULL ? found : c->model.path;
    if (found != NULL) {
        if (found != c->model.path && !without_weights) ft_info("model      %s: from the cache", c->model.path);
        bool needed = !without_weights && c->model.init == FT_INIT_PRETRAINED;
        bool exist = true;
        if (needed) FT_TRY(ft_weights_exist(found, &exist));
        return exist ? FT_OK : ft_hub_no_weights(c->model.path, found);
    }
    const ft_known_model *known = ft_path_exists(c->model.path) ? NULL : ft_known_model_find(c->model.path);
    if (known != NULL && c->model.init == FT_INIT_RANDOM && c->model.stand_in_tokenizer[0] != '\0') {
        job->tokenizer_dir = c->model.stand_in_tokenizer;
        if (!without_weights)
            ft_warn("random weights in the shape of %s and the tokenizer of %s: good for memory and speed, the accuracy means nothing",
                    known->name, job->tokenizer_dir);
        return FT_OK;
    }
    if (without_weights && known != NULL) return FT_OK;
    ft_hub_not_found(c->model.path);
    if (known != NULL)
        ft_hint("to try %s without a download: model.init=random model.stand_in_tokenizer=DIRECTORY of a tokenizer", known->name);
    return FT_INVALID;
}

static ft_status leave_out_rest(ft_job *job, bool *out) {
    const ft_config *c = job->config;
    ft_split_data *train = &job->split[FT_SPLIT_TRAIN];
    ft_table *table = &train->table;
    const uint64_t seed = c->train.data_seed != FT_AUTO ? (uint64_t)c->train.data_seed : 42; // as of folds
    const bool answers = ft_task_has_spans(job->wanted);
    const char *const *group = answers && c->data.group[0] == '\0'     ? table->pair
                               : table->id == NULL && has_queries(c) ? table->text
                                                                     : table->id;
    FT_TRY(ft_shares_leave_out(answers ? NULL : table->label, group, table->rows, c->data.share, seed, out));
    int64_t kept = 0;
    for (int64_t i = 0; train->source_row != NULL && i < table->rows; i++)
        if (!out[i]) train->source_row[kept++] = train->source_row[i];
    ft_table_leave_out(table, out);
    return FT_OK;
}

// Once the classes are known: they are those of all texts, whatever a share happens to have.
static ft_status cut_share(ft_job *job) {
    const ft_split_data *train = &job->split[FT_SPLIT_TRAIN];
    if (job->config->data.share <= 1 || !train->present) return FT_OK;
    bool *out = ft_spill_calloc((size_t)train->table.rows + 1, sizeof *out, "the share of a table");
    const ft_status status = out != NULL ? leave_out_rest(job, out) : FT_NO_MEMORY;
    ft_spill_free(out);
    return status;
}

// Everything that comes from data files.
static ft_status open_data(ft_job *job) {
    const ft_config *c = job->config;
    const ft_input_kind *kind = ft_model_config_reads_pictures(&job->model_config) ? &ft_picture_input
                                : ft_task_has_spans(job->wanted)      ? &ft_question_input
                                : ft_task_has_tokens(job->wanted)   ? &ft_word_input
                                : ft_task_has_language(job->wanted) ? &ft_language_input
                                                                    : &ft_text_input;
    const char *truncation = ft_task_truncation(c, job->wanted);
    const ft_input_request request = {.directory = job->tokenizer_dir, .rules = c->model.tokenizer_rules, .truncation = truncation,
                                      .learn_all = c->data.learn == FT_LEARN_ALL, .chat_template = c->data.chat_template, .chat_variables = c->data.chat_variables,
                                      .patch = (int32_t)job->model_config.picture.patch, .tokens = (int32_t)job->model_config.picture.tokens,
                                      .workers = ft_picture_workers(c, FT_BESIDE_NOTHING), .scaled = c->data.scaled_decoding && !c->augment.crop};
    FT_TRY(ft_input_open(kind, &request, &job->input));
    FT_TRY(ft_fit_vocabulary(&job->input, &job->model_config, job->tokenizer_dir));
    FT_TRY(ft_fit_picture(&job->input, &job->model_config, job->tokenizer_dir));
    ft_heap_trim();
    job->held.tokenizer = ft_process_held(getpid());
    FT_TRY(read_tables(job));
    FT_TRY(ft_task_choose(job));
    FT_TRY(cut_share(job));
    return ft_fit_max_length(&job->input, &job->model_config, c->data.max_length, FT_AUTO, &job->max_length);
}

// Its worst case, without any.
static ft_status assume_data(ft_job *job, int labels) {
    job->labels.count = labels > 0 ? labels : has_queries(job->config) ? 1 : (int)job->model_config.num_labels;
    FT_TRY(ft_task_assume(job));
    FT_TRY(ft_task_set_loss(job));
    return ft_fit_max_length(&job->input, &job->model_config, job->config->data.max_length, FT_AUTO, &job->max_length);
}

// What an adapter, or a head, is trained beside: what its files lack, and which files these are.
static ft_status know_base(ft_job *job, bool without_weights) {
    const ft_config *c = job->config;
    const bool adapter = c->adapter.type != FT_ADAPTER_NONE;
    if ((!adapter && !ft_model_trunk_is_fixed(c)) || c->model.init == FT_INIT_RANDOM) return FT_OK;
    if (adapter) FT_TRY(ft_model_find_pooler(job->model_dir, &job->model_config));
    return without_weights ? FT_OK : ft_weights_digest(job->model_dir, job->base_sha256);
}

// What is for texts alone.
static ft_status check_pictures(const ft_job *job) {
    const ft_config *c = job->config;
    const struct {
        const char *option;
        bool given;
    } texts[] = {{"data.text_pair", c->data.text_pair[0] != '\0'}, {"model.stand_in_tokenizer", c->model.stand_in_tokenizer[0] != '\0'}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (texts[i].given) return ft_fail(FT_INVALID, texts[i].option, "this is for texts, and %s reads pictures", c->model.path);
    if (!ft_task_reads_rows(job->wanted) && !job->wanted->grouped) return FT_OK;
    ft_fail(FT_INVALID, "train.task", "%s is for texts, and %s reads pictures", ft_task_name(job->wanted->id), c->model.path);
    ft_hint("single_label, multi_label and regression are for pictures too");
    return FT_INVALID;
}

// What is for pictures alone.
static ft_status check_texts(const ft_job *job) {
    const ft_config *c = job->config;
    const bool mixes = ft_augment_mixes(&job->augment);
    const char *given = c->data.broken_pictures != FT_BROKEN_ERROR ? "data.broken_pictures" : c->data.scaled_decoding ? "data.scaled_decoding" : ft_augment_changes(&job->augment) || mixes ? "augment" : NULL;
    return given == NULL ? FT_OK : ft_fail(FT_INVALID, given, "this is for pictures, and %s reads texts", c->model.path);
}

// Frozen weights may be read where their files lie. Whatever is wrong with these is said by who loads them.
static void map_weights(ft_job *job) {
    const ft_config *c = job->config;
    job->weights_bytes = ft_weights_bytes(job->model_dir);
    const bool beside = c->adapter.type != FT_ADAPTER_NONE || ft_model_trunk_is_fixed(c);
    if (!beside || job->weights_bytes == 0 || !ft_model_may_map(c->memory.map_weights, job->weights_bytes)) return;
    ft_error present;
    ft_error_save(&present);
    if (ft_weights_open(job->model_dir, &job->files) != FT_OK) job->files = NULL;
    ft_error_restore(&present);
    job->model_config.files = job->files;
}

ft_status ft_job_open(const ft_config *config, const ft_job_source *source, ft_job *job) {
    *job = (ft_job){.config = config, .without_data = source->without_data};
    job->wanted = wanted_task(job);
    ft_heap_trim(); // of what was here before
    job->held = (ft_job_held){.start = ft_process_held(getpid())};
    job->held.tokenizer = job->held.data = job->held.start;
    FT_TRY(find_model(job, source->without_weights));
    FT_TRY(ft_model_config_load(job->model_dir, &job->model_config));
    FT_TRY(ft_fit_task(job->wanted, &job->model_config));
    FT_TRY(ft_augment_parse(config, &job->augment));
    FT_TRY(ft_model_config_reads_pictures(&job->model_config) ? check_pictures(job) : check_texts(job));
    if (ft_task_has_tokens(job->wanted)) ft_model_config_set_tokens(&job->model_config);
    if (ft_task_has_spans(job->wanted)) ft_model_config_set_spans(&job->model_config);
    if (ft_task_has_language(job->wanted)) ft_model_config_set_language(&job->model_config);
    if (config->model.head.pooling == FT_HEAD_MEAN) FT_TRY(ft_model_config_set_mean(&job->model_config, "model.head.pooling"));
    FT_TRY(know_base(job, source->without_weights));
    if (config->model.init == FT_INIT_PRETRAINED) map_weights(job);
    return source->without_data ? assume_data(job, source->labels) : open_data(job);
}

// The tag of a word's further tokens, where those are learned too.
static ft_status tags_inside(const ft_job *job, int32_t **inside) {
    ft_tag_set set;
    if (!ft_task_has_tokens(job->task)) return ft_fail(FT_INVALID, "data.label_all_tokens", "this is for train.task = token_classification");
    *inside = ft_calloc((size_t)job->labels.count, sizeof **inside, "tags");
    if (*inside == NULL) return FT_NO_MEMORY;
    const ft_status status = ft_tag_set_open(job->label_names, job->labels.count, &set);
    if (status != FT_OK) {
        free(*inside);
        *inside = NULL;
        return status;
    }
    for (int32_t k = 0; k < job->labels.count; k++) (*inside)[k] = ft_tag_inside(&set, k);
    ft_tag_set_close(&set);
    return FT_OK;
}

static ft_status tokenise_split(ft_job *job, ft_split split, const char *cache) {
    ft_split_data *d = &job->split[split];
    int32_t *inside = NULL;
    if (split == FT_SPLIT_TRAIN && job->config->data.label_all_tokens) FT_TRY(tags_inside(job, &inside));
    const ft_input_wanted wanted = {.table = &d->table, .path = d->path, .max_length = job->max_length, .labels = &job->labels, .inside = inside,
                                    .cache_dir = cache, .learned = split == FT_SPLIT_TRAIN};
    const ft_status built = ft_input_build(&job->input, &wanted, &d->data, &d->from_cache);
    free(inside);
    FT_TRY(built);
    if (d->data.pictures != NULL) memcpy(d->table.sha256, d->data.sha256, sizeof d->table.sha256); // a list and what it names
    FT_TRY(ft_fit_types(&d->data, &job->model_config, job->config->model.path));
    FT_TRY(ft_fit_last_tokens(&d->data, &job->model_config, d->path));
    char windows[48] = "";
    if (d->data.example != NULL) snprintf(windows, sizeof windows, " in %lld windows", (long long)d->data.sequences);
    if (d->data.pictures != NULL) {
        ft_info("%-10s %lld pictures, %d x %d  %s", ft_split_name(split), (long long)d->data.examples, d->data.pictures->height, d->data.pictures->width, d->path);
        return FT_OK;
    }
    ft_info("%-10s %lld examples%s, %lld tokens%s  %s", ft_split_name(split), (long long)d->data.examples, windows,
            (long long)d->data.tokens, d->from_cache ? ", from cache" : "", d->path);
    return FT_OK;
}

// What is left in the heap's pieces goes back first.
static void note_held(ft_job *job) {
    ft_heap_trim();
    job->held.data = ft_process_held(getpid());
}

ft_status ft_job_tokenise(ft_job *job) {
    const char *cache;
    FT_TRY(ft_cache_directory(job->config->data.cache_dir, &job->arena, &cache));
    for (int s = 0; s < FT_SPLITS; s++)
        if (job->split[s].present) FT_TRY(tokenise_split(job, (ft_split)s, cache));
    if (!job->without_data) FT_TRY(ft_task_set_loss(job));
    FT_TRY(ft_job_choose_rows(job));
    FT_TRY(ft_job_plan_features(job));
    note_held(job);
    if (ft_stop_signal() != 0) return ft_fail(ft_stop_status(ft_stop_signal()), NULL, "stopped before the first step");
    return FT_OK;
}

ft_status ft_job_measure(ft_job *job) {
    ft_text_index train = {0};
    FT_TRY(ft_text_index_build(&job->split[FT_SPLIT_TRAIN].table, &train));
    ft_status status = FT_OK;
    for (int s = 0; s < FT_SPLITS && status == FT_OK; s++) {
        ft_split_data *d = &job->split[s];
        if (!d->present) continue;
        ft_text_index own = {0};
        if (s == FT_SPLIT_TRAIN) {
            status = ft_data_report_make(&train, &d->data, NULL, &d->report);
        } else {
            status = ft_text_index_build(&d->table, &own);
            if (status == FT_OK) status = ft_data_report_make(&own, &d->data, &train, &d->report);
        }
        ft_text_index_free(&own);
    }
    ft_text_index_free(&train);
    note_held(job);
    return status;
}

void ft_job_forget_texts(ft_job *job) {
    for (int s = FT_SPLITS - 1; s >= 0; s--) ft_table_forget_rows(&job->split[s].table); // a part before the whole that holds its texts
    ft_heap_trim();
}

size_t ft_job_texts_bytes(const ft_job *job) {
    size_t bytes = 0;
    for (int s = 0; s < FT_SPLITS; s++) bytes += ft_table_rows_bytes(&job->split[s].table);
    return bytes;
}

bool ft_job_evaluates(const ft_job *job, ft_split split) {
    if (split == FT_SPLIT_TRAIN || !job->split[split].present) return false;
    return split == FT_SPLIT_TEST || job->config->eval.strategy != FT_EVAL_NO;
}

void ft_job_close(ft_job *job) {
    for (int s = 0; s < FT_SPLITS; s++) {
        ft_dataset_free(&job->split[s].data);
        ft_broken_pictures_free(&job->split[s].broken);
        ft_table_free(&job->split[s].table);
        ft_spill_free(job->split[s].source_row);
    }
    ft_job_close_features(job);
    ft_input_close(&job->input);
    ft_word_rows_free(&job->own_word_rows);
    ft_model_config_free(&job->model_config);
    ft_weights_close(job->files);
    ft_arena_free(&job->arena);
    *job = (ft_job){.config = NULL};
}
