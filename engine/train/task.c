#include "engine/train/task.h"

#include "engine/train/decision.h"
#include "kernels/log.h"

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
static void adopt_names(ft_trainer *t) {
    const ft_model_config *m = &t->job.model_config;
    t->job.label_names = t->job.labels.names;
    if (!t->job.task->named || t->room.config->model.init != FT_INIT_PRETRAINED) return;
    if (!m->has_label_names || m->num_labels != t->job.labels.count) return;
    int same = 0;
    bool numbers = true;
    for (int i = 0; i < t->job.labels.count; i++) {
        char number[16];
        snprintf(number, sizeof number, "%d", i);
        if (strcmp(t->job.labels.names[i], number) != 0) numbers = false;
        if (index_of(t->job.labels.names[i], t->job.labels.count, m->label_names) >= 0) same++;
    }
    // The columns of a file are their order; what is only named may be put in another.
    bool ordered = t->job.split[FT_SPLIT_TRAIN].table.label_columns > 1;
    if (same == t->job.labels.count && !ordered) t->job.labels.names = m->label_names;
    if ((same == t->job.labels.count && !ordered) || numbers) t->job.label_names = m->label_names;
    else if (same < t->job.labels.count || ordered)
        ft_warn("the model's classifier was trained for other labels (%s, ...); it goes on with %s, ...", m->label_names[0],
                t->job.labels.names[0]);
}

static ft_status check_options(const ft_trainer *t) {
    const ft_config *c = t->room.config;
    const ft_task_spec *task = t->job.task;
    const char *name = ft_task_name(task->id);
    if (!ft_task_has_loss(task->id, c->train.loss)) {
        ft_fail(FT_INVALID, "train.loss", "this is no loss of a %s task", name);
        ft_hint("train.task says what the task is; auto takes it from the data");
        return FT_INVALID;
    }
    if (c->train.label_smoothing > 0 && !ft_task_smooths(task->id))
        return ft_fail(FT_INVALID, "train.label_smoothing", "smoothing is for single_label, this is a %s task", name);
    if (!ft_task_has_classes(task) && strcmp(c->train.class_weights, "none") != 0)
        return ft_fail(FT_INVALID, "train.class_weights", "a %s has no classes", name);
    double threshold;
    FT_TRY(ft_threshold_parse(c->eval.threshold, &threshold));
    if (strcmp(c->eval.threshold, "auto") != 0 && ft_threshold_count(&task->scoring, t->job.labels.count) == 0)
        return ft_fail(FT_INVALID, "eval.threshold", "thresholds are for two classes and for multi_label");
    if (c->eval.calibrate && !ft_task_has_classes(task))
        return ft_fail(FT_INVALID, "eval.calibrate", "a %s has no probabilities", name);
    return ft_metric_check(c->eval.metric, &task->scoring, t->job.labels.count);
}

ft_status ft_task_choose(ft_trainer *t) {
    const ft_split_data *train = &t->job.split[FT_SPLIT_TRAIN], *validation = &t->job.split[FT_SPLIT_VALIDATION];
    const ft_task_tables tables = {.train = &train->table,
                                   .validation = validation->present ? &validation->table : NULL,
                                   .train_path = train->path,
                                   .validation_path = validation->path,
                                   .separator = t->room.config->data.label_separator};
    const ft_task asked = t->room.config->train.task;
    t->job.task = asked == FT_TASK_AUTO ? ft_task_suiting(&train->table) : ft_task_spec_of(asked);
    FT_TRY(t->job.task->outputs(&tables, &t->job.arena, &t->job.labels));
    adopt_names(t);
    if (t->room.config->train.patience > 0 && !t->job.split[FT_SPLIT_VALIDATION].present)
        return ft_fail(FT_INVALID, "train.patience", "early stopping needs data.validation, data.validation_split or data.folds");
    bool judged = t->job.split[FT_SPLIT_VALIDATION].present && t->room.config->eval.strategy != FT_EVAL_NO;
    if (!judged && strcmp(t->room.config->eval.threshold, "tuned") == 0)
        return ft_fail(FT_INVALID, "eval.threshold",
                       "thresholds are tuned on validation data, and there is no evaluation of any");
    if (!judged && t->room.config->eval.calibrate)
        return ft_fail(FT_INVALID, "eval.calibrate",
                       "probabilities are calibrated on validation data, and there is no evaluation of any");
    return check_options(t);
}

