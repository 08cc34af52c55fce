// token_classification.c - a tag for every word: what transformers calls ForTokenClassification, judged as seqeval does.
#include "base/log.h"
#include "engine/data/labels/tags.h"
#include "engine/metrics/entities.h"
#include "engine/tasks/rows.h"
#include "engine/tasks/tasks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- outputs ------------------------------------------------------------------------------------------------------

// Indices, which the names of a data set belong to: without names nothing is known of entities.
static bool are_numbers(const ft_labels *labels) {
    for (int k = 0; k < labels->count; k++)
        if (labels->names[k][strspn(labels->names[k], "0123456789")] != '\0') return false;
    return true;
}

static ft_status outputs(const ft_task_tables *t, ft_arena *arena, ft_labels *labels) {
    FT_TRY(ft_tags_labels(t->train, t->validation, t->train_path, arena, labels));
    if (labels->count < 2)
        return ft_fail(FT_INVALID, t->train_path, "all words have the tag \"%s\": there is nothing to learn", labels->names[0]);
    if (are_numbers(labels))
        ft_warn("the tags are numbers, of which no entities can be read: precision, recall and f1 mean nothing; write names (B-PER, ...) in place "
                "of the data set's indices (%s)", t->train_path);
    else if (labels->missing > 0) ft_warn("%d of the %d tags are of no word (%s)", labels->missing, labels->count, t->train_path);
    return FT_OK;
}

// ---- the loss -----------------------------------------------------------------------------------------------------

static double balance(double words, double own, int present) { return words / (present * own); }

static float loss(const float *logits, int tags, int32_t label, const float *target) {
    double largest = logits[0], sum = 0;
    for (int c = 1; c < tags; c++) largest = fmax(largest, logits[c]);
    for (int c = 0; c < tags; c++) sum += exp(logits[c] - largest);
    return (float)(log(sum) + largest - logits[label]);
}

// ---- figures ------------------------------------------------------------------------------------------------------
// Of entities: one is right when its first and last word and its type are. micro counts all together, macro is the mean over the types that
// occur, weighted counts a type as often as it is there. _strict: of the entities that the tags' scheme allows, micro but for
// f1_macro_strict. accuracy is of words, and so is the loss.

typedef struct reading {
    int32_t *truth, *said; // [words of the longest text] tags
    ft_entity *true_ones, *said_ones;
} reading;

static ft_status open_reading(const ft_scores *s, reading *r) {
    int64_t most = 0;
    for (int64_t i = 0; i < s->n; i++) {
        const int64_t at = ft_scores_at(s, i), words = s->first[at + 1] - s->first[at];
        if (words > most) most = words;
    }
    const size_t room = (size_t)most + 1;
    *r = (reading){.truth = ft_calloc(room, sizeof *r->truth, "tags"),
                   .said = ft_calloc(room, sizeof *r->said, "tags"),
                   .true_ones = ft_calloc(room, sizeof *r->true_ones, "entities"),
                   .said_ones = ft_calloc(room, sizeof *r->said_ones, "entities")};
    return r->truth && r->said && r->true_ones && r->said_ones ? FT_OK : FT_NO_MEMORY;
}

static void close_reading(reading *r) {
    free(r->truth);
    free(r->said);
    free(r->true_ones);
    free(r->said_ones);
}

// Both lists are ordered by where entities end, and no two of a list end together.
static void count(const ft_tag_set *set, bool strict, int64_t words, reading *r, ft_metrics *m) {
    const int64_t truths = ft_entities(set, strict, r->truth, words, r->true_ones), said = ft_entities(set, strict, r->said, words, r->said_ones);
    for (int64_t i = 0; i < truths; i++) m->support[r->true_ones[i].type]++;
    for (int64_t i = 0; i < said; i++) m->predicted[r->said_ones[i].type]++;
    for (int64_t i = 0, k = 0; i < truths && k < said;) {
        const ft_entity *a = &r->true_ones[i], *b = &r->said_ones[k];
        m->hit[a->type] += a->last == b->last && a->first == b->first && a->type == b->type;
        i += a->last <= b->last;
        k += b->last <= a->last;
    }
}

static ft_status read_text(const ft_scores *s, int64_t text, reading *r, int64_t *right) {
    for (int64_t row = s->first[text]; row < s->first[text + 1]; row++) {
        const float *logits = s->logits != NULL ? s->logits + row * s->outputs : ft_logits_row(s->kept, row);
        for (int c = 0; c < s->outputs; c++)
            if (!isfinite(logits[c])) return ft_fail(FT_DIVERGED, NULL, "the logits of text %lld are not finite", (long long)text);
        const int64_t word = row - s->first[text];
        if (s->labels[row] < 0 || s->labels[row] >= s->outputs)
            return ft_fail(FT_FAILED, NULL, "tag %d of text %lld is none of %d", s->labels[row], (long long)text, s->outputs);
        r->truth[word] = s->labels[row];
        r->said[word] = ft_argmax(logits, s->outputs);
        *right += r->truth[word] == r->said[word];
    }
    return FT_OK;
}

