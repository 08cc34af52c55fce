// SQLite on a network disk is refused before anything is written, and what to do is said; a journal is not.
// ctest: wrap=statfs
#include "hpo/storage/storage.h"

#include "base/files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

static long type; // of every disk
int __wrap_statfs(const char *path, struct statfs *out);
int __wrap_statfs(const char *path, struct statfs *out) {
    *out = (struct statfs){.f_type = type};
    return path != NULL ? 0 : -1;
}

static void test_kinds_of_disks(void **state) {
    static const struct {
        long type;
        const char *name; // NULL: no network disk
    } cases[] = {{0xEF53, NULL},       {0x01021994, NULL},    {0x6969, "NFS"}, {(int)0xFF534D42, "CIFS"},
                 {0xFF534D42, "CIFS"}, {0x0BD00BD0, "Lustre"}};
    char directory[] = "/tmp/ft_network_XXXXXX", path[64], url[80];
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/study.db", directory);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ft_storage *storage;
        type = cases[i].type;
        const ft_status status = ft_storage_open(path, FT_STORAGE_CREATE, &storage);
        assert_int_equal(status, cases[i].name == NULL ? FT_OK : FT_INVALID);
        if (cases[i].name != NULL) {
            assert_non_null(strstr(ft_error_message(), cases[i].name));
            assert_non_null(strstr(ft_error_hint(0), "journal:FILE"));
            assert_non_null(strstr(ft_error_hint(0), "postgresql://"));
            assert_false(ft_path_exists(path));
        } else {
            assert_int_equal(ft_storage_close(storage), FT_OK);
            unlink(path);
        }
        snprintf(url, sizeof url, "journal:%s/all.log", directory);
        assert_int_equal(ft_storage_open(url, FT_STORAGE_CREATE, &storage), FT_OK);
        assert_int_equal(ft_storage_close(storage), FT_OK);
    }
    assert_int_equal(ft_remove_tree(directory), FT_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kinds_of_disks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
