// bench_math.c - what exp, log, pow and their like cost that have the same bits everywhere (base/math), beside those of
// the machine's C library.
//
//     bench_math [rounds]
//
// One thread, arguments as trainings and samplers have them; the two take turns, a round is some milliseconds of each,
// and the rounds' medians are compared. Nanoseconds of processor time a call, the call included; the sum of the results
// is used, so that none is left out.
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { COUNT = 4096, MOST_ROUNDS = 999 };

typedef double one(double x);
typedef double two(double x, double y);

static const struct {
    const char *name;
    one *ours;
    double from, to;
} functions[] = {{"exp", exp, -20, 0},      {"exp2", exp2, -20, 20},   {"expm1", expm1, -1, 1},
                 {"tanh", tanh, -3, 3},     {"log", log, 1e-6, 1},     {"log2", log2, 1e-6, 1000},
                 {"log10", log10, 1e-6, 1}, {"log1p", log1p, -0.5, 1}, {"sin", sin, -3.2, 3.2},
                 {"cos", cos, -3.2, 3.2},   {"erf", erf, -3, 3},       {"erfc", erfc, -3, 6}};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b) {
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static volatile double used;

static double round_of(one *f, two *g, const double *x, const double *y) {
    double sum = 0;
    const double start = now();
    for (int repeat = 0; repeat < 4; repeat++)
        for (int i = 0; i < COUNT; i++)
            sum += g != NULL ? g(x[i], y[i]) : f(x[i]);
    used = sum;
    return (now() - start) / (4 * COUNT) * 1e9;
}

static double median(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, by_value);
    return values[count / 2];
}

static void compare(const char *name, one *ours, one *theirs, two *our_power, two *their_power, const double *x,
                    const double *y, int rounds) {
    static double a[MOST_ROUNDS], b[MOST_ROUNDS];
    for (int i = 0; i < rounds; i++) {
        a[i] = round_of(ours, our_power, x, y);
        b[i] = round_of(theirs, their_power, x, y);
    }
    const double mine = median(a, rounds), other = median(b, rounds);
    printf("%-6s %8.2f %8.2f %8.2f\n", name, mine, other, mine / other);
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 51;
    static double x[COUNT], y[COUNT];
    void *library = dlopen("libm.so.6", RTLD_NOW);
    if (rounds < 1 || rounds > MOST_ROUNDS || library == NULL) {
        fprintf(stderr, "usage: bench_math [rounds, up to %d]\n", MOST_ROUNDS);
        return 2;
    }
    uint64_t draw = 1;
    printf("%-6s %8s %8s %8s\n", "ns", "ours", "libm", "ratio");
    for (int f = 0; f <= FUNCTIONS; f++) {
        const char *name = f < FUNCTIONS ? functions[f].name : "pow";
        void *symbol = dlsym(library, name);
        one *theirs;
        two *power;
        memcpy(&theirs, &symbol, sizeof theirs); // C has no cast from data to functions
        memcpy(&power, &symbol, sizeof power);
        if (symbol == NULL || (f < FUNCTIONS ? theirs == functions[f].ours : power == pow)) {
            fprintf(stderr, "%s: there is no other\n", name);
            return 1;
        }
        for (int i = 0; i < COUNT; i++) {
            draw = draw * 6364136223846793005ULL + 1442695040888963407ULL;
            const double part = (double)(draw >> 11) * 0x1p-53;
            x[i] = f < FUNCTIONS ? functions[f].from + (functions[f].to - functions[f].from) * part : 0.1 + 10 * part;
            y[i] = -3 + 6 * (double)(draw >> 33) * 0x1p-31;
        }
        compare(name, f < FUNCTIONS ? functions[f].ours : NULL, theirs, f < FUNCTIONS ? NULL : pow,
                f < FUNCTIONS ? NULL : power, x, y, rounds);
    }
    return 0;
}
