// bench_packing.c - trials packed by their footprints, replayed: the order in which they get their memory is the program's
// own (hpo/study/turns.h), the clock is not. Held against the most workers that may run without any admission: as many as the
// largest trial leaves room for.
//
//     bench_packing [FOOTPRINTS.csv]     a column metered_bytes; by default benchmarks/results/peak_memory.csv
//
// Trials draw a footprint from the file and a duration. The file tells no durations: once they are as long as their
// footprints are large (twice the tokens take twice the time and memory), once a spread of ten to one of their own. A trial
// is taken to last as long among others as alone, as on a device that one trial does not fill.
#include "hpo/study/turns.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRIALS = 5000, MOST = 4096 };

typedef struct work {
    double bytes, seconds;
} work;

typedef struct outcome {
    double seconds, in_use, most; // in_use: mean over time as a share of the capacity
    int passed;                   // most that a trial was passed
} outcome;

static double uniform(uint64_t *state) { // Knuth's generator: the same trials everywhere
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) / 9007199254740992.0;
}

static int read_footprints(const char *path, double *bytes) {
    char line[4096];
    FILE *in = fopen(path, "r");
    int column = -1, count = 0;
    if (in == NULL || fgets(line, sizeof line, in) == NULL) return 0;
    char *save = NULL, *field = strtok_r(line, ",\n", &save);
    for (int i = 0; field != NULL; field = strtok_r(NULL, ",\n", &save), i++)
        if (strcmp(field, "metered_bytes") == 0) column = i;
    while (column >= 0 && count < MOST && fgets(line, sizeof line, in) != NULL) {
        char *at = line;
        for (int i = 0; i < column && at != NULL; i++)
            at = strchr(at, ',') != NULL ? strchr(at, ',') + 1 : NULL;
        if (at != NULL && atof(at) > 0) bytes[count++] = atof(at);
    }
    fclose(in);
    return count;
}

// `workers` at once. packed: each takes its memory when it is its turn and there is room; else at once.
static outcome replay(const work *trials, int workers, double capacity, bool packed) {
    static ft_turn turns[FT_TURNS_LIMIT];
    static int trial[FT_TURNS_LIMIT];
    static double ends[FT_TURNS_LIMIT]; // INFINITY: it waits, or is idle
    outcome o = {0};
    double now = 0, used = 0, area = 0;
    uint64_t room = 1;
    int begun = 0, done = 0;
    for (int i = 0; i < workers; i++)
        turns[i] = (ft_turn){0}, trial[i] = -1, ends[i] = INFINITY;
    while (done < TRIALS) {
        for (int i = 0; i < workers && begun < TRIALS; i++) // the idle take the next trial
            if (trial[i] < 0) {
                trial[i] = begun++;
                turns[i] = (ft_turn){.waits = true, .since = begun, .tried = room - 1};
            }
        for (int i; (i = ft_turns_next(turns, workers, room)) >= 0;) {
            const work *w = &trials[trial[i]];
            turns[i].tried = room;
            if (packed && used + w->bytes > capacity) continue;
            used += w->bytes;
            ends[i] = now + w->seconds;
            ft_turns_entered(turns, workers, i);
            if (turns[i].passed > o.passed) o.passed = turns[i].passed;
        }
        int first = 0;
        for (int i = 1; i < workers; i++)
            if (ends[i] < ends[first]) first = i;
        o.most = fmax(o.most, used);
        area += used * (ends[first] - now);
        now = ends[first];
        used -= trials[trial[first]].bytes;
        ends[first] = INFINITY;
        trial[first] = -1;
        room++;
        done++;
    }
    o.seconds = now;
    o.in_use = area / now / capacity;
    return o;
}

int main(int argc, char **argv) {
    static double bytes[MOST];
    static work trials[TRIALS];
    const char *path = argc > 1 ? argv[1] : "benchmarks/results/peak_memory.csv";
    int count = read_footprints(path, bytes);
    double least = INFINITY, most = 0;
    if (count == 0) {
        fprintf(stderr, "bench_packing: no footprints in %s\n", path);
        return 1;
    }
    for (int i = 0; i < count; i++)
        least = fmin(least, bytes[i]), most = fmax(most, bytes[i]);
    printf("%d footprints from %.0f to %.0f MiB, %.1f to 1; %d trials\n\n", count, least / 0x1p20, most / 0x1p20, most / least, TRIALS);
    printf("%-12s %9s | %7s %9s | %7s %9s %7s %7s | %6s\n", "durations", "capacity", "workers", "in use", "workers", "in use", "most",
           "passed", "gain");
    bool met = true;
    double in_use = 0; // by the rows
    for (int shape = 0; shape < 2; shape++)
        for (int k = 0; k < 4; k++) {
            const double capacity = most * (double[]){1.25, 1.75, 2.5, 4}[k];
            uint64_t state = 7;
            for (int i = 0; i < TRIALS; i++) {
                trials[i].bytes = bytes[(int)(uniform(&state) * count)];
                const double spread = pow(10, uniform(&state));
                trials[i].seconds = shape == 0 ? 600 * trials[i].bytes / most : 60 * spread;
            }
            const int fixed = (int)(capacity / most), packed = 32;
            outcome a = replay(trials, fixed, capacity, false), b = replay(trials, packed, capacity, true);
            const double gain = a.seconds / b.seconds;
            met = met && gain >= 1.5 && b.most <= capacity && a.most <= capacity && b.passed <= FT_TURNS_PASSED;
            in_use += b.in_use / 8;
            printf("%-12s %5.2f max | %7d %8.1f%% | %7d %8.1f%% %6.1f%% %7d | %5.2fx\n", shape == 0 ? "as the bytes" : "of their own",
                   capacity / most, fixed, 100 * a.in_use, packed, 100 * b.in_use, 100 * b.most / capacity, b.passed, gain);
        }
    met = met && in_use >= 0.85;
    printf("\n%.1f%% of the memory in use on average. Targets: 85%%; in every row 1.5 times the trials an hour, the limit never exceeded,\n"
           "no trial passed more than %d times: %s\n",
           100 * in_use, FT_TURNS_PASSED, met ? "met" : "NOT met");
    return met ? 0 : 1;
}
