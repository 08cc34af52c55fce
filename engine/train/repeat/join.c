#include "engine/train/repeat/join.h"

#include "base/json/json.h"

#include <math.h>
#include <string.h>

enum { DIGITS = 9 };

static double score_of(const json_t *line, const char *list, size_t i) { return json_number_value(json_array_get(json_object_get(line, list), i)); }

// Members that are of the example, and not of what is said of it.
static json_t *beginning(const json_t *line, bool *failed) {
    static const char *const members[] = {"format_version", "split", "id", "labels"};
    json_t *out = json_object();
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) ft_json_put(out, members[i], json_incref(json_object_get(line, members[i])), failed);
    return out;
}

// ---- words --------------------------------------------------------------------------------------------------------------

// What the scores for the tag that run `by` gives to a word come to.
static double sum_of(const json_t *const *lines, int count, size_t word, int by) {
    const json_t *tag = json_array_get(json_object_get(lines[by], "predicted"), word);
    double sum = 0;
    for (int i = 0; i < count; i++)
        if (json_equal(json_array_get(json_object_get(lines[i], "predicted"), word), tag)) sum += score_of(lines[i], "scores", word);
    return sum;
}

json_t *ft_join_words(const json_t *const *lines, int count, bool *failed) {
    if (count == 1) return json_incref((json_t *)lines[0]);
    const size_t words = json_array_size(json_object_get(lines[0], "predicted"));
    for (int i = 0; i < count; i++)
        if (!json_equal(json_object_get(lines[i], "labels"), json_object_get(lines[0], "labels")) || json_array_size(json_object_get(lines[i], "predicted")) != words)
            return NULL;
    json_t *line = beginning(lines[0], failed), *predicted = json_array(), *scores = json_array();
    for (size_t w = 0; w < words; w++) {
        int best = 0;
        for (int i = 1; i < count; i++)
            if (sum_of(lines, count, w, i) > sum_of(lines, count, w, best)) best = i;
        ft_json_append(predicted, json_incref(json_array_get(json_object_get(lines[best], "predicted"), w)), failed);
        ft_json_append(scores, ft_json_rounded(sum_of(lines, count, w, best) / count, DIGITS), failed);
    }
    ft_json_put(line, "predicted", predicted, failed);
    ft_json_put(line, "scores", scores, failed);
    return line;
}

// ---- answers ------------------------------------------------------------------------------------------------------------

static bool same_place(const json_t *x, const json_t *y) {
    return json_equal(json_object_get(x, "start"), json_object_get(y, "start")) && json_equal(json_object_get(x, "end"), json_object_get(y, "end"));
}

static double score(const json_t *answer) { return json_number_value(json_object_get(answer, "score")); }

// Adds a run's answers to those of all, whose scores are sums.
static void add_answers(const json_t *line, json_t *all, bool *failed) {
    size_t i, k;
    json_t *answer, *known;
    json_array_foreach(json_object_get(line, "answers"), i, answer) {
        json_t *own = NULL;
        json_array_foreach(all, k, known) if (same_place(known, answer)) own = known;
        if (own != NULL) ft_json_put(own, "score", json_real(score(own) + score(answer)), failed);
        else ft_json_append(all, json_copy(answer), failed);
    }
}

// The largest of those that are left goes over.
static void take_largest(json_t *from, int count, json_t *to, bool *failed) {
    size_t best = 0;
    for (size_t i = 1; i < json_array_size(from); i++)
        if (score(json_array_get(from, i)) > score(json_array_get(from, best))) best = i;
    json_t *answer = json_incref(json_array_get(from, best));
    json_array_remove(from, best);
    ft_json_put(answer, "score", ft_json_rounded(score(answer) / count, DIGITS), failed);
    ft_json_append(to, answer, failed);
}

static void put_mean_odds(const json_t *const *lines, int count, json_t *line, bool *failed) {
    double sum = 0;
    for (int i = 0; i < count; i++) {
        const json_t *odds = json_object_get(lines[i], "null_odds");
        if (!json_is_number(odds)) return;
        sum += json_number_value(odds) / count;
    }
    ft_json_put(line, "null_odds", json_real(sum), failed);
}

json_t *ft_join_answers(const json_t *const *lines, int count, bool *failed) {
    if (count == 1) return json_incref((json_t *)lines[0]);
    static const char *const said[] = {"text", "start", "end", "score"};
    size_t most = 0;
    json_t *all = json_array(), *answers = json_array(), *line = beginning(lines[0], failed);
    for (int i = 0; i < count; i++) {
        const size_t own = json_array_size(json_object_get(lines[i], "answers"));
        if (own > most) most = own;
        add_answers(lines[i], all, failed);
    }
    while (!*failed && json_array_size(all) > 0 && json_array_size(answers) < most) take_largest(all, count, answers, failed);
    const json_t *best = json_array_size(answers) > 0 ? json_array_get(answers, 0) : lines[0]; // none: as the first run says it
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) ft_json_put(line, said[i], json_incref(json_object_get(best, said[i])), failed);
    put_mean_odds(lines, count, line, failed);
    ft_json_put(line, "answers", answers, failed);
    json_decref(all);
    return line;
}
