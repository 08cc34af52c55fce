// ctest: emulated=yes
#include "elementwise.h"

enum { VOCABULARY = 50, POSITIONS = 40, TYPES = 2 };

typedef struct embedding_case {
    int64_t tokens, hidden, split;
    int32_t word_ids[400], position_ids[400], type_ids[400];
    fenced word, position, type, dout;
    int32_t padding_id;
} embedding_case;

static void case_new(embedding_case *c, int64_t tokens, int64_t hidden) {
    *c = (embedding_case){.tokens = tokens, .hidden = hidden, .padding_id = -1};
    for (int64_t t = 0; t < tokens; t++) {
        c->word_ids[t] = (int32_t)uniform(0, VOCABULARY);
        c->position_ids[t] = (int32_t)(t % POSITIONS);
        c->type_ids[t] = (int32_t)uniform(0, TYPES);
    }
    c->word_ids[0] = VOCABULARY - 1;
    c->word = fenced_random(VOCABULARY, hidden, 0, 1, 0);
    c->position = fenced_random(POSITIONS, hidden, 2, 1, 0);
    c->type = fenced_random(TYPES, hidden, 0, 1, 0);
    c->dout = fenced_random(tokens, hidden, 3, 1, 0);
}
static void case_free(embedding_case *c) {
    fenced_free(c->word);
    fenced_free(c->position);
    fenced_free(c->type);
    fenced_free(c->dout);
}

static void run_forward(ft_device *device, const void *test_case, float *out) {
    const embedding_case *c = test_case;
    fenced sum = fenced_new(c->tokens, c->hidden, 1);
    RUN_OP(device, embedding_forward,
           ((ft_embedding_forward_args){.word_ids = c->word_ids,
                                        .position_ids = c->position.base ? c->position_ids : NULL,
                                        .type_ids = c->type.base ? c->type_ids : NULL,
                                        .word = c->word.t,
                                        .position = c->position.t,
                                        .type = c->type.t,
                                        .out = sum.t}));
    fenced_flatten(sum, out);
    fenced_free(sum);
}

static void run_backward(ft_device *device, const void *test_case, float *out) {
    const embedding_case *c = test_case;
    fenced gradient = fenced_copy(c->word);
    for (int part = 0; part < (c->split ? 2 : 1); part++) {
        int64_t first = part ? c->split : 0, count = !c->split ? c->tokens : part ? c->tokens - c->split : c->split;
        int32_t order[400], space[400];
        ft_embedding_order(c->word_ids + first, (int32_t)count, order, space);
        RUN_OP(device, embedding_backward,
               ((ft_embedding_backward_args){.ids = c->word_ids + first,
                                             .order = order,
                                             .dout = ft_rows(c->dout.t, first, count),
                                             .table_gradient = gradient.t,
                                             .padding_id = c->padding_id}));
    }
    fenced_flatten(gradient, out);
    fenced_free(gradient);
}

static const int64_t shapes[][2] = {{1, 1}, {1, 7}, {3, 33}, {40, 384}, {7, 1030}, {400, 40}};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static void test_forward_adds_the_rows_in_order(void **state) {
    for (int i = 0; i < SHAPES; i++)
        for (int tables = 0; tables < 4; tables++) {
            embedding_case c;
            case_new(&c, shapes[i][0], shapes[i][1]);
            if (!(tables & 1)) {
                fenced_free(c.position);
                c.position = fenced_none();
            }
            if (!(tables & 2)) {
                fenced_free(c.type);
                c.type = fenced_none();
            }
            size_t n = (size_t)(c.tokens * c.hidden);
            float *got = run_everywhere(run_forward, &c, n);
            for (size_t k = 0; k < n; k++) {
                int64_t t = (int64_t)k / c.hidden, j = (int64_t)k % c.hidden;
                float want = *at(c.word.t, c.word_ids[t], j);
                if (c.position.base) want += *at(c.position.t, c.position_ids[t], j);
                if (c.type.base) want += *at(c.type.t, c.type_ids[t], j);
                assert_memory_equal(&got[k], &want, sizeof want);
            }
            free(got);
            case_free(&c);
        }
}

