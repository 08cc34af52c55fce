// Places of a step's tensors: no two that live together overlap, and the arena is hardly larger than what lives at once.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/memory/layout.h"
#include "kernels/philox.h"

enum { KIB = 1024 };

static int32_t enter(ft_layout *l, size_t bytes) {
    int32_t index;
    assert_int_equal(ft_layout_enter(l, bytes, 0, &index), FT_OK);
    return index;
}
static void leave(ft_layout *l, int32_t index) { assert_int_equal(ft_layout_leave(l, index), FT_OK); }

static void check(const ft_layout *l) {
    for (int32_t i = 0; i < l->count; i++) {
        const ft_layout_request *a = &l->requests[i];
        assert_true(a->size >= a->bytes && a->size >= FT_LAYOUT_ALIGN && a->size % FT_LAYOUT_ALIGN == 0);
        assert_true(a->offset % FT_LAYOUT_ALIGN == 0 && a->offset + a->size <= l->bytes);
        for (int32_t k = 0; k < i; k++) {
            const ft_layout_request *b = &l->requests[k];
            bool together = a->begin < b->end && b->begin < a->end;
            assert_true(!together || a->offset + a->size <= b->offset || b->offset + b->size <= a->offset);
        }
    }
    assert_true(l->bytes >= l->live_bytes);
}

static void test_nothing(void **state) {
    ft_layout l = {0};
    assert_int_equal(ft_layout_place(&l, 0, 0), FT_OK);
    assert_int_equal(l.bytes, 0);
    enter(&l, 0);
    assert_int_equal(ft_layout_place(&l, 0, 0), FT_OK);
    assert_int_equal(l.bytes, FT_LAYOUT_ALIGN); // still an address of its own
    assert_int_equal(ft_layout_place(&l, 1, 0), FT_OK);
    assert_int_equal(l.bytes, FT_LAYOUT_ALIGN);
    assert_int_equal(ft_layout_place(&l, FT_LAYOUT_ALIGN + 1, 0), FT_OK);
    assert_int_equal(l.bytes, 2 * FT_LAYOUT_ALIGN);
    ft_layout_free(&l);
}

// First come, lowest place would put c behind b; with lifetimes known, c takes a's place and half of b's.
static void test_places_are_used_again(void **state) {
    ft_layout l = {0};
    int32_t a = enter(&l, 8 * KIB), b = enter(&l, 4 * KIB);
    leave(&l, a);
    int32_t c = enter(&l, 10 * KIB);
    leave(&l, b);
    int32_t d = enter(&l, 4 * KIB);
    assert_int_equal(ft_layout_place(&l, 0, 0), FT_OK);
    check(&l);
    assert_int_equal(l.live_bytes, 14 * KIB);
    assert_int_equal(l.bytes, 14 * KIB);
    assert_true(l.requests[d].begin > l.requests[b].end);
    assert_int_equal(l.requests[c].end, INT32_MAX); // never left
    ft_layout copy;
    assert_int_equal(ft_layout_copy(&l, &copy), FT_OK);
    assert_int_equal(copy.bytes, l.bytes);
    assert_memory_equal(copy.requests, l.requests, (size_t)l.count * sizeof *l.requests);
    assert_memory_equal(copy.events, l.events, (size_t)l.event_count * sizeof *l.events);
    ft_layout_free(&copy);
    ft_layout_free(&l);
}

static void layer_forward(ft_layout *l, int32_t kept[4]) {
    for (int k = 0; k < 4; k++) {
        int32_t scratch = enter(l, (size_t)(7 + 5 * k) * KIB);
        kept[k] = enter(l, (size_t)(10 + 20 * (k == 2)) * KIB);
        leave(l, scratch);
    }
}

static void layer_backward(ft_layout *l, const int32_t kept[4]) {
    int32_t dy = enter(l, 30 * KIB);
    for (int k = 4; k-- > 0;) {
        int32_t scratch = enter(l, (size_t)(9 + 11 * k) * KIB);
        leave(l, kept[k]);
        leave(l, scratch);
    }
    leave(l, dy);
}

