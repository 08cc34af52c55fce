// How many workers there is memory for: the whole table against sums in the comments.
#include "hpo/study/slots.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#define MIB ((size_t)1 << 20)
#define NO_LIMIT 0

// Catches: a coordinator, a process or the largest trial that is not counted; a limit of addresses, which is each process's own, shared
// among all; a limit that the user gives for all held against one.
static void crews(void **state) {
    static const struct {
        const char *of;
        size_t least, largest, others, coordinator, machine, group, given, addresses; // MiB
        int asked, crew;
        ft_host_limit_kind kind; // of the verdict, unless it is the user's
    } cases[] = {
        {"as many as asked for", 100, 100, 40, 10, 1000, NO_LIMIT, NO_LIMIT, NO_LIMIT, 8, 8, 0},
        {"10 + 3 x 100 of 400; 8 more fit the slack only by 2", 100, 100, 40, 10, 1000, 400, NO_LIMIT, NO_LIMIT, 8, 3, FT_LIMIT_CGROUP_V2},
        {"410 and no byte less but the slack", 100, 100, 40, 10, 1000, 408, NO_LIMIT, NO_LIMIT, 8, 4, FT_LIMIT_CGROUP_V2},
        {"one byte less", 100, 100, 40, 10, 1000, 407, NO_LIMIT, NO_LIMIT, 8, 3, FT_LIMIT_CGROUP_V2},
        {"the machine is the limit", 100, 100, 40, 10, 230, NO_LIMIT, NO_LIMIT, NO_LIMIT, 8, 2, FT_LIMIT_MACHINE},
        {"not beside its coordinator", 100, 100, 40, 10, 1000, 105, NO_LIMIT, NO_LIMIT, 2, 0, FT_LIMIT_CGROUP_V2},
        {"the largest has room while all others wait: 10 + 5 x 40 + 160", 60, 200, 40, 10, 1000, 370, NO_LIMIT, NO_LIMIT, 8, 5, FT_LIMIT_CGROUP_V2},
        {"texts that are most of it: 10 + 3 x 90 + 30", 100, 100, 90, 10, 1000, 320, NO_LIMIT, NO_LIMIT, 8, 3, FT_LIMIT_CGROUP_V2},
        {"beside a GPU a process is its host part", 300, 300, 300, 10, 1000, NO_LIMIT, NO_LIMIT, NO_LIMIT, 4, 3, FT_LIMIT_MACHINE},
        {"given, for all with their largest: 10 + 2 x 200", 60, 200, 40, 10, 1000, NO_LIMIT, 410, NO_LIMIT, 8, 2, 0},
        {"given, not for one", 60, 200, 40, 10, 1000, NO_LIMIT, 200, NO_LIMIT, 8, 0, 0},
        {"addresses are of each process", 100, 100, 40, 10, 1000, NO_LIMIT, NO_LIMIT, 150, 8, 8, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const ft_config config = {.memory.host_limit = (int64_t)(cases[i].given * MIB)};
        const ft_tuning_need need = {.least = cases[i].least * MIB, .largest = cases[i].largest * MIB, .others = cases[i].others * MIB};
        ft_host_limits limits = {.count = 1, .list = {{.kind = FT_LIMIT_MACHINE, .bytes = cases[i].machine * MIB}}};
        if (cases[i].group != NO_LIMIT) limits.list[limits.count++] = (ft_host_limit){.kind = FT_LIMIT_CGROUP_V2, .bytes = cases[i].group * MIB};
        if (cases[i].addresses != NO_LIMIT) limits.list[limits.count++] = (ft_host_limit){.kind = FT_LIMIT_ADDRESSES, .bytes = cases[i].addresses * MIB};
        ft_host_verdict verdict = {.fits = true};
        const int crew = ft_crew_of(&config, &need, cases[i].coordinator * MIB, &limits, cases[i].asked, 1, &verdict);
        if (crew != cases[i].crew) fail_msg("%s: %d workers, not %d", cases[i].of, crew, cases[i].crew);
        assert_int_equal(verdict.fits, crew == cases[i].asked);
        if (verdict.fits) continue;
        assert_int_equal(verdict.given, cases[i].given != NO_LIMIT);
        if (!verdict.given) assert_int_equal(verdict.kind, cases[i].kind);
        assert_true(verdict.need > verdict.limit);
    }
}

// A pack has its program, texts and frozen weights once a process: wrong are a trunk for every trial, or one for all processes. It pays where
// memory is short of processes, or by a fifth of the time, and only where there is a trunk.
static void packs(void **state) {
    static const struct {
        const char *of;
        size_t trunk, limit;
        int asked, pack, crew;
    } cases[] = {
        {"10 + 2 x (40 + 50) + 8 x 10", 50, 270, 8, 4, 8},
        {"ten less: of 7", 50, 260, 8, 4, 7},
        {"4 need one process alone: 10 + 90 + 4 x 10", 50, 140, 8, 4, 4},
        {"processes of their own: 10 + 2 x 100", 50, 270, 8, 1, 2},
        {"others alone in common: 10 + 40 + 3 x 60", 0, 235, 8, 8, 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const ft_config config = {.memory.host_limit = 0};
        const ft_tuning_need need = {.least = 100 * MIB, .largest = 100 * MIB, .others = 40 * MIB, .trunk = cases[i].trunk * MIB};
        const ft_host_limits limits = {.count = 1, .list = {{.kind = FT_LIMIT_MACHINE, .bytes = cases[i].limit * MIB}}};
        ft_host_verdict verdict;
        const int crew = ft_crew_of(&config, &need, 10 * MIB, &limits, cases[i].asked, cases[i].pack, &verdict);
        if (crew != cases[i].crew) fail_msg("%s: %d trials, not %d", cases[i].of, crew, cases[i].crew);
    }
    const ft_tuning_need slow = {.trunk = 1, .gain = 1.2}, fast = {.trunk = 1, .gain = 1.3}, none = {.gain = 2};
    assert_int_equal(ft_pack_of(&slow, 8, 8), 1);
    assert_int_equal(ft_pack_of(&slow, 8, 3), 8);
    assert_int_equal(ft_pack_of(&fast, 8, 8), 8);
    assert_int_equal(ft_pack_of(&fast, 1, 1), 1);
    assert_int_equal(ft_pack_of(&none, 8, 3), 1);
    const ft_tuning_need room = {.device_trunk = 6, .device_largest = 10, .device_bytes = 80}, short_of = {.device_trunk = 6, .device_largest = 10, .device_bytes = 79};
    assert_int_equal(ft_pack_of(&room, 8, 8), 1); // a GPU has room for eight models
    assert_int_equal(ft_pack_of(&short_of, 8, 8), 8);
}

// Which devices the trials have: wrong are a GPU that two of them get before all are in use, one that is left over, and a CPU that is there once.
static void devices(void **state) {
    static const struct {
        const char *names;
        int each, count;     // count 0: refused
        const char *list[3]; // of the first slots
    } cases[] = {
        {"cpu", 2, 1, {"cpu,cpu", "cpu,cpu", "cpu,cpu"}},
        {"cpu,cpu,cpu", 2, 1, {"cpu,cpu", "cpu,cpu", "cpu,cpu"}},
        {"cpu,cpu", 1, 1, {"cpu", "cpu", "cpu"}},
        {"cuda:0,cuda:1", 1, 2, {"cuda:0", "cuda:1", "cuda:0"}},
        {"cuda:0, cuda:1,cuda:3 ,cuda:4,cuda:5", 2, 2, {"cuda:0,cuda:1", "cuda:3,cuda:4", "cuda:0,cuda:1"}},
        {"cuda:7,cuda:2", 2, 1, {"cuda:7,cuda:2", "cuda:7,cuda:2", "cuda:7,cuda:2"}},
        {"cuda:0,cuda:1", 3, 0, {NULL}},
        {"cuda", 2, 0, {NULL}},
        {"cuda:0,cpu", 1, 0, {NULL}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ft_arena arena = {0};
        ft_trial_devices found;
        const ft_status status = ft_trial_devices_deal(cases[i].names, cases[i].each, &arena, &found);
        assert_int_equal(status, cases[i].count > 0 ? FT_OK : FT_INVALID);
        assert_int_equal(found.count, cases[i].count);
        for (int slot = 0; slot < 3 && status == FT_OK; slot++) assert_string_equal(ft_trial_devices_of(&found, slot), cases[i].list[slot]);
        ft_error_clear();
        ft_arena_free(&arena);
    }
    assert_null(ft_trial_devices_of(&(ft_trial_devices){.count = 0}, 5));
}

// Trials at a time by themselves. Wrong is a set of GPUs that no trial is on, whatever cores there are.
static void sets_of_gpus(void **state) {
    static const struct {
        int64_t parallel;
        int sets, least, most;
    } cases[] = {{FT_AUTO, 0, 1, 8}, {FT_AUTO, 1, 1, 8}, {FT_AUTO, 12, 12, 12}, {3, 12, 3, 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const ft_config config = {.device.name = "cuda:all"};
        const ft_study_options options = {.parallel = cases[i].parallel, .devices_per_trial = 2};
        const ft_tuning t = {.config = &config, .options = &options, .devices.count = cases[i].sets};
        assert_in_range(ft_slots_asked(&t), cases[i].least, cases[i].most);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(crews), cmocka_unit_test(packs), cmocka_unit_test(devices), cmocka_unit_test(sets_of_gpus)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
