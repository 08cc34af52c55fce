// A search space before a study (hpo/plan): the shares and the worst point of whole spaces against every point of them planned by
// itself, drawn and weighted here from a table that knows nothing of ours.
// ctest: tsan=run
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "hpo/plan/survey.h"
#include "hpo/search/sampler.h"
#include "hpo/space/options_study.h"
#include "tests/fixtures/sanitized.h"
#include "tests/fixtures/tiny_run.h"

enum { SPACES = FT_SANITIZED ? 3 : 100, AXES = 6, CHOICES = 4 };

static char scratch[64];

static int make_scratch(void **state) {
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(scratch, sizeof scratch, "%s/ft_survey_XXXXXX", base);
    return mkdtemp(scratch) == NULL;
}
static int remove_scratch(void **state) { return ft_remove_tree(scratch) != FT_OK; }

// A parameter of a small space: choices, drawn where the one before it, `of`, has one of its first `when`; 0: always.
typedef struct parameter {
    const char *option, *choice[CHOICES + 1];
    int of, when;
} parameter;

typedef struct tally {
    double share[FT_SURVEY_KINDS];
    size_t worst;
    int plans;
} tally;

static void load(const tiny_run *t, ft_config *config) {
    const char *overrides[TINY_OVERRIDES];
    for (int i = 0; i < t->count; i++) overrides[i] = t->text[i];
    if (ft_study_config_load(config, 0, NULL, t->count, overrides) != FT_OK) fail_msg("%s (%s)", ft_error_message(), ft_error_where());
}

static void plan_one(const tiny_run *t, size_t budget, double weight, tally *out) {
    ft_config config;
    ft_plan plan;
    const char *overrides[TINY_OVERRIDES];
    for (int i = 0; i < t->count; i++) overrides[i] = t->text[i];
    int kind = FT_SURVEY_INVALID;
    if (ft_config_load(&config, 0, NULL, t->count, overrides) == FT_OK &&
        ft_plan_run(&config, &(ft_plan_request){.budget_bytes = budget}, &plan) == FT_OK) {
        kind = !plan.fits ? FT_OUTLOOK_NEVER : plan.autofit.chosen ? FT_OUTLOOK_REFIT : FT_OUTLOOK_FIT;
        const size_t bytes = plan.autofit.chosen ? plan.autofit.ideal.reserved : plan.memory.peak_reserved;
        if (bytes > out->worst) out->worst = bytes;
    }
    ft_config_free(&config);
    out->share[kind] += weight;
    out->plans++;
}

// Every point, as the table says.
static void plan_all(tiny_run *t, const parameter *parameters, int count, int at, int *chosen, size_t budget, double weight, tally *out) {
    if (at == count) return plan_one(t, budget, weight, out);
    const parameter *p = &parameters[at];
    const int options = t->count;
    int n = 0;
    while (n < CHOICES && p->choice[n] != NULL) n++;
    const bool drawn = p->when == 0 || (chosen[p->of] >= 0 && chosen[p->of] < p->when);
    for (int k = 0; k < (drawn ? n : 1); k++) {
        chosen[at] = drawn ? k : -1;
        if (drawn) set(t, "%s=%s", p->option, p->choice[k]);
        plan_all(t, parameters, count, at + 1, chosen, budget, drawn ? weight / n : weight, out);
        t->count = options;
    }
}

// The same as lines of [space].
static void write_space(tiny_run *t, const parameter *parameters, int count) {
    for (int i = 0; i < count; i++) {
        const parameter *p = &parameters[i];
        char text[TINY_TEXT];
        int at = snprintf(text, sizeof text, "space.%s=choice(", p->option);
        for (int k = 0; k < CHOICES && p->choice[k] != NULL; k++) at += snprintf(text + at, sizeof text - (size_t)at, "%s%s", k ? ", " : "", p->choice[k]);
        at += snprintf(text + at, sizeof text - (size_t)at, ")");
        if (p->when > 0) at += snprintf(text + at, sizeof text - (size_t)at, " if %s in (", parameters[p->of].option);
        for (int k = 0; k < p->when; k++) at += snprintf(text + at, sizeof text - (size_t)at, "%s%s", k ? ", " : "", parameters[p->of].choice[k]);
        if (p->when > 0) at += snprintf(text + at, sizeof text - (size_t)at, ")");
        assert_true((size_t)at < sizeof text);
        set(t, "%s", text);
    }
}

