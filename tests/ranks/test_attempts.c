// With which devices a run goes on after a loss. Each case is a list of devices and what ends its attempts, one after
// the other, each with what it comes to; and what is said of it, to people and to programs.
#include "engine/ranks/attempts.h"

#include "base/files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct end {
    int rank;
    const char *how;  // "killed", "error", "device"
    int checkpoint;   // the newest one; -1: none
    const char *roll; // the GPUs that there are then, by their letters in the order of their numbers, a '!' behind one
                      // that cannot be opened; NULL: nobody asked
    const char *next; // "again", "same", "few"
    const char *left; // devices of the next attempt, as names and letters
} end;

typedef struct attempts_case {
    const char *devices; // GPUs by letters: ABC are cuda:0,cuda:1,cuda:2; ccc three times the CPU
    int least;
    end ends[8];
} attempts_case;

static const attempts_case cases[] = {
    // Merely killed: all come back.
    {"ABC", 1, {{1, "killed", 4, "ABC", "again", "0A1B2C"}, {2, "killed", 4, "ABC", "again", "0A1B2C"}}},
    {"ccc", 1, {{1, "killed", -1, NULL, "again", "ccc"}, {0, "killed", -1, NULL, "again", "ccc"}}},
    // The same one, three times in a row; not if there was a checkpoint, or another one, in between.
    {"ccc",
     1,
     {{1, "killed", -1, NULL, "again", "ccc"},
      {1, "killed", -1, NULL, "again", "ccc"},
      {1, "killed", -1, NULL, "again", "cc"},
      {1, "killed", -1, NULL, "again", "cc"},
      {1, "killed", -1, NULL, "again", "cc"},
      {1, "killed", -1, NULL, "again", "c"},
      {0, "killed", -1, NULL, "again", "c"}}},
    {"ccc",
     1,
     {{1, "killed", 2, NULL, "again", "ccc"},
      {1, "killed", 2, NULL, "again", "ccc"},
      {1, "killed", 4, NULL, "again", "ccc"},
      {1, "killed", 4, NULL, "again", "ccc"},
      {1, "killed", 6, NULL, "again", "ccc"}}},
    {"ccc",
     1,
     {{1, "killed", 2, NULL, "again", "ccc"},
      {1, "killed", 2, NULL, "again", "ccc"},
      {2, "killed", 2, NULL, "again", "ccc"},
      {1, "killed", 2, NULL, "again", "ccc"},
      {1, "killed", 2, NULL, "again", "ccc"},
      {1, "killed", 2, NULL, "again", "cc"}}},
    {"ABC",
     1,
     {{2, "device", 2, "ABC", "again", "0A1B2C"},
      {2, "killed", 2, "ABC", "again", "0A1B2C"},
      {2, "device", 2, "ABC", "again", "0A1B"}}},
    // Only as long as enough are left: a process may come back.
    {"cc",
     2,
     {{1, "killed", 2, NULL, "again", "cc"},
      {1, "killed", 2, NULL, "again", "cc"},
      {1, "killed", 2, NULL, "again", "cc"},
      {1, "killed", 2, NULL, "again", "cc"}}},
    // A GPU that is not there any more, or cannot be opened, whoever was lost; the others may have other numbers.
    {"ABC", 1, {{1, "device", 2, "AC", "again", "0A1C"}, {1, "killed", 2, "AC", "again", "0A1C"}}},
    {"ABC", 1, {{1, "killed", 2, "AB!C", "again", "0A2C"}}},
    {"ABCD", 2, {{0, "killed", 2, "A!BC!D", "again", "1B3D"}, {0, "device", 2, "BD", "again", "0B1D"}}},
    {"BC", 1, {{0, "killed", 2, "BC", "again", "0B1C"}}}, // A, which another program had
    {"ABC", 1, {{1, "error", 2, "AC", "again", "0A1C"}}}, // an error that does not say what it is of
    {"ABC", 2, {{1, "device", 2, "AC", "again", "0A1C"}, {0, "device", 2, "C", "few", "0C"}}},
    {"AB", 1, {{1, "device", 2, "", "few", ""}}},
    // What was counted before is of other devices.
    {"ABC",
     1,
     {{1, "killed", 2, "ABC", "again", "0A1B2C"},
      {1, "killed", 2, "ABC", "again", "0A1B2C"},
      {1, "killed", 2, "BC", "again", "0B1C"},
      {1, "killed", 2, "BC", "again", "0B1C"}}},
    // What was reported would come again.
    {"ABC", 1, {{1, "error", 2, "ABC", "same", "0A1B2C"}}},
    {"ccc", 1, {{1, "error", 2, NULL, "same", "ccc"}}},
};

