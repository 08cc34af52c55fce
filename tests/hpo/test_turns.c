// Whose turn it is to reserve memory.
#include "hpo/study/turns.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static void test_the_longest_waiting_goes_first(void **state) {
    ft_turn t[4] = {{true, 3, 0, 0}, {true, 1, 0, 0}, {false, 0, 0, 0}, {true, 2, 0, 0}};
    assert_int_equal(ft_turns_next(t, 4, 1), 1);
    t[1].tried = 1; // there was no room for it: the next one may try
    assert_int_equal(ft_turns_next(t, 4, 1), 3);
    t[3].tried = 1;
    assert_int_equal(ft_turns_next(t, 4, 1), 0);
    t[0].tried = 1;
    assert_int_equal(ft_turns_next(t, 4, 1), -1);
    assert_int_equal(ft_turns_next(t, 4, 2), 1); // there may be room now
    assert_int_equal(ft_turns_next(t, 0, 2), -1);
}

static void test_nobody_is_passed_for_ever(void **state) {
    ft_turn t[2] = {{true, 1, 0, 0}, {false, 0, 0, 0}};
    for (int i = 0; i < FT_TURNS_PASSED; i++) {
        t[1] = (ft_turn){true, 2 + i, 0, 0};
        t[0].tried = 7;
        assert_int_equal(ft_turns_next(t, 2, 7), 1);
        ft_turns_entered(t, 2, 1);
        assert_false(t[1].waits);
        assert_int_equal(t[0].passed, i + 1);
    }
    t[1] = (ft_turn){true, 100, 0, 0};
    assert_int_equal(ft_turns_next(t, 2, 7), -1); // what becomes free is kept
    assert_int_equal(ft_turns_next(t, 2, 8), 0);
    ft_turns_entered(t, 2, 0);
    assert_int_equal(t[1].passed, 0); // it came later
    assert_int_equal(ft_turns_next(t, 2, 8), 1);
}

// A trial that was moved waits a second time: those that passed it before do not count.
static void test_a_new_wait_is_passed_anew(void **state) {
    ft_turn t[2] = {{true, 1, FT_TURNS_PASSED, 7}, {true, 2, 0, 6}};
    assert_int_equal(ft_turns_next(t, 2, 7), -1);
    ft_turns_wait(&t[0], 3, 7);
    t[0].tried = 7;
    assert_int_equal(ft_turns_next(t, 2, 7), 1);
    t[1].tried = 7;
    ft_turns_wait(&t[0], 3, 7);
    assert_int_equal(ft_turns_next(t, 2, 7), 0); // it has not tried yet
}

// One that is held back lets others go first, a few times; then those of its device that came later wait too.
static void test_who_is_held_back_keeps_its_device(void **state) {
    const bool there[3] = {true, true, false};
    for (int passed = 0; passed <= FT_TURNS_PASSED; passed++) {
        ft_turn t[3] = {{true, 1, passed, 0}, {true, 2, 0, 0}, {true, 3, 0, 0}};
        ft_turns_hold(t, 3, 0, there);
        assert_int_equal(ft_turns_next(t, 3, 1), passed < FT_TURNS_PASSED ? 1 : 2); // the last one goes elsewhere
    }
    ft_turn t[3] = {{true, 5, FT_TURNS_PASSED, 0}, {true, 2, 0, 0}, {false, 9, 0, 0}};
    ft_turns_hold(t, 3, 0, there);
    assert_int_equal(ft_turns_next(t, 3, 1), 1); // it came before
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_longest_waiting_goes_first),
        cmocka_unit_test(test_nobody_is_passed_for_ever),
        cmocka_unit_test(test_a_new_wait_is_passed_anew),
        cmocka_unit_test(test_who_is_held_back_keeps_its_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
