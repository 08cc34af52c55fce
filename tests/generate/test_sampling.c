// Tokens that are drawn: greedy takes the first of the largest; drawn ones follow softmax(logits / temperature), cut at
// top_p as transformers cuts, within a chi-square bound at fixed seeds; a draw is a function of seed, row and index.
// The expected probabilities are computed here in long double, by sorting all. Catches: a token behind top_p, one too
// few in front of it, a temperature that is multiplied, the same number for two rows or two tokens, an order of equal
// tokens that depends on sorting, logits that are no numbers. Probabilities for temperature, top_k and top_p against transformers' processors
// (tests/vectors/causal_lm/make_sampling_vectors.py): a cut in another order, equal logits at the cut that go, a sum of all instead of what is left.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json/json.h"
#include "engine/generate/sampling.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 23, DRAWS = 20000 };

static const float LOGITS[WORDS] = {0.1f, 2.0f, -1.0f, 3.0f, 3.0f,  -7.5f, 0.4f, 1.1f,  2.2f, -0.3f, 0.0f, -2.0f,
                                    1.9f, 0.9f, -4.0f, 2.9f, -0.1f, 0.6f,  1.4f, -1.5f, 2.5f, 0.2f,  -3.0f};

// transformers' TopPLogitsWarper: ascending, those whose cumulated probability is at most 1 - top_p go; one stays.
static void expect(double temperature, double top_p, long double *p) {
    long double sum = 0, kept = 0;
    int order[WORDS];
    for (int i = 0; i < WORDS; i++)
        sum += p[i] = expl((long double)LOGITS[i] / (long double)temperature);
    for (int i = 0; i < WORDS; i++)
        p[i] /= sum, order[i] = i;
    for (int i = 0; i < WORDS; i++) // ascending, of equal ones the larger id first
        for (int k = i + 1; k < WORDS; k++)
            if (p[order[k]] < p[order[i]] || (p[order[k]] == p[order[i]] && order[k] > order[i])) {
                const int t = order[i];
                order[i] = order[k], order[k] = t;
            }
    long double before = 0;
    for (int i = 0; i < WORDS - 1; i++) {
        before += p[order[i]];
        if (before <= 1 - (long double)top_p) p[order[i]] = 0;
    }
    for (int i = 0; i < WORDS; i++)
        kept += p[i];
    for (int i = 0; i < WORDS; i++)
        p[i] /= kept;
}