static void test_backward_is_one_chain_an_element(void **state) {
    for (int i = 0; i < SHAPES; i++)
        for (int kind = 0; kind < 4; kind++) { // 1: with padding, 2: with an id that most tokens have, 3: both
            embedding_case c;
            case_new(&c, shapes[i][0], shapes[i][1]);
            for (int64_t t = 0; t < c.tokens && kind >= 2; t++)
                if (t % 5) c.word_ids[t] = 17;
            if (kind % 2) c.padding_id = c.word_ids[c.tokens / 2];
            size_t n = (size_t)(VOCABULARY * c.hidden);
            float *got = run_everywhere(run_backward, &c, n);
            float *want = malloc(n * sizeof *want);
            assert_non_null(want);
            fenced_flatten(c.word, want);
            for (int64_t t = 0; t < c.tokens; t++)
                for (int64_t j = 0; j < c.hidden && c.word_ids[t] != c.padding_id; j++)
                    want[c.word_ids[t] * c.hidden + j] += *at(c.dout.t, t, j);
            assert_same_chain(got, want, n);
            for (c.split = 1; c.split < c.tokens; c.split += c.tokens / 3 + 1) {
                float *again = run_everywhere(run_backward, &c, n);
                assert_same_chain(got, again, n);
                free(again);
            }
            free(got);
            free(want);
            case_free(&c);
        }
}

// Against picking, again and again, the first of the smallest ids that are left. Ids of one digit and of more, and the largest.
static void test_order_is_by_id_and_then_as_they_stand(void **state) {
    const int32_t below[] = {1, 2, 2048, 2049, 40000, 1 << 22, (1 << 22) + 1, INT32_MAX};
    enum { MOST = 300 };
    for (size_t kind = 0; kind < sizeof below / sizeof *below; kind++)
        for (int32_t tokens = 0; tokens <= MOST; tokens += tokens < 3 ? 1 : 99) {
            int32_t ids[MOST], order[MOST + 1], space[MOST + 1];
            bool taken[MOST] = {false};
            for (int32_t t = 0; t < tokens; t++) { // some far apart, some often, some neighbours
                const int32_t far = (int32_t)uniform(0, below[kind]), often = far % 5;
                ids[t] = t % 3 == 0 ? often : t % 3 == 1 ? below[kind] - 1 - often % below[kind] : far;
                if (ids[t] < 0 || ids[t] >= below[kind]) ids[t] = 0;
            }
            order[tokens] = space[tokens] = -7;
            ft_embedding_order(ids, tokens, order, space);
            assert_int_equal(order[tokens], -7);
            assert_int_equal(space[tokens], -7);
            for (int32_t i = 0; i < tokens; i++) {
                int32_t next = -1;
                for (int32_t t = 0; t < tokens; t++)
                    if (!taken[t] && (next < 0 || ids[t] < ids[next])) next = t;
                taken[next] = true;
                assert_int_equal(order[i], next);
            }
        }
}

static void test_no_tokens_and_wrong_shapes(void **state) {
    ft_device *device;
    assert_int_equal(test_open(2, &device), FT_OK);
    embedding_case c;
    case_new(&c, 4, 20);
    const int32_t any[4] = {0, 1, 2, 3};
    fenced before = fenced_copy(c.word), narrow = fenced_random(4, 19, 0, 1, 0);
    RUN_OP(device, embedding_backward,
           ((ft_embedding_backward_args){
               .ids = c.word_ids, .order = any, .dout = ft_rows(c.dout.t, 0, 0), .table_gradient = c.word.t, .padding_id = -1}));
    assert_memory_equal(c.word.base, before.base, before.total * sizeof(float));
    ft_embedding_backward_args backward = {
        .ids = c.word_ids, .order = any, .dout = narrow.t, .table_gradient = c.word.t, .padding_id = -1};
    assert_int_equal(FT_RUN(device, embedding_backward, &backward), FT_FAILED);
    backward.dout = c.dout.t;
    backward.order = NULL;
    backward.workspace = workspace_new(ft_embedding_backward_workspace(&device->target, &backward));
    assert_int_equal(FT_RUN(device, embedding_backward, &backward), ft_embedding_order_wanted(&device->target) ? FT_FAILED : FT_OK);
    workspace_free(backward.workspace);
    assert_non_null(strstr(ft_error_where(), "embedding_backward"));
    ft_embedding_forward_args forward = {.word_ids = c.word_ids, .word = c.word.t, .type = c.type.t, .out = c.dout.t};
    assert_int_equal(FT_RUN(device, embedding_forward, &forward), FT_FAILED); // a table without ids
    forward.type = ft_absent();
    forward.out = narrow.t;
    assert_int_equal(FT_RUN(device, embedding_forward, &forward), FT_FAILED);
    assert_non_null(strstr(ft_error_where(), "embedding_forward"));
    ft_error_clear();
    fenced_free(before);
    fenced_free(narrow);
    case_free(&c);
    ft_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forward_adds_the_rows_in_order),
        cmocka_unit_test(test_backward_is_one_chain_an_element),
        cmocka_unit_test(test_order_is_by_id_and_then_as_they_stand),
        cmocka_unit_test(test_no_tokens_and_wrong_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
