// Studies as text: what comes back is what went out, to the bit, and nothing half-done stays after an error.
#include "hpo/exchange/exchange.h"
#include "tests/hpo/study_dump.h"

#include "base/files.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

static void ok(ft_status status) {
    if (status != FT_OK) fail_msg("%s (%s)", ft_error_message(), ft_error_where());
}

typedef struct fixture {
    char directory[64], database[96], text[96];
    ft_storage *storage;
} fixture;

static int setup(void **state) {
    fixture *f = calloc(1, sizeof *f);
    strcpy(f->directory, "/tmp/ft_exchange_XXXXXX");
    assert_non_null(mkdtemp(f->directory));
    snprintf(f->database, sizeof f->database, "%s/study.db", f->directory);
    snprintf(f->text, sizeof f->text, "%s/study.jsonl", f->directory);
    ok(ft_storage_open(f->database, FT_STORAGE_CREATE, &f->storage));
    *state = f;
    return 0;
}

static int teardown(void **state) {
    fixture *f = *state;
    ok(ft_storage_close(f->storage));
    ok(ft_remove_tree(f->directory));
    free(f);
    return 0;
}

static char *dumped(ft_stored *study) {
    ft_text_stream stream;
    char *text;
    ok(ft_text_open(&stream));
    dump_study(stream.file, study);
    ok(ft_text_close(&stream, &text));
    return text;
}

static char *exported(ft_stored *study, ft_status (*export)(ft_stored *study, FILE *out)) {
    ft_text_stream stream;
    char *text;
    ok(ft_text_open(&stream));
    ok(export(study, stream.file));
    ok(ft_text_close(&stream, &text));
    return text;
}

// cmocka cuts long texts off: the first line that differs says more.
static void same_text(const char *a, const char *b) {
    while (*a != '\0' && strcspn(a, "\n") == strcspn(b, "\n") && memcmp(a, b, strcspn(a, "\n")) == 0) {
        a += strcspn(a, "\n") + (strchr(a, '\n') != NULL);
        b += strcspn(b, "\n") + (strchr(b, '\n') != NULL);
    }
    if (strcmp(a, b) != 0) fail_msg("'%.600s' is not '%.600s'", a, b);
}

// Everything that a study can hold and JSON finds hard.
static ft_stored *difficult(ft_storage *storage) {
    ft_stored *study;
    int64_t n;
    ft_arena arena = {0};
    ft_distribution rate, step, count, list;
    ft_choice choices[] = {{.kind = FT_CHOICE_NULL},
                           {.kind = FT_CHOICE_BOOL, .integer = 1},
                           {.kind = FT_CHOICE_INT, .integer = -7},
                           {.kind = FT_CHOICE_FLOAT, .number = NAN},
                           {.kind = FT_CHOICE_FLOAT, .number = -INFINITY},
                           {.kind = FT_CHOICE_FLOAT, .number = 0.1},
                           {.kind = FT_CHOICE_TEXT, .text = "größe \"x\", \\ \n 😀"},
                           {.kind = FT_CHOICE_TEXT, .text = "Infinity"}};
    ok(ft_distribution_float("rate", 5e-324, 1e300, true, 0, &rate));
    ok(ft_distribution_float("step", -0.3, 0.3, false, 0.1, &step));
    ok(ft_distribution_int("count", -9007199254740992, 9007199254740992, false, 1, &count));
    ok(ft_distribution_categorical("list", &arena, choices, 8, &list));
    ok(ft_stored_create(storage, "difficult", 1, (bool[]){false}, &study));
    ok(ft_stored_set_attribute(study, FT_STUDY_ATTRIBUTE, FT_USER_ATTRIBUTE, "deep",
                               "{\"a\": [NaN, -Infinity, {}, null]}"));
    for (int i = 0; i < 8; i++) {
        ok(ft_stored_ask(study, FT_RUNNING, &n));
        ok(ft_stored_param(study, n, "rate", &rate, i == 0 ? 5e-324 : 1.0 / (3 + i)));
        ok(ft_stored_param(study, n, "step", &step, -0.3 + 0.1 * (i % 7)));
        ok(ft_stored_param(study, n, "count", &count, i == 1 ? 9007199254740991.0 : (double)-i));
        ok(ft_stored_param(study, n, "list", &list, i));
        ok(ft_stored_report(study, n, 0, i == 2 ? NAN : 0.1 * i));
        ok(ft_stored_report(study, n, 9000000000, INFINITY));
        ok(ft_stored_set_attribute(study, n, FT_USER_ATTRIBUTE, "key, with \"quotes\"", i % 2 ? "NaN" : "\"NaN\""));
        ok(ft_stored_rungs(study, n, 2, -INFINITY));
        if (i % 2) ok(ft_stored_constraints(study, n, NULL, (double[]){i - 3.0, -INFINITY}, 2));
        if (i == 7) ok(ft_stored_constraints(study, n, (const char *[]){"memory"}, (double[]){0.25}, 1));
        if (i < 4) ok(ft_stored_finish(study, n, FT_COMPLETE, (double[]){i == 3 ? -INFINITY : 0.1 + i / 3.0}, 1));
        if (i == 4) ok(ft_stored_finish(study, n, FT_PRUNED, (double[]){1e-310}, 1));
        if (i == 5) ok(ft_stored_finish(study, n, FT_PRUNED, NULL, 0));
        if (i == 6) ok(ft_stored_finish(study, n, FT_FAIL, NULL, 0));
    } // the last one keeps running
    ok(ft_stored_enqueue(study, (ft_fixed_param[]){{"list", choices[3]}, {"rate", choices[5]}}, 2, &n));
    ft_arena_free(&arena);
    return study;
}