static void say(const tiny_run *t, const tally *brute, const ft_survey *s) {
    for (int i = 0; i < t->count; i++) print_error("  %s\n", t->text[i]);
    for (int k = 0; k < FT_SURVEY_KINDS; k++) print_error("kind %d: %.4f, one by one %.4f\n", k, s->share[k], brute->share[k]);
    print_error("worst %zu, one by one %zu\n", s->worst >= 0 ? s->of[s->worst].bytes : 0, brute->worst);
}

// The survey of the space against all its points one by one; points: how many memory can tell apart, 0: not looked at.
static void compare(tiny_run *t, const parameter *parameters, int count, size_t budget, int64_t points, int threads) {
    const int options = t->count;
    int chosen[AXES] = {0};
    tally brute = {.plans = 0};
    plan_all(t, parameters, count, 0, chosen, budget, 1, &brute);
    write_space(t, parameters, count);
    ft_config config;
    ft_survey s;
    load(t, &config);
    const ft_plan_request request = {.budget_bytes = budget};
    const ft_status status = ft_survey_make(&(ft_survey_request){.config = &config, .plan = &request, .threads = threads}, &s);
    if (brute.worst == 0) {
        assert_int_equal(status, FT_INVALID);
    } else {
        if (status != FT_OK) fail_msg("%s (%s)", ft_error_message(), ft_error_where());
        bool same = s.points.exhaustive && s.of[s.worst].bytes == brute.worst && (points == 0 || s.points.count == points);
        for (int k = 0; k < FT_SURVEY_KINDS; k++) same &= fabs(s.share[k] - brute.share[k]) < 1e-12;
        if (!same) {
            say(t, &brute, &s);
            fail_msg("another answer than point by point (%lld points of %d)", (long long)s.points.count, brute.plans);
        }
    }
    ft_survey_free(&s);
    ft_config_free(&config);
    t->count = options;
}

// A budget between what the cheapest and the dearest of the space take.
static size_t middle(tiny_run *t, const parameter *parameters, int count, int share) {
    const int options = t->count;
    size_t low = SIZE_MAX, high = 0;
    for (int end = 0; end < 2; end++) {
        tally one = {.plans = 0};
        for (int i = 0; i < count; i++) {
            int n = 0;
            while (n < CHOICES && parameters[i].choice[n] != NULL) n++;
            set(t, "%s=%s", parameters[i].option, parameters[i].choice[end ? n - 1 : 0]);
        }
        plan_one(t, SIZE_MAX / 8, 1, &one);
        t->count = options;
        if (one.worst > 0 && one.worst < low) low = one.worst;
        if (one.worst > high) high = one.worst;
    }
    return low == SIZE_MAX ? 4 << 20 : low + (high - low) / 8 * (size_t)share;
}

// ---- spaces by hand -------------------------------------------------------------------------------------------------------

#define BATCH {"train.batch_size", {"2", "8", "16", "40"}, 0, 0}
#define LENGTH {"data.max_length", {"8", "24", "64"}, 0, 0}