ft_status ft_task_assume(ft_trainer *t) {
    t->job.task = ft_task_spec_of(t->room.config->train.task);
    return check_options(t);
}

// ---- the loss -----------------------------------------------------------------------------------------------------

static ft_status given_weights(const ft_trainer *t, const char *text, float *weight) {
    int count = 0;
    for (const char *at = text; *at != '\0';) {
        char *end;
        double value = strtod(at, &end);
        if (end == at || !(value > 0) || value > 1e6) {
            ft_fail(FT_INVALID, "train.class_weights", "\"%.60s\" does not begin with a number above 0", at);
            ft_hint("none, balanced, or one number a class, separated by commas");
            return FT_INVALID;
        }
        if (count < t->job.labels.count) weight[count] = (float)value;
        count++;
        at = end + strspn(end, " ");
        if (*at == ',') at += 1 + strspn(at + 1, " ");
        else if (*at != '\0') return ft_fail(FT_INVALID, "train.class_weights", "a comma is needed before \"%.60s\"", at);
    }
    if (count == t->job.labels.count) return FT_OK;
    return ft_fail(FT_INVALID, "train.class_weights", "%d weights for %d classes", count, t->job.labels.count);
}

// A class without examples has 1.
static ft_status balanced_weights(const ft_trainer *t, float *weight) {
    const ft_dataset *data = &t->job.split[FT_SPLIT_TRAIN].data;
    const int outputs = t->job.labels.count;
    int64_t *count = ft_calloc((size_t)outputs, sizeof *count, "class counts");
    if (count == NULL) return FT_NO_MEMORY;
    for (int64_t i = 0; i < data->examples; i++) {
        if (data->label != NULL) count[data->label[i]]++;
        for (int k = 0; k < outputs && data->target != NULL; k++) count[k] += data->target[i * outputs + k] > 0.5f;
    }
    int present = 0;
    for (int k = 0; k < outputs; k++) present += count[k] > 0;
    for (int k = 0; k < outputs; k++) {
        double n = (double)data->examples, own = (double)count[k];
        double balance = t->job.task->balance(n, own, present);
        weight[k] = own > 0 && balance > 0 ? (float)balance : 1;
    }
    free(count);
    return FT_OK;
}

ft_status ft_task_set_loss(ft_trainer *t) {
    const ft_config *c = t->room.config;
    t->job.loss = (ft_loss){.kind = ft_task_loss(t->job.task->id), .smoothing = (float)c->train.label_smoothing};
    if (c->train.loss == FT_LOSS_FOCAL) t->job.loss.gamma = (float)c->train.focal_gamma;
    if (strcmp(c->train.class_weights, "none") == 0) return FT_OK;
    float *weight = ft_arena_alloc(&t->job.arena, (size_t)t->job.labels.count * sizeof *weight);
    if (weight == NULL) return FT_NO_MEMORY;
    for (int k = 0; k < t->job.labels.count; k++) weight[k] = 1;
    if (strcmp(c->train.class_weights, "balanced") != 0) FT_TRY(given_weights(t, c->train.class_weights, weight));
    else if (!t->job.without_data) FT_TRY(balanced_weights(t, weight));
    t->job.loss.class_weight = weight;
    return FT_OK;
}

// ---- decisions ----------------------------------------------------------------------------------------------------

ft_status ft_threshold_parse(const char *text, double *value) {
    *value = NAN;
    if (strcmp(text, "auto") == 0 || strcmp(text, "tuned") == 0) return FT_OK;
    char *end;
    *value = strtod(text, &end);
    if (end != text && *end == '\0' && *value > 0 && *value < 1) return FT_OK;
    return ft_fail(FT_INVALID, "eval.threshold", "takes auto, tuned or a number between 0 and 1; got '%.60s'", text);
}

ft_status ft_task_set_decision(ft_trainer *t) {
    const char *text = t->room.config->eval.threshold;
    const int count = ft_threshold_count(&t->job.task->scoring, t->job.labels.count);
    t->temperature = 1;
    if (count == 0 || strcmp(text, "auto") == 0) return FT_OK;
    t->threshold = ft_arena_alloc(&t->arena, (size_t)count * sizeof *t->threshold);
    if (t->threshold == NULL) return FT_NO_MEMORY;
    double given;
    FT_TRY(ft_threshold_parse(text, &given));
    for (int k = 0; k < count; k++) t->threshold[k] = isnan(given) ? 0.5 : given;
    return FT_OK;
}
