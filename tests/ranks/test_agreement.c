// What ranks of a run say to each other beside gradients: a signal that one of them got stops all at the same moment,
// who has another version or file is named on every rank, a path and what each takes are heard of.
#include "engine/train/room/ranks.h"

#include "base/context.h"
#include "base/stop.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/fixtures/forked_ranks.h"

enum { RANKS = 3 };

typedef struct works {
    bool (*work)(ft_ranks *ranks);
} works;

static bool be_rank(ft_group *group, void *context) {
    const int rank = group->rank;
    ft_ranks *ranks;
    if (ft_ranks_open(group, &ranks) != FT_OK) return false;
    ft_ranks_enter(ranks);
    const bool right = ft_ranks_present() == ranks && ranks->rank == rank && ranks->ranks == RANKS &&
                       ((const works *)context)->work(ranks);
    ft_ranks_close(ranks);
    return right;
}

static void run_ranks(bool (*work)(ft_ranks *ranks)) { forked_ranks_are_right(RANKS, be_rank, &(works){work}); }

// Asked in round 3 of the last one: nobody has heard of it before the round in which all agree.
static bool stops_together(ft_ranks *ranks) {
    ft_stop_begin();
    ft_stop_by_agreement(true);
    for (int round = 0; round < 6; round++) {
        if (round == 3 && ranks->rank == RANKS - 1) ft_stop_ask(ft_context_now(), SIGTERM);
        if (ft_stop_signal() != (round <= 3 ? 0 : SIGTERM) || ft_ranks_agree(ranks) != FT_OK) return false;
    }
    ft_stop_begin(); // and with the next run it is forgotten
    return ft_stop_signal() == 0 && ft_stop_asked() == 0;
}

static void a_signal_is_agreed_on(void **unused) { run_ranks(stops_together); }

// What was asked before they began to agree counts too; the first rank's goes before another's.
static bool stops_for_what_was_before(ft_ranks *ranks) {
    ft_stop_begin();
    if (ranks->rank != 1) ft_stop_ask(ft_context_now(), ranks->rank == 0 ? SIGINT : SIGTERM);
    ft_stop_by_agreement(true);
    return ft_stop_signal() == 0 && ft_ranks_agree(ranks) == FT_OK && ft_stop_signal() == SIGINT;
}

static void what_was_asked_before_counts(void **unused) { run_ranks(stops_for_what_was_before); }

static bool compares(ft_ranks *ranks) {
    if (ft_ranks_same(ranks, "version", "0.2.0") != FT_OK || ft_ranks_same(ranks, "file", "") != FT_OK) return false;
    if (ft_ranks_same(ranks, "configuration", ranks->rank == 2 ? "seed = 2" : "seed = 1") != FT_INVALID) return false;
    return strstr(ft_error_message(), "rank 2 on ") != NULL &&
           strstr(ft_error_message(), "has another configuration than rank 0") != NULL;
}

static void who_differs_is_named_on_all(void **unused) { run_ranks(compares); }

static bool hears(ft_ranks *ranks) {
    ft_arena arena = {0};
    const char *path = ranks->rank == 0 ? "/runs/reviews-001" : NULL;
    ft_rank_facts facts = {.threads = 10 + ranks->rank, .takes = (size_t)1000 * (size_t)(ranks->rank + 1)};
    snprintf(facts.device, sizeof facts.device, "device %d", ranks->rank);
    bool right = ft_ranks_path(ranks, &arena, &path) == FT_OK && strcmp(path, "/runs/reviews-001") == 0;
    ft_ranks_note(ranks, &facts);
    right = right && ft_ranks_agree(ranks) == FT_OK;
    for (int r = 0; r < RANKS; r++) {
        const ft_rank_facts *f = ft_ranks_facts(ranks, r);
        right = right && f->threads == 10 + r && f->takes == (size_t)1000 * (size_t)(r + 1) && f->device[7] == '0' + r;
    }
    ft_arena_free(&arena);
    return right;
}

static void paths_and_facts_are_heard_of(void **unused) { run_ranks(hears); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_signal_is_agreed_on),
        cmocka_unit_test(what_was_asked_before_counts),
        cmocka_unit_test(who_differs_is_named_on_all),
        cmocka_unit_test(paths_and_facts_are_heard_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
