// deadline.c - a run that ends in time: before every step it asks whether that step, and all that is still to be done
// behind it, would be over by then, judging by the longest of each so far.
#include "engine/train/trainer.h"

#include "base/log.h"
#include "engine/config/deadline.h"
#include "engine/train/run_end.h"

#include <math.h>

// Of what was not done yet: the text tokens of an evaluation as if they were trained on, a file as if 50 MB were
// written a second.
static const double WRITTEN_PER_SECOND = 50e6, MARGIN = 1.2, LEAST = 0.25;

ft_status ft_deadline_begin(const ft_config *config, ft_run_deadline *deadline) {
    const char *text = config->train.deadline;
    double left;
    *deadline = (ft_run_deadline){.evaluated = -1};
    if (text[0] == '\0') return FT_OK;
    FT_TRY(ft_deadline_left(text, "train.deadline", &left));
    if (left <= 0) {
        ft_fail(FT_INVALID, "train.deadline", "%s is past", text);
        ft_hint("--deadline 2h counts from now; --deadline '' is none");
        return FT_INVALID;
    }
    deadline->at = ft_now() + left;
    return FT_OK;
}

void ft_deadline_took(double *longest, double since) { *longest = fmax(*longest, ft_now() - since); }

void ft_deadline_took_step(ft_trainer *t, double since) {
    ft_run_deadline *d = &t->deadline;
    const double took = ft_now() - since;
    if (t->step.state.step == t->session_step + 1)
        d->first_step = took; // it loads and records much that no other does
    else
        d->step = fmax(d->step, took);
}

static double step_seconds(const ft_run_deadline *d) { return d->step > 0 ? d->step : d->first_step; }

static double model_bytes(const ft_trainer *t) {
    const ft_parameters *p = &t->room.model.parameters;
    return 4 * (double)(t->room.config->adapter.type != FT_ADAPTER_NONE ? p->real_trainable : p->real_total);
}

// Of a pass over a split.
static double pass_seconds(const ft_trainer *t, ft_split split) {
    const ft_dataset *data = &t->job.split[split].data, *judged = &t->job.split[FT_SPLIT_VALIDATION].data;
    if (!t->job.split[split].present) return 0;
    if (t->deadline.evaluation > 0 && judged->sequences > 0)
        return t->deadline.evaluation * (double)data->sequences / (double)judged->sequences;
    const double each = step_seconds(&t->deadline) / (double)t->room.plan.effective_batch;
    return each * (double)data->sequences;
}

static double save_seconds(const ft_trainer *t) {
    const double model = t->deadline.model > 0 ? t->deadline.model : model_bytes(t) / WRITTEN_PER_SECOND;
    const double state = t->deadline.checkpoint > 0
                             ? t->deadline.checkpoint
                             : model + 8 * (double)t->room.model.parameters.real_trainable / WRITTEN_PER_SECOND;
    return model + state;
}

bool ft_deadline_is_near(const ft_trainer *t, bool saves) {
    const ft_run_deadline *d = &t->deadline;
    if (d->at == 0 || t->step.state.step == t->session_step) return false; // a step is made in any case
    const bool evaluates = t->room.config->eval.strategy != FT_EVAL_NO;
    double left = step_seconds(d) + (evaluates ? pass_seconds(t, FT_SPLIT_VALIDATION) : 0) +
                  pass_seconds(t, FT_SPLIT_TEST) + save_seconds(t);
    if (saves) left += save_seconds(t);
    return ft_now() + MARGIN * left + LEAST >= d->at;
}

ft_status ft_deadline_end(ft_trainer *t) {
    ft_train_state *s = &t->step.state;
    const bool evaluates = t->job.split[FT_SPLIT_VALIDATION].present && t->room.config->eval.strategy != FT_EVAL_NO;
    t->deadline.reached = true;
    ft_info("deadline   train.deadline = %s is near: ending at step %lld of %lld", t->room.config->train.deadline,
            (long long)s->step, (long long)t->room.plan.total_steps);
    if (t->deadline.evaluated != s->step) ft_run_end_note(t);
    FT_TRY(ft_run_log_train(t));
    if (!evaluates || t->deadline.evaluated == s->step) return FT_OK;
    // A run that goes on later is as patient as one that was not ended.
    const int64_t bad = s->bad_evaluations;
    bool stop = false;
    ft_status status = ft_trainer_evaluate(t, &stop);
    s->bad_evaluations = bad;
    s->stopped_early = false;
    return status;
}
