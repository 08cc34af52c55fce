// The nearest of several names to a word.
#include "base/nearest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

static void test_nearest(void **state) {
    static const char *const names[] = {"accuracy", "loss", "matthews", "f1_macro", "f1_micro"};
    assert_string_equal(ft_nearest("acuracy", 5, names), "accuracy");
    assert_string_equal(ft_nearest("LOSS", 5, names), "loss");
    assert_string_equal(ft_nearest("lsos", 5, names), "loss");        // two neighbours swapped: one step
    assert_string_equal(ft_nearest("f1_mcro", 5, names), "f1_macro"); // the first of two as near
    assert_null(ft_nearest("lo", 5, names));
    assert_null(ft_nearest("", 5, names));
    assert_null(ft_nearest("recall", 5, names));
    assert_null(ft_nearest("loss", 0, NULL));
    char longer[300];
    memset(longer, 'a', sizeof longer);
    longer[299] = '\0';
    assert_null(ft_nearest(longer, 5, names));
    assert_int_equal(ft_nearer("f1_mcro", "f1_macro of many", 8, ft_nearest_bound("f1_mcro")), 1); // so many bytes of the name
    assert_int_equal(ft_nearer("f1_mcro", "f1_macro", 8, 1), 1);                                   // no nearer than the bound
    assert_int_equal(ft_nearer("F1_macro", "f1_macro", 8, 1), 0);                                  // the very word
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
