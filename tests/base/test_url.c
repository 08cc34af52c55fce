// Where a study's database is: kinds of addresses, and that what is shown of them holds no password.
#include "base/url.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *url;
    ft_url_kind kind;
    const char *shown, *plain, *password, *hidden; // hidden NULL: there is nothing to hide
} cases[] = {
    {"study.db", FT_URL_FILE, "study.db", "study.db", NULL, NULL},
    {"sqlite:///a/b.db", FT_URL_FILE, "sqlite:///a/b.db", "sqlite:///a/b.db", NULL, NULL},
    {"dir/postgresql://x", FT_URL_FILE, "dir/postgresql://x", "dir/postgresql://x", NULL, NULL},
    {"postgresql.db", FT_URL_FILE, "postgresql.db", "postgresql.db", NULL, NULL},
    {"journal:a.log", FT_URL_JOURNAL, "journal:a.log", "journal:a.log", NULL, NULL},
    {"mysql://u:p@h/d", FT_URL_UNKNOWN, "mysql://u:p@h/d", "mysql://u:p@h/d", NULL, NULL},
    {"postgresql://h/d", FT_URL_POSTGRES, "postgresql://h/d", "postgresql://h/d", NULL, NULL},
    {"postgres://u@h:5432/d", FT_URL_POSTGRES, "postgresql://u@h:5432/d", "postgresql://u@h:5432/d", NULL, NULL},
    {"postgresql+psycopg2://u:p@h/d?sslmode=require", FT_URL_POSTGRES, "postgresql://u@h/d?sslmode=require",
     "postgresql://u@h/d?sslmode=require", "p", "postgresql+psycopg2://u:x@h/d?sslmode=require"},
    {"postgresql://u:a%40b%zz@h,i/d", FT_URL_POSTGRES, "postgresql://u@h,i/d", "postgresql://u@h,i/d", "a@b%zz",
     "postgresql://u:xxxxxxxx@h,i/d"},
    {"postgresql://u:a@b/c?d#e@[::1]:5/d", FT_URL_POSTGRES, "postgresql://u@[::1]:5/d", "postgresql://u@[::1]:5/d",
     "a@b/c?d#e", "postgresql://u:xxxxxxxxx@[::1]:5/d"},
    {"postgresql://u:secret", FT_URL_POSTGRES, "postgresql://u", "postgresql://u:secret", NULL, NULL},
    {"postgresql://h:5432", FT_URL_POSTGRES, "postgresql://h:5432", "postgresql://h:5432", NULL, NULL},
    {"postgresql:///?service=s", FT_URL_POSTGRES, "postgresql:///?service=s", "postgresql:///?service=s", NULL, NULL},
    {"postgresql://h/d?password=p&host=/run&sslpassword=q", FT_URL_POSTGRES, "postgresql://h/d?host=/run",
     "postgresql://h/d?password=p&host=/run&sslpassword=q", NULL,
     "postgresql://h/d?password=x&host=/run&sslpassword=x"},
    {"postgresql://u:@h/d", FT_URL_POSTGRES, "postgresql://u@h/d", "postgresql://u@h/d", "", NULL},
};

static void test_addresses(void **state) {
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t scheme;
        ft_arena arena = {0};
        char *password, copy[200];
        print_message("%s\n", cases[i].url);
        assert_int_equal(ft_url_kind_of(cases[i].url, &scheme), cases[i].kind);
        assert_string_equal(ft_url_shown(&arena, cases[i].url), cases[i].shown);
        assert_string_equal(ft_url_plain(&arena, cases[i].url, &password), cases[i].plain);
        if (cases[i].password == NULL)
            assert_null(password);
        else
            assert_string_equal(password, cases[i].password);
        snprintf(copy, sizeof copy, "%s", cases[i].url);
        assert_int_equal(ft_url_hide(copy), cases[i].hidden != NULL);
        assert_string_equal(copy, cases[i].hidden != NULL ? cases[i].hidden : cases[i].url);
        ft_arena_free(&arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_addresses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
