// Bank conflicts and sectors of the kernels, as simt/counts.h counts them. First the counting itself, on kernels whose
// counts anybody can work out; then every hot kernel, beside counts.txt, which may get better and not worse.
//
//     emulator_test_counts --write FILE    what is counted now, as counts.txt
//     emulator_test_counts --show CASE     and where a case loses most, for addr2line -e
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/emulator/emulated_device.h"
#include "tests/emulator/pieces/count_cases.h"
#include "tests/emulator/pieces/count_kernels.h"
#include "tests/emulator/simt/counts.h"

#include <stdio.h>
#include <string.h>

// ---- the counting -------------------------------------------------------------------------------------------------------------

static const struct known {
    const char *name;
    unsigned phases[SIMT_KINDS], conflicts[SIMT_KINDS]; // loads, stores, ldmatrix, cp.async
    unsigned read, read_ideal, written, written_ideal;
} known[] = {
    {"conflict_free", {1, 1}, {0, 0}, 0, 0, 4, 4},
    {"two_way", {1, 1}, {1, 1}, 0, 0, 4, 4},
    {"thirty_two_way", {1, 1}, {31, 31}, 0, 0, 4, 4},
    {"padded", {1, 1}, {0, 0}, 0, 0, 4, 4},
    {"broadcast", {1, 1}, {0, 0}, 0, 0, 4, 4},
    {"eight_bytes", {2, 2}, {0, 0}, 0, 0, 8, 8},
    {"eight_bytes_two_way", {2, 2}, {2, 2}, 0, 0, 8, 8},
    {"sixteen_bytes", {4, 4}, {0, 0}, 0, 0, 16, 16},
    {"sixteen_bytes_two_way", {4, 4}, {4, 4}, 0, 0, 16, 16},
    {"sixteen_bytes_eight_way", {4, 4}, {28, 28}, 0, 0, 16, 16},
    {"matrix_rows_of_a_tile", {0, 0, 4, 4}, {0, 0, 0, 0}, 16, 16, 4, 4},
    {"matrix_rows_not_padded", {0, 0, 4, 4}, {0, 0, 28, 28}, 16, 16, 4, 4},
    {"in_a_row", {0}, {0}, 4, 4, 4, 4},
    {"misaligned", {0}, {0}, 5, 4, 5, 4},
    {"strided", {0}, {0}, 8, 4, 8, 4},
    {"far_apart", {0}, {0}, 32, 4, 32, 4},
    {"one_word", {0}, {0}, 1, 1, 1, 1},
    {"sixteen_bytes_in_a_row", {0}, {0}, 16, 16, 16, 16},
    {"half_sectors", {0}, {0}, 32, 16, 32, 16},
    {"diverging", {0}, {0}, 6, 6, 1, 1},
    {"two_warps", {0, 2}, {0, 1}, 0, 0, 0, 0},
};

static void test_known_answers(void **state) {
    static _Alignas(32) float memory[2][COUNT_FLOATS];
    for (int order = 0; order < SIMT_ORDERS; order++) {
        simt_set_order((simt_order)order, 5);
        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
            const struct known *k = &known[i];
            simt_counts c;
            simt_count_memory(memory, sizeof memory);
            if (count_run(k->name, memory[0], memory[1]) != FT_OK) fail_msg("%s: %s", k->name, ft_error_message());
            assert_int_equal(simt_take_counts(&c, 1), 1);
            for (int kind = 0; kind < SIMT_KINDS; kind++)
                if (c.phases[kind] != k->phases[kind] || c.conflicts[kind] != k->conflicts[kind])
                    fail_msg("%s: kind %d: %d phases, %d conflicts, not %u, %u", k->name, kind, (int)c.phases[kind],
                             (int)c.conflicts[kind], k->phases[kind], k->conflicts[kind]);
            const unsigned seen[] = {(unsigned)c.read.sectors, (unsigned)c.read.ideal, (unsigned)c.written.sectors,
                                     (unsigned)c.written.ideal};
            const unsigned want[] = {k->read, k->read_ideal, k->written, k->written_ideal};
            for (int s = 0; s < 4; s++)
                if (seen[s] != want[s]) fail_msg("%s: sectors %d: %u, not %u", k->name, s, seen[s], want[s]);
        }
    }
    simt_set_order(SIMT_FORWARD, 0);
}

// What a launch moves is each sector once, however often it is asked for.
static void test_moved_bytes(void **state) {
    static _Alignas(32) float memory[2][COUNT_FLOATS];
    simt_counts c;
    simt_count_memory(memory, sizeof memory);
    assert_int_equal(count_run("half_sectors", memory[0], memory[1]), FT_OK);
    assert_int_equal(count_run("one_word", memory[0], memory[1]), FT_OK);
    simt_counts both[2];
    assert_int_equal(simt_take_counts(both, 2), 2);
    assert_int_equal(both[0].read.bytes, 32 * 32);
    assert_int_equal(both[1].read.bytes, 32);
    assert_int_equal(both[1].written.bytes, 32);
    assert_int_equal(simt_take_counts(&c, 1), 0);
}

