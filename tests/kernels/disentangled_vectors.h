// disentangled_vectors.h - test_disentangled_attention.c against tests/vectors/disentangled.txt; the script that writes
// it, make_disentangled_vectors.py, describes the file.
#ifndef FT_TEST_DISENTANGLED_VECTORS_H
#define FT_TEST_DISENTANGLED_VECTORS_H

#include "attention_case.h"

static FILE *vectors_open(void) {
    FILE *file = fopen(FT_TEST_VECTORS "/disentangled.txt", "re");
    assert_non_null(file);
    return file;
}
static double next_number(FILE *file) {
    double x = NAN;
    assert_int_equal(fscanf(file, "%lf", &x), 1);
    return x;
}
static int32_t next_integer(FILE *file) { return (int32_t)next_number(file); }
// The next word is read into `word`; is it this one?
static bool next_is(FILE *file, const char *what, char word[32]) {
    assert_int_equal(fscanf(file, "%31s", word), 1);
    return strcmp(word, what) == 0;
}

// number() of the script.
static double vector_number(uint32_t seed, uint32_t tensor, size_t index) {
    uint64_t x = ft_splitmix64((uint64_t)seed << 40 | (uint64_t)tensor << 32 | index);
    return ((double)(x >> 40) * 0x1p-24 - 0.5) * 4;
}
static void vector_matrix(ft_tensor t, uint32_t seed, uint32_t tensor) {
    for (int64_t i = 0; i < t.rows; i++)
        for (int64_t j = 0; j < t.cols; j++)
            *at(t, i, j) = (float)vector_number(seed, tensor, (size_t)(i * t.cols + j));
}

static void test_slots_of_the_library(void **state) {
    FILE *file = vectors_open();
    char word[32];
    int rules = 0;
    for (; next_is(file, "rule", word); rules++) {
        ft_relative_rule rule = {next_integer(file), next_integer(file)};
        int32_t reach = next_integer(file), slot = next_integer(file), slots[8192];
        assert_true(2 * reach + 1 <= 8192);
        assert_int_equal(ft_relative_rule_check(rule), FT_OK);
        ft_relative_slots(rule, reach, slots);
        int32_t short_reach = ft_relative_reach(rule, reach + 1);
        for (int32_t delta = -reach; delta <= reach; delta++) {
            if (delta > -reach) {
                int digit;
                while ((digit = fgetc(file)) == '\n') {
                }
                slot += digit - '0';
            }
            if (slots[delta + reach] != slot)
                fail_msg("%d buckets up to %d: distance %d has slot %d, the library says %d", rule.buckets,
                         rule.furthest, delta, slots[delta + reach], slot);
            // No more than a reach is needed.
            int32_t near = delta < -short_reach ? -short_reach : delta > short_reach ? short_reach : delta;
            assert_int_equal(slots[near + reach], slot);
        }
        assert_true(short_reach == 0 || slots[reach + short_reach] != slots[reach + short_reach - 1] ||
                    slots[reach - short_reach] != slots[reach - short_reach + 1]);
    }
    assert_true(rules >= 10);
    fclose(file);
}

static void test_rules_without_meaning(void **state) {
    static const ft_relative_rule wrong[] = {{1, 512}, {256, 129}, {-1, 0}, {2, 2}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(ft_relative_rule_check(wrong[i]), FT_INVALID);
    assert_int_equal(ft_relative_rule_check((ft_relative_rule){256, 130}), FT_OK);
    assert_int_equal(ft_relative_reach(v3_rule, 1), 0);
    assert_int_equal(ft_relative_reach(v3_rule, 0), 0);
    assert_int_equal(ft_relative_reach(v3_rule, 100000), 512);
    ft_error_clear();
}

// One tensor of a case: its rows and the sums over all of it.
static void check_vector(FILE *file, const char *name, uint32_t seed, const float *got, size_t rows, size_t cols) {
    char word[32];
    double sums[2] = {0, 0}, squares = 0, want[2];
    for (size_t i = 0; i < rows * cols; i++) {
        if (!isfinite(got[i])) fail_msg("%s: element %zu is %f", name, i, (double)got[i]);
        for (uint32_t s = 0; s < 2; s++)
            sums[s] += (double)got[i] * vector_number(seed, 20 + s, i);
        squares += (double)got[i] * (double)got[i];
    }
    assert_true(next_is(file, "sums", word));
    for (int s = 0; s < 2; s++)
        want[s] = next_number(file);
    double norm = next_number(file), size = norm > 1e-9 ? norm : 1.0; // a lone token has no gradient of scores
    assert_true(fabs(sqrt(squares) - norm) <= 2e-6 * size);
    for (int s = 0; s < 2; s++)
        if (!(fabs(sums[s] - want[s]) <= 5e-6 * size))
            fail_msg("%s: weighted sum %.9g, the library says %.9g (norm %.3g)", name, sums[s], want[s], norm);
    for (size_t row = 0; row < rows; row += 61) {
        assert_true(next_is(file, "row", word));
        assert_int_equal(next_integer(file), row);
        double error = 0;
        for (size_t j = 0; j < cols; j++) {
            double off = (double)got[row * cols + j] - next_number(file);
            error += off * off;
        }
        if (!(sqrt(error) <= 3e-6 * size)) fail_msg("%s: row %zu is off by %.3g of %.3g", name, row, sqrt(error), norm);
    }
}

static void check_vector_case(FILE *file) {
    char name[64], word[32], label[128];
    assert_int_equal(fscanf(file, "%63s", name), 1);
    uint32_t seed = (uint32_t)next_integer(file);
    int32_t heads = next_integer(file), head_dim = next_integer(file), lengths[MOST_SEQUENCES];
    ft_relative_rule rule = {next_integer(file), next_integer(file)};
    terms which = next_integer(file) ? C2P : 0;
    if (next_integer(file)) which |= P2C;
    int32_t sequences = next_integer(file);
    assert_true(sequences <= MOST_SEQUENCES);
    for (int32_t s = 0; s < sequences; s++)
        lengths[s] = next_integer(file);
    attention_case c = case_new(heads, head_dim, sequences, lengths, false, 0, 1, rule, which);
    ft_tensor inputs[] = {q_of(&c), k_of(&c), v_of(&c), c.dout.t, c.pos_key.t, c.pos_query.t};
    for (uint32_t t = 0; t < 6; t++)
        if (inputs[t].data) vector_matrix(inputs[t], seed, t);
    float *got = run_once(&c);
    for (int part = 0; part <= DPQ; part++) {
        if (part == LSE || (part == DPK && !(which & C2P)) || (part == DPQ && !(which & P2C))) continue;
        snprintf(label, sizeof label, "%s of %s", part_names[part], name);
        assert_true(next_is(file, "tensor", word));
        assert_true(next_is(file, part_names[part], word));
        size_t rows = (size_t)next_integer(file), cols = (size_t)next_integer(file);
        assert_int_equal(rows * cols, parts_of(&c).at[part + 1] - parts_of(&c).at[part]);
        check_vector(file, label, seed, got + parts_of(&c).at[part], rows, cols);
    }
    free(got);
    case_free(&c);
}

static void test_against_the_library(void **state) {
    FILE *file = vectors_open();
    char word[32];
    int cases = 0;
    while (!next_is(file, "case", word)) // the rules
        assert_false(feof(file) || strcmp(word, "end") == 0);
    do {
        check_vector_case(file);
        cases++;
    } while (next_is(file, "case", word));
    assert_string_equal(word, "end");
    assert_true(cases >= 20);
    fclose(file);
}

#endif
