#include "engine/train/quote.h"

#include "base/files.h"
#include "base/log.h"
#include "base/stop.h"
#include "engine/metrics/logits.h"
#include "engine/train/room/observer.h"
#include "engine/train/room/stages.h"
#include "engine/train/step/predict.h"
#include "engine/train/trainer.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FEWEST = 3, MOST = 2000 }; // steps
// LEAST_ERROR: by how much steps that follow differ from those that were measured, beyond what these show. Of 20 runs 12 ended within what the steps
// alone would say with 5% at least, of 20 others on a machine whose peak swung by a third 12 within 10%; of the 40 together 39 within 20%. Judged by
// runs of a third draw (benchmarks/results/quote_interval.md).
static const double FOR_STEPS = 0.6, LEAST_ERROR = 0.2, OF_FILES = 0.3, OF_A_PART = 0.1;

// ---- figures ------------------------------------------------------------------------------------------------------

double ft_student_t(int64_t degrees) {
    static const double few[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262};
    if (degrees < 1) return INFINITY;
    return degrees <= 9 ? few[degrees - 1] : 1.96 + 2.5 / (double)degrees;
}

static ft_estimate within(double seconds, double error) {
    return (ft_estimate){.seconds = seconds, .low = fmax(seconds - error, 0), .high = seconds + error};
}

static ft_estimate share(double seconds, double of_it) { return within(seconds, of_it * seconds); }

// Not hypot: that of glibc 2.35 has another version, and a program with it would not start with an older one.
static double root(double a, double b) { return sqrt(a * a + b * b); }

ft_estimate ft_estimate_add(ft_estimate a, ft_estimate b) {
    const double seconds = a.seconds + b.seconds;
    return (ft_estimate){.seconds = seconds,
                         .low = seconds - root(a.seconds - a.low, b.seconds - b.low),
                         .high = seconds + root(a.high - a.seconds, b.high - b.seconds)};
}

static ft_estimate times(ft_estimate e, double n) { return (ft_estimate){n * e.seconds, n * e.low, n * e.high}; }

// ---- steps --------------------------------------------------------------------------------------------------------

typedef struct sample {
    double seconds[MOST], tokens[MOST]; // of each step; the first one is [0]
    int count;
} sample;

static ft_status stopped(void) {
    const int signal_number = ft_stop_signal();
    return signal_number == 0 ? FT_OK
                              : ft_fail(ft_stop_status(signal_number), NULL, "stopped while a few steps were measured");
}

static ft_status take_steps(ft_trainer *t, double budget, sample *s) {
    const double end = ft_now() + budget;
    while (s->count < MOST && s->count < t->room.plan.total_steps && (s->count < FEWEST || ft_now() < end)) {
        const double before = ft_now();
        const int64_t tokens = t->step.state.tokens;
        FT_TRY(stopped());
        FT_TRY(ft_trainer_step(t, false));
        s->seconds[s->count] = ft_now() - before;
        s->tokens[s->count++] = (double)(t->step.state.tokens - tokens);
        ft_status_line("measuring step %d", s->count);
    }
    return FT_OK;
}

// What all steps take: seconds a token times all tokens, as a ratio is estimated. Without figures of tokens every step
// counts as one.
static ft_estimate all_steps(const ft_trainer *t, const sample *s, ft_run_quote *q) {
    const int first = s->count > 1 ? 1 : 0, count = s->count - first;
    const ft_run_plan *plan = &t->room.plan;
    double seconds = 0, tokens = 0, rest = 0;
    for (int i = first; i < s->count; i++)
        seconds += s->seconds[i], tokens += s->tokens[i];
    const bool counts = tokens > 0;
    const double units = counts ? tokens : count, rate = seconds / units;
    for (int i = first; i < s->count; i++) {
        const double residual = s->seconds[i] - rate * (counts ? s->tokens[i] : 1);
        rest += residual * residual;
    }
    const double steps = (double)plan->total_steps, data = (double)t->job.split[FT_SPLIT_TRAIN].data.tokens;
    const double all = counts && data > 0 ? data * steps / (double)plan->steps_per_epoch : units / count * steps;
    const double variance = count > 1 ? rest / (count - 1) : 0, mean = units / count;
    const double error = ft_student_t(count - 1 > 0 ? count - 1 : 1) *
                         sqrt(all * all * variance / (count * mean * mean) + steps * variance);
    q->measured_steps = count;
    q->measured_seconds = seconds;
    q->tokens_per_second = counts ? tokens / seconds : 0;
    return within(rate * all, fmax(error, LEAST_ERROR * rate * all));
}

// ---- an evaluation ------------------------------------------------------------------------------------------------

typedef struct pass {
    double began, end, took;
    int64_t done, total;
} pass;

