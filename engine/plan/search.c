#include "engine/plan/search.h"

// Reserved bytes grow with the micro-batch almost in a straight line: the line through two plans lands at the answer or
// next to it. The line is drawn anew after every plan, and every third step halves the interval instead, so that a kink
// cannot make the search creep.
typedef struct search {
    ft_config config; // its strings belong to the caller's
    const ft_plan_request *request;
    ft_plan_vary vary;
    int64_t fits, fails; // the largest that is known to fit, the smallest that is known not to
    double fits_bytes, fails_bytes, budget;
} search;

static ft_status try_size(search *s, int64_t n) {
    ft_plan plan;
    s->config.train.micro_batch = n;
    if (s->vary == FT_VARY_BATCH) s->config.train.batch_size = n;
    FT_TRY(ft_plan_run(&s->config, s->request, &plan));
    s->budget = (double)plan.budget_bytes;
    if (plan.fits)
        s->fits = n, s->fits_bytes = (double)plan.memory.peak_reserved;
    else
        s->fails = n, s->fails_bytes = (double)plan.memory.peak_reserved;
    return FT_OK;
}

// Where the line through two points reaches the budget.
static double crossing(const search *s, double n1, double bytes1, double n2, double bytes2) {
    return bytes2 > bytes1 ? n1 + (s->budget - bytes1) * (n2 - n1) / (bytes2 - bytes1) : 2 * n2;
}

// A little above what the line says, so that the next size most likely fails and the answer is enclosed.
static int64_t beyond(const search *s, double one_bytes, int64_t most) {
    double guess = s->fits > 1 ? crossing(s, 1, one_bytes, (double)s->fits, s->fits_bytes) : 8;
    if (guess < (double)s->fits) guess = (double)s->fits;
    guess += guess / 64 + 1;
    return guess < (double)most ? (int64_t)guess : most;
}

static int64_t inside(const search *s, double guess) {
    if (!(guess > (double)s->fits + 1)) return s->fits + 1;
    return guess < (double)s->fails ? (int64_t)guess : s->fails - 1;
}

static bool offloads_inputs(const ft_config *config) { return (config->memory.offload & FT_OFFLOAD_ACTIVATIONS) != 0; }

ft_status ft_plan_largest(const ft_config *config, const ft_plan_request *request, ft_plan_vary vary, int64_t most,
                          int64_t *sequences) {
    search s = {.config = *config, .request = request, .vary = vary, .fails = most + 1};
    s.config.train.micro_batch_tokens = FT_AUTO;
    if (s.config.model.storage == FT_KEEP_AUTO) s.config.model.storage = FT_KEEP_AS_READ; // another changes results
    if (s.config.train.gradient_checkpointing == FT_AUTO) // what memory.offload makes of it, on any device
        s.config.train.gradient_checkpointing = offloads_inputs(config) ? 1 : 0;
    if (s.config.train.gradient_checkpointing == 0 && offloads_inputs(config)) // then there are none to offload
        s.config.memory.offload = (ft_offload_choice)(config->memory.offload & ~(unsigned)FT_OFFLOAD_ACTIVATIONS);
    if (s.config.memory.recompute_activation == FT_RECOMPUTE_AUTO) s.config.memory.recompute_activation = FT_RECOMPUTE_TRUE;
    if (s.config.memory.recompute_layernorm == FT_RECOMPUTE_AUTO) // what a run that does not fit otherwise makes of it
        s.config.memory.recompute_layernorm = ft_precision_is_half(s.config.train.precision) ? FT_RECOMPUTE_FALSE : FT_RECOMPUTE_TRUE;
    FT_TRY(try_size(&s, 1));
    double one_bytes = s.fits_bytes;
    while (s.fits > 0 && s.fits < most && s.fails > most)
        FT_TRY(try_size(&s, beyond(&s, one_bytes, most)));
    for (int round = 1; s.fits > 0 && s.fails - s.fits > 1; round++) {
        double line = crossing(&s, (double)s.fits, s.fits_bytes, (double)s.fails, s.fails_bytes);
        double middle = (double)s.fits + (double)(s.fails - s.fits) / 2;
        FT_TRY(try_size(&s, inside(&s, round % 3 == 0 ? middle : line)));
    }
    *sequences = s.fits;
    return FT_OK;
}

static ft_status advise(const ft_config *config, const ft_plan_request *request, ft_plan_advice *advice) {
    ft_config changed = *config;
    changed.train.gradient_checkpointing = advice->gradient_checkpointing;
    if (advice->small_evaluation) changed.eval.batch_size = FT_AUTO, changed.eval.batch_multiplier = FT_AUTO;
    return ft_plan_largest(&changed, request, FT_VARY_MICRO_BATCH, config->train.batch_size, &advice->micro_batch);
}

ft_status ft_plan_advise(const ft_config *config, const ft_plan_request *request, ft_plan_advice *advice) {
    const bool automatic = config->train.gradient_checkpointing == FT_AUTO;
    const int64_t asked = automatic ? offloads_inputs(config) ? 1 : 0 : config->train.gradient_checkpointing, ways[] = {asked, 1};
    const bool large_evaluation = config->eval.batch_size != FT_AUTO || config->eval.batch_multiplier != FT_AUTO;
    *advice = (ft_plan_advice){0};
    for (int small = 0; small <= (large_evaluation ? 1 : 0); small++)
        for (int i = 0; i < (asked == 1 ? 1 : 2) && advice->micro_batch == 0; i++) {
            *advice = (ft_plan_advice){.gradient_checkpointing = ways[i], .small_evaluation = small == 1};
            FT_TRY(advise(config, request, advice));
        }
    return FT_OK;
}
