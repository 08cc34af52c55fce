// Which rows of the word table the texts of a step have: each once, in the order of the table, of those sequences
// alone; and nothing of a step is left for the next.
#include "engine/train/step/step_words.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 130 };

static void rows_of_steps(void **state) {
    int32_t ids[] = {101, 7, 64, 102, 101, 129, 102, 0, 63, 63, 128}, order[] = {2, 0, 1}, row_of[ROWS];
    int64_t offset[] = {0, 4, 7, 11};
    const ft_dataset data = {.ids = ids, .offset = offset, .sequences = 3, .tokens = 11};
    for (int i = 0; i < ROWS; i++)
        row_of[i] = ROWS - 1 - i;
    const ft_word_rows rows = {.rows = ROWS, .row_of = row_of};
    const struct {
        const int32_t *order;
        int64_t first, last;
        const ft_word_rows *rows;
        int count;
        int32_t expected[8];
    } cases[] = {{NULL, 0, 3, NULL, 8, {0, 7, 63, 64, 101, 102, 128, 129}},
                 {NULL, 0, 1, NULL, 4, {7, 64, 101, 102}},
                 {order, 0, 1, NULL, 3, {0, 63, 128}},
                 {order, 1, 3, NULL, 5, {7, 64, 101, 102, 129}},
                 {order, 0, 1, &rows, 3, {1, 66, 129}},
                 {NULL, 1, 1, NULL, 0, {0}}};
    ft_step_words words;
    assert_int_equal(ft_step_words_open(ROWS, &words), FT_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int64_t room = 0; room <= 8; room += 4) {
            int32_t list[9];
            memset(list, 0xff, sizeof list);
            assert_int_equal(ft_step_words_find(&words, &data, cases[i].order, cases[i].first, cases[i].last,
                                                cases[i].rows, room > 0 ? list : NULL, room),
                             cases[i].count);
            const int64_t there = cases[i].count < room ? cases[i].count : room;
            assert_memory_equal(list, cases[i].expected, (size_t)there * sizeof *list);
            assert_int_equal(list[there], -1);
        }
    ft_step_words_close(&words);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_of_steps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
