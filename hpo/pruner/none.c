// none.c - every trial runs to its end.
#include "hpo/pruner/internal.h"

static ft_status decide(ft_pruner *pruner, const ft_trials *trials, const ft_trial *trial, ft_verdict *verdict) {
    return FT_OK;
}

ft_status ft_pruner_none(ft_pruner **out) {
    static const ft_pruner_kind kind = {.name = "none", .decide = decide};
    *out = ft_calloc(1, sizeof **out, "a pruner");
    if (*out == NULL) return FT_NO_MEMORY;
    (*out)->kind = &kind;
    return FT_OK;
}
