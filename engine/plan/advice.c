#include "engine/plan/advice.h"

#include "engine/plan/plan.h"

#include <stdio.h>

typedef struct advice {
    size_t budget;
    bool found;
    int64_t micro_batch;
    int64_t checkpointing; // as in the configuration: 0 off, 1 on, k
    bool small_evaluation;
    ft_plan plan;
} advice;

// Plans one setting; false when it does not fit or cannot be planned.
static bool fits(const ft_config *config, advice *a, int64_t micro_batch, int64_t checkpointing, bool small_evaluation) {
    ft_config c = *config; // a view: only the numbers below differ
    c.train.micro_batch = micro_batch;
    c.train.gradient_checkpointing = checkpointing;
    if (small_evaluation) {
        c.eval.batch_size = FT_AUTO;
        c.eval.batch_multiplier = 1;
    }
    ft_status status = ft_plan_run(&c, &(ft_plan_request){.budget_bytes = a->budget}, &a->plan);
    a->micro_batch = micro_batch;
    a->checkpointing = checkpointing;
    a->small_evaluation = small_evaluation;
    return a->found = status == FT_OK && a->plan.fits;
}

static bool search(const ft_config *config, advice *a) {
    const int64_t most = config->train.micro_batch == FT_AUTO ? config->train.batch_size : config->train.micro_batch;
    const int64_t asked = config->train.gradient_checkpointing == FT_AUTO ? 0 : config->train.gradient_checkpointing;
    const bool evaluates = config->eval.batch_multiplier > 1 || config->eval.batch_size != FT_AUTO;
    for (int small = 0; small <= (evaluates ? 1 : 0); small++) {
        for (int recompute = 0; recompute < 2; recompute++) {
            int64_t checkpointing = recompute ? 1 : asked;
            if (recompute && asked == 1) break;
            for (int64_t micro = most; micro >= 1; micro /= 2) {
                if (micro == most && !recompute && !small) continue; // that is what failed
                if (fits(config, a, micro, checkpointing, small)) return true;
            }
        }
    }
    return false;
}

static void setting_text(const ft_config *config, const advice *a, char *out, size_t size) {
    size_t at = (size_t)snprintf(out, size, "train.micro_batch=%lld", (long long)a->micro_batch);
    if (a->checkpointing == 1 && config->train.gradient_checkpointing != 1)
        at += (size_t)snprintf(out + at, size - at, " train.gradient_checkpointing=on");
    if (a->small_evaluation) snprintf(out + at, size - at, " eval.batch_size=auto eval.batch_multiplier=1");
}

void ft_advise(const ft_config *config, const ft_memory_refusal *refusal) {
    advice a = {.budget = refusal->by_limit ? refusal->limit : refusal->reserved};
    ft_error error;
    ft_error_save(&error); // planning has errors of its own, which are nobody's news
    bool found = search(config, &a);
    ft_error_restore(&error);
    char setting[160], needs[24], budget[24];
    setting_text(config, &a, setting, sizeof setting);
    ft_bytes_text(a.budget, budget);
    ft_bytes_text(a.plan.memory.peak_reserved, needs);
    if (found) ft_hint("%s needs %s and gives the same result; it fits into %s", setting, needs, budget);
    else if (a.plan.memory.peak_reserved > 0)
        ft_hint("even %s needs %s (%zu bytes), and %s are there: take a smaller model or another device", setting, needs,
                a.plan.memory.peak_reserved, budget);
}