static ft_status look_at_all(const ft_scores *s, const ft_tag_set *set, reading *r, ft_metrics *m, ft_metrics *strict) {
    int64_t right = 0, words = 0;
    for (int64_t i = 0; i < s->n; i++) {
        const int64_t text = ft_scores_at(s, i), count_of = s->first[text + 1] - s->first[text];
        FT_TRY(read_text(s, text, r, &right));
        count(set, false, count_of, r, m);
        if (set->scheme != FT_SCHEME_OTHER) count(set, true, count_of, r, strict);
        words += count_of;
    }
    m->value[FT_METRIC_ACCURACY] = (double)right / (double)words;
    return FT_OK;
}

// The types of entities by name: what stands where other tasks have their outputs.
static ft_status name_types(const ft_tag_set *set, ft_metrics *m) {
    size_t bytes = 0;
    for (int k = 0; k < set->type_count; k++) bytes += strlen(set->types[k]) + 1;
    m->names = ft_calloc((size_t)set->type_count * sizeof *m->names + bytes, 1, "names of entities");
    if (m->names == NULL) return FT_NO_MEMORY;
    char *at = (char *)(m->names + set->type_count);
    for (int k = 0; k < set->type_count; k++) {
        m->names[k] = at;
        at = stpcpy(at, set->types[k]) + 1;
    }
    m->classes = set->type_count;
    return FT_OK;
}

static void take_strict(ft_metrics *strict, ft_metrics *m) {
    ft_metrics_average(strict, true);
    m->value[FT_METRIC_PRECISION_STRICT] = strict->value[FT_METRIC_PRECISION_MICRO];
    m->value[FT_METRIC_RECALL_STRICT] = strict->value[FT_METRIC_RECALL_MICRO];
    m->value[FT_METRIC_F1_STRICT] = strict->value[FT_METRIC_F1_MICRO];
    m->value[FT_METRIC_F1_MACRO_STRICT] = strict->value[FT_METRIC_F1_MACRO];
}

static ft_status measure_with(const ft_scores *s, const ft_tag_set *set, ft_metrics *m, ft_metrics *strict) {
    reading r;
    FT_TRY(name_types(set, m));
    strict->classes = m->classes;
    FT_TRY(ft_metrics_allocate(m, false));
    FT_TRY(ft_metrics_allocate(strict, false));
    ft_status status = open_reading(s, &r);
    if (status == FT_OK) status = look_at_all(s, set, &r, m, strict);
    close_reading(&r);
    FT_TRY(status);
    ft_metrics_average(m, true);
    if (set->scheme != FT_SCHEME_OTHER) take_strict(strict, m);
    m->classes = set->entity_types; // what stands behind them is of no entity
    return FT_OK;
}

static ft_status measure(const ft_scores *s, ft_metrics *m) {
    ft_tag_set set;
    ft_metrics strict = {.examples = s->n};
    FT_TRY(ft_tag_set_open(s->names, s->outputs, &set));
    ft_status status = measure_with(s, &set, m, &strict);
    ft_metrics_free(&strict);
    ft_tag_set_close(&set);
    return status;
}

// ---- predictions: token_answer.h ------------------------------------------------------------------------------------

static const char *const no_heads[] = {NULL};

#define BIT(metric) FT_METRIC_BIT(FT_METRIC_##metric)

const ft_task_spec ft_task_token_classification = {
    .id = FT_TASK_TOKEN_CLASSIFICATION,
    .labels = FT_LABELS_TAGS,
    .empty_labels = true,
    .outputs = outputs,
    .named = true,
    .balance = balance,
    .loss = loss,
    .scoring = {.kind = "token-classification",
                .metrics = BIT(LOSS) | BIT(ACCURACY) | BIT(PRECISION_MACRO) | BIT(PRECISION_MICRO) | BIT(PRECISION_WEIGHTED) | BIT(RECALL_MACRO) |
                           BIT(RECALL_MICRO) | BIT(RECALL_WEIGHTED) | BIT(F1_MACRO) | BIT(F1_MICRO) | BIT(F1_WEIGHTED) | BIT(PRECISION_STRICT) |
                           BIT(RECALL_STRICT) | BIT(F1_STRICT) | BIT(F1_MACRO_STRICT),
                .known = "loss, accuracy, and of entities precision, recall and f1 with _micro, _macro, _weighted or _strict, f1_macro_strict",
                .measure = measure,
                .probabilities = ft_softmax},
    .shown = {FT_METRIC_LOSS, FT_METRIC_F1_MICRO, FT_METRIC_F1_MACRO, FT_METRIC_ACCURACY},
    .decided_heads = no_heads};
