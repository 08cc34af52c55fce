// config_case.h - what the tests of the configuration share: files in a scratch directory, loading them, and looking at
// the error that was left.
#ifndef FT_TEST_CONFIG_CASE_H
#define FT_TEST_CONFIG_CASE_H

#include "engine/config/ini.h"
#include "engine/config/options.h"
#include "engine/io/files.h"
#include "kernels/activation.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char scratch_dir[64];
static const ft_section *const *other_sections; // that configurations may have beside a run's; NULL: none

// Fails with the error that the engine left.
#define ok(expression)                                                                                                 \
    do {                                                                                                               \
        if ((expression) != FT_OK) fail_msg("%s: %s (%s)", #expression, ft_error_message(), ft_error_where());         \
    } while (0)

__attribute__((unused)) static const char *in_scratch(const char *name) {
    static char paths[8][160];
    static int next;
    char *out = paths[next++ % 8];
    snprintf(out, sizeof paths[0], "%s/%s", scratch_dir, name);
    return out;
}

__attribute__((unused)) static const char *write_bytes(const char *name, const char *text, size_t size) {
    const char *path = in_scratch(name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    return path;
}

__attribute__((unused)) static const char *write_file(const char *name, const char *text) {
    return write_bytes(name, text, strlen(text));
}

__attribute__((unused)) static ft_status load_text(ft_config *config, const char *text) {
    const char *path = write_file("case.ini", text);
    return ft_config_load_with(other_sections, config, 1, &path, 0, NULL);
}

__attribute__((unused)) static ft_status load_overrides(ft_config *config, const char *first, const char *second) {
    const char *overrides[] = {first, second};
    return ft_config_load_with(other_sections, config, 0, NULL, second == NULL ? 1 : 2, overrides);
}

__attribute__((unused)) static void expect_error(const char *what, const char *where, const char *message,
                                                 const char *hint) {
    assert_int_equal(ft_error_code(), FT_INVALID);
    if (strstr(ft_error_where(), where) == NULL) fail_msg("%s: at '%s', not '%s'", what, ft_error_where(), where);
    if (strstr(ft_error_message(), message) == NULL) fail_msg("%s: '%s' lacks '%s'", what, ft_error_message(), message);
    if (hint == NULL && ft_error_hint_count() > 0) fail_msg("%s: unexpected hint '%s'", what, ft_error_hint(0));
    if (hint != NULL && (ft_error_hint_count() == 0 || strstr(ft_error_hint(0), hint) == NULL))
        fail_msg("%s: hint '%s' lacks '%s'", what, ft_error_hint(0), hint);
}

__attribute__((unused)) static void expect_override_error(const char *override, const char *message, const char *hint) {
    ft_config config;
    if (load_overrides(&config, override, NULL) == FT_OK) fail_msg("%s was accepted", override);
    char where[300]; // WHERE keeps the beginning of a very long override
    snprintf(where, sizeof where, "%s", override);
    expect_error(override, where, message, hint);
    assert_null(config.arena.blocks);
}

__attribute__((unused)) static void expect_file_error(const char *text, int line, const char *message,
                                                      const char *hint) {
    ft_config config;
    char where[40];
    snprintf(where, sizeof where, "case.ini:%d", line);
    if (load_text(&config, text) == FT_OK) fail_msg("accepted: %s", text);
    expect_error(text, where, message, hint);
}

__attribute__((unused)) static char *written(const ft_config *config, bool all, bool skip_output_dir) {
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    assert_non_null(stream);
    ok(config == NULL ? ft_config_write_reference(other_sections, stream) : ft_config_write(config, all, skip_output_dir, stream));
    fclose(stream);
    return text;
}

static int make_scratch(void **state) {
    snprintf(scratch_dir, sizeof scratch_dir, "/tmp/ft-config-XXXXXX");
    return mkdtemp(scratch_dir) == NULL;
}

static int remove_scratch(void **state) { return ft_remove_tree(scratch_dir) != FT_OK; }

#endif
