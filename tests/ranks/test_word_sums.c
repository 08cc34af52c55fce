// The gradient of the word table of ranks that are apart (engine/model/gradients/word_sums.h): summed by the rows of a
// step, it is to the bit what it is summed whole, where gradients are kept, lie in the arena of steps or are dealt out;
// what travels is those rows, with what else is complete then, also of a group of which the end of the step adds to a
// part; and a table that something else adds to is left whole.
// The group is one whose other rank has the same numbers.
#include "engine/model/gradients/gradient_parts.h"
#include "engine/model/gradients/gradient_sums.h"
#include "engine/model/gradients/gradients.h"
#include "engine/model/gradients/word_sums.h"
#include "kernels/devices/devices.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define OK(call) assert_int_equal(call, FT_OK)

enum { LATE = 128, FRONT = 256, ROWS = 40, COLS = 16, END = FRONT + ROWS * COLS, MOST = 8, TOKENS = 33, ROOM = 30 };

// ---- the group

typedef struct noted {
    ft_group group; // first
    int64_t count[MOST];
    int parts[MOST], operations;
    bool open;
} noted;

static ft_status twice(ft_group *group, ft_range all) {
    noted *n = (noted *)group;
    assert_true(n->operations < MOST);
    n->parts[n->operations]++;
    n->count[n->operations] += all.count;
    for (int64_t i = 0; i < all.count; i++)
        ((float *)all.data)[i] *= 2;
    n->operations += !n->open;
    return FT_OK;
}
static ft_status together(ft_group *group, bool begin) {
    noted *n = (noted *)group;
    assert_true(n->open != begin);
    n->open = begin;
    n->operations += !begin;
    return FT_OK;
}
static ft_status fine(ft_group *group) { return FT_OK; }
static const ft_group_functions functions = {.all_reduce = twice, .together = together, .check = fine};

// ---- the model: a group that is complete in two parts, and the table

typedef enum form { KEPT, IN_STEPS, DEALT, FORMS } form;

typedef struct model {
    ft_parameter list[3];
    ft_store store[2];
    ft_parameters p;
    ft_word_sums words;
    noted group;
    ft_device *device;
} model;

static void describe(model *m, form f) {
    memset(m, 0, sizeof *m);
    m->list[0] = (ft_parameter){.cols = LATE, .arrives = 3, .completes = 4, .last = 3};
    m->list[1] = (ft_parameter){.cols = FRONT - LATE, .offset = LATE, .arrives = 3, .completes = 3, .last = 3};
    m->list[2] = (ft_parameter){
        .rows = ROWS, .cols = COLS, .offset = FRONT, .trained = ROWS, .arrives = 3, .completes = 3, .last = 3};
    for (int i = 0; i < 3; i++)
        m->list[i].trainable = true, m->list[i].starts_group = i != 1;
    m->store[0] = (ft_store){
        .trainable = true, .count = END, .own = {.first = FRONT - 64, .count = END - FRONT, .room = END - FRONT}};
    m->p = (ft_parameters){.list = m->list,
                           .count = 3,
                           .stores = m->store,
                           .store_count = 1,
                           .table = 2,
                           .trainable = END,
                           .deals_gradients = f == DEALT,
                           .words = &m->words};
}

static void have_ranks(model *m, ft_group *group) {
    ft_memory_set_ranks(
        m->p.memory,
        (ft_memory_ranks){
            .rank = 1, .ranks = 2, .group = group, .run_rank = 1, .run_ranks = 2, .run = group, .apart = true});
    m->words.room = m->words.count = ft_word_sums_room(&m->p, TOKENS);
    assert_int_equal(m->words.room, ROOM);
}

// A backward pass whose gradients are `value`.
static ft_status pass(model *m, const float *value) {
    ft_parameters *p = &m->p;
    FT_TRY(ft_memory_scope_begin(p->memory, FT_SCOPE_TRAIN));
    ft_gradients_begin(p);
    ft_status status = ft_gradients_reach(p, 3);
    for (int i = 0; value != NULL && status == FT_OK && i < 3; i += 2) // a group is written as one
        memcpy(ft_parameter_gradient(p, i).data, value + m->list[i].offset,
               (i == 0 ? FRONT : ROWS * COLS) * sizeof(float));
    if (status == FT_OK) status = ft_gradients_leave(p);
    return ft_memory_scope_end(p->memory, status);
}

// What a plan does, and so what a step may ask for.
static void lay_out(model *m, form f) {
    model planned;
    describe(&planned, f);
    OK(ft_plan_open("cpu", m->device->target, SIZE_MAX / 4, &planned.device));
    OK(ft_memory_create(planned.device, 0, &planned.p.memory));
    have_ranks(&planned, NULL);
    ft_memory_record(planned.p.memory);
    OK(ft_gradients_hold(&planned.p, f != KEPT));
    OK(pass(&planned, NULL));
    OK(ft_gradients_keep(&planned.p));
    OK(ft_memory_adopt(m->p.memory, planned.p.memory));
    ft_gradients_release(&planned.p);
    OK(ft_memory_destroy(planned.p.memory));
    ft_device_close(planned.device);
}

