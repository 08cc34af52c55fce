#include "engine/train/job/task.h"

#include "base/log.h"
#include "engine/metrics/decision.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- the outputs --------------------------------------------------------------------------------------------------

static int index_of(const char *name, int count, const char *const *names) {
    for (int i = 0; i < count; i++)
        if (strcmp(name, names[i]) == 0) return i;
    return -1;
}

// A checkpoint that names the same classes keeps its order, so that its head still means what it meant. Numbers keep their
// ids and take a checkpoint's names when there are as many.
static void adopt_names(ft_job *job) {
    const ft_model_config *m = &job->model_config;
    job->label_names = job->labels.names;
    if (!job->task->named || job->config->model.init != FT_INIT_PRETRAINED) return;
    if (!m->has_label_names || m->num_labels != job->labels.count) return;
    int same = 0;
    bool numbers = true;
    for (int i = 0; i < job->labels.count; i++) {
        char number[16];
        snprintf(number, sizeof number, "%d", i);
        if (strcmp(job->labels.names[i], number) != 0) numbers = false;
        if (index_of(job->labels.names[i], job->labels.count, m->label_names) >= 0) same++;
    }
    // The columns of a file are their order; what is only named may be put in another.
    bool ordered = job->split[FT_SPLIT_TRAIN].table.label_columns > 1;
    if (same == job->labels.count && !ordered) job->labels.names = m->label_names;
    if ((same == job->labels.count && !ordered) || numbers) job->label_names = m->label_names;
    else if (same < job->labels.count || ordered)
        ft_warn("the model's classifier was trained for other labels (%s, ...); it goes on with %s, ...", m->label_names[0],
                job->labels.names[0]);
}

static ft_status check_options(const ft_job *job) {
    const ft_config *c = job->config;
    const ft_task_spec *task = job->task;
    const char *name = ft_task_name(task->id);
    if (!ft_task_has_loss(task->id, c->train.loss)) {
        ft_fail(FT_INVALID, "train.loss", "this is no loss of a %s task", name);
        ft_hint("train.task says what the task is; auto takes it from the data");
        return FT_INVALID;
    }
    if (c->train.label_smoothing > 0 && !ft_task_smooths(task->id))
        return ft_fail(FT_INVALID, "train.label_smoothing", "smoothing is for single_label, this is a %s task", name);
    if (ft_augment_mixes(&job->augment) && (!ft_task_smooths(task->id) || !ft_loss_smooths(c->train.loss)))
        return ft_fail(FT_INVALID, c->augment.mixup > 0 ? "augment.mixup" : "augment.cutmix", "labels are mixed in the cross-entropy of single_label");
    if (task->balance == NULL && strcmp(c->train.class_weights, "none") != 0)
        return ft_fail(FT_INVALID, "train.class_weights", "train.task = %s has no %s", name,
                       ft_task_has_classes(task) ? "weights of classes" : "classes");
    double threshold;
    FT_TRY(ft_threshold_parse(c->eval.threshold, task, &threshold));
    if (strcmp(c->eval.threshold, "auto") != 0 && ft_threshold_count(&task->scoring, job->labels.count) == 0)
        return ft_fail(FT_INVALID, "eval.threshold", "thresholds are for two classes and for multi_label");
    if (c->eval.calibrate && task->scoring.cross_entropy == NULL)
        return ft_fail(FT_INVALID, "eval.calibrate", "the probabilities of train.task = %s are not calibrated", name);
    if (ft_task_has_spans(task) && c->data.label_all_tokens)
        return ft_fail(FT_INVALID, "data.label_all_tokens", "this is for train.task = token_classification");
    if (ft_task_reads_rows(task) && c->model.head.hidden.count > 0)
        return ft_fail(FT_INVALID, "model.head.hidden", "a classifier of tokens has no hidden layers: it would open in no class of transformers");
    return ft_metric_check(c->eval.metric, &task->scoring, job->labels.count);
}

ft_status ft_task_choose(ft_job *job) {
    const ft_split_data *train = &job->split[FT_SPLIT_TRAIN], *validation = &job->split[FT_SPLIT_VALIDATION];
    const ft_task_tables tables = {.train = &train->table,
                                   .validation = validation->present ? &validation->table : NULL,
                                   .train_path = train->path,
                                   .validation_path = validation->path,
                                   .separator = job->config->data.label_separator};
    const ft_task asked = job->config->train.task;
    const bool seen = asked == FT_TASK_AUTO && ft_task_reads_rows(job->wanted);
    job->task = seen ? job->wanted : asked == FT_TASK_AUTO ? ft_task_suiting(&train->table) : ft_task_spec_of(asked);
    if (seen) ft_info("task       train.task=%s, by the look of %s", ft_task_name(job->task->id), train->path);
    FT_TRY(job->task->outputs(&tables, &job->arena, &job->labels));
    adopt_names(job);
    if (job->config->train.patience > 0 && !job->split[FT_SPLIT_VALIDATION].present)
        return ft_fail(FT_INVALID, "train.patience", "early stopping needs data.validation, data.validation_split or data.folds");
    bool judged = job->split[FT_SPLIT_VALIDATION].present && job->config->eval.strategy != FT_EVAL_NO;
    if (!judged && strcmp(job->config->eval.threshold, "tuned") == 0)
        return ft_fail(FT_INVALID, "eval.threshold",
                       "thresholds are tuned on validation data, and there is no evaluation of any");
    if (!judged && job->config->eval.calibrate)
        return ft_fail(FT_INVALID, "eval.calibrate",
                       "probabilities are calibrated on validation data, and there is no evaluation of any");
    return check_options(job);
}

