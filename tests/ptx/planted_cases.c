// The smallest cases of attention, and of products of our own, that run a kernel's loops more than once, each alone in a program of its own:
// planted_cases CASE ORDER. Judged as the tests of tests/emulator judge them; planted.py plants faults under it.
// ctest: driver=fake
#include "tests/emulator/typed_attention.h"
#include "tests/emulator/typed_norm.h"
#include "tests/emulator/typed_slope.h"

typedef struct named_case {
    const char *name, *path; // FTENGINE_ATTENTION
    size_t capability, multiprocessors;
    int32_t heads, head_dim, sequences, lengths[3];
    float dropout;
    terms which;
    bool causal;
    int32_t window, key_heads;
    float rise; // of scores from key to key; 0: as they are drawn
} named_case;

// Lengths: of more tiles than there are buffers, one that fills its last tile, one that does not.
static const named_case all_cases[] = {
    {"mma", "mma", 80, 4, 1, 64, 2, {150, 32}, 0.1f, NONE, false, 0, 0, 0},
    {"owner", "owner", 89, 1, 1, 32, 2, {150, 40}, 0.1f, NONE, false, 0, 0, 0},
    {"warpgroup", "wgmma", 90, 4, 1, 64, 2, {420, 64}, 0.1f, NONE, false, 0, 0, 0},
    {"causal", "wgmma", 90, 4, 2, 128, 2, {200, 20}, 0.1f, NONE, true, 0, 1, 0}, // both heads of one of keys; groups that pass over tiles
    {"window", "wgmma", 90, 4, 1, 64, 2, {290, 20}, 0, NONE, false, 40, 0, 0},
    {"disentangled", "mma", 80, 4, 1, 32, 2, {100, 16}, 0.1f, BOTH, false, 0, 0, 0},
    {"disentangled-warpgroup", "wgmma", 90, 4, 1, 64, 2, {170, 20}, 0.1f, BOTH, false, 0, 0, 0}, // three groups of chunks, strips without rows
    // sums that are made anew on the way; of the last two visits to the slab on the way, too
    {"rising", "mma", 80, 4, 1, 64, 1, {150}, 0, NONE, false, 0, 0, 0.1f},
    {"rising-warpgroup", "wgmma", 90, 4, 1, 64, 1, {290}, 0, NONE, false, 0, 0, 0.05f},
    {"rising-disentangled-warpgroup", "wgmma", 90, 4, 1, 64, 1, {240}, 0.1f, BOTH, false, 0, 0, 0.06f},
    {"tensor-memory", "tcgen05", 100, 4, 1, 64, 2, {290, 64}, 0.1f, NONE, false, 0, 0, 0},
    {"rising-tensor-memory", "tcgen05", 100, 4, 1, 64, 1, {290}, 0, NONE, false, 0, 0, 0.05f},
    {"rising-disentangled", "mma", 80, 4, 1, 64, 1, {240}, 0.1f, BOTH, false, 0, 0, 0.06f},
};

// Two tiles for each of two blocks, neither rows, columns nor terms of which are whole; five stages of terms, of which there is room for three.
static const char product_name[] = "product";
static const product_case the_product = {200, 264, 300, 0, FT_ACT_GELU, true, true};
static const named_case of_product = {product_name, "mma", 90, 2, 0, 0, 0, {0}, 0, NONE, false, 0, 0, 0};
// The same with the slope behind it; y takes the place of h.
static const char slope_name[] = "slope";
static const slope_case the_slope = {200, 264, 300, 0, FT_ACT_GELU, Y_FOR_H, true};
static const named_case of_slope = {slope_name, "mma", 90, 2, 0, 0, 0, {0}, 0, NONE, false, 0, 0, 0};
// And with a norm of the sum behind it: of fp32 in the residual's place, beside s; of 16 bits.
static const char norm_name[] = "norm", narrow_norm_name[] = "norm-16bit";
static const norm_case the_norm = {200, 264, 300, 0, SUM_IN_STREAM, true, true, true, true, 0.1f, false};
static const norm_case the_narrow_norm = {200, 264, 300, 0, SUM_IN_S, false, true, true, false, 0.1f, false};
static const named_case of_norm = {norm_name, "mma", 90, 2, 0, 0, 0, {0}, 0, NONE, false, 0, 0, 0};
static const named_case of_narrow_norm = {narrow_norm_name, "mma", 90, 2, 0, 0, 0, {0}, 0, NONE, false, 0, 0, 0};

static const named_case *chosen;
static simt_order order;

static void test_case(void **state) {
    const ft_dtype dtype = FT_BF16;
    if (chosen == &of_slope) return check_slope(&the_slope, dtype, (int)order, 1);
    if (chosen == &of_norm || chosen == &of_narrow_norm) return check_norm(chosen == &of_norm ? &the_norm : &the_narrow_norm, dtype, (int)order, 1);
    if (chosen == &of_product) return check_product(&the_product, dtype, (int)order, 1);
    attention_case c =
        typed_positions(dtype, chosen->heads, chosen->head_dim, chosen->sequences, chosen->lengths, false,
                        chosen->dropout, 1, chosen->which == NONE ? (ft_relative_rule){0, 0} : v3_rule, chosen->which);
    c.causal = chosen->causal;
    c.window = chosen->window;
    c.key_heads = chosen->key_heads;
    if (chosen->rise != 0) raise_scores(dtype, &c, chosen->rise);
    check_typed(c, dtype, true, (int)order, 1);
}

static int set_up_case(void **state) {
    set_up(state);
    close_gpu(0);
    fake_settings s = fake.defaults();
    s.capability = chosen->capability;
    s.multiprocessors = chosen->multiprocessors;
    open_gpu(&s);
    return setenv("FTENGINE_ATTENTION", chosen->path, 1);
}

int main(int count, char **arguments) {
    static const char *const orders[SIMT_ORDERS] = {"forward", "reverse", "random", "skewed"};
    int found = -1;
    for (int i = 0; count == 3 && i < SIMT_ORDERS; i++)
        if (strcmp(arguments[2], orders[i]) == 0) found = i;
    for (size_t i = 0; found >= 0 && i < sizeof all_cases / sizeof *all_cases; i++)
        if (strcmp(arguments[1], all_cases[i].name) == 0) chosen = &all_cases[i];
    if (found >= 0 && strcmp(arguments[1], product_name) == 0) chosen = &of_product;
    if (found >= 0 && strcmp(arguments[1], slope_name) == 0) chosen = &of_slope;
    if (found >= 0 && strcmp(arguments[1], norm_name) == 0) chosen = &of_norm;
    if (found >= 0 && strcmp(arguments[1], narrow_norm_name) == 0) chosen = &of_narrow_norm;
    if (chosen == NULL) {
        fprintf(stderr, "planted_cases CASE ORDER: no such case or order\n");
        return 2;
    }
    order = (simt_order)found;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_case)};
    return cmocka_run_group_tests(tests, set_up_case, tear_down);
}