static void test_there_and_back(void **state) {
    fixture *f = *state;
    ft_stored *study = difficult(f->storage), *again;
    char *lines = exported(study, ft_export_jsonl), *before = dumped(study);
    ok(ft_atomic_write(f->text, lines, strlen(lines)));
    ok(ft_import_jsonl(f->text, f->storage, "again", &again));
    ft_stored_close(again);
    ok(ft_stored_open(f->storage, "again", &again)); // as the file has it
    char *after = dumped(again), *second = exported(again, ft_export_jsonl);
    same_text(strchr(after, '\n'), strchr(before, '\n')); // behind the name
    same_text(strchr(second, '\n'), strchr(lines, '\n'));
    for (int64_t i = 0; i < study->trials.count; i++) // dumps print 17 digits; the bits of parameters are these
        for (int k = 0; k < study->trials.trial[i].param_count; k++)
            assert_memory_equal(&study->trials.trial[i].params[k].value, &again->trials.trial[i].params[k].value,
                                sizeof(double));
    free(lines);
    free(before);
    free(after);
    free(second);
    ft_stored_close(again);
    ft_stored_close(study);
}

// ---- into memory ----------------------------------------------------------------------------------------------------

typedef struct read_back {
    int studies;
    char names[64];
    char *text; // of all their trials
    size_t size;
} read_back;

// Trials as samplers see them.
static void write_trials(FILE *out, const ft_trials *trials) {
    for (int64_t i = 0; i < trials->count; i++) {
        const ft_trial *t = &trials->trial[i];
        fprintf(out, "%s", ft_trial_state_name(t->state));
        for (int k = 0; k < t->value_count; k++)
            fprintf(out, " %a", t->values[k]);
        for (int k = 0; k < t->report_count; k++)
            fprintf(out, " %lld:%a", (long long)t->reports[k].step, t->reports[k].value);
        for (int k = 0; k < t->constraint_count; k++)
            fprintf(out, " %s<=%a", trials->constraint_names.name[t->constraints[k].name], t->constraints[k].value);
        for (int k = 0; k < t->param_count; k++) {
            const ft_distribution *d = trials->distributions[t->params[k].distribution];
            fprintf(out, " %s=%a of %d %g %g %g %d %d", trials->names.name[t->params[k].name], t->params[k].value,
                    (int)d->kind, d->low, d->high, d->step, d->log, d->choice_count);
        }
        putc('\n', out);
    }
}