static void test_distribution(void **state) {
    static const struct {
        double temperature, top_p;
    } cases[] = {{1, 1}, {0.5, 1}, {2, 1}, {1, 0.9}, {1, 0.5}, {0.7, 0.8}, {3, 0.95}, {1, 0.05}, {1, 1e-9}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
        for (uint64_t seed = 1; seed <= 3; seed++) {
            const ft_sampling s = {.temperature = cases[c].temperature, .top_p = cases[c].top_p, .seed = seed};
            ft_token_sampler sampler = {.capacity = 0};
            long double p[WORDS];
            int count[WORDS] = {0};
            expect(s.temperature, s.top_p, p);
            for (int i = 0; i < DRAWS; i++) {
                int32_t token, again;
                assert_int_equal(ft_sample(&s, LOGITS, WORDS, (uint64_t)(i / 10), (uint64_t)(i % 10), &sampler, &token),
                                 FT_OK);
                if (i % 997 == 0) {
                    assert_int_equal(
                        ft_sample(&s, LOGITS, WORDS, (uint64_t)(i / 10), (uint64_t)(i % 10), &sampler, &again), FT_OK);
                    assert_int_equal(token, again);
                }
                assert_true(token >= 0 && token < WORDS);
                if (p[token] == 0)
                    fail_msg("temperature %g, top_p %g: token %d was drawn", s.temperature, s.top_p, token);
                count[token]++;
            }
            // Cells of few expected draws are one; chi-square of k cells is k - 1 on average, sqrt(2 k) wide: five
            // times that.
            double chi = 0, rest = 0, rest_expected = 0;
            int cells = 0;
            for (int i = 0; i < WORDS; i++) {
                const double e = (double)p[i] * DRAWS;
                if (e < 10)
                    rest += count[i], rest_expected += e;
                else
                    chi += (count[i] - e) * (count[i] - e) / e, cells++;
            }
            if (rest_expected >= 1) chi += (rest - rest_expected) * (rest - rest_expected) / rest_expected, cells++;
            const double bound = cells - 1 + 5 * sqrt(2.0 * cells);
            if (chi > bound)
                fail_msg("temperature %g, top_p %g, seed %d: chi-square %g of %d cells", s.temperature, s.top_p,
                         (int)seed, chi, cells);
            ft_token_sampler_free(&sampler);
        }
}

static void test_transformers(void **state) {
    json_t *root, *one, *value;
    size_t i, k;
    assert_int_equal(ft_json_load(FT_TEST_VECTORS "/causal_lm/sampling.json", &root), FT_OK);
    const json_t *cases = json_object_get(root, "cases");
    assert_true(json_array_size(cases) > 50);
    json_array_foreach(cases, i, one) {
        float logits[64];
        double p[64];
        const json_t *list = json_array_get(json_object_get(root, "logits"), (size_t)json_integer_value(json_object_get(one, "logits")));
        const size_t n = json_array_size(list);
        assert_true(n > 0 && n <= 64);
        json_array_foreach(list, k, value) logits[k] = (float)json_number_value(value);
        const ft_sampling s = {.temperature = json_number_value(json_object_get(one, "temperature")), .top_p = json_number_value(json_object_get(one, "top_p")),
                               .top_k = json_integer_value(json_object_get(one, "top_k"))};
        ft_token_sampler sampler = {.capacity = 0};
        assert_int_equal(ft_sampling_probabilities(&s, logits, (int64_t)n, &sampler, p), FT_OK);
        json_array_foreach(json_object_get(one, "p"), k, value)
            if (!(fabs(p[k] - json_number_value(value)) <= 1e-6) || (p[k] == 0) != (json_number_value(value) == 0))
                fail_msg("case %zu: temperature %g, top_k %lld, top_p %g: token %zu has %.9g, transformers %.9g", i, s.temperature, (long long)s.top_k, s.top_p, k, p[k],
                         json_number_value(value));
        for (uint64_t draw = 0; draw < 200; draw++) { // only such are drawn
            int32_t token;
            assert_int_equal(ft_sample(&s, logits, (int64_t)n, i, draw, &sampler, &token), FT_OK);
            assert_true(p[token] > 0);
        }
        ft_token_sampler_free(&sampler);
    }
    json_decref(root);
}

static void test_numbers(void **state) {
    double sum = 0, products = 0;
    for (uint64_t row = 0; row < 100; row++)
        for (uint64_t i = 0; i < 100; i++) {
            const double u = ft_sampling_number(7, row, i);
            assert_true(u >= 0 && u < 1);
            assert_true(u != ft_sampling_number(7, row, i + 1) && u != ft_sampling_number(7, row + 1, i) &&
                        u != ft_sampling_number(8, row, i));
            sum += u;
            products += (u - 0.5) * (ft_sampling_number(7, row + 1, i) - 0.5);
        }
    assert_true(fabs(sum / 1e4 - 0.5) < 0.015); // five standard deviations
    assert_true(fabs(products / 1e4) < 5.0 / 12 / 100);
}

static void test_greedy(void **state) {
    const ft_sampling s = {.temperature = 0, .top_p = 0.3};
    ft_token_sampler sampler = {.capacity = 0};
    int32_t token;
    assert_int_equal(ft_sample(&s, LOGITS, WORDS, 0, 0, &sampler, &token), FT_OK);
    assert_int_equal(token, 3); // the first of two
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        float logits[WORDS];
        memcpy(logits, LOGITS, sizeof logits);
        logits[5 * i] = bad[i];
        assert_int_equal(ft_sample(&s, logits, WORDS, 0, 0, &sampler, &token), FT_DIVERGED);
    }
    ft_token_sampler_free(&sampler);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_distribution), cmocka_unit_test(test_transformers), cmocka_unit_test(test_numbers),
                                       cmocka_unit_test(test_greedy)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
