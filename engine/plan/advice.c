#include "engine/plan/advice.h"

#include "engine/plan/search.h"
#include "kernels/devices/devices.h"

#include <stdio.h>

// Sums over the tokens of a batch are the CPU's in an order of their own, and a GPU's in that of the micro-batches.
const char *ft_advice_promise(const ft_config *config) {
    ft_device_facts facts;
    ft_error error;
    ft_error_save(&error); // a promise is no reason to fail
    ft_status status = ft_device_look(config->device.name, (int)config->device.threads, &facts);
    ft_error_restore(&error);
    return status == FT_OK && ft_target_same_bits(&facts.target) ? "gives the same bits" : "gives the same result to rounding";
}

// The configuration with the advice followed; the strings stay the caller's.
static ft_config followed(const ft_config *config, const ft_plan_advice *a) {
    ft_config c = *config;
    c.train.micro_batch = a->micro_batch;
    c.train.micro_batch_tokens = FT_AUTO;
    c.train.gradient_checkpointing = a->gradient_checkpointing;
    if (a->small_evaluation) {
        c.eval.batch_size = FT_AUTO;
        c.eval.batch_multiplier = FT_AUTO;
    }
    return c;
}

static void setting_text(const ft_config *config, const ft_plan_advice *a, char *out, size_t size) {
    snprintf(out, size, "train.micro_batch=%lld%s%s%s", (long long)a->micro_batch,
             config->train.micro_batch_tokens != FT_AUTO ? " train.micro_batch_tokens=auto" : "",
             a->gradient_checkpointing != config->train.gradient_checkpointing ? " train.gradient_checkpointing=on" : "",
             a->small_evaluation ? " eval.batch_size=auto eval.batch_multiplier=auto" : "");
}

// A setting that is in use is no advice: it was what did not fit.
static bool in_use(const ft_config *config, const ft_config *c) {
    return c->train.micro_batch == config->train.micro_batch && c->train.micro_batch_tokens == config->train.micro_batch_tokens &&
           c->train.gradient_checkpointing == config->train.gradient_checkpointing && c->eval.batch_size == config->eval.batch_size &&
           c->eval.batch_multiplier == config->eval.batch_multiplier;
}

void ft_advise(const ft_config *config, const ft_memory_refusal *refusal) {
    const ft_plan_request request = {.budget_bytes = refusal->by_limit ? refusal->limit : refusal->reserved};
    ft_error error;
    ft_error_save(&error); // planning has errors of its own, which are nobody's news
    ft_plan_advice a = {0};
    ft_plan plan = {.fits = false};
    bool found = ft_plan_advise(config, &request, &a) == FT_OK && a.micro_batch > 0;
    if (!found) a = (ft_plan_advice){.micro_batch = 1, .gradient_checkpointing = 1, .small_evaluation = true};
    ft_config c = followed(config, &a);
    ft_status status = ft_plan_run(&c, &request, &plan);
    ft_error_restore(&error);
    if (status != FT_OK || (found && in_use(config, &c))) return; // nothing is known
    char setting[200], needs[24], budget[24];
    setting_text(config, &a, setting, sizeof setting);
    ft_bytes_text(request.budget_bytes, budget);
    ft_bytes_text(plan.memory.peak_reserved, needs);
    if (found) ft_hint("%s needs %s and %s; it fits into %s", setting, needs, ft_advice_promise(config), budget);
    else
        ft_hint("even %s needs %s (%zu bytes), and %s are there: take a smaller model or another device", setting, needs,
                plan.memory.peak_reserved, budget);
}
