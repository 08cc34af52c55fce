// study_text.c - what several subcommands print.
#include "hpo/commands/study.h"

#include "base/context.h"
#include "base/json/json.h"

#include <errno.h>

ft_status ft_study_print_json(json_t *document, bool failed) { return ft_print_document(document, failed); }

ft_status ft_study_no_best(const ft_stored *study) {
    const ft_trials *trials = &study->trials;
    const ft_trial *least = NULL;
    for (int64_t i = 0; i < trials->count; i++) {
        const ft_trial *t = &trials->trial[i];
        if (t->state == FT_COMPLETE && (least == NULL || ft_trial_violation(t) < ft_trial_violation(least))) least = t;
    }
    if (least == NULL) return ft_fail(FT_FAILED, study->name, "no trial has completed yet");
    ft_status status = ft_fail(FT_FAILED, study->name, "every completed trial violates a constraint");
    ft_hint("trial %lld does least, by %g in all", (long long)least->number, ft_trial_violation(least));
    return status;
}
