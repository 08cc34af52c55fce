// evaluation.c - validation during the run (best model, early stopping), the test set at its end.
#include "engine/train/room/observer.h"
#include "engine/train/ladder.h"
#include "engine/train/run_end.h"
#include "engine/train/trainer.h"

#include "base/files.h"
#include "base/log.h"
#include "base/stop.h"
#include "engine/memory/process.h"
#include "engine/metrics/answers.h"
#include "engine/metrics/decision.h"
#include "engine/model/adapter_files.h"
#include "engine/model/spec/settings.h"
#include "engine/train/step/predict.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct progress {
    ft_ranks *ranks; // that stop together; NULL: there is one
    const char *what;
    double shown;
} progress;

static ft_status show(void *context, int64_t done, int64_t total) {
    progress *p = context;
    double now = ft_now();
    ft_run_alive(NULL, 0, 0, false);
    if (p->ranks != NULL) FT_TRY(ft_ranks_agree(p->ranks));
    if (now - p->shown > 0.1) {
        ft_status_line("%s %lld / %lld", p->what, (long long)done, (long long)total);
        p->shown = now;
    }
    if (ft_stop_signal() != 0) {
        ft_fail(ft_stop_status(ft_stop_signal()), NULL, "stopped during evaluation");
        return ft_stop_status(ft_stop_signal());
    }
    return FT_OK;
}

static ft_status fit_temperature(ft_trainer *t, const ft_scores *scores) {
    ft_metrics before;
    FT_TRY(ft_metrics_compute(scores, &before)); // also: are all of them finite?
    t->temperature = ft_fit_temperature(scores);
    double ece = ft_metric_value(&before, FT_METRIC_ECE);
    ft_metrics_free(&before);
    if (isnan(ece)) ft_info("calibrated at temperature %.3f", t->temperature);
    else ft_info("calibrated at temperature %.3f; the calibration error was %.4f without", t->temperature, ece);
    return FT_OK;
}

// Temperature and thresholds: found on validation data only. The logits become those of the calibrated probabilities.
static ft_status decide(ft_trainer *t, ft_split split, ft_scores *scores) {
    const ft_config *c = t->room.config;
    if (split == FT_SPLIT_VALIDATION && c->eval.calibrate) FT_TRY(fit_temperature(t, scores));
    if (t->temperature != 1) ft_logits_divide(scores->kept, t->temperature);
    if (split == FT_SPLIT_VALIDATION && strcmp(c->eval.threshold, "tuned") == 0)
        FT_TRY(ft_fit_thresholds(scores, c->eval.metric, t->threshold));
    scores->threshold = t->threshold;
    return FT_OK;
}

// The decisions that belong to the best model, which are not those of the last evaluation.
static ft_status recall_decisions(ft_trainer *t, const char *model_dir) {
    ft_model_settings saved;
    const char *path = ft_path_join(&t->arena, model_dir, "ftengine.json");
    if (path == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_model_settings_load(path, &t->arena, &saved));
    t->temperature = saved.temperature;
    for (int k = 0; k < saved.threshold_count && t->threshold != NULL; k++) t->threshold[k] = saved.threshold[k];
    return FT_OK;
}

typedef struct inference {
    const ft_dataset *data;
    ft_logits *logits;
    float *losses;
    progress shown;
} inference;

static ft_status infer(ft_trainer *t, void *context) {
    inference *i = context;
    return ft_predict_dataset(&t->room.model, t->job.task, i->data, t->room.eval_limits, t->room.eval_capacity,
                              t->room.config->eval.window_pooling, i->logits, i->losses, show, &i->shown);
}

// While all that an evaluation keeps is there.
static void note_held(ft_trainer *t) {
    const size_t held = ft_process_held(getpid());
    if (held > t->held_most) t->held_most = held;
}

// Logits (opened here, to be closed in any case) and metrics of a split. What it takes of the host: ft_evaluation_host_bytes.
static ft_status judge(ft_trainer *t, ft_split split, ft_logits *logits, ft_metrics *metrics) {
    const ft_dataset *data = &t->job.split[split].data;
    double before = ft_now();
    ft_progress_note(t, split == FT_SPLIT_TEST ? "tests" : "evaluates");
    FT_TRY(ft_logits_open(ft_dataset_rows(data), t->job.labels.count, t->dir, logits));
    const bool spans = ft_task_has_spans(t->job.task);
    const size_t judged = (size_t)(spans ? data->examples : ft_dataset_rows(data));
    float *losses = ft_calloc(judged, sizeof *losses, "losses");
    ft_answer_verdict *answers = spans ? ft_calloc(judged, sizeof *answers, "answers") : NULL;
    ft_status status = losses != NULL && (answers != NULL || !spans) ? FT_OK : FT_NO_MEMORY;
    inference work = {.data = data, .logits = logits, .losses = spans ? NULL : losses, .shown = {t->room.ranks, split == FT_SPLIT_TEST ? "testing" : "evaluating", 0}};
    if (status == FT_OK) status = ft_ladder_climb(t, FT_LADDER_LAYOUT, infer, &work);
    ft_status_line("%s", "");
    const ft_answer_rules rules = ft_answer_rules_of(t->room.config, false);
    if (status == FT_OK && spans) status = ft_answers_judge_all(data, logits, &rules, answers, losses);
    ft_scores scores = {.scoring = &t->job.task->scoring,
                        .n = ft_dataset_judged(data),
                        .outputs = t->job.labels.count,
                        .logits = logits->all,
                        .kept = logits,
                        .labels = data->label,
                        .first = spans ? NULL : data->groups.count > 0 ? data->groups.first : data->first_row,
                        .member = data->groups.member,
                        .answers = answers,
                        .names = t->job.label_names,
                        .targets = data->target,
                        .sets = data->sets.first != NULL ? &data->sets : NULL,
                        .losses = losses};
    if (status == FT_OK) status = decide(t, split, &scores);
    if (status == FT_OK) status = ft_metrics_compute(&scores, metrics);
    note_held(t);
    free(losses);
    free(answers);
    t->step.state.seconds_eval += ft_now() - before;
    if (split == FT_SPLIT_VALIDATION) ft_deadline_took(&t->deadline.evaluation, before);
    return status;
}

