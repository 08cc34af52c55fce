// progress.c - what people see of a run: a line that redraws itself on a terminal, plain lines otherwise, a closing table.
#include "engine/train/room/observer.h"
#include "engine/train/trainer.h"
#include "engine/train/watch.h"

#include "base/log.h"
#include "engine/memory/ledger_notes.h"
#include "engine/memory/process.h"
#include "kernels/devices/devices.h"

#include <math.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// "2h03m", "4m05s", "12s".
static const char *duration_text(double seconds, char out[24]) {
    long s = seconds > 0 && seconds < 1e9 ? lround(seconds) : 0;
    if (s >= 3600) snprintf(out, 24, "%ldh%02ldm", s / 3600, s % 3600 / 60);
    else if (s >= 60) snprintf(out, 24, "%ldm%02lds", s / 60, s % 60);
    else snprintf(out, 24, "%lds", s);
    return out;
}

static double rate_of(const ft_trainer *t) {
    double seconds = t->step.state.seconds_train - t->session_seconds;
    return seconds > 0 ? (double)(t->step.state.tokens - t->session_tokens) / seconds : 0;
}

static double remaining_seconds(const ft_trainer *t) {
    int64_t done = t->step.state.step - t->session_step;
    double each = done > 0 ? (ft_now() - t->started - t->features_seconds) / (double)done : 0;
    return each * (double)(t->room.plan.total_steps - t->step.state.step);
}

// To who watches.
static void tell(const ft_trainer *t, ft_run_event event, double loss, const double *metrics, bool best) {
    const ft_run_news news = {.event = event,
                              .dir = t->dir,
                              .step = t->step.state.step,
                              .steps = t->room.plan.total_steps,
                              .epoch = (double)t->step.state.step / (double)t->room.plan.steps_per_epoch,
                              .loss = loss,
                              .learning_rate = t->step.state.learning_rate,
                              .gradient_norm = t->step.state.gradient_norm,
                              .tokens_per_second = rate_of(t),
                              .seconds_left = remaining_seconds(t),
                              .bytes = ft_memory_read(t->room.memory).peak_allocated,
                              .metrics = metrics,
                              .best = best};
    ft_run_tell(&news);
}

void ft_progress_start(const ft_trainer *t) {
    char memory[24];
    ft_info("run        %s", t->dir);
    ft_info("training   %lld steps of up to %lld examples (%lld an epoch), micro-batches of up to %d tokens, memory %s",
            (long long)t->room.plan.total_steps, (long long)t->room.plan.effective_batch, (long long)t->room.plan.steps_per_epoch,
            t->room.plan.texts.tokens, ft_bytes_text(ft_memory_read(t->room.memory).allocated, memory));
    if (t->room.model.dtype != FT_F32)
        ft_info("precision  %s, the trained weights in fp32%s", ft_dtype_name(t->room.model.dtype),
                ft_device_only_rounds(t->room.device) ? "; the CPU only rounds to it, and is faster in fp32" : "");
    if (t->step.state.step > 0) ft_info("resumed    at step %lld", (long long)t->step.state.step);
}

void ft_progress_note(ft_trainer *t, const char *doing) {
    const double now = ft_now();
    const ft_memory_counters c = ft_memory_read(t->room.memory);
    ft_ledger_note note = {.step = t->step.state.step,
                           .steps = t->room.plan.total_steps,
                           .allocated = c.allocated,
                           .reserved = c.reserved,
                           .left = t->step.state.step > t->session_step ? remaining_seconds(t) : -1,
                           .at = (int64_t)time(NULL)};
    const size_t length = strlen(t->dir), room = sizeof note.run - 1;
    snprintf(note.run, sizeof note.run, "%s", t->dir + (length > room ? length - room : 0));
    snprintf(note.doing, sizeof note.doing, "%s", doing);
    t->progress_noted = now;
    ft_ledger_note_write(t->room.reservation, &note);
    if (t->room.host_reservation == NULL) return;
    const size_t held = ft_process_held(getpid()); // of the host meanwhile; a driver may not count what it pins as pages of the process
    note.allocated = note.reserved = held > c.pinned ? held : c.pinned;
    ft_ledger_note_write(t->room.host_reservation, &note);
}

void ft_progress_step(ft_trainer *t) {
    double now = ft_now();
    tell(t, FT_RUN_STEPPED, t->step.state.last_loss, NULL, false);
    if (now - t->progress_noted >= 0.5) ft_progress_note(t, "trains");
    if (now - t->progress_shown < 0.1) return;
    t->progress_shown = now;
    char memory[24], eta[24];
    ft_status_line("step %lld/%lld  loss %.4f  lr %.2e  %.0f tokens/s  %s  %s left", (long long)t->step.state.step,
                   (long long)t->room.plan.total_steps, t->step.state.last_loss, t->step.state.learning_rate, rate_of(t),
                   ft_bytes_text(ft_memory_read(t->room.memory).peak_allocated, memory), duration_text(remaining_seconds(t), eta));
}

void ft_progress_log(const ft_trainer *t, double loss) {
    char memory[24], eta[24];
    ft_info("step %lld/%lld  epoch %.2f  loss %.4f  lr %.2e  grad norm %.3f  %.0f tokens/s  %s  %s left",
            (long long)t->step.state.step, (long long)t->room.plan.total_steps,
            (double)t->step.state.step / (double)t->room.plan.steps_per_epoch, loss, t->step.state.learning_rate,
            t->step.state.gradient_norm, rate_of(t),
            ft_bytes_text(ft_memory_read(t->room.memory).peak_allocated, memory),
            duration_text(remaining_seconds(t), eta));
    tell(t, FT_RUN_LOGGED, loss, NULL, false);
}

