// Gradients of ranks that share memory and add up by themselves (distributed.reduction = ring): whatever the number of
// ranks, and wherever each is with its backward pass, every number is the sum of all ranks', in their order, step after
// step; and a slot is cleared as it is come to.
#include "engine/model/gradients/gradient_sums.h"
#include "engine/model/gradients/gradients.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/fixtures/forked_ranks.h"

enum { STEPS = 20, MOST_RANKS = 5, POINTS = 9, PARAMETERS = 5 };

// Sizes that no number of ranks divides, pieces of more and of less than 1 MiB; one is complete at the end of a step.
static const struct {
    int64_t offset;
    int completes, last;
} layout[PARAMETERS] = {{0, 1, 1}, {300032, 2, 2}, {300096, POINTS, 2}, {700032, 3, 3}, {1000000, 5, 5}};
enum { END = 1000037 };

typedef struct model {
    ft_parameter list[PARAMETERS];
    ft_store store[2];
    ft_parameters p;
    ft_device *device;
} model;

static bool open_model(model *m, ft_group *g) {
    memset(m, 0, sizeof *m);
    for (int i = 0; i < PARAMETERS; i++)
        m->list[i] = (ft_parameter){.offset = layout[i].offset,
                                    .cols = (i + 1 < PARAMETERS ? layout[i + 1].offset : END) - layout[i].offset,
                                    .arrives = layout[i].last,
                                    .completes = layout[i].completes,
                                    .last = layout[i].last,
                                    .trainable = true,
                                    .starts_group = true,
                                    .store = FT_STORE_TRAINED};
    m->p = (ft_parameters){
        .list = m->list, .count = PARAMETERS, .trainable = END, .stores = m->store, .store_count = 2, .table = -1};
    if (ft_cpu_open(1, NULL, &m->device) != FT_OK || ft_memory_create(m->device, 0, &m->p.memory) != FT_OK)
        return false;
    ft_memory_set_ranks(m->p.memory, (ft_memory_ranks){.rank = g->rank,
                                                       .ranks = g->ranks,
                                                       .group = g,
                                                       .run_rank = g->rank,
                                                       .run_ranks = g->ranks,
                                                       .run = g,
                                                       .sums = true});
    return ft_gradients_hold(&m->p, false) == FT_OK;
}

static bool close_model(model *m) {
    ft_gradients_release(&m->p);
    const bool right = ft_memory_destroy(m->p.memory) == FT_OK;
    ft_device_close(m->device);
    return right;
}

// So that another order has other bits.
static float number(int rank, int step, int64_t i) {
    const float of_rank[MOST_RANKS] = {1e7F, 1.25F, -1e7F, 0.3F, 33.1F};
    return of_rank[rank] + (float)((i * 7 + step * 13 + rank) % 101) / 7;
}

// A micro-batch that adds to what is there, `parts` times so much; it comes to every point, and waits a while at one.
static bool add(model *m, int rank, int step, int parts) {
    ft_gradients_begin(&m->p);
    for (int point = 0; point < POINTS; point++) {
        if (ft_gradients_reach(&m->p, point) != FT_OK) return false;
        if (point == (rank * 3 + step) % POINTS) usleep((useconds_t)(rank * 300));
        for (int p = 0; p < PARAMETERS; p++)
            for (int64_t i = 0; layout[p].last == point && i < m->list[p].cols; i++)
                m->p.gradients[layout[p].offset + i] += number(rank, step, layout[p].offset + i) / (float)parts;
    }
    return ft_gradients_leave(&m->p) == FT_OK;
}

// Rank r has r mod 3 micro-batches: 0, 1 or 2 (of halves, which add up to the same).
static bool all_add_up(ft_group *g) {
    model m;
    ft_gradient_sums sums = {.group = NULL};
    if (!open_model(&m, g) || ft_gradient_sums_open(&sums, &m.p) != FT_OK || !sums.in_slots || sums.count < 3)
        return false;
    m.p.sums = &sums;
    for (int step = 0; step < STEPS; step++) {
        const int batches = (g->rank + step) % 3;
        ft_gradient_sums_begin(&sums);
        if (ft_gradients_clear(&m.p) != FT_OK) return false;
        for (int b = 0; b < batches; b++) {
            if (b == batches - 1) ft_gradient_sums_go(&sums);
            if (!add(&m, g->rank, step, batches)) return false;
        }
        if (ft_gradients_settle(&m.p) != FT_OK) return false;
        m.p.gradients[layout[2].offset] += 5; // the end of the step adds to what is complete behind it
        if (ft_gradient_sums_finish(&sums, &m.p) != FT_OK || ft_gradients_keep(&m.p) != FT_OK) return false;
        const float *got = ft_gradients_summed(&m.p);
        for (int64_t i = 0; i < END; i++) {
            float want = 0;
            for (int r = 0; r < g->ranks; r++) {
                const int of = (r + step) % 3;
                float own = 0;
                for (int b = 0; b < of; b++)
                    own += number(r, step, i) / (float)of;
                if (i == layout[2].offset) own += 5;
                want = r == 0 ? own : want + own;
            }
            if (memcmp(&got[i], &want, sizeof want) != 0) {
                fprintf(stderr, "rank %d of %d, step %d: number %lld is %g, not %g\n", g->rank, g->ranks, step,
                        (long long)i, (double)got[i], (double)want);
                return false;
            }
        }
        if (ft_group_barrier(g) != FT_OK) return false; // all have read
        if (step == STEPS / 2) {                        // a layout that is made anew, in the middle of a run
            ft_gradient_sums_close(&sums);
            if (ft_gradient_sums_open(&sums, &m.p) != FT_OK) return false;
        }
    }
    ft_gradient_sums_close(&sums);
    return close_model(&m);
}

static bool be_rank(ft_group *group, void *context) {
    const bool right = all_add_up(group);
    if (!right) fprintf(stderr, "rank %d of %d: %s\n", group->rank, group->ranks, ft_error_message());
    ft_group_close(group);
    return right;
}

static void sums_of_all_ranks(void **state) {
    for (int ranks = 2; ranks <= MOST_RANKS; ranks++)
        forked_ranks_are_right(ranks, be_rank, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums_of_all_ranks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
