// study_dump.h - what a study holds, as text: the same as tests/vectors/study_dump.py prints of what Optuna reads.
#ifndef FT_TEST_STUDY_DUMP_H
#define FT_TEST_STUDY_DUMP_H

#include "hpo/storage/pyjson.h"
#include "hpo/storage/storage.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void dump_scalar(FILE *out, const ft_choice *value) {
    if (value->kind == FT_CHOICE_FLOAT)
        fprintf(out, "float %.17g", value->number);
    else
        ft_pyjson_write_scalar(out, value);
}

static void dump_distribution(FILE *out, const ft_distribution *d) {
    if (d->kind != FT_CATEGORICAL) {
        fprintf(out, "%s %.17g %.17g step %.17g log %d", d->kind == FT_INT ? "int" : "float", d->low, d->high, d->step,
                d->log);
        return;
    }
    fputs("choices ", out);
    for (int i = 0; i < d->choice_count; i++) {
        if (i > 0) fputs(" | ", out);
        dump_scalar(out, &d->choices[i]);
    }
}

static int by_key(const void *a, const void *b) {
    return strcmp(((const ft_attribute *)a)->key, ((const ft_attribute *)b)->key);
}

static void dump_attributes(FILE *out, ft_stored *study, int64_t number, ft_attribute_kind kind) {
    ft_arena arena = {0};
    ft_attribute *attributes;
    int count;
    if (ft_stored_attributes(study, number, kind, &arena, &attributes, &count) != FT_OK)
        fprintf(out, "error: %s\n", ft_error_message());
    if (count > 0) qsort(attributes, (size_t)count, sizeof *attributes, by_key);
    for (int i = 0; i < count; i++)
        fprintf(out, "%s%s %s = %s\n", number >= 0 ? "  " : "", kind == FT_USER_ATTRIBUTE ? "user" : "system",
                attributes[i].key, attributes[i].json);
    ft_arena_free(&arena);
}

typedef struct dumped_constraint {
    const char *name;
    double value;
} dumped_constraint;

static int by_name(const void *a, const void *b) {
    return strcmp(((const dumped_constraint *)a)->name, ((const dumped_constraint *)b)->name);
}

static void dump_constraints(FILE *out, const ft_trials *trials, const ft_trial *t) {
    dumped_constraint list[16];
    int count = t->constraint_count < 16 ? t->constraint_count : 16;
    for (int i = 0; i < count; i++)
        list[i] = (dumped_constraint){trials->constraint_names.name[t->constraints[i].name], t->constraints[i].value};
    qsort(list, (size_t)count, sizeof *list, by_name);
    for (int i = 0; i < count; i++)
        fprintf(out, "  constraint %s %.17g\n", list[i].name, list[i].value);
}

static void dump_trial(FILE *out, ft_stored *study, int64_t number) {
    const ft_trials *trials = &study->trials;
    const ft_trial *t = &trials->trial[number];
    int64_t start, finish;
    fprintf(out, "trial %" PRId64 " %s\n", number, ft_trial_state_name(t->state));
    if (ft_stored_times(study, number, &start, &finish) != FT_OK) fprintf(out, "error: %s\n", ft_error_message());
    fprintf(out, "  time %" PRId64 "\n  time %" PRId64 "\n", start, finish);
    for (int i = 0; i < t->value_count; i++)
        fprintf(out, "  value %.17g\n", t->values[i]);
    for (int i = 0; i < t->param_count; i++) {
        fprintf(out, "  param %s %.17g ", trials->names.name[t->params[i].name], t->params[i].value);
        dump_distribution(out, trials->distributions[t->params[i].distribution]);
        putc('\n', out);
    }
    for (int i = 0; i < t->report_count; i++)
        fprintf(out, "  report %" PRId64 " %.17g\n", t->reports[i].step, t->reports[i].value);
    dump_constraints(out, trials, t);
    for (int i = 0; i < t->rung_count; i++)
        fprintf(out, "  rung %.17g\n", t->rungs[i]);
    dump_attributes(out, study, number, FT_USER_ATTRIBUTE);
    dump_attributes(out, study, number, FT_SYSTEM_ATTRIBUTE);
}

static void dump_study(FILE *out, ft_stored *study) {
    fprintf(out, "study %s\ndirections", study->name);
    for (int i = 0; i < study->trials.objectives; i++)
        fputs(study->trials.maximize[i] ? " MAXIMIZE" : " MINIMIZE", out);
    putc('\n', out);
    dump_attributes(out, study, FT_STUDY_ATTRIBUTE, FT_USER_ATTRIBUTE);
    dump_attributes(out, study, FT_STUDY_ATTRIBUTE, FT_SYSTEM_ATTRIBUTE);
    for (int64_t i = 0; i < study->trials.count; i++)
        dump_trial(out, study, i);
}

#endif
