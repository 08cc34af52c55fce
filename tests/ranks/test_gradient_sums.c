// Gradients of ranks that each have their own, on their way to each other: whatever a rank computes, and wherever its
// backward pass is, the same pieces go in the same order, each once and not before it is complete. The group here is
// one that writes down what it is asked.
#include "engine/model/gradients/gradient_sums.h"
#include "engine/model/gradients/gradients.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { MI = 1 << 20, MOST = 16, POINTS = 9 };

typedef struct noted {
    ft_group group; // first
    ft_range asked[MOST];
    int count;
} noted;

static ft_status note(ft_group *group, ft_range all) {
    noted *n = (noted *)group;
    assert_true(n->count < MOST);
    n->asked[n->count++] = all;
    return FT_OK;
}
static ft_status fine(ft_group *group) { return FT_OK; }
static const ft_group_functions functions = {.all_reduce = note, .check = fine};

// Where it begins, in Mi elements, and where it is complete. Each piece is one of these: all are more than 25 MiB.
static const struct {
    int begins, completes, store;
} groups[] = {{0, 1, FT_STORE_TRAINED},  {10, 40, FT_STORE_TRAINED}, {20, 2, FT_STORE_TRAINED},
              {30, 3, FT_STORE_TRAINED}, {40, 5, FT_STORE_TRAINED},  {0, 7, 2}}; // the last in a store of its own
enum { GROUPS = sizeof groups / sizeof groups[0], END = 55 };

typedef struct model {
    ft_parameter list[GROUPS];
    ft_parameters p;
    ft_device *device;
    noted group;
} model;

static float *const address = (float *)(uintptr_t)4096; // nobody reads it

static void open_model(model *m) {
    memset(m, 0, sizeof *m);
    m->group.group = (ft_group){.rank = 1, .ranks = 2, .backend = "a note", .functions = &functions};
    for (int i = 0; i < GROUPS; i++)
        m->list[i] = (ft_parameter){.offset = (int64_t)groups[i].begins * MI,
                                    .completes = groups[i].completes,
                                    .last = groups[i].completes < POINTS ? groups[i].completes : POINTS,
                                    .trainable = true,
                                    .starts_group = true,
                                    .store = groups[i].store};
    m->p = (ft_parameters){.list = m->list, .count = GROUPS, .trainable = (int64_t)END * MI, .gradients = address};
    assert_int_equal(ft_cpu_open(1, NULL, &m->device), FT_OK);
    assert_int_equal(ft_memory_create(m->device, 0, &m->p.memory), FT_OK);
    ft_memory_set_ranks(m->p.memory, (ft_memory_ranks){.rank = 1, .ranks = 2, .group = &m->group.group, .run_rank = 1, .run_ranks = 2, .run = &m->group.group, .apart = true});
}

static void close_model(model *m) {
    assert_int_equal(ft_memory_destroy(m->p.memory), FT_OK);
    ft_device_close(m->device);
}

// The pieces in the order of their completion; the last of the first store has what the other one does.
static const int expected[][3] = {{0, 10, 1}, {20, 10, 2}, {30, 10, 3}, {40, 15, 7}, {10, 10, 40}};
enum { PIECES = sizeof expected / sizeof expected[0] };

static void are_those(const noted *n, int count) {
    assert_int_equal(n->count, count);
    for (int i = 0; i < count; i++) {
        assert_ptr_equal(n->asked[i].data, address + (int64_t)expected[i][0] * MI);
        assert_int_equal(n->asked[i].count, (int64_t)expected[i][1] * MI);
        assert_int_equal(n->asked[i].dtype, FT_F32);
    }
}

static void pieces_go_in_order(void **state) {
    model m;
    ft_gradient_sums sums = {.group = NULL};
    open_model(&m);
    assert_int_equal(ft_gradient_sums_open(&sums, &m.p), FT_OK);
    assert_int_equal(sums.count, PIECES);
    for (int step = 0; step < 2; step++) {
        m.group.count = 0;
        ft_gradient_sums_begin(&sums);
        // A micro-batch behind which this rank has another: nothing is complete.
        for (int point = 0; point < 50; point++)
            assert_int_equal(ft_gradient_sums_reach(&sums, &m.p, point), FT_OK);
        are_those(&m.group, 0);
        ft_gradient_sums_go(&sums);
        for (int point = 0; point < POINTS; point++) {
            int complete = 0;
            while (complete < PIECES && expected[complete][2] < point)
                complete++;
            assert_int_equal(ft_gradient_sums_reach(&sums, &m.p, point), FT_OK);
            are_those(&m.group, complete);
        }
        assert_int_equal(ft_gradient_sums_leave(&sums, &m.p), FT_OK);
        are_those(&m.group, PIECES - 1);
        assert_int_equal(ft_gradient_sums_finish(&sums, &m.p), FT_OK); // and what the end of the step completes
        are_those(&m.group, PIECES);
    }
    // A rank without a micro-batch, and one whose micro-batches are graphs.
    for (int going = 0; going < 2; going++) {
        m.group.count = 0;
        ft_gradient_sums_begin(&sums);
        if (going) ft_gradient_sums_go(&sums);
        assert_int_equal(ft_gradient_sums_leave(&sums, &m.p), FT_OK);
        are_those(&m.group, PIECES - 1);
        assert_int_equal(ft_gradient_sums_finish(&sums, &m.p), FT_OK);
        are_those(&m.group, PIECES);
    }
    ft_gradient_sums_close(&sums);
    close_model(&m);
}

// All in a store beside the first one, as an adapter may have it.
static void another_store_alone(void **state) {
    model m;
    ft_gradient_sums sums = {.group = NULL};
    open_model(&m);
    for (int i = 0; i < GROUPS; i++)
        m.list[i].store = 2;
    assert_int_equal(ft_gradient_sums_open(&sums, &m.p), FT_OK);
    assert_int_equal(sums.count, 1);
    assert_true(sums.pieces[0].first == 0 && sums.pieces[0].count == m.p.trainable && sums.pieces[0].completes == 40);
    ft_gradient_sums_close(&sums);
    close_model(&m);
}

static void micro_batches_go_round(void **state) {
    for (int ranks = 2; ranks < 5; ranks++)
        for (int64_t batch = 0; batch < 20; batch++) {
            int owners = 0;
            for (int r = 0; r < ranks; r++)
                owners += ft_gradient_sums_is_mine(&(ft_gradient_sums){.rank = r, .ranks = ranks}, batch);
            assert_int_equal(owners, 1);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(pieces_go_in_order), cmocka_unit_test(another_store_alone),
                                       cmocka_unit_test(micro_batches_go_round)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
