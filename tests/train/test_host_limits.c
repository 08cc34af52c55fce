// Which limit of a process a planned run breaks, and what of it the allocator may have: a table of cases, with numbers that a reader can
// follow. What is caught: a need held against a limit that counts another way, a slack that is refused for, memory.host_limit that
// is overlooked.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/status.h"
#include "engine/train/room/host.h"

#include <string.h>

#define MIB ((size_t)1 << 20)

static const ft_host_memory need = {.peak = 100 * MIB, .addresses = 300 * MIB, .data = 120 * MIB};

typedef struct limit_case {
    int64_t given; // memory.host_limit, MiB; 0: auto
    int cgroup, addresses, data; // MiB; 0: none
    bool fits;
    const char *name; // of the tightest
    int need;         // MiB that it is held against
    int room;         // for the allocator, beside others of 40, 240 and 60 MiB; -1: whatever the machine has
} limit_case;

static const limit_case cases[] = {
    {0, 0, 0, 0, true, "the machine's memory", 100, -1},
    {0, 100, 0, 0, true, "memory.limit_in_bytes of the cgroup", 100, 62},
    {0, 99, 0, 0, true, "memory.limit_in_bytes of the cgroup", 100, 61}, // the slack is nobody's need
    {0, 97, 0, 0, false, "memory.limit_in_bytes of the cgroup", 100, 59},
    {0, 30, 0, 0, false, "memory.limit_in_bytes of the cgroup", 100, 0},
    {0, 0, 299, 0, true, "RLIMIT_AS (ulimit -v)", 300, 60}, // half of it, where a heap asks in steps
    {0, 0, 298, 0, false, "RLIMIT_AS (ulimit -v)", 300, 59},
    {0, 0, 0, 119, true, "RLIMIT_DATA (ulimit -d)", 120, 60},
    {0, 0, 0, 118, false, "RLIMIT_DATA (ulimit -d)", 120, 59},
    {0, 200, 310, 121, true, "RLIMIT_DATA (ulimit -d)", 120, 62},
    {0, 200, 290, 121, false, "RLIMIT_AS (ulimit -v)", 300, 51},
    {101, 200, 0, 0, true, "memory.host_limit", 100, 63},
    {90, 200, 0, 0, false, "memory.host_limit", 100, 52},
    {90, 200, 100, 0, false, "RLIMIT_AS (ulimit -v)", 300, 0},
};

static void add(ft_host_limits *limits, ft_host_limit_kind kind, int mib) {
    if (mib > 0) limits->list[limits->count++] = (ft_host_limit){.kind = kind, .bytes = (size_t)mib * MIB, .left = (size_t)mib * MIB};
}

static void the_tightest_is_named(void **test) {
    const ft_host_memory others = {.peak = 40 * MIB, .addresses = 240 * MIB, .data = 60 * MIB};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const limit_case *c = &cases[i];
        ft_config config = {0};
        ft_host_limits limits = {0};
        config.memory.host_limit = c->given * (int64_t)MIB;
        add(&limits, FT_LIMIT_MACHINE, 1 << 20);
        add(&limits, FT_LIMIT_CGROUP_V1, c->cgroup);
        add(&limits, FT_LIMIT_ADDRESSES, c->addresses);
        add(&limits, FT_LIMIT_DATA, c->data);
        const ft_host_verdict v = ft_host_judge(&config, &need, &limits);
        const size_t room = ft_host_room(&config, &others, &limits);
        if (v.fits != c->fits || strcmp(ft_host_limit_name(&v), c->name) != 0 || v.need != (size_t)c->need * MIB)
            fail_msg("case %zu: %s, %s, %zu MiB", i, v.fits ? "fits" : "does not fit", ft_host_limit_name(&v), v.need / MIB);
        if (c->room >= 0 && room != (size_t)c->room * MIB) fail_msg("case %zu: room for %zu MiB", i, room / MIB);
    }
}

static void other_machines_have_no_limits(void **test) {
    ft_config config = {0};
    assert_true(ft_host_judge(&config, &need, NULL).fits);
    assert_int_equal(ft_host_room(&config, &need, NULL), SIZE_MAX);
    config.memory.host_limit = 64 * MIB;
    const ft_host_verdict v = ft_host_judge(&config, &need, NULL);
    assert_false(v.fits);
    assert_int_equal(ft_host_refuse(&v), FT_NO_MEMORY);
    assert_string_equal(ft_error_where(), "memory.host_limit");
    assert_string_equal(ft_error_message(), "does not fit: the process needs 100.0MiB, and may have 64.0MiB");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tightest_is_named),
        cmocka_unit_test(other_machines_have_no_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