static void open_model(model *m, form f) {
    describe(m, f);
    m->group.group = (ft_group){.rank = 1, .ranks = 2, .backend = "a note", .functions = &functions};
    OK(ft_cpu_open(1, NULL, &m->device));
    OK(ft_memory_create(m->device, 0, &m->p.memory));
    have_ranks(m, &m->group.group);
    OK(ft_gradients_hold(&m->p, f != KEPT));
    lay_out(m, f);
}

static void close_model(model *m) {
    ft_gradients_release(&m->p);
    OK(ft_memory_destroy(m->p.memory));
    ft_device_close(m->device);
}

// ---- steps

static void sum_step(model *m, ft_gradient_sums *sums, const float *value, float *out) {
    ft_parameters *p = &m->p;
    m->group.operations = 0;
    memset(m->group.count, 0, sizeof m->group.count);
    memset(m->group.parts, 0, sizeof m->group.parts);
    OK(ft_gradients_clear(p));
    ft_gradient_sums_begin(sums);
    ft_gradient_sums_go(sums);
    OK(pass(m, value));
    OK(ft_gradient_sums_leave(sums, p));
    OK(ft_gradient_sums_finish(sums, p));
    OK(ft_gradients_keep(p));
    if (p->deals_gradients)
        memcpy(out, ft_gradient_parts_own(p, 0), (END - FRONT) * sizeof(float));
    else
        memcpy(out, p->gradients, END * sizeof(float));
}

// Rows of words, ascending, each with numbers that are no round ones; how many, and what sums then travel.
static void rows_are_the_table(void **state) {
    static const struct {
        int first, stride, count;
    } cases[] = {{0, 1, 1}, {39, 1, 1}, {0, 13, 4}, {5, 1, 30}, {1, 1, 31}, {0, 1, 40}};
    for (form f = KEPT; f < FORMS; f++) {
        model m;
        ft_gradient_sums sums = {.group = NULL};
        open_model(&m, f);
        OK(ft_gradient_sums_open(&sums, &m.p));
        assert_true(sums.count == 3 && sums.pieces[1].words && sums.pieces[0].joins && sums.pieces[2].late);
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            float value[END], expected[END], out[END];
            int32_t rows[ROWS];
            memset(value, 0, sizeof value);
            for (int i = 0; i < FRONT; i++)
                value[i] = 1.0f / (float)(i + 3);
            for (int i = 0; i < cases[c].count; i++) {
                rows[i] = cases[c].first + i * cases[c].stride;
                for (int k = 0; k < COLS; k++)
                    value[FRONT + rows[i] * COLS + k] = -1.0f / (float)(7 * i + k + 1);
            }
            for (int i = 0; i < END; i++)
                expected[i] = 2 * value[i];
            m.words.rows = rows;
            m.words.count = cases[c].count;
            memset(out, 1, sizeof out);
            sum_step(&m, &sums, value, out);
            if (f == DEALT)
                assert_memory_equal(out, expected + FRONT - 64, (END - FRONT) * sizeof(float));
            else
                assert_memory_equal(out, expected, sizeof expected);
            assert_int_equal(m.group.operations, 2);
            assert_true(m.group.parts[0] == 2 && m.group.parts[1] == 1 && m.group.count[1] == LATE);
            const int travels = cases[c].count <= ROOM ? cases[c].count : ROWS;
            assert_int_equal(m.group.count[0], FRONT - LATE + travels * COLS);
        }
        ft_gradient_sums_close(&sums);
        close_model(&m);
    }
}

static void some_tables_are_whole(void **state) {
    model m;
    open_model(&m, KEPT);
    ft_memory_ranks ranks = ft_memory_ranks_of(m.p.memory);
    assert_int_equal(ft_word_sums_room(&m.p, 5), 5);
    m.list[2].trained = 9; // the others are not of this run's texts
    m.p.trainable = FRONT + 9 * COLS;
    assert_int_equal(ft_word_sums_room(&m.p, TOKENS), 9);
    m.list[2].trained = ROWS;
    m.p.trainable = END;
    m.list[2].arrives = 0; // a head that it is tied to
    assert_int_equal(ft_word_sums_room(&m.p, TOKENS), 0);
    m.list[2].arrives = 3;
    m.list[2].completes = 5; // the end of the step
    assert_int_equal(ft_word_sums_room(&m.p, TOKENS), 0);
    m.list[2].completes = 3;
    m.p.trainable = END + 64; // another store
    assert_int_equal(ft_word_sums_room(&m.p, TOKENS), 0);
    m.p.trainable = END;
    m.list[2].trained = 0; // frozen
    assert_int_equal(ft_word_sums_room(&m.p, TOKENS), 0);
    m.list[2].trained = ROWS;
    m.p.table = -1;
    assert_int_equal(ft_word_sums_room(&m.p, TOKENS), 0);
    m.p.table = 2;
    assert_int_equal(ft_word_sums_room(&m.p, TOKENS), ROOM);
    ranks.apart = false;
    ft_memory *own = m.p.memory;
    OK(ft_memory_create(m.device, 0, &m.p.memory));
    ft_memory_set_ranks(m.p.memory, ranks);
    assert_int_equal(ft_word_sums_room(&m.p, TOKENS), 0);
    OK(ft_memory_destroy(m.p.memory));
    m.p.memory = own;
    close_model(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_are_the_table), cmocka_unit_test(some_tables_are_whole)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