static ft_status take(void *context, const char *study, const ft_trials *trials) {
    read_back *all = context;
    free(all->text);
    FILE *out = open_memstream(&all->text, &all->size);
    assert_non_null(out);
    all->studies++;
    strncat(all->names, study, sizeof all->names - strlen(all->names) - 1);
    strncat(all->names, " ", sizeof all->names - strlen(all->names) - 1);
    write_trials(out, trials);
    assert_int_equal(fclose(out), 0);
    return FT_OK;
}

static void pack(const char *path, const char *text) {
    gzFile file = gzopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, text, (unsigned)strlen(text)), (int)strlen(text));
    assert_int_equal(gzclose(file), Z_OK);
}

// What is read into memory is what the study was; packed as well, which can be imported too; several in a file.
static void test_into_memory(void **state) {
    fixture *f = *state;
    ft_stored *study = difficult(f->storage), *again;
    char *lines = exported(study, ft_export_jsonl), *expected = NULL, both[40000];
    size_t size;
    FILE *out = open_memstream(&expected, &size);
    assert_non_null(out);
    write_trials(out, &study->trials);
    assert_int_equal(fclose(out), 0);
    assert_true((size_t)snprintf(both, sizeof both, "%s\n%s", lines, lines) < sizeof both);
    const struct {
        const char *text;
        bool packed;
        int studies;
    } cases[] = {{lines, false, 1}, {lines, true, 1}, {both, false, 2}, {both, true, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        read_back all = {0};
        if (cases[i].packed)
            pack(f->text, cases[i].text);
        else
            ok(ft_atomic_write(f->text, cases[i].text, strlen(cases[i].text)));
        ok(ft_exchange_read(f->text, take, &all));
        assert_int_equal(all.studies, cases[i].studies);
        assert_string_equal(all.names, cases[i].studies == 1 ? "difficult " : "difficult difficult ");
        same_text(all.text, expected);
        free(all.text);
        if (cases[i].studies > 1) continue;
        ok(ft_import_jsonl(f->text, f->storage, "again", &again));
        ft_stored_close(again);
        ok(ft_storage_delete_study(f->storage, "again"));
    }
    free(lines);
    free(expected);
    ft_stored_close(study);
}

static ft_status refuse(void *context, const char *study, const ft_trials *trials) {
    return ft_fail(FT_FAILED, "here", "not this one");
}

static void test_not_into_memory(void **state) {
    fixture *f = *state;
#define STUDY "{\"format_version\": 1, \"study\": \"a\", \"directions\": [\"minimize\"]}\n"
#define TRIAL(number, rest) "{\"number\": " number ", \"state\": \"COMPLETE\", " rest "}\n"
#define GOOD TRIAL("3", "\"values\": [1]") // trials may have been left out
#define RATE(value)                                                                                                    \
    TRIAL("4", "\"values\": [1], \"params\": {\"x\": " value "}, \"distributions\": {\"x\": {\"name\": "                 \
               "\"FloatDistribution\", \"attributes\": {\"step\": null, \"low\": 1e-3, \"high\": 1, \"log\": true}}}")
    static const struct {
        const char *text, *where, *message;
    } cases[] = {
        {STUDY GOOD RATE("0.5"), NULL, NULL},
        {"", "study.jsonl", "the file is empty"},
        {"\n\n", "study.jsonl", "the file is empty"},
        {GOOD, "study.jsonl:1", "this is no exported study"},
        {STUDY GOOD "[]\n", "study.jsonl:3", "must be a JSON object"},
        {STUDY "\n" GOOD "{\"number\": 1\n", "study.jsonl:4", "not valid JSON"},
        {STUDY GOOD "{\"state\": \"COMPLETE\"}\n", "study.jsonl:3", "number"},
        {STUDY TRIAL("0", "\"values\": []"), "study.jsonl:2", "one for every objective"},
        {STUDY TRIAL("0", "\"values\": [\"NaN\"]"), "study.jsonl:2", "is NaN"},
        {STUDY TRIAL("0", "\"values\": [1], \"params\": {\"x\": 1}"), "study.jsonl:2", "there is no distribution"},
        {STUDY RATE("-1"), "study.jsonl:2", "no value of it"},
        {STUDY TRIAL("0", "\"values\": [1], \"constraints\": {\"x\": []}"), "study.jsonl:2", "must be numbers"},
        {STUDY GOOD STUDY "{\"number\": 0}\n", "study.jsonl:4", "is none of COMPLETE"},
        {"{\"format_version\": 2}\n", "study.jsonl:1", "newer than this program"},
        {"\x1f\x8b\x08", "study.jsonl", "damaged"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        read_back all = {0};
        ok(ft_atomic_write(f->text, cases[i].text, strlen(cases[i].text)));
        ft_error_clear();
        const ft_status status = ft_exchange_read(f->text, take, &all);
        free(all.text);
        if (status != (cases[i].message == NULL ? FT_OK : FT_INVALID)) fail_msg("case %zu: %d", i, (int)status);
        if (cases[i].message == NULL) continue;
        char said[2000];
        snprintf(said, sizeof said, "%s (%s) %s", ft_error_message(), ft_error_where(),
                 ft_error_hint_count() > 0 ? ft_error_hint(0) : "");
        if (strstr(said, cases[i].message) == NULL || strstr(said, cases[i].where) == NULL)
            fail_msg("case %zu: %s", i, said);
    }
    ok(ft_atomic_write(f->text, STUDY GOOD, strlen(STUDY GOOD)));
    ft_error_clear();
    assert_int_equal(ft_exchange_read(f->text, refuse, NULL), FT_FAILED);
    assert_string_equal(ft_error_message(), "not this one");
}

// Every line is JSON that any parser reads: no words for numbers that are not finite.
static void test_lines_are_json(void **state) {
    fixture *f = *state;
    ft_stored *study = difficult(f->storage);
    char *lines = exported(study, ft_export_jsonl);
    int count = 0;
    for (char *rest = NULL, *line = strtok_r(lines, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        json_error_t error;
        json_t *root = json_loads(line, 0, &error);
        if (root == NULL) fail_msg("%s: %s", error.text, line);
        json_decref(root);
        count++;
    }
    assert_int_equal(count, 1 + study->trials.count);
    free(lines);
    ft_stored_close(study);
}

static void test_csv(void **state) {
    fixture *f = *state;
    ft_stored *study = difficult(f->storage);
    char *text = exported(study, ft_export_csv);
    static const char head[] = "number,state,value,datetime_start,datetime_complete,seconds,constraint_0,constraint_1,"
                               "constraint_memory,param_rate,param_step,param_count,param_list,\"user_key, with "
                               "\"\"quotes\"\"\"\r\n0,COMPLETE,0.1,";
    assert_memory_equal(text, head, sizeof head - 1);
    assert_non_null(strstr(text, ",,,,5e-324,-0.3,0,null,NaN\r\n1,COMPLETE,"));
    assert_non_null(strstr(text, ",-2.0,-Infinity,,0.25,-0.19999999999999998,9007199254740991,true,NaN\r\n"));
    assert_non_null(strstr(text, ",\"größe \"\"x\"\", \\ \n 😀\",NaN\r\n7,RUNNING,,"));
    free(text);
    ft_stored_close(study);
}

// A broken line takes back the whole study, the lines before it too.
static void test_all_or_nothing(void **state) {
    fixture *f = *state;
    ft_stored *study = difficult(f->storage), *again;
    char *lines = exported(study, ft_export_jsonl);
    ft_stored_close(study);
    size_t length = strlen(lines);
    for (size_t cut = 0; cut < length; cut += 97) {
        ft_arena arena = {0};
        ft_study_info *studies;
        int count;
        if (cut > 0 && (lines[cut - 1] == '\n' || lines[cut] == '\n')) continue; // whole lines are a shorter study
        ok(ft_atomic_write(f->text, lines, cut));
        assert_int_equal(ft_import_jsonl(f->text, f->storage, "again", &again), FT_INVALID);
        assert_null(again);
        assert_non_null(strstr(ft_error_where(), "study.jsonl"));
        ok(ft_storage_studies(f->storage, &arena, &studies, &count));
        assert_int_equal(count, 1);
        ft_arena_free(&arena);
    }
    free(lines);
}

// What could be written but not read again is refused, too.
static void test_not_into_a_database(void **state) {
    fixture *f = *state;
#define FIRST(rest) STUDY "{\"number\": 0, \"state\": \"RUNNING\", " rest "}\n"
    static const char *const cases[] = {
        STUDY "{\"number\": 0, \"state\": \"RUNNING\", \"params\": {\"x\": -1}, \"distributions\": {\"x\": {\"name\": \"FloatDistribution\", "
              "\"attributes\": {\"step\": null, \"low\": 1e-3, \"high\": 1, \"log\": true}}}}\n",
        STUDY "{\"number\": 0, \"state\": \"RUNNING\", \"params\": {\"x\": 1e300}, \"distributions\": {\"x\": {\"name\": \"IntDistribution\", "
              "\"attributes\": {\"step\": 1, \"low\": 1, \"high\": 9, \"log\": false}}}}\n",
        FIRST("\"system_attributes\": {\"constraints\": [0, \"x\"]}"),
        FIRST("\"system_attributes\": {\"constraints\": 5}"),
        FIRST("\"system_attributes\": {\"constraints:memory\": \"much\"}"),
        FIRST("\"system_attributes\": {\"constraints:memory\": \"NaN\"}"),
        FIRST("\"system_attributes\": {\"completed_rung_0\": []}"),
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ft_arena arena = {0};
        ft_study_info *studies;
        ft_stored *again;
        int count;
        ok(ft_atomic_write(f->text, cases[i], strlen(cases[i])));
        ft_error_clear();
        if (ft_import_jsonl(f->text, f->storage, "again", &again) != FT_INVALID) fail_msg("case %zu is taken", i);
        if (strstr(ft_error_where(), "study.jsonl:2") == NULL) fail_msg("case %zu: %s", i, ft_error_where());
        ok(ft_storage_studies(f->storage, &arena, &studies, &count));
        assert_int_equal(count, 0);
        ft_arena_free(&arena);
    }
}

// Any byte of a good file changed: an import or a clear error, never half a study.
static void test_damage(void **state) {
    fixture *f = *state;
    ft_stored *study = difficult(f->storage), *again;
    char *lines = exported(study, ft_export_jsonl);
    ft_stored_close(study);
    size_t length = strlen(lines);
    static const char bytes[] = "\"{}[],:0-9eNt \n\\\x01\xff";
    unsigned random = 1;
    int taken = 0, refused = 0;
    for (int round = 0; round < 300; round++) {
        random = random * 1664525u + 1013904223u;
        size_t at = (random >> 8) % length;
        char kept = lines[at];
        lines[at] = bytes[(random >> 4) % (sizeof bytes - 1)];
        ok(ft_atomic_write(f->text, lines, length));
        lines[at] = kept;
        read_back all = {0};
        ft_error_clear();
        const ft_status read = ft_exchange_read(f->text, take, &all);
        free(all.text);
        if (read != FT_OK) assert_true(read == FT_INVALID && ft_error_where()[0] != '\0');
        ft_error_clear();
        ft_status status = ft_import_jsonl(f->text, f->storage, "again", &again);
        if (status == FT_OK) {
            ft_stored_close(again);
            ok(ft_storage_delete_study(f->storage, "again"));
            taken++;
        } else {
            assert_int_equal(status, FT_INVALID);
            assert_string_not_equal(ft_error_where(), "");
            refused++;
        }
    }
    assert_true(taken > 10 && refused > 10);
    free(lines);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_there_and_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_into_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_not_into_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lines_are_json, setup, teardown),
        cmocka_unit_test_setup_teardown(test_csv, setup, teardown),
        cmocka_unit_test_setup_teardown(test_not_into_a_database, setup, teardown),
        cmocka_unit_test_setup_teardown(test_all_or_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_damage, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
