#include "hpo/commands/study_sharing.h"

#include "base/json/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

ft_status ft_study_sharing_load(ft_stored *study, ft_arena *arena, ft_study_sharing *s) {
    FT_TRY(ft_sharing_load(study, arena, &s->records, &s->count));
    s->means = ft_sharing_sum_up(s->records, s->count);
    return FT_OK;
}

// ---- for people ----------------------------------------------------------------------------------------------------

static const char *factor(double value, char out[32]) {
    snprintf(out, 32, isnan(value) ? "unknown" : "%.2f", value);
    return out;
}

void ft_study_sharing_print(const ft_study_sharing *s) {
    char predicted[32], seen[32], expected[32];
    const ft_sharing_means *m = &s->means;
    if (m->shared > 0) {
        printf("sharing    %" PRId64 " trial%s had a device together with others: ", m->shared, m->shared == 1 ? "" : "s");
        if (isnan(m->predicted) && isnan(m->seen)) // say it once
            printf("by how much they slowed each other down is not known");
        else
            printf("slow-down predicted %s, seen %s", factor(m->predicted, predicted), factor(m->seen, seen));
        if (m->seen_of > 0 && m->seen_of < m->shared)
            printf(" (of the %" PRId64 " where both are known; predicted for those %s)", m->seen_of,
                   factor(m->expected, expected));
        putchar('\n');
    }
    if (m->held > 0)
        printf("%s %" PRId64 " trial%s waited where more trials on a device would not have paid\n",
               m->shared > 0 ? "          " : "sharing   ", m->held, m->held == 1 ? "" : "s");
}

// ---- for programs --------------------------------------------------------------------------------------------------

static json_t *number(double value) { return isnan(value) ? json_null() : json_real(value); }

static json_t *record_value(const ft_sharing_record *r, bool *failed) {
    json_t *object = json_object();
    ft_json_put(object, "trial", json_integer(r->trial), failed);
    ft_json_put(object, "beside", json_integer(r->beside), failed);
    ft_json_put(object, "share", number(r->share), failed);
    ft_json_put(object, "predicted", number(r->predicted), failed);
    ft_json_put(object, "seen", number(r->seen), failed);
    ft_json_put(object, "seen_against", json_string(r->against), failed);
    ft_json_put(object, "held_seconds", json_real(r->held), failed);
    return object;
}

json_t *ft_study_sharing_value(const ft_study_sharing *s, bool *failed) {
    json_t *object = json_object(), *list = json_array();
    ft_json_put(object, "shared", json_integer(s->means.shared), failed);
    ft_json_put(object, "held", json_integer(s->means.held), failed);
    ft_json_put(object, "predicted", number(s->means.predicted), failed);
    ft_json_put(object, "seen", number(s->means.seen), failed);
    for (int64_t i = 0; i < s->count; i++)
        ft_json_append(list, record_value(&s->records[i], failed), failed);
    ft_json_put(object, "trials", list, failed);
    return object;
}
