// memory.c - trials that need more memory than there is: as a result, which the sampler learns from, in the words
// of the scripts that people have.
#include "hpo/study/study.h"

#include "base/json/json.h"
#include "base/log.h"
#include "engine/memory/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What was planned names what it needs. A trial that the host refused memory before there was a plan has run out of it too.
bool ft_tuning_foreseen(const ft_trial_end *end) { return !end->entered && end->needed > 0; }

// ---- the record -----------------------------------------------------------------------------------------------------

static ft_status set_text(ft_tuning *t, int64_t number, const char *key, const char *text) {
    return ft_stored_set_scalar(t->study, number, FT_USER_ATTRIBUTE, key,
                                &(ft_choice){.kind = FT_CHOICE_TEXT, .text = text});
}

static json_t *oom_config(const ft_config *c) {
    int64_t effective = c->train.batch_size * c->train.gradient_accumulation_steps;
    return json_pack("{s:o, s:I, s:I, s:I, s:I}", "model", ft_json_text(c->model.path), "batch_size",
                     (json_int_t)c->train.batch_size, "grad_accum", (json_int_t)c->train.gradient_accumulation_steps,
                     "max_length", (json_int_t)c->data.max_length, "effective_batch_size", (json_int_t)effective);
}

static ft_status store_config(ft_tuning *t, int64_t number) {
    ft_config config;
    FT_TRY(ft_tuning_trial_config(t, number, &config));
    json_t *object = oom_config(&config);
    char *line = ft_json_line(object);
    json_decref(object);
    ft_arena_free(&config.arena);
    if (line == NULL) return FT_NO_MEMORY;
    ft_status status = ft_stored_set_attribute(t->study, number, FT_USER_ATTRIBUTE, "oom_config", line);
    free(line);
    return status;
}

// How far beyond what could be taken, as a share of it. What is not known is still beyond.
static double excess(const ft_trial_end *end) {
    double known = end->limit > 0 ? ((double)end->needed - (double)end->limit) / (double)end->limit : 0;
    return known > 1e-6 ? known : 1e-6;
}

// Behind the study's own constraints, of which such a trial has broken none.
static ft_status store_excess(ft_tuning *t, int64_t number, const ft_trial_end *end) {
    double values[FT_OBJECTIVE_LIMIT + 1] = {0};
    values[t->limits.count] = excess(end);
    return ft_stored_constraints(t->study, number, NULL, values, t->limits.count + 1);
}

// As run.json tells it; not every trial came to writing one.
static ft_status store_peak(ft_tuning *t, int64_t number, size_t bytes) {
    FT_TRY(ft_stored_set_scalar(t->study, number, FT_USER_ATTRIBUTE, "peak_memory_bytes",
                                &(ft_choice){.kind = FT_CHOICE_INT, .integer = (int64_t)bytes}));
    return ft_stored_set_scalar(t->study, number, FT_USER_ATTRIBUTE, "peak_memory_gb",
                                &(ft_choice){.kind = FT_CHOICE_FLOAT, .number = (double)bytes / 0x1p30});
}

ft_status ft_tuning_store_oom(ft_tuning *t, int64_t number, const ft_trial_end *end, const json_t *run) {
    const bool foreseen = ft_tuning_foreseen(end), skipped = foreseen && strcmp(t->options->memory_policy, "prune") == 0;
    char error[96], needed[24], limit[24];
    if (foreseen)
        snprintf(error, sizeof error, "needs %s, and %s may be taken", ft_bytes_text(end->needed, needed),
                 ft_bytes_text(end->limit, limit));
    FT_TRY(ft_tuning_set_end(t, number, foreseen ? "does_not_fit" : "oom", foreseen ? error : end->error));
    if (end->needed > 0)
        FT_TRY(ft_stored_set_scalar(t->study, number, FT_USER_ATTRIBUTE, "memory.needed_bytes",
                                    &(ft_choice){.kind = FT_CHOICE_INT, .integer = (int64_t)end->needed}));
    if (!foreseen) {
        FT_TRY(ft_stored_set_attribute(t->study, number, FT_USER_ATTRIBUTE, "oom", "true"));
        FT_TRY(set_text(t, number, "oom_error", end->error));
        FT_TRY(set_text(t, number, "error_message", end->error));
        FT_TRY(store_config(t, number));
        if (run == NULL) FT_TRY(store_peak(t, number, end->peak));
    }
    if (!skipped) FT_TRY(store_excess(t, number, end));
    // Without a value: what it had reported is of a model that was never finished, and no reason to try its like again.
    return ft_stored_finish(t->study, number, FT_PRUNED, NULL, 0);
}

// ---- for people -----------------------------------------------------------------------------------------------------

void ft_tuning_show_oom(const ft_tuning *t, int64_t number, const ft_trial_end *end) {
    ft_config c;
    if (ft_tuning_trial_config(t, number, &c) != FT_OK) {
        ft_error_clear(); // the record has it all the same
        return;
    }
    const char *slash = strrchr(c.model.path, '/');
    char length[32] = "the model's own";
    if (c.data.max_length != FT_AUTO) snprintf(length, sizeof length, "%lld tokens", (long long)c.data.max_length);
    ft_info("[OOM] Trial %lld exceeded %s memory:", (long long)number, end->accelerator ? "GPU" : "CPU");
    ft_info("  model:      %s", slash != NULL ? slash + 1 : c.model.path);
    ft_info("  batch:      %lld x %lld, effective %lld", (long long)c.train.batch_size,
            (long long)c.train.gradient_accumulation_steps,
            (long long)(c.train.batch_size * c.train.gradient_accumulation_steps));
    ft_info("  max length: %s", length);
    ft_info("  error:      %s", end->error);
    ft_arena_free(&c.arena);
}

// Those above study.report_memory_over, as run.json told their peaks.
ft_status ft_tuning_report_memory(const ft_tuning *t) {
    const double most = (double)t->options->report_memory_over;
    char text[24];
    bool any = false;
    for (int64_t i = 0; most > 0 && i < t->study->trials.count; i++) {
        const char *json;
        ft_arena arena = {0};
        ft_status status = ft_stored_attribute(t->study, i, FT_USER_ATTRIBUTE, "peak_memory_bytes", &arena, &json);
        double bytes = status == FT_OK && json != NULL ? strtod(json, NULL) : 0;
        ft_arena_free(&arena);
        FT_TRY(status);
        if (bytes <= most) continue;
        if (!any) ft_info("trials that took more than %s:", ft_bytes_text((size_t)most, text));
        any = true;
        ft_info("  trial %-5lld %s", (long long)i, ft_bytes_text((size_t)bytes, text));
    }
    return FT_OK;
}