// The figures that people look at first: up to four that every task of the kind has, the loss in front, and what decides if it is none of them.
enum { SHOWN = 5 };
static int shown_metrics(const ft_trainer *t, ft_metric shown[SHOWN]) {
    bool among = false;
    int count = 0;
    for (int i = 0; i < 4; i++) {
        const ft_metric own = t->job.task->shown[i];
        if (i > 0 && own == FT_METRIC_LOSS) continue; // fewer than four
        shown[count++] = own;
        among = among || own == t->room.config->eval.metric;
    }
    if (!among) shown[count++] = t->room.config->eval.metric;
    return count;
}

static const char *title_of(ft_metric metric) {
    switch (metric) {
    case FT_METRIC_F1_MACRO: return "F1 macro";
    case FT_METRIC_F1_MICRO: return "F1 micro";
    case FT_METRIC_MATTHEWS: return "Matthews";
    case FT_METRIC_PEARSON: return "Pearson";
    case FT_METRIC_SPEARMAN: return "Spearman";
    case FT_METRIC_AVERAGE_PRECISION: return "avg. precision";
    default: return ft_metric_name(metric);
    }
}

void ft_progress_eval(const ft_trainer *t, const ft_metrics *m, bool best) {
    ft_metric shown[SHOWN];
    int count = shown_metrics(t, shown), used = 0;
    char line[200] = "";
    for (int i = 0; i < count && used < (int)sizeof line; i++)
        used += snprintf(line + used, sizeof line - (size_t)used, "  %s %.4f", title_of(shown[i]), ft_metric_value(m, shown[i]));
    ft_info("evaluation at step %lld%s%s", (long long)t->step.state.step, line, best ? "  best so far" : "");
    tell(t, FT_RUN_EVALUATED, t->step.state.last_loss, m->value, best);
}

// values NULL: the titles.
static void table_row(const ft_trainer *t, const char *name, const double *values) {
    ft_metric shown[SHOWN];
    int count = shown_metrics(t, shown), used = 0;
    char line[200] = "";
    for (int i = 0; i < count && used < (int)sizeof line; i++) {
        const char *title = title_of(shown[i]);
        int width = strlen(title) > 9 ? (int)strlen(title) + 1 : i == 0 ? 8 : 10;
        if (values == NULL) used += snprintf(line + used, sizeof line - (size_t)used, " %*s", width, title);
        else used += snprintf(line + used, sizeof line - (size_t)used, " %*.4f", width, values[shown[i]]);
    }
    ft_info("  %-12s%s", name, line);
}

void ft_progress_save(void *saving, int64_t done, int64_t total) {
    ft_progress_saving *s = saving;
    const double now = ft_now();
    ft_run_alive(NULL, 0, 0, false);
    if (s->started == 0) s->started = now;
    if (now - s->started < 1 || now - s->shown < 0.1) return;
    char some[24], all[24];
    s->shown = now;
    ft_status_line("%s: %s of %s", s->what, ft_bytes_text((size_t)done, some), ft_bytes_text((size_t)total, all));
}

void ft_progress_end(const ft_trainer *t, ft_status outcome) {
    ft_status_line("%s", "");
    if (outcome != FT_OK) return;
    char time[24], memory[24];
    ft_memory_counters c = ft_memory_read(t->room.memory);
    ft_info("%s", "");
    if (t->step.state.best_step >= 0 || t->have_test_metrics) table_row(t, "", NULL);
    if (t->step.state.best_step >= 0) table_row(t, "validation", t->step.state.best_metrics);
    if (t->have_test_metrics) table_row(t, "test", t->test_metrics.value);
    if (t->step.state.best_step >= 0)
        ft_info("  best step    %lld of %lld by %s%s", (long long)t->step.state.best_step, (long long)t->step.state.step,
                ft_metric_name(t->room.config->eval.metric), t->step.state.stopped_early ? " (stopped early)" : "");
    ft_info("  time         %s, %.0f real tokens/s in training", duration_text(t->seconds_before + ft_now() - t->started, time),
            t->step.state.seconds_train > 0 ? (double)t->step.state.tokens / t->step.state.seconds_train : 0.0);
    if (t->deadline.reached)
        ft_info("  deadline     %s: ended at step %lld of %lld; ftengine train %s train.deadline= goes on", t->room.config->train.deadline,
                (long long)t->step.state.step, (long long)t->room.plan.total_steps, t->dir);
    if (t->step.state.skipped_steps > 0)
        ft_info("  skipped      %lld of %lld steps overflowed fp16, loss scale %g at the end", (long long)t->step.state.skipped_steps,
                (long long)t->step.state.step, t->step.state.loss_scale);
    ft_info("  peak memory  %s allocated, %s reserved", ft_bytes_text(c.peak_allocated, memory),
            ft_bytes_text(c.peak_reserved, time));
    if (t->room.idle_gpu[0] != '\0') ft_info("  device       the CPU: %s was not used, for the reason at the beginning", t->room.idle_gpu);
    ft_info("  %-12s %s/%s", ft_run_result(t->room.config), t->dir, ft_run_result(t->room.config));
}