static const struct {
    const char *what;
    int count;
    parameter parameters[AXES];
    int64_t points;
} spaces[] = {
    {"two that matter", 2, {BATCH, LENGTH}, 12},
    {"one that does not", 3, {BATCH, LENGTH, {"train.learning_rate", {"1e-5", "1e-4", "1e-3"}, 0, 0}}, 12},
    {"nothing that matters", 2, {{"train.learning_rate", {"1e-5", "1e-4"}, 0, 0}, {"model.classifier_dropout", {"0", "0.3"}, 0, 0}}, 1},
    {"what counts is whether it is 0", 2, {{"model.hidden_dropout", {"0", "0.1", "0.3"}, 0, 0}, BATCH}, 8},
    {"a branch with more values than it is drawn", 3, {BATCH, {"train.micro_batch", {"1", "2", "4", "8"}, 0, 1}, {"train.gradient_checkpointing", {"off", "on"}, 0, 0}}, 14},
    {"a condition on what does not matter", 2, {{"train.learning_rate", {"1e-5", "1e-4", "1e-3"}, 0, 0}, {"train.batch_size", {"2", "8", "40"}, 0, 2}}, 4},
    {"named settings, that nothing fits instead of", 3, {BATCH, LENGTH, {"train.micro_batch", {"2", "40"}, 0, 0}}, 24},
    {"values that do not go together", 2, {BATCH, {"data.max_length", {"24", "4000"}, 0, 0}}, 8},
    {"only values that do not go together", 2, {BATCH, {"data.max_length", {"4000", "5000"}, 0, 0}}, 8},
    {"seeds, of texts", 2, {BATCH, {"train.seed", {"1", "2", "3"}, 0, 0}}, 12},
    {"limits", 2, {BATCH, {"memory.limit", {"4MiB", "1GiB"}, 0, 0}}, 8},
};

static void large_run(tiny_run *t, uint64_t seed) {
    make_tiny_run(t, scratch, seed);
    enlarge_tiny_run(t);
    t->count = 0; // none of the random options
    set(t, "model.path=%s/model", t->dir);
    set(t, "model.init=random");
    set(t, "data.train=%s/train.tsv", t->dir);
    set(t, "data.validation=%s/dev.tsv", t->dir);
    set(t, "data.cache_dir=none");
    set(t, "train.max_steps=2");
    set(t, "train.precision=fp32");
    set(t, "data.max_length=64");
    set(t, "device.threads=2");
    set(t, "memory.expandable_segments=false");
}

static void test_spaces(void **state) {
    const size_t count = FT_SANITIZED ? 2 : sizeof spaces / sizeof spaces[0];
    for (size_t i = 0; i < count; i++) {
        tiny_run t;
        large_run(&t, 500 + i);
        for (int share = FT_SANITIZED ? 5 : 0; share <= 8; share += FT_SANITIZED ? 8 : 3) { // sanitized: with three threads
            const bool limits = strcmp(spaces[i].what, "limits") == 0;
            const size_t budget = limits ? 0 : middle(&t, spaces[i].parameters, spaces[i].count, share);
            print_message("%s, %zu bytes\n", spaces[i].what, budget);
            compare(&t, spaces[i].parameters, spaces[i].count, budget, spaces[i].points, 1 + share % 3);
            if (limits) break;
        }
    }
}

// ---- spaces at random -----------------------------------------------------------------------------------------------------

static const parameter bag[] = {
    {"train.batch_size", {"1", "4", "9", "16"}, 0, 0},
    {"train.gradient_accumulation_steps", {"1", "2", "3"}, 0, 0},
    {"train.micro_batch", {"auto", "2", "5"}, 0, 0},
    {"train.gradient_checkpointing", {"auto", "off", "on"}, 0, 0},
    {"train.learning_rate", {"1e-5", "1e-3"}, 0, 0},
    {"train.weight_decay", {"0", "0.01", "0.1"}, 0, 0},
    {"train.precision", {"fp32", "bf16"}, 0, 0},
    {"train.seed", {"3", "4"}, 0, 0},
    {"train.layer_lr_decay", {"1", "0.9"}, 0, 0},
    {"model.freeze_layers", {"0", "1"}, 0, 0},
    {"model.classifier_dropout", {"0", "0.2"}, 0, 0},
    {"model.head.hidden", {"[]", "[32]", "[64, 16]"}, 0, 0},
    {"data.max_length", {"6", "9", "12"}, 0, 0},
    {"eval.batch_size", {"auto", "1", "32"}, 0, 0},
    {"memory.active_vocabulary", {"auto", "off"}, 0, 0},
};
enum { BAG = sizeof bag / sizeof bag[0] };