// ---- the kernels ----------------------------------------------------------------------------------------------------------------

enum { MOST_ROWS = 256, MOST_NAME = 64 };
typedef struct row {
    char name[MOST_NAME]; // of the case, and which of its launches
    unsigned long long number[SIMT_KINDS * 2 + 6], elements;
    count_target target;
} row;
enum { READ = SIMT_KINDS * 2, WRITTEN = READ + 3, NUMBERS = WRITTEN + 3 };
static const char *const kinds[SIMT_KINDS] = {"loads", "stores", "ldmatrix", "cp.async"};

// Rows that miss their target, and why they may. Units: eight columns a thread are one Philox call and 16 bytes of 16-bit
// values, but two accesses of fp32, each of half sectors. What is read twice is found in L1 by the second; what is written
// twice crosses to L2 twice and is one sector of memory.
#define BY_UNITS "fp32 by units of eight columns"
static const struct reason {
    const char *name, *why; // how a row's name begins
} reasons[] = {
    {"layernorm_forward.fp32", BY_UNITS},
    {"layernorm_forward.bf16", "the residual, read by units of eight columns"},
    {"layernorm_backward", "gamma, read for every row by units of eight columns, from L1"},
    {"activation_forward.fp32", BY_UNITS},
    {"activation_backward.fp32", BY_UNITS},
    {"column_sum.fp32", BY_UNITS},
    {"embedding_forward.fp32", BY_UNITS},
    {"embedding_backward.", "the table's gradient by units of eight columns"},
    {"dropout.fp32", BY_UNITS},
    {"gather_rows.fp32", BY_UNITS},
    {"scatter_rows_add.", BY_UNITS ": of pooled rows only"},
    {"unfold.", "columns of windows interleave: only models with a convolution, once a step"},
};
static const char *reason_of(const char *name) {
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if (strncmp(name, reasons[i].name, strlen(reasons[i].name)) == 0) return reasons[i].why;
    return NULL;
}

static int count_case_rows(const count_case *c, row *rows, int most) {
    simt_counts counts[SIMT_MOST_COUNTS];
    count_memory_begin();
    if (c->run(emulated_device(), c->parameter) != FT_OK) fail_msg("%s: %s", c->name, ft_error_message());
    const int launches = simt_take_counts(counts, SIMT_MOST_COUNTS);
    assert_in_range(launches, 1, most);
    for (int l = 0; l < launches; l++) {
        row *r = &rows[l];
        *r = (row){.elements = (unsigned long long)c->elements, .target = c->target};
        snprintf(r->name, sizeof r->name, "%s/%d", c->name, l + 1);
        for (int kind = 0; kind < SIMT_KINDS; kind++) {
            r->number[2 * kind] = counts[l].phases[kind];
            r->number[2 * kind + 1] = counts[l].conflicts[kind];
        }
        r->number[READ] = counts[l].read.sectors, r->number[READ + 1] = counts[l].read.ideal;
        r->number[READ + 2] = counts[l].read.bytes;
        r->number[WRITTEN] = counts[l].written.sectors, r->number[WRITTEN + 1] = counts[l].written.ideal;
        r->number[WRITTEN + 2] = counts[l].written.bytes;
    }
    return launches;
}

static row rows[MOST_ROWS];
static int row_count;

static int count_all(void **state) {
    for (int i = 0; i < count_case_count; i++)
        row_count += count_case_rows(&count_cases[i], rows + row_count, MOST_ROWS - row_count);
    return 0;
}

static double part(unsigned long long some, unsigned long long of) { return of == 0 ? 0.0 : (double)some / (double)of; }
static double worst_sectors(const row *r) {
    const double read = part(r->number[READ], r->number[READ + 1]), written = part(r->number[WRITTEN], r->number[WRITTEN + 1]);
    return read > written ? read : written;
}
static bool misses(const row *r) {
    if (r->target == COUNT_NO_CONFLICTS) return r->number[2 * SIMT_LDMATRIX + 1] > 0;
    return r->target == COUNT_FULL_SECTORS && worst_sectors(r) > 1.1;
}

static void test_targets(void **state) {
    int bad = 0;
    for (int i = 0; i < row_count; i++)
        if (misses(&rows[i]) && reason_of(rows[i].name) == NULL) {
            print_error("%s: %llu conflicts of ldmatrix, %.2f of the sectors needed; the target is none, and 1.1 where memory is the "
                        "bound\n",
                        rows[i].name, rows[i].number[2 * SIMT_LDMATRIX + 1], worst_sectors(&rows[i]));
            bad++;
        }
    assert_int_equal(bad, 0);
}

static const char *const header =
    "# Counted by the emulator (tests/emulator/pieces/test_counts.c): phases and conflicts of loads, stores, ldmatrix and cp.async in\n"
    "# shared memory; of device memory sectors, sectors needed and bytes of different sectors, read and written; elements.\n";

