#include "hpo/space/fidelity.h"

#include "engine/config/options.h"

#include <stdio.h>
#include <string.h>

static const char option[] = "study.fidelity";
enum { FACTOR = 3 }; // as of hyperband

// auto: whole trainings of a quarter of the steps ranked 150 settings on three data sets no better than the evaluation after as many steps, which
// costs nothing more (benchmarks/results/fidelity.md).
static bool by_data(const ft_config *study) { return strcmp(ft_study_options_of(study)->fidelity, "data") == 0; }

static int64_t factor_of(const ft_config *study) {
    const int64_t factor = ft_study_options_of(study)->pruner_reduction_factor;
    return factor != FT_AUTO ? factor : FACTOR;
}

int64_t ft_fidelity_parts(const ft_config *study) {
    if (!by_data(study)) return 0;
    const ft_int_list *shares = &study->data.shares;
    return shares->count > 0 ? shares->values[0] : factor_of(study) * factor_of(study);
}

static void write_shares(const ft_config *study, size_t size, char *text) {
    const long long factor = (long long)factor_of(study);
    const ft_int_list *shares = &study->data.shares;
    size_t length = 0;
    if (shares->count == 0) snprintf(text, size, "%lld, %lld, 1", factor * factor, factor);
    for (int i = 0; i < shares->count && length < size - 24; i++)
        length += (size_t)snprintf(text + length, size - length, "%s%lld", i > 0 ? ", " : "", (long long)shares->values[i]);
}

const char *ft_fidelity_text(const ft_config *study, ft_arena *arena) {
    char text[FT_OPTION_TEXT_LIMIT];
    if (!by_data(study)) return "";
    write_shares(study, sizeof text, text);
    return ft_arena_format(arena, "data %s", text);
}

static ft_status refuse(const char *why, const char *hint) {
    ft_fail(FT_INVALID, option, "%s", why);
    ft_hint("%s", hint);
    return FT_INVALID;
}

static bool in_space(const ft_space *space, const char *name) {
    for (int i = 0; i < space->count; i++)
        if (strcmp(ft_option_at(space->rules[i].option)->name, name) == 0) return true;
    return false;
}

// The step from which on the pruner judges, which is no step of a training here.
static ft_status check_first(const ft_study_options *o, int64_t parts) {
    const bool rungs = strcmp(o->pruner, "halving") == 0 || strcmp(o->pruner, "hyperband") == 0;
    const int64_t first = rungs ? o->pruner_min_resource : strcmp(o->pruner, "none") != 0 ? o->pruner_warmup_steps : 0; // auto: below 0
    if (parts == 1)
        return refuse("data: data.shares = 1 is all texts, and before these nothing is seen", "data.shares=9,3,1, or study.fidelity=steps");
    if (first < parts) return FT_OK;
    return rungs ? refuse("data: study.pruner_min_resource counts in parts of the smallest share, and is not below all of them",
                          "study.pruner_min_resource=1")
                 : refuse("data: study.pruner_warmup_steps counts in parts of the smallest share, and is not below all of them",
                          "study.pruner_warmup_steps=0");
}

ft_status ft_fidelity_check(const ft_config *study, const ft_space *space) {
    const ft_study_options *o = ft_study_options_of(study);
    if (!by_data(study))
        return study->data.shares.count == 0 && !in_space(space, "data.shares")
                   ? FT_OK
                   : refuse("data.shares is set, and trials are seen by their steps", "study.fidelity=data, or data.shares=");
    if (strcmp(o->pruner, "freeze_thaw") == 0)
        return refuse("data: freeze_thaw pauses a training between its evaluations, and with shares trials are several trainings",
                      "study.pruner=halving, or study.fidelity=steps");
    if (strcmp(o->pruner, "wilcoxon") == 0)
        return refuse("data: wilcoxon holds equal runs against each other, and those of shares are of different sizes",
                      "study.pruner=halving, or study.fidelity=steps");
    if (strcmp(o->pruner, "none") == 0 && o->pruner_patience == 0)
        return refuse("data: without a pruner nobody looks at the shares, and they only cost", "study.pruner=halving, or study.fidelity=steps");
    if (study->data.folds > 0) return refuse("data: not with data.folds", "data.validation, data.validation_split, or study.fidelity=steps");
    if (study->train.seeds.count > 0) return refuse("data: not with train.seeds", "one train.seed, or study.fidelity=steps");
    if (study->data.share > 1 || in_space(space, "data.share") || in_space(space, "data.shares"))
        return refuse("data: shares of the texts are the study's to choose", "data.shares=16,4,1 says which, the same for all trials; data.share=1");
    if (study->train.deadline[0] != '\0')
        return refuse("data: not with train.deadline, which is one run's", "study.timeout, or study.fidelity=steps");
    if (o->devices_per_trial > 1) return refuse("data: a trial of several runs is on one device", "study.devices_per_trial=1");
    if (ft_fidelity_parts(study) > 1 << 20)
        return refuse("data: the smallest share is less than one text in 1048576", "study.pruner_reduction_factor=3");
    return check_first(o, ft_fidelity_parts(study));
}

ft_status ft_fidelity_apply(const ft_config *study, ft_config *trial) {
    char text[FT_OPTION_TEXT_LIMIT];
    if (!by_data(study)) return FT_OK;
    write_shares(study, sizeof text, text);
    return ft_option_set(trial, ft_option_at(ft_option_find("data.shares")), text, NULL, option);
}

void ft_fidelity_forget(const ft_config *study, ft_config *trial) {
    if (by_data(study)) trial->data.shares = (ft_int_list){0};
}