// By how much `value` is better than the best so far; infinite for the first.
static double gain_of(const ft_trainer *t, double value) {
    if (isnan(value)) return -INFINITY; // auroc of one class, say
    if (t->step.state.best_step < 0) return INFINITY;
    return ft_metric_greater_is_better(t->room.config->eval.metric) ? value - t->step.state.best_value : t->step.state.best_value - value;
}

ft_status ft_trainer_evaluate(ft_trainer *t, bool *stop) {
    ft_logits logits = {.file = -1};
    ft_metrics metrics = {0};
    ft_status status = judge(t, FT_SPLIT_VALIDATION, &logits, &metrics);
    if (status != FT_OK) goto done;
    double value = ft_metric_value(&metrics, t->room.config->eval.metric);
    double gain = gain_of(t, value);
    if (isnan(value))
        ft_warn("%s does not exist on %s (a class without examples, or constant numbers): this step cannot be the best",
                ft_metric_name(t->room.config->eval.metric), t->job.split[FT_SPLIT_VALIDATION].path);
    bool best = gain > 0; // any improvement is the best model; patience asks for more than min_delta
    FT_TRY_GOTO(ft_run_log_eval(t, &metrics), done);
    ft_progress_eval(t, &metrics, best);
    if (best) {
        FT_TRY_GOTO(ft_run_end_keep_best(t), done);
        FT_TRY_GOTO(ft_run_save_model(t), done);
        FT_TRY_GOTO(ft_run_save_predictions(t, FT_SPLIT_VALIDATION, &logits), done);
        t->step.state.best_value = value; // from here on a resumed run need not save them again
        t->step.state.best_step = t->step.state.step;
        for (int k = 0; k < FT_METRIC_COUNT; k++) t->step.state.best_metrics[k] = ft_metric_value(&metrics, (ft_metric)k);
    }
    t->step.state.bad_evaluations = gain > t->room.config->train.min_delta ? 0 : t->step.state.bad_evaluations + 1;
    if (t->room.config->train.patience > 0 && t->step.state.bad_evaluations >= t->room.config->train.patience) {
        *stop = t->step.state.stopped_early = true;
        ft_info("stopping early: no better %s in %lld evaluations", ft_metric_name(t->room.config->eval.metric),
                (long long)t->step.state.bad_evaluations);
    }
done:
    ft_metrics_free(&metrics);
    ft_logits_close(&logits);
    return status;
}

static ft_status load_best(ft_trainer *t, void *context) {
    ft_load_report report;
    if (!ft_trainer_loads(t)) return FT_OK; // the first one's weights are all ranks'
    if (t->room.config->adapter.type != FT_ADAPTER_NONE) return ft_model_load_adapter(&t->room.model, context);
    return ft_model_load(&t->room.model, context, 0, 0, &t->arena, &report);
}

ft_status ft_trainer_test(ft_trainer *t) {
    if (!t->job.split[FT_SPLIT_TEST].present) return FT_OK;
    if (t->room.ranks != NULL) FT_TRY(ft_ranks_agree(t->room.ranks)); // the model is saved
    // Also when the last step is the best: what a run needs must not depend on how well it goes.
    if (t->step.state.best_step >= 0) {
        char *best = ft_path_join(&t->arena, t->dir, ft_run_result(t->room.config));
        if (best == NULL) return FT_NO_MEMORY;
        FT_TRY(ft_ladder_climb(t, FT_LADDER_STATE, load_best, best));
        if (t->room.ranks != NULL) FT_TRY(ft_ranks_agree(t->room.ranks)); // and here again
        FT_TRY(recall_decisions(t, best));
    }
    ft_logits logits = {.file = -1};
    ft_status status = judge(t, FT_SPLIT_TEST, &logits, &t->test_metrics);
    if (status == FT_OK) {
        t->have_test_metrics = true;
        status = ft_run_save_predictions(t, FT_SPLIT_TEST, &logits);
    }
    ft_logits_close(&logits);
    return status;
}
