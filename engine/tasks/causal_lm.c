// causal_lm.c - language modelling: of every token that is trained the next one. There are no classes to list: labels are ids of the
// vocabulary, and what the model puts out of a row is its loss (blocks/language.c).
#include "engine/tasks/rows.h"
#include "engine/tasks/tasks.h"

#include <math.h>

static ft_status outputs(const ft_task_tables *t, ft_arena *arena, ft_labels *labels) {
    *labels = (ft_labels){.kind = FT_LABELS_NEXT_TOKENS, .count = 1, .separator = t->separator, .names = ft_arena_alloc(arena, sizeof *labels->names)};
    if (labels->names == NULL) return FT_NO_MEMORY;
    labels->names[0] = "loss";
    return FT_OK;
}

static float loss(const float *logits, int outputs, int32_t label, const float *target) { return logits[0]; }

// Of all trained tokens together, as everybody counts it: a long text has more to say than a short one.
static ft_status measure(const ft_scores *s, ft_metrics *m) {
    double sum = 0;
    int64_t tokens = 0;
    for (int64_t i = 0; i < s->n; i++) {
        const int64_t at = ft_scores_at(s, i);
        for (int64_t row = s->first[at]; row < s->first[at + 1]; row++, tokens++) {
            const float own = *ft_scores_at_row(s, row);
            if (!isfinite(own)) return ft_fail(FT_DIVERGED, NULL, "the loss of a token of text %lld is not finite", (long long)at);
            sum += (double)own;
        }
    }
    m->value[FT_METRIC_PERPLEXITY] = tokens > 0 ? exp(sum / (double)tokens) : NAN;
    return FT_OK;
}

#define BIT(metric) FT_METRIC_BIT(FT_METRIC_##metric)

static const char *const no_heads[] = {NULL};

const ft_task_spec ft_task_causal_lm = {
    .id = FT_TASK_CAUSAL_LM,
    .labels = FT_LABELS_NEXT_TOKENS,
    .empty_labels = true,
    .outputs = outputs,
    .loss = loss,
    .scoring = {.kind = "causal_lm", .metrics = BIT(LOSS) | BIT(PERPLEXITY), .known = "loss, perplexity", .measure = measure},
    .shown = {FT_METRIC_LOSS, FT_METRIC_PERPLEXITY},
    .decided_heads = no_heads};