ft_status ft_task_assume(ft_job *job) {
    job->task = ft_task_spec_of(job->config->train.task);
    return check_options(job);
}

// ---- the loss -----------------------------------------------------------------------------------------------------

static ft_status given_weights(const ft_job *job, const char *text, float *weight) {
    int count = 0;
    for (const char *at = text; *at != '\0';) {
        char *end;
        double value = strtod(at, &end);
        if (end == at || !(value > 0) || value > 1e6) {
            ft_fail(FT_INVALID, "train.class_weights", "\"%.60s\" does not begin with a number above 0", at);
            ft_hint("none, balanced, or one number a class, separated by commas");
            return FT_INVALID;
        }
        if (count < job->labels.count) weight[count] = (float)value;
        count++;
        at = end + strspn(end, " ");
        if (*at == ',') at += 1 + strspn(at + 1, " ");
        else if (*at != '\0') return ft_fail(FT_INVALID, "train.class_weights", "a comma is needed before \"%.60s\"", at);
    }
    if (count == job->labels.count) return FT_OK;
    return ft_fail(FT_INVALID, "train.class_weights", "%d weights for %d classes", count, job->labels.count);
}

// A class without examples has 1.
static ft_status balanced_weights(const ft_job *job, float *weight) {
    const ft_dataset *data = &job->split[FT_SPLIT_TRAIN].data;
    const int outputs = job->labels.count;
    int64_t *count = ft_calloc((size_t)outputs, sizeof *count, "class counts");
    if (count == NULL) return FT_NO_MEMORY;
    ft_dataset_count_classes(data, count);
    int present = 0;
    for (int k = 0; k < outputs; k++) present += count[k] > 0;
    for (int k = 0; k < outputs; k++) {
        double n = (double)ft_dataset_rows(data), own = (double)count[k];
        double balance = job->task->balance(n, own, present);
        weight[k] = own > 0 && balance > 0 ? (float)balance : 1;
    }
    free(count);
    return FT_OK;
}

ft_status ft_task_set_loss(ft_job *job) {
    const ft_config *c = job->config;
    job->loss = (ft_loss){.kind = ft_task_loss(job->task->id), .smoothing = (float)c->train.label_smoothing, .mixes = ft_augment_mixes(&job->augment)};
    if (c->train.loss == FT_LOSS_FOCAL) job->loss.gamma = (float)c->train.focal_gamma;
    if (strcmp(c->train.class_weights, "none") == 0) return FT_OK;
    float *weight = ft_arena_alloc(&job->arena, (size_t)job->labels.count * sizeof *weight);
    if (weight == NULL) return FT_NO_MEMORY;
    for (int k = 0; k < job->labels.count; k++) weight[k] = 1;
    if (strcmp(c->train.class_weights, "balanced") != 0) FT_TRY(given_weights(job, c->train.class_weights, weight));
    else if (!job->without_data) FT_TRY(balanced_weights(job, weight));
    job->loss.class_weight = weight;
    return FT_OK;
}

const char *ft_task_truncation(const ft_config *c, const ft_task_spec *task) {
    if (strcmp(c->data.truncation, "auto") != 0) return c->data.truncation;
    return ft_task_reads_rows(task) && !ft_task_has_language(task) ? "windows" : "head";
}

// ---- decisions ----------------------------------------------------------------------------------------------------

ft_status ft_threshold_parse(const char *text, const ft_task_spec *task, double *value) {
    *value = NAN;
    if (strcmp(text, "auto") == 0 || strcmp(text, "tuned") == 0) return FT_OK;
    char *end;
    *value = strtod(text, &end);
    if (end != text && *end == '\0' && ft_task_has_spans(task) && isfinite(*value)) return FT_OK;
    if (end != text && *end == '\0' && *value > 0 && *value < 1) return FT_OK;
    return ft_fail(FT_INVALID, "eval.threshold", "takes auto, tuned or a number%s; got '%.60s'",
                   ft_task_has_spans(task) ? "" : " between 0 and 1", text);
}

// Has a question no answer?
static bool lacks_answers(const ft_table *table) {
    for (int64_t row = 0; row < table->rows && table->label != NULL; row++)
        if (*table->label[row] == '\0') return true;
    return false;
}

ft_status ft_task_thresholds(const ft_job *job, ft_arena *arena, double **thresholds) {
    const char *text = job->config->eval.threshold;
    const int count = ft_threshold_count(&job->task->scoring, job->labels.count);
    *thresholds = NULL;
    const bool without = ft_task_has_spans(job->task) && lacks_answers(&job->split[FT_SPLIT_TRAIN].table);
    if (count == 0 || (strcmp(text, "auto") == 0 && !without)) return FT_OK;
    *thresholds = ft_arena_alloc(arena, (size_t)count * sizeof **thresholds);
    if (*thresholds == NULL) return FT_NO_MEMORY;
    double given;
    FT_TRY(ft_threshold_parse(text, job->task, &given));
    for (int k = 0; k < count; k++) (*thresholds)[k] = !isnan(given) ? given : ft_task_has_spans(job->task) ? 0 : 0.5;
    return FT_OK;
}