// Brackets are the space's spelling of a list.
static void as_override(parameter *p) {
    static const char *const plain[][2] = {{"[]", ""}, {"[32]", "32"}, {"[64, 16]", "64, 16"}};
    for (int k = 0; k < CHOICES && p->choice[k] != NULL; k++)
        for (size_t i = 0; i < 3; i++)
            if (strcmp(p->choice[k], plain[i][0]) == 0) p->choice[k] = plain[i][1];
}

static void test_random(void **state) {
    int compared = 0;
    for (uint64_t seed = 0; seed < SPACES; seed++) {
        tiny_run t;
        parameter drawn[AXES];
        bool taken[BAG] = {false};
        make_tiny_run(&t, scratch, 7000 + seed);
        int count = (int)pick(&t, 2, 3), lists = 0;
        for (int i = 0; i < count;) {
            const int64_t which = pick(&t, 0, BAG - 1);
            if (taken[which]) continue;
            taken[which] = true;
            drawn[i] = bag[which];
            if (strcmp(drawn[i].option, "model.head.hidden") == 0) lists++;
            if (i > 0 && chance(&t, 30)) drawn[i].of = i - 1, drawn[i].when = 1;
            i++;
        }
        if (lists > 0 || t.count + 2 * AXES > TINY_OVERRIDES) continue; // lists: below
        compare(&t, drawn, count, middle(&t, drawn, count, (int)pick(&t, 0, 8)), 0, (int)pick(&t, 1, 3));
        compared++;
    }
    print_message("%d spaces\n", compared);
    assert_true(compared > SPACES / 2);
}

// Lists are written in brackets in a space, and without elsewhere.
static void test_lists(void **state) {
    tiny_run t;
    large_run(&t, 600);
    parameter in_space[] = {{"model.head.hidden", {"[]", "[32]", "[64, 16]"}, 0, 0}, BATCH}, alone[2] = {in_space[0], in_space[1]};
    as_override(&alone[0]);
    int chosen[AXES] = {0};
    tally brute = {.plans = 0};
    plan_all(&t, alone, 2, 0, chosen, SIZE_MAX / 8, 1, &brute);
    write_space(&t, in_space, 2);
    ft_config config;
    ft_survey s;
    load(&t, &config);
    assert_int_equal(ft_survey_make(&(ft_survey_request){.config = &config, .plan = &(ft_plan_request){.budget_bytes = SIZE_MAX / 8}}, &s), FT_OK);
    assert_int_equal(s.points.count, 12);
    assert_int_equal(s.of[s.worst].bytes, brute.worst);
    ft_survey_free(&s);
    ft_config_free(&config);
}

// ---- what is not finite -----------------------------------------------------------------------------------------------------

// A range that a condition cuts: its parts have the weights that random draws give them.
static void test_ranges(void **state) {
    FT_PLAIN_ONLY();
    static const struct {
        const char *range, *condition;
        double share; // of draws that have the condition
    } cases[] = {{"float(0, 1)", "train.warmup_ratio < 0.25", 0.25},
                 {"float(0.0001, 1, log)", "train.warmup_ratio <= 0.01", 0.5},
                 {"float(0, 1, step=0.25)", "train.warmup_ratio >= 0.75", 0.4},
                 {"float(0.5, 1)", "train.warmup_ratio < 0.25", 0},
                 {"float(0.0625, 1, log)", "train.warmup_ratio > 0.25 and train.warmup_ratio < 0.5", 0.25}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tiny_run t;
        ft_config config;
        ft_survey s;
        large_run(&t, 700 + i);
        set(&t, "train.batch_size=2");
        set(&t, "train.micro_batch=40");
        set(&t, "train.gradient_checkpointing=off");
        set(&t, "memory.recompute_layernorm=false");
        set(&t, "space.train.warmup_ratio=%s", cases[i].range);
        set(&t, "space.train.batch_size=choice(39, 40) if %s", cases[i].condition);
        load(&t, &config);
        tally small = {.plans = 0};
        const int options = t.count;
        t.count -= 2;
        plan_one(&t, SIZE_MAX / 8, 1, &small);
        t.count = options;
        if (ft_survey_make(&(ft_survey_request){.config = &config, .plan = &(ft_plan_request){.budget_bytes = small.worst}}, &s) != FT_OK)
            fail_msg("%s", ft_error_message());
        assert_true(s.points.exhaustive);
        if (fabs(s.share[FT_OUTLOOK_NEVER] - cases[i].share) > 1e-12) fail_msg("%s if %s: %g", cases[i].range, cases[i].condition, s.share[FT_OUTLOOK_NEVER]);
        ft_survey_free(&s);
        ft_config_free(&config);
    }
}

