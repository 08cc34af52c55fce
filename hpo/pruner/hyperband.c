// hyperband.c - nobody knows how early a bad trial shows, so several successive halvings run beside each other: bracket
// i starts to halve factor^i later, and gets trials in proportion to what Hyperband's budget gives it. A trial's
// bracket comes from the CRC of "STUDY_NUMBER", so every worker knows it without asking; only trials of one bracket
// compete.
#include "hpo/pruner/internal.h"

#include <math.h>
#include <stdio.h>

enum { MOST_BRACKETS = 64 }; // floor(log2(2^63)) + 1

typedef struct hyperband_pruner {
    ft_pruner base;
    ft_halving halving;   // of bracket 0
    int64_t max_resource; // 0: not known yet
    int brackets;
    double budget[MOST_BRACKETS], budget_sum; // whole numbers
    uint32_t name_crc;
} hyperband_pruner;

// A place in a bracket: what the filter of rivals needs.
typedef struct bracket {
    const hyperband_pruner *pruner;
    int index;
} bracket;

// The CRC-32 of zip files; `crc` is that of the text before, 0 at the start.
static uint32_t crc32_more(uint32_t crc, const char *text) {
    crc = ~crc;
    for (; *text != '\0'; text++) {
        crc ^= (unsigned char)*text;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (0xEDB88320u & -(crc & 1u));
    }
    return ~crc;
}

static int bracket_of(const hyperband_pruner *p, int64_t number) {
    char text[32];
    snprintf(text, sizeof text, "_%lld", (long long)number);
    double place = fmod(crc32_more(p->name_crc, text), p->budget_sum);
    int i = 0;
    while (i < p->brackets - 1 && place >= p->budget[i])
        place -= p->budget[i++];
    return i;
}

static void make_brackets(hyperband_pruner *p) {
    double factor = (double)p->halving.reduction_factor;
    double ratio = (double)p->max_resource / (double)p->halving.min_resource;
    double brackets = floor(log(ratio) / log(factor)) + 1; // in doubles, as Optuna: log(243)/log(3) is below 5
    if (brackets < 1) return;
    p->brackets = (int)brackets;
    for (int i = 0; i < p->brackets; i++) {
        p->budget[i] = ceil(brackets * pow(factor, p->brackets - 1 - i) / (p->brackets - i));
        p->budget_sum += p->budget[i];
    }
}

static bool is_rival(const void *context, const ft_trial *trial) {
    const bracket *b = context;
    return bracket_of(b->pruner, trial->number) == b->index;
}

static ft_status decide(ft_pruner *pruner, const ft_trials *trials, const ft_trial *trial, ft_verdict *verdict) {
    hyperband_pruner *p = (hyperband_pruner *)pruner;
    if (p->max_resource == 0) { // as in successive halving, fixed the first time that it is known
        int64_t longest = ft_longest_complete(trials);
        if (longest < 0) return FT_OK;
        p->max_resource = longest + 1;
        make_brackets(p);
    }
    if (p->brackets == 0) return FT_OK; // the longest trial was shorter than the least resource
    bracket b = {p, bracket_of(p, trial->number)};
    ft_halving halving = p->halving;
    halving.rate = b.index;
    ft_halving_decide(&halving, trials, trial, is_rival, &b, verdict);
    return FT_OK;
}

ft_status ft_pruner_hyperband(const ft_pruner_hyperband_options *options, const char *study_name, ft_pruner **out) {
    static const ft_pruner_kind kind = {.name = "hyperband", .decide = decide};
    *out = NULL;
    ft_halving halving = {options->min_resource, options->reduction_factor, 0, options->bootstrap_count};
    FT_TRY(ft_halving_check(kind.name, &halving, false));
    if (options->bootstrap_count > 0 && options->max_resource == 0)
        return ft_fail(FT_INVALID, kind.name, "a bootstrap count and an automatic largest resource do not go together");
    if (options->max_resource != 0 && options->max_resource < options->min_resource)
        return ft_fail(FT_INVALID, kind.name, "the largest resource must be at least the least one, %lld, got %lld",
                       (long long)options->min_resource, (long long)options->max_resource);
    hyperband_pruner *pruner = ft_calloc(1, sizeof *pruner, "a pruner");
    if (pruner == NULL) return FT_NO_MEMORY;
    *pruner = (hyperband_pruner){.base.kind = &kind, .halving = halving, .max_resource = options->max_resource};
    pruner->name_crc = crc32_more(0, study_name);
    if (pruner->max_resource > 0) make_brackets(pruner);
    *out = &pruner->base;
    return FT_OK;
}
