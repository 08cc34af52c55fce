// storage_places.h - for tests of studies in databases: where one may be made. In SQLite; in a journal when there is an FT_TEST_JOURNAL, in
// PostgreSQL when FT_TEST_POSTGRES is the command of psql for a server that may be written to, and FT_TEST_POSTGRES_URL the URL of
// a database there with %s for its name (storage/test_postgres.sh).
#ifndef FT_STORAGE_PLACES_H
#define FT_STORAGE_PLACES_H

#include "base/files.h"
#include "hpo/storage/storage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char directory[] = "/tmp/ft_storage_XXXXXX";

static inline bool in_postgres(void) { return getenv("FT_TEST_POSTGRES") != NULL; }
static inline bool in_journal(void) { return getenv("FT_TEST_JOURNAL") != NULL; }
static inline bool in_sqlite(void) { return !in_postgres() && !in_journal(); }

// An empty database of PostgreSQL.
static inline void make_database(const char *name, char *url, size_t size) {
    const char *format = getenv("FT_TEST_POSTGRES_URL"), *place = strstr(format, "%s");
    char command[1000];
    snprintf(command, sizeof command, "%s -c 'DROP DATABASE IF EXISTS %s' -c 'CREATE DATABASE %s' >/dev/null 2>&1",
             getenv("FT_TEST_POSTGRES"), name, name);
    assert_int_equal(system(command), 0);
    snprintf(url, size, "%.*s%s%s", (int)(place - format), format, name, place + 2);
}

// Where there is nothing yet: the path of a file, or a URL.
static inline const char *scratch(const char *name) {
    static char path[400];
    char base[40];
    snprintf(base, sizeof base, "%.*s", (int)strcspn(name, "."), name);
    if (in_postgres()) {
        make_database(base, path, sizeof path);
    } else {
        snprintf(path, sizeof path, "%s%s/%s", in_journal() ? "journal:" : "", directory, name);
        unlink(in_journal() ? path + 8 : path);
    }
    return path;
}

static inline void ok(ft_status status) {
    if (status != FT_OK) fail_msg("%s (%s)", ft_error_message(), ft_error_where());
}

static inline void refused(ft_status status, ft_status code, const char *text) {
    assert_int_equal(status, code);
    if (strstr(ft_error_message(), text) == NULL) fail_msg("'%s' is not in '%s'", text, ft_error_message());
    ft_error_clear();
}

// The journal mode in the header (18 and 19: 1 = a plain file) and no file beside it.
static inline void assert_at_rest(const char *path) {
    char *data, other[420];
    size_t length;
    if (!in_sqlite()) return;
    ok(ft_read_file(path, 0, &data, &length));
    assert_int_equal(data[18], 1);
    assert_int_equal(data[19], 1);
    free(data);
    snprintf(other, sizeof other, "%s-wal", path);
    assert_false(ft_path_exists(other));
    snprintf(other, sizeof other, "%s-journal", path);
    assert_false(ft_path_exists(other));
}

static inline int make_directory(void **state) { return mkdtemp(directory) == NULL; }
static inline int remove_directory(void **state) { return ft_remove_tree(directory) != FT_OK; }

#endif