// Letters are UUIDs.
static void make(const attempts_case *c, ft_attempts *a) {
    *a = (ft_attempts){.least = c->least};
    for (const char *at = c->devices; *at != '\0'; at++) {
        ft_attempt_device *d = &a->device[a->devices++];
        if (*at == 'c')
            strcpy(d->name, "cpu");
        else
            snprintf(d->name, sizeof d->name, "cuda:%d", *at - 'A'), snprintf(d->uuid, sizeof d->uuid, "%c", *at);
    }
}

static void call(const char *letters, ft_roll *roll) {
    *roll = (ft_roll){.count = 0};
    for (const char *at = letters; *at != '\0'; at++) {
        ft_roll_gpu *gpu = &roll->gpu[roll->count];
        snprintf(gpu->name, sizeof gpu->name, "cuda:%d", roll->count++);
        snprintf(gpu->uuid, sizeof gpu->uuid, "%c", *at);
        gpu->works = at[1] != '!';
        if (!gpu->works) strcpy(gpu->why, "busy"), at++;
    }
}

static void show(const ft_attempts *a, char *text) {
    *text = '\0';
    for (int i = 0; i < a->devices; i++) {
        const ft_attempt_device *d = &a->device[i];
        text += d->uuid[0] != '\0' ? sprintf(text, "%s%s", d->name + strlen("cuda:"), d->uuid) : sprintf(text, "c");
    }
}

static void goes_on_with(void **state) {
    static const char *const nexts[] = {
        [FT_ATTEMPT_AGAIN] = "again", [FT_ATTEMPT_SAME_ERROR] = "same", [FT_ATTEMPT_TOO_FEW] = "few"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ft_attempts a;
        make(&cases[i], &a);
        for (const end *e = cases[i].ends; e->how != NULL; e++) {
            char left[200];
            ft_roll roll;
            ft_left_out out;
            const int before = a.devices;
            const ft_lost_rank loss = {.rank = e->rank,
                                       .reported = strcmp(e->how, "killed") != 0,
                                       .of_device = strcmp(e->how, "device") == 0,
                                       .checkpoint = e->checkpoint};
            if (e->roll != NULL) call(e->roll, &roll);
            const ft_attempt_next next = ft_attempts_after(&a, &loss, e->roll != NULL ? &roll : NULL, &out);
            show(&a, left);
            if (strcmp(nexts[next], e->next) != 0 || strcmp(left, e->left) != 0 || out.count != before - a.devices)
                fail_msg("case %zu (%s), end %d: %s with '%s', %d left out, instead of %s with '%s'", i,
                         cases[i].devices, (int)(e - cases[i].ends), nexts[next], left, out.count, e->next, e->left);
        }
    }
}

static void says_it(void **state) {
    ft_attempts a;
    ft_roll roll;
    ft_left_out out;
    char text[FT_ATTEMPTS_TEXT];
    const ft_lost_rank loss = {.rank = 2, .reported = true, .of_device = true, .checkpoint = 40};
    make(&(attempts_case){"ABCD", 1, {{0}}}, &a);
    call("AB!C", &roll);
    assert_int_equal(ft_attempts_after(&a, &loss, &roll, &out), FT_ATTEMPT_AGAIN);
    ft_attempts_text(&out, 4, a.devices, text);
    assert_string_equal(text,
                        ", with 2 ranks instead of 4: cuda:1 is left out (busy), cuda:3 is left out (the driver does "
                        "not see it any more)");
    bool failed = false;
    json_t *event = ft_attempts_json(&loss, "cuda:2", "broken", &out, 4, a.devices, &failed);
    char *line = ft_json_line(event);
    assert_false(failed);
    assert_string_equal(line,
                        "{\"rank\":2,\"device\":\"cuda:2\",\"why\":\"broken\",\"checkpoint\":40,\"ranks_before\":4,"
                        "\"ranks\":2,\"left_out\":[{\"rank\":1,\"device\":\"cuda:1\",\"why\":\"busy\"},{\"rank\":3,"
                        "\"device\":\"cuda:3\",\"why\":\"the driver does not see it any more\"}]}");
    free(line);
    json_decref(event);
}