static ft_status look(void *context, int64_t done, int64_t total) {
    pass *p = context;
    p->done = done;
    p->total = total;
    p->took = ft_now() - p->began;
    FT_TRY(stopped());
    return done < total && ft_now() > p->end && p->done > 0 ? ft_fail(FT_FAILED, NULL, "enough was measured") : FT_OK;
}

// As much of the split as the time allows: seconds of all of it.
static ft_status take_pass(ft_trainer *t, ft_split split, double budget, pass *p) {
    const ft_dataset *data = &t->job.split[split].data;
    ft_logits logits = {.file = -1};
    *p = (pass){.began = ft_now(), .end = ft_now() + budget};
    FT_TRY(ft_logits_open(ft_dataset_rows(data), t->job.labels.count, t->dir, &logits));
    ft_status status = ft_predict_dataset(&t->room.model, t->job.task, data, t->room.eval_limits, t->room.eval_capacity,
                                          t->room.config->eval.window_pooling, &logits, NULL, look, p);
    ft_logits_close(&logits);
    if (status == FT_OK) p->done = p->total, p->took = ft_now() - p->began;
    if (status == FT_FAILED && p->done > 0 && p->done < p->total) {
        ft_error_clear(); // that of look()
        return FT_OK;
    }
    return status;
}

static ft_estimate all_of(const pass *p) {
    if (p->done == 0) return (ft_estimate){0};
    return share(p->took * (double)p->total / (double)p->done, p->done == p->total ? LEAST_ERROR : OF_A_PART);
}

static int64_t evaluations_of(const ft_trainer *t) {
    const ft_config *c = t->room.config;
    const int64_t total = t->room.plan.total_steps;
    if (!t->job.split[FT_SPLIT_VALIDATION].present || c->eval.strategy == FT_EVAL_NO) return 0;
    const int64_t every = c->eval.strategy == FT_EVAL_STEPS ? c->eval.steps : t->room.plan.steps_per_epoch;
    return total / every + (total % every != 0);
}

static ft_status judge(ft_trainer *t, double budget, ft_run_quote *q) {
    pass p = {0};
    const bool validation = t->job.split[FT_SPLIT_VALIDATION].present && q->evaluations > 0,
               test = t->job.split[FT_SPLIT_TEST].present;
    if (!validation && !test) return FT_OK;
    const ft_split split = validation ? FT_SPLIT_VALIDATION : FT_SPLIT_TEST;
    FT_TRY(take_pass(t, split, budget, &p));
    if (validation) q->evaluate = times(all_of(&p), (double)q->evaluations);
    if (test && p.done > 0) {
        const double texts = (double)t->job.split[FT_SPLIT_TEST].data.sequences,
                     of = (double)t->job.split[split].data.sequences;
        q->test = share(all_of(&p).seconds * texts / of, validation ? OF_A_PART : LEAST_ERROR);
    }
    return FT_OK;
}

// ---- files --------------------------------------------------------------------------------------------------------

static ft_status save(ft_trainer *t, ft_run_quote *q) {
    FT_TRY(stopped());
    FT_TRY(ft_run_save_model(t));
    FT_TRY(ft_checkpoint_save(t));
    const int64_t every =
        t->room.config->output.save_steps > 0 ? t->room.config->output.save_steps : t->room.plan.steps_per_epoch;
    q->checkpoints = (t->room.plan.total_steps - 1) / every + 1;
    const double model = t->deadline.model, states = t->deadline.checkpoint * (double)q->checkpoints,
                 most = (double)(q->evaluations > 1 ? q->evaluations : 1);
    // The best model is saved after the first evaluation at least, and after every one at most.
    q->save = (ft_estimate){.seconds = model * (1 + most) / 2 + states,
                            .low = (1 - OF_FILES) * (model + states),
                            .high = (1 + OF_FILES) * (model * most + states)};
    return FT_OK;
}

// ---- all of it ----------------------------------------------------------------------------------------------------

// It may end early: after the evaluations that patience has, and one more.
static void be_patient(const ft_trainer *t, ft_run_quote *q) {
    const int64_t least = t->room.config->train.patience + 1;
    if (t->room.config->train.patience == 0 || q->evaluations <= least) return;
    const double part = (double)least / (double)q->evaluations;
    q->train.low *= part;
    q->evaluate.low *= part;
}

// opened: seconds that went before the first step.
static ft_status measure(ft_trainer *t, double opened, double seconds, ft_run_quote *q) {
    sample *s = ft_calloc(1, sizeof *s, "steps that are measured");
    if (s == NULL) return FT_NO_MEMORY;
    q->total_steps = t->room.plan.total_steps;
    q->evaluations = evaluations_of(t);
    ft_status status = take_steps(t, FOR_STEPS * seconds, s);
    if (status == FT_OK) {
        q->train = all_steps(t, s, q);
        q->start = share(opened + (s->count > 1 ? fmax(s->seconds[0] - s->seconds[1], 0) : 0), OF_A_PART);
    }
    free(s);
    FT_TRY(status);
    FT_TRY(judge(t, (1 - FOR_STEPS) * seconds, q));
    FT_TRY(save(t, q));
    be_patient(t, q);
    return FT_OK;
}