// More points than are planned one by one: a sample of them, with all corners, and every thread count says the same.
static void test_sample(void **state) {
    FT_PLAIN_ONLY();
    tiny_run t;
    ft_survey s[2];
    ft_config config;
    large_run(&t, 800);
    set(&t, "data.train=");
    set(&t, "data.validation=");
    set(&t, "train.micro_batch=1");
    set(&t, "train.gradient_checkpointing=off");
    set(&t, "space.train.batch_size=int(1, 400)");
    set(&t, "space.data.max_length=int(3, 64)");
    set(&t, "space.train.gradient_accumulation_steps=int(1, 8, log)");
    load(&t, &config);
    const ft_plan_request request = {.budget_bytes = SIZE_MAX / 8};
    for (int i = 0; i < 2; i++)
        if (ft_survey_make(&(ft_survey_request){.config = &config, .plan = &request, .threads = 1 + 2 * i}, &s[i]) != FT_OK) fail_msg("%s", ft_error_message());
    const ft_points *p = &s[0].points;
    assert_true(!p->exhaustive && p->all_corners && p->corners == 8 && p->count == 8 + FT_SAMPLED_POINTS);
    assert_int_equal(s[0].count[FT_OUTLOOK_FIT], FT_SAMPLED_POINTS); // shares are of the sample
    assert_true(fabs(s[0].share[FT_OUTLOOK_FIT] - 1) < 1e-9);
    assert_true(s[0].worst < 8); // the corner of all high ends, or one beyond which nothing grows
    for (int64_t i = 0; i < p->count; i++) assert_true(s[0].of[i].bytes == s[1].of[i].bytes && s[0].of[i].kind == s[1].of[i].kind);
    int rows;
    ft_survey_row row[FT_SURVEY_ROWS];
    double weight = 0;
    assert_int_equal(ft_survey_by(&s[0], 0, row, &rows), FT_OK);
    assert_int_equal(rows, FT_SURVEY_ROWS);
    for (int i = 0; i < rows; i++) weight += row[i].weight;
    assert_true(fabs(weight - 1) < 1e-9);
    for (int i = 0; i < 2; i++) ft_survey_free(&s[i]);
    ft_config_free(&config);
}

// Whole numbers on a logarithmic scale are not drawn alike.
static void test_weights(void **state) {
    tiny_run t;
    ft_config config;
    ft_survey s;
    large_run(&t, 900);
    set(&t, "space.train.batch_size=int(1, 4, log)");
    load(&t, &config);
    assert_int_equal(ft_survey_make(&(ft_survey_request){.config = &config, .plan = &(ft_plan_request){.budget_bytes = SIZE_MAX / 8}}, &s), FT_OK);
    assert_int_equal(s.points.count, 4);
    double drawn[4] = {0};
    enum { DRAWS = 100000 };
    for (int i = 0; i < DRAWS; i++) drawn[(int)ft_value_of_uniform(&s.space.rules[0].distribution, (i + 0.5) / DRAWS) - 1] += 1.0 / DRAWS;
    for (int i = 0; i < 4; i++)
        if (fabs(drawn[i] - s.points.weight[i]) > 2.0 / DRAWS) fail_msg("%d is drawn in %g of all cases, not %g", i + 1, drawn[i], s.points.weight[i]);
    ft_survey_free(&s);
    ft_config_free(&config);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spaces), cmocka_unit_test(test_random), cmocka_unit_test(test_lists),
        cmocka_unit_test(test_ranges), cmocka_unit_test(test_sample), cmocka_unit_test(test_weights),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
