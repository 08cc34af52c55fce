// Many threads on one meter: random sizes, contents written at allocation and looked at when it is freed, by whichever
// thread; refusals, trims and readers in between. Run under ThreadSanitizer too.
// ctest: tsan=run
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/memory/memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 8, ROUNDS = 1500, SLOTS = 40 };
#define MIB ((size_t)1 << 20)

typedef struct buffer {
    size_t bytes;
    uint64_t tag;
    unsigned char *data;
} buffer;

typedef struct stress {
    ft_memory *memory;
    _Atomic(buffer *) slots[SLOTS]; // whoever takes a buffer out of its slot owns it
    _Atomic uint64_t tags;
    _Atomic size_t taken, refused, wrong;
} stress;

typedef struct worker {
    stress *all;
    uint64_t random;
    pthread_t thread;
    char failure[256]; // what cmocka is told when the thread has ended: it knows one thread only
} worker;

static size_t below(worker *w, size_t n) {
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return (size_t)((w->random >> 16) % n);
}

static unsigned char byte_at(uint64_t tag, size_t i) { return (unsigned char)(tag * 31 + (i >> 12) * 7 + 1); }

// Page by page, so that memory that goes missing in the middle is seen.
static void write_contents(const buffer *b) {
    for (size_t i = 0; i < b->bytes; i += 4096)
        memset(b->data + i, byte_at(b->tag, i), b->bytes - i < 4096 ? b->bytes - i : 4096);
}

static bool holds_contents(const buffer *b) {
    for (size_t i = 0; i < b->bytes; i += 4096) {
        size_t n = b->bytes - i < 4096 ? b->bytes - i : 4096;
        if (b->data[i] != byte_at(b->tag, i) || memcmp(b->data + i, b->data + i + 1, n - 1) != 0) return false;
    }
    return true;
}

static void let_go(stress *s, buffer *b) {
    if (b == NULL) return;
    if (!holds_contents(b)) s->wrong++;
    ft_memory_free(s->memory, b->data);
    free(b);
}

static void *work(void *argument) {
    worker *w = argument;
    stress *s = w->all;
    for (int round = 0; round < ROUNDS; round++) {
        size_t kind = below(w, 100);
        size_t bytes = kind < 60   ? below(w, 4096)
                       : kind < 95 ? below(w, MIB / 4)
                       : kind < 99 ? below(w, 3 * MIB)
                                   : 40 * MIB;
        buffer *b = calloc(1, sizeof *b);
        if (b == NULL) {
            snprintf(w->failure, sizeof w->failure, "out of host memory");
            break;
        }
        *b = (buffer){.bytes = bytes, .tag = s->tags++};
        char site[48];
        snprintf(site, sizeof site, "tensor %zu", below(w, 20));
        void *data;
        ft_status status =
            ft_memory_alloc(s->memory, bytes, (ft_memory_category)below(w, FT_MEM_CATEGORIES), site, &data);
        b->data = data;
        if (status == FT_OK) {
            s->taken++;
            write_contents(b);
            let_go(s, atomic_exchange(&s->slots[below(w, SLOTS)], b));
        } else {
            s->refused++;
            bool told = status == FT_NO_MEMORY && data == NULL && strcmp(ft_error_where(), site) == 0;
            if (!told)
                snprintf(w->failure, sizeof w->failure, "a refusal of %s says '%s: %s'", site, ft_error_where(),
                         ft_error_message());
            free(b);
            for (int i = 0; i < 10; i++)
                let_go(s, atomic_exchange(&s->slots[below(w, SLOTS)], NULL));
        }
        if (below(w, 200) == 0) ft_memory_trim(s->memory);
        if (below(w, 50) == 0) ft_memory_set_phase(s->memory, (ft_memory_phase)below(w, FT_PHASE_COUNT));
        if (below(w, 20) == 0) {
            ft_memory_counters c = ft_memory_read(s->memory);
            size_t sum = 0;
            for (int i = 0; i < FT_MEM_CATEGORIES; i++)
                sum += c.by_category[i];
            if (sum != c.allocated || c.requested > c.allocated || c.allocated > c.reserved ||
                c.reserved > ft_memory_limit(s->memory) || c.peak_allocated < c.allocated ||
                c.peak_reserved < c.reserved)
                snprintf(w->failure, sizeof w->failure, "requested %zu, allocated %zu (by category %zu), reserved %zu",
                         c.requested, c.allocated, sum, c.reserved);
        }
        if (below(w, 100) == 0) {
            ft_memory_use uses[5];
            int count = ft_memory_holders_at_peak(s->memory, uses, 5);
            for (int i = 1; i < count; i++)
                if (uses[i].bytes > uses[i - 1].bytes) snprintf(w->failure, sizeof w->failure, "holders out of order");
        }
    }
    return NULL;
}

static void run(ft_device *device, const ft_memory_options *options) {
    stress s = {.tags = 1};
    assert_int_equal(ft_memory_create_with(device, options, &s.memory), FT_OK);
    worker workers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.all = &s, .random = 88172645463325252u + (uint64_t)i * 7919};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
    for (int i = 0; i < SLOTS; i++)
        let_go(&s, atomic_exchange(&s.slots[i], NULL));
    for (int i = 0; i < THREADS; i++)
        assert_string_equal(workers[i].failure, "");
    assert_int_equal(s.wrong, 0);
    assert_true(s.refused > 0 && s.taken > THREADS * ROUNDS / 2);
    assert_int_equal(s.taken + s.refused, THREADS * ROUNDS);
    ft_memory_trim(s.memory);
    ft_memory_counters c = ft_memory_read(s.memory);
    assert_int_equal(c.requested + c.allocated + c.reserved + c.live_buffers, 0);
    assert_int_equal(ft_memory_destroy(s.memory), FT_OK);
}

static void test_threads(void **state) {
    ft_device *device;
    assert_int_equal(ft_cpu_open(1, NULL, &device), FT_OK);
    static const ft_memory_options settings[] = {
        {.allocator = {.limit = 48 * MIB}},
        {.allocator = {.limit = 48 * MIB, .expandable_segments = true}, .guard_bytes = 64},
        {.allocator = {.limit = 64 * MIB, .garbage_collection_threshold = 0.5, .max_split_size = 2 * MIB},
         .guard_bytes = 512},
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        run(device, &settings[i]);
    ft_device_close(device);
}

// The test above would see a buffer that two hold at once, or that lost a page.
static void test_contents_are_judged(void **state) {
    unsigned char data[10000];
    buffer b = {.bytes = sizeof data, .tag = 5, .data = data};
    write_contents(&b);
    assert_true(holds_contents(&b));
    const size_t places[] = {0, 1, 4095, 4096, 9999};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        data[places[i]] ^= 1;
        assert_false(holds_contents(&b));
        data[places[i]] ^= 1;
    }
    memset(data, byte_at(6, 0), 4096);
    assert_false(holds_contents(&b));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_contents_are_judged),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