// One run of the configuration, in the folder.
static const char *prepare(const ft_config *config, const char *folder, ft_arena *arena, ft_config *one) {
    *one = *config; // strings are shared
    one->output.dir = ft_path_join(arena, folder, "run");
    one->output.exists = FT_EXISTS_NEW;
    one->memory.timeline = false;
    one->train.deadline = "";
    if (one->data.folds > 0 && one->data.fold == 0) one->data.fold = 1;
    if (one->train.seeds.count > 0) one->train.seed = one->train.seeds.values[0];
    one->train.seeds.count = 0;
    one->data.shares.count = 0; // that of all texts is measured
    return one->output.dir;
}

static ft_status run(const ft_config *one, double seconds, ft_run_quote *q, ft_memory_refusal *refusal) {
    ft_trainer t;
    const double began = ft_now();
    ft_status status = ft_trainer_open(one, &t);
    t.started = began;
    t.deadline = (ft_run_deadline){.evaluated = -1};
    if (status == FT_OK) status = ft_run_dir_open(&t);
    if (status == FT_OK) status = ft_trainer_choose_products(&t, false);
    if (status == FT_OK) status = measure(&t, ft_now() - began, seconds, q);
    ft_status_line("%s", "");
    if (t.room.memory != NULL) (void)ft_memory_refused(t.room.memory, &t.room.refusal);
    if (refusal != NULL) *refusal = t.room.refusal;
    ft_run_ended(t.room.memory);
    ft_error error;
    ft_error_save(&error);
    const ft_status closed = ft_trainer_close(&t);
    if (status == FT_OK) return closed;
    ft_error_restore(&error);
    return status;
}

// Beside where the run directory would be, so that files are written to the same disk.
static char *make_folder(const ft_config *config, ft_arena *arena) {
    const char *dir = config->output.dir, *slash = strrchr(dir, '/');
    const char *parent = slash != NULL && slash > dir ? ft_arena_strndup(arena, dir, (size_t)(slash - dir))
                         : dir[0] == '\0' && ft_path_is_directory("runs") ? "runs"
                                                                          : ".";
    if (parent != NULL && !ft_path_is_directory(parent)) parent = ".";
    char *folder = parent != NULL ? ft_path_join(arena, parent, ".ftengine-quote-XXXXXX") : NULL;
    if (folder != NULL && mkdtemp(folder) == NULL) {
        ft_fail_errno(FT_FAILED, errno, folder, "cannot make a folder");
        return NULL;
    }
    return folder;
}

static int runs_of(const ft_config *c) {
    const int64_t folds = c->data.folds > 0 && c->data.fold == 0 ? c->data.folds : 1,
                  seeds = c->train.seeds.count > 0 ? c->train.seeds.count : 1;
    return c->data.shares.count > 0 ? c->data.shares.count : (int)(folds * seeds);
}

// Of all runs the steps, in those of the one that is measured. Whatever else there is each has once.
static double trainings_of(const ft_config *c) {
    double parts = 0;
    for (int i = 0; i < c->data.shares.count; i++) parts += 1 / (double)c->data.shares.values[i];
    return c->data.shares.count > 0 ? parts : runs_of(c);
}

static void sum_up(ft_run_quote *q, double trainings) {
    ft_estimate *const parts[] = {&q->start, &q->train, &q->evaluate, &q->save, &q->test};
    q->total = (ft_estimate){0};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        *parts[i] = times(*parts[i], parts[i] == &q->train ? trainings : q->runs);
        q->total = ft_estimate_add(q->total, *parts[i]);
    }
}

ft_status ft_train_quote(const ft_config *config, double seconds, ft_run_quote *quote, ft_memory_refusal *refusal) {
    ft_arena arena = {0};
    ft_config one;
    *quote = (ft_run_quote){.runs = runs_of(config)};
    ft_stop_begin();
    char *folder = make_folder(config, &arena);
    ft_status status = folder != NULL ? FT_OK : ft_error_code();
    const ft_log_level level = ft_log_get_level();
    if (status == FT_OK) status = prepare(config, folder, &arena, &one) != NULL ? FT_OK : FT_NO_MEMORY;
    if (status == FT_OK && level < FT_LOG_VERBOSE) ft_log_set_level(FT_LOG_QUIET); // the run says it
    if (status == FT_OK) status = run(&one, seconds, quote, refusal);
    ft_log_set_level(level);
    ft_error error;
    ft_error_save(&error);
    ft_status removed = folder != NULL ? ft_remove_tree(folder) : FT_OK;
    ft_arena_free(&arena);
    if (status != FT_OK)
        ft_error_restore(&error);
    else
        sum_up(quote, trainings_of(config));
    return status != FT_OK ? status : removed;
}