// Layers that keep tensors for the way back, with scratch in between: a training step in small.
static void test_a_step_reaches_the_bound(void **state) {
    for (int layers = 1; layers <= 24; layers++) {
        ft_layout l = {0};
        int32_t kept[24][4], x = enter(&l, 30 * KIB);
        for (int i = 0; i < layers; i++) layer_forward(&l, kept[i]);
        for (int i = layers; i-- > 0;) layer_backward(&l, kept[i]);
        leave(&l, x);
        assert_int_equal(ft_layout_place(&l, 0, 0), FT_OK);
        check(&l);
        assert_true((double)l.bytes <= 1.03 * (double)l.live_bytes);
        ft_layout_free(&l);
    }
}

// The same, while the layers' gradients come one by one at the arena's begin, the last layer's first.
static void test_a_step_around_fixed_places(void **state) {
    for (int layers = 1; layers <= 24; layers++) {
        ft_layout l = {0};
        int32_t kept[24][4], x = enter(&l, 30 * KIB), part[24];
        for (int i = 0; i < layers; i++) layer_forward(&l, kept[i]);
        size_t reached = 0;
        for (int i = layers; i-- > 0;) {
            assert_int_equal(ft_layout_enter_at(&l, reached, 20 * KIB, 0, &part[i]), FT_OK);
            reached += 20 * KIB;
            layer_backward(&l, kept[i]);
        }
        leave(&l, x);
        assert_int_equal(ft_layout_place(&l, 100, 0), FT_OK);
        check(&l);
        for (int i = 0; i < layers; i++) {
            assert_int_equal(l.requests[part[i]].offset, (size_t)(layers - 1 - i) * 20 * KIB);
            assert_int_equal(l.requests[part[i]].size, 20 * KIB); // without padding: the next one begins there
        }
        assert_true((double)l.bytes <= 1.03 * (double)l.live_bytes);
        // The same sizes and lifetimes with other places are another layout, also in the memory of what was placed lately.
        size_t before = l.bytes;
        for (int i = 0; i < layers; i++) l.requests[part[i]].offset += 40 * KIB;
        assert_int_equal(ft_layout_place(&l, 100, 0), FT_OK);
        check(&l);
        assert_true(l.bytes >= reached + 40 * KIB && (layers < 4 || l.bytes <= before + 60 * KIB));
        assert_int_equal(l.requests[part[0]].offset, (size_t)(layers - 1) * 20 * KIB + 40 * KIB);
        ft_layout_free(&l);
    }
}

static void test_random_lifetimes(void **state) {
    for (uint64_t seed = 0; seed < 60; seed++) {
        ft_layout l = {0};
        int32_t alive[40];
        int count = 0;
        for (uint64_t i = 0; i < 300; i++) {
            uint64_t r = ft_splitmix64(seed * 1000 + i);
            if (count == 40 || (count > 0 && r % 3 == 0)) {
                int at = (int)(r / 3 % (uint64_t)count);
                leave(&l, alive[at]);
                alive[at] = alive[--count];
            } else {
                alive[count++] = enter(&l, (size_t)(r >> 8) % (1u << (6 + r % 13)));
            }
        }
        assert_int_equal(ft_layout_place(&l, 0, 0), FT_OK);
        check(&l);
        assert_true((double)l.bytes <= 1.15 * (double)l.live_bytes); // no step; still near
        size_t bytes = l.bytes, first = l.requests[7].offset;
        assert_int_equal(ft_layout_place(&l, 0, 0), FT_OK); // the same again
        assert_int_equal(l.bytes, bytes);
        assert_int_equal(l.requests[7].offset, first);
        ft_layout_free(&l);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nothing), cmocka_unit_test(test_places_are_used_again),
                                       cmocka_unit_test(test_a_step_reaches_the_bound), cmocka_unit_test(test_a_step_around_fixed_places),
                                       cmocka_unit_test(test_random_lifetimes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