// Of one session after the other.
static void keeps_it(void **state) {
    char place[] = "/tmp/attempts-XXXXXX", path[64];
    json_t *events = json_pack("[{s:i}, {s:i}]", "rank", 1, "rank", 2), *root;
    assert_non_null(mkdtemp(place));
    snprintf(path, sizeof path, "%s/restarts.json", place);
    assert_int_equal(ft_attempts_save(place, events), FT_OK);
    json_array_clear(events);
    json_array_append_new(events, json_pack("{s:i}", "rank", 0));
    assert_int_equal(ft_attempts_save(place, events), FT_OK);
    assert_int_equal(ft_json_load(path, &root), FT_OK);
    char *line = ft_json_line(root);
    assert_string_equal(line, "{\"format_version\":1,\"restarts\":[{\"rank\":1},{\"rank\":2},{\"rank\":0}]}");
    free(line);
    json_decref(root);
    json_decref(events);
    assert_int_equal(ft_remove_tree(place), FT_OK);
}

// ---- the roll

#define GPU(number, uuid, trains, missing)                                                                             \
    "{\"device\":\"cuda:" #number "\",\"uuid\":\"" uuid "\",\"trains\":" #trains ",\"missing\":" missing "}"

static void reads_the_roll(void **state) {
    static const char text[] = "{\"devices\":[{\"device\":\"cpu\",\"trains\":true}," GPU(0, "a", true, "null") "," GPU(
        1, "b", false, "{\"message\":\"no\",\"where\":null,\"hints\":[]}") "]}";
    ft_roll roll;
    assert_int_equal(ft_roll_read(text, strlen(text), &roll), FT_OK);
    assert_int_equal(roll.count, 2);
    assert_string_equal(roll.gpu[0].name, "cuda:0");
    assert_string_equal(roll.gpu[0].uuid, "a");
    assert_true(roll.gpu[0].works);
    assert_string_equal(roll.gpu[1].uuid, "b");
    assert_false(roll.gpu[1].works);
    assert_string_equal(roll.gpu[1].why, "no");
    assert_int_equal(ft_roll_read("{}", 2, &roll), FT_INVALID);
    assert_int_equal(ft_roll_read("", 0, &roll), FT_INVALID);
}

// More of them than there is room for: those that fit, and nothing behind them.
static void reads_a_long_roll(void **state) {
    struct {
        ft_roll roll;
        ft_roll_gpu behind;
    } read;
    char text[(FT_ROLL_GPUS + 2) * 80] = "{\"devices\":[";
    size_t length = strlen(text);
    for (int i = 0; i < FT_ROLL_GPUS + 2; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, "%s{\"device\":\"cuda:%d\",\"uuid\":\"u%d\",\"trains\":true}", i > 0 ? "," : "", i, i);
    length += (size_t)snprintf(text + length, sizeof text - length, "]}");
    memset(&read, 0, sizeof read);
    assert_int_equal(ft_roll_read(text, length, &read.roll), FT_OK);
    assert_int_equal(read.roll.count, FT_ROLL_GPUS);
    assert_string_equal(read.roll.gpu[FT_ROLL_GPUS - 1].name, "cuda:63");
    assert_false(read.behind.works);
}

// Whatever is asked: what it prints, that it ends badly, that it does not answer.
static void asks_in_time(void **state) {
    static const struct {
        const char *script;
        int status, count;
    } programs[] = {
        {"echo '{\"devices\":[" GPU(0, "a", true, "null") "]}'", FT_OK, 1},
        {"echo '{\"devices\":[]}'; exit 1", FT_FAILED, 0},
        {"echo nothing", FT_INVALID, 0},
        {"exec sleep 600", FT_FAILED, 0},
    };
    char place[] = "/tmp/roll-XXXXXX", path[64];
    assert_non_null(mkdtemp(place));
    snprintf(path, sizeof path, "%s/program", place);
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        FILE *file = fopen(path, "w");
        ft_roll roll;
        assert_non_null(file);
        fprintf(file, "#!/bin/sh\n[ \"$*\" = 'devices --json' ] || exit 2\n%s\n", programs[i].script);
        fclose(file);
        assert_int_equal(chmod(path, 0700), 0);
        const bool hangs = strstr(programs[i].script, "sleep") != NULL;
        assert_int_equal(ft_roll_call(path, hangs ? 0.2 : 120, &roll), programs[i].status);
        assert_int_equal(roll.count, programs[i].count);
    }
    assert_int_equal(ft_remove_tree(place), FT_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(goes_on_with), cmocka_unit_test(says_it),
                                       cmocka_unit_test(keeps_it), cmocka_unit_test(reads_the_roll),
                                       cmocka_unit_test(reads_a_long_roll), cmocka_unit_test(asks_in_time)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