static void write_row(FILE *f, const row *r) {
    fprintf(f, "%s", r->name);
    for (int n = 0; n < NUMBERS; n++)
        fprintf(f, " %llu", r->number[n]);
    fprintf(f, " %llu", r->elements);
    if (misses(r) && reason_of(r->name) != NULL) fprintf(f, " # %s", reason_of(r->name));
    fprintf(f, "\n");
}

static bool read_row(FILE *f, row *r) {
    char line[1024];
    do {
        if (fgets(line, sizeof line, f) == NULL) return false;
    } while (line[0] == '#');
    int at = 0;
    assert_int_equal(sscanf(line, "%63s%n", r->name, &at), 1);
    for (int n = 0, step; n < NUMBERS; n++, at += step)
        assert_int_equal(sscanf(line + at, "%llu%n", &r->number[n], &step), 1);
    assert_int_equal(sscanf(line + at, "%llu", &r->elements), 1);
    return true;
}

// Another compiler may leave out a load or two: a hundredth of a ratio is none, nor is a twentieth of a count.
static int worse(const row *now, const row *then) {
    int bad = now->elements != then->elements;
    if (bad) print_error("%s: %llu elements, %llu were counted\n", now->name, now->elements, then->elements);
    for (int n = 0; n < NUMBERS; n++) // what is asked for twice has the same ratios
        if ((double)now->number[n] > (double)then->number[n] * 1.05 + 16) {
            print_error("%s: %llu in column %d, %llu were promised\n", now->name, now->number[n], n + 1, then->number[n]);
            bad++;
        }
    for (int kind = 0; kind < SIMT_KINDS; kind++) {
        const double is = part(now->number[2 * kind + 1], now->number[2 * kind]);
        const double was = part(then->number[2 * kind + 1], then->number[2 * kind]);
        if (is > was + 0.01) {
            print_error("%s: %.3f conflicts a phase of %s, %.3f were promised\n", now->name, is, kinds[kind], was);
            bad++;
        }
    }
    for (int side = READ; side <= WRITTEN; side += WRITTEN - READ) {
        const char *what = side == READ ? "read" : "written";
        const double is = part(now->number[side], now->number[side + 1]), was = part(then->number[side], then->number[side + 1]);
        if (is > was * 1.01) {
            print_error("%s: %.3f times the sectors needed are %s, %.3f were promised\n", now->name, is, what, was);
            bad++;
        }
        if ((double)now->number[side + 2] > (double)then->number[side + 2] * 1.01) {
            print_error("%s: %llu bytes are %s, %llu were promised\n", now->name, now->number[side + 2], what, then->number[side + 2]);
            bad++;
        }
    }
    return bad;
}

static void test_nothing_is_worse(void **state) {
    FILE *f = fopen(FT_COUNTS, "r");
    assert_non_null(f);
    row promised;
    int bad = 0, read = 0;
    for (; read_row(f, &promised); read++) {
        const row *now = NULL;
        for (int i = 0; i < row_count && now == NULL; i++)
            if (strcmp(rows[i].name, promised.name) == 0) now = &rows[i];
        if (now == NULL) {
            print_error("%s is promised, and was not counted\n", promised.name);
            bad++;
        } else {
            bad += worse(now, &promised);
        }
    }
    fclose(f);
    if (read != row_count) fail_msg("%d launches were counted, %s has %d: write it anew (--write)", row_count, FT_COUNTS, read);
    assert_int_equal(bad, 0);
}

static int write_file(const char *path) {
    FILE *f = fopen(path, "w");
    if (f == NULL) return perror(path), 1;
    fputs(header, f);
    count_all(NULL);
    for (int i = 0; i < row_count; i++)
        write_row(f, &rows[i]);
    return fclose(f) == 0 ? 0 : 1;
}

static int show(const char *name) {
    for (int i = 0; i < count_case_count; i++) {
        if (strcmp(count_cases[i].name, name) != 0) continue;
        const int launches = count_case_rows(&count_cases[i], rows, MOST_ROWS);
        for (int l = 0; l < launches; l++)
            write_row(stdout, &rows[l]);
        simt_show_worst();
        return 0;
    }
    fprintf(stderr, "no case is called %s\n", name);
    return 2;
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "--write") == 0) return write_file(argv[2]);
    if (argc == 3 && strcmp(argv[1], "--show") == 0) return show(argv[2]);
    const struct CMUnitTest counting[] = {cmocka_unit_test(test_known_answers), cmocka_unit_test(test_moved_bytes)};
    const struct CMUnitTest kernels[] = {cmocka_unit_test(test_targets), cmocka_unit_test(test_nothing_is_worse)};
    const int failed = cmocka_run_group_tests(counting, NULL, NULL);
    return failed + cmocka_run_group_tests(kernels, count_all, NULL);
}
