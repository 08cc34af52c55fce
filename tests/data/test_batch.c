// Micro-batches: layout of the block, where an effective batch is cut, what is filled in.
#include "engine/data/batch.h"
#include "engine/data/input.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

// Six examples of 3, 5, 1, 4, 2 and 9 tokens; the ids of example e are 100 e, 100 e + 1, ...
enum { EXAMPLES = 6, TOKENS = 24 };
static const int LENGTH[EXAMPLES] = {3, 5, 1, 4, 2, 9};
static int32_t ids[TOKENS], labels[EXAMPLES] = {7, 6, 5, 4, 3, 2};
static int64_t offsets[EXAMPLES + 1];
static ft_dataset data = {
    .input = &ft_text_input,
    .examples = EXAMPLES, .sequences = EXAMPLES, .tokens = TOKENS, .ids = ids, .offset = offsets, .label = labels, .longest = 9};

static int make_data(void **state) {
    for (int e = 0, at = 0; e < EXAMPLES; e++) {
        offsets[e] = at;
        for (int t = 0; t < LENGTH[e]; t++)
            ids[at++] = 100 * e + t;
        offsets[e + 1] = at;
    }
    return offsets[EXAMPLES] == TOKENS ? 0 : 1;
}

enum { PADDING_ID = 1, FROM_0 = -1 };

static ft_batch_format format_of(int32_t sequences, int32_t tokens, int32_t padding, int32_t targets, unsigned orders) {
    return (ft_batch_format){.sequences = sequences,
                             .tokens = tokens,
                             .reads = sequences * 1,
                             .most_reads = 1,
                             .targets = targets,
                             .position_padding = padding,
                             .orders = orders};
}

static ft_batch make_batch_behind(int32_t sequences, int32_t tokens, int32_t padding) {
    ft_batch batch;
    const ft_batch_format format = format_of(sequences, tokens, padding, 0, 0);
    size_t bytes = ft_batch_bytes(&format);
    void *storage = malloc(bytes);
    assert_non_null(storage);
    memset(storage, 0xAB, bytes); // zeros found later were written
    ft_batch_bind(&batch, storage, &format);
    return batch;
}

static ft_batch make_batch(int32_t sequences, int32_t tokens) { return make_batch_behind(sequences, tokens, FROM_0); }

static void arrays_do_not_overlap(void **state) {
    const int32_t sizes[][2] = {{0, 0}, {1, 1}, {63, 64}, {64, 65}, {32, 4096}, {1000, 1}};
    for (size_t i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++) {
        int32_t s = sizes[i / 2][0], t = sizes[i / 2][1], padding = i % 2 ? PADDING_ID : FROM_0;
        const unsigned orders = (unsigned)(i / 2); // none and some
        const ft_batch_format format = format_of(s, t, padding, 3, orders);
        size_t bytes = ft_batch_bytes(&format);
        char *base = aligned_alloc(256, bytes > 0 ? bytes : 256);
        assert_non_null(base);
        ft_batch batch;
        ft_batch_bind(&batch, base, &format);
        if (padding == FROM_0) assert_ptr_equal(batch.position_row, batch.token_position);
        assert_int_equal(batch.word_order != NULL, (orders & FT_ORDER_WORDS) != 0);
        assert_int_equal(batch.position_order != NULL, (orders & FT_ORDER_POSITIONS) != 0);
        assert_int_equal(batch.type_order != NULL, (orders & FT_ORDER_TYPES) != 0);
        // What is not there lies nowhere: an array of nothing where the next one begins.
        int32_t *types = orders & FT_ORDER_TYPES ? batch.type_order : batch.cu_seqlens;
        int32_t *positions = orders & FT_ORDER_POSITIONS ? batch.position_order : types;
        int32_t *words = orders & FT_ORDER_WORDS ? batch.word_order : positions;
        const struct {
            void *at;
            size_t bytes;
        } array[] = {{batch.ids, 4 * (size_t)t},
                     {batch.token_slot, 4 * (size_t)t},
                     {batch.token_position, 4 * (size_t)t},
                     {padding == FROM_0 ? batch.token_type : batch.position_row, padding == FROM_0 ? 0 : 4 * (size_t)t},
                     {batch.token_type, 4 * (size_t)t},
                     {words, orders & FT_ORDER_WORDS ? 4 * (size_t)t : 0},
                     {positions, orders & FT_ORDER_POSITIONS ? 4 * (size_t)t : 0},
                     {types, orders & FT_ORDER_TYPES ? 4 * (size_t)t : 0},
                     {batch.cu_seqlens, 4 * (size_t)s + 4},
                     {batch.read_row, 4 * (size_t)s},
                     {batch.slot, 4 * (size_t)s},
                     {batch.read_position, 4 * (size_t)s},
                     {batch.cu_reads, 4 * (size_t)s + 4},
                     {batch.label, 4 * (size_t)s},
                     {batch.target, 3 * 4 * (size_t)s},
                     {batch.example, 8 * (size_t)s}};
        const size_t arrays = sizeof array / sizeof *array;
        for (size_t a = 0; a < arrays; a++) {
            char *end = a + 1 < arrays ? (char *)array[a + 1].at : base + bytes;
            assert_int_equal((uintptr_t)array[a].at % 256, 0);
            assert_true((char *)array[a].at + array[a].bytes <= end);
        }
        assert_ptr_equal(batch.ids, base);
        assert_ptr_equal(batch.read_slot, batch.slot);
        assert_int_equal(batch.format.sequences, s);
        assert_int_equal(batch.format.tokens, t);
        free(base);
    }
}

// Binding must not touch the block: it may lie on a device.
static void bind_reads_and_writes_nothing(void **state) {
    ft_batch host = make_batch(5, 100), device;
    char *far = (char *)(uintptr_t)0x7f0000000000;
    ft_batch_bind(&device, far, &host.format);
    assert_ptr_equal(device.storage, far);
    assert_int_equal((char *)device.label - far, (char *)host.label - (char *)host.storage);
    assert_int_equal((char *)device.cu_seqlens - far, (char *)host.cu_seqlens - (char *)host.storage);
    free(host.storage);
}

static int64_t cut(const int32_t *order, int64_t first, int64_t last, int64_t max_tokens, int64_t max_sequences) {
    return ft_batch_cut(&data, order, first, last, (ft_batch_limits){max_tokens, max_sequences});
}

static void cuts(void **state) {
    assert_int_equal(cut(NULL, 0, 6, 0, 0), 6);
    assert_int_equal(cut(NULL, 0, 6, 24, 0), 6);
    assert_int_equal(cut(NULL, 0, 6, 23, 0), 5);
    assert_int_equal(cut(NULL, 0, 6, 8, 0), 2); // 3 + 5 fit exactly
    assert_int_equal(cut(NULL, 0, 6, 7, 0), 1);
    assert_int_equal(cut(NULL, 0, 6, 2, 0), 1); // longer than the limit: alone
    assert_int_equal(cut(NULL, 5, 6, 4, 0), 1);
    assert_int_equal(cut(NULL, 0, 6, 0, 4), 4);
    assert_int_equal(cut(NULL, 0, 6, 8, 1), 1);
    assert_int_equal(cut(NULL, 0, 6, 9, 5), 3);
    assert_int_equal(cut(NULL, 4, 6, 0, 4), 2);
    assert_int_equal(cut(NULL, 3, 3, 0, 0), 0);
    const int32_t order[] = {2, 4, 0, 5, 1, 3}; // 1 2 3 9 5 4 tokens
    assert_int_equal(cut(order, 0, 6, 6, 0), 3);
    assert_int_equal(cut(order, 3, 6, 6, 0), 1);
    assert_int_equal(cut(order, 4, 6, 6, 0), 1);
    assert_int_equal(cut(order, 1, 6, INT64_MAX, INT64_MAX), 5);
}

// Whatever the limits, the pieces are the effective batch, once and in order.
static void pieces_make_the_whole(void **state) {
    const int32_t order[] = {3, 1, 4, 0, 5, 2};
    ft_batch batch = make_batch(EXAMPLES, TOKENS);
    for (int64_t max_tokens = 0; max_tokens <= TOKENS; max_tokens++) {
        for (int64_t max_sequences = 0; max_sequences <= EXAMPLES; max_sequences++) {
            int32_t slot = 0;
            for (int64_t first = 0, count; first < EXAMPLES; first += count) {
                count = cut(order, first, EXAMPLES, max_tokens, max_sequences);
                assert_true(count >= 1);
                assert_int_equal(ft_batch_fill(&batch, &data, order, first, count, slot), FT_OK);
                assert_int_equal(batch.sequences, count);
                if (max_sequences > 0) assert_true(batch.sequences <= max_sequences);
                if (max_tokens > 0 && count > 1) assert_true(batch.tokens <= max_tokens);
                for (int32_t i = 0; i < batch.sequences; i++, slot++) {
                    assert_int_equal(batch.slot[i], slot);
                    assert_int_equal(batch.example[i], order[slot]);
                }
            }
            assert_int_equal(slot, EXAMPLES);
        }
    }
    free(batch.storage);
}

// What tasks on pairs and tasks with numbers have beside ids and labels.
static void types_and_targets(void **state) {
    uint8_t types[TOKENS];
    float targets[EXAMPLES * 2];
    for (int i = 0; i < TOKENS; i++) types[i] = (uint8_t)(i % 3);
    for (int i = 0; i < EXAMPLES * 2; i++) targets[i] = (float)i / 4;
    ft_dataset more = data;
    more.types = types;
    more.target = targets;
    more.targets = 2;
    ft_batch batch;
    const ft_batch_format format = format_of(2, 10, FROM_0, 2, 0);
    void *storage = malloc(ft_batch_bytes(&format));
    assert_non_null(storage);
    ft_batch_bind(&batch, storage, &format);
    const int32_t order[] = {3, 1};
    assert_int_equal(ft_batch_fill(&batch, &more, order, 0, 2, 0), FT_OK);
    int row = 0;
    for (int i = 0; i < 2; i++) {
        for (int64_t t = more.offset[order[i]]; t < more.offset[order[i] + 1]; t++) assert_int_equal(batch.token_type[row++], types[t]);
        assert_memory_equal(batch.target + 2 * i, targets + 2 * order[i], 2 * sizeof(float));
    }
    more.targets = 1;
    assert_int_equal(ft_batch_fill(&batch, &more, order, 0, 2, 0), FT_FAILED);
    more.target = NULL; // unlabelled texts of a task with targets
    assert_int_equal(ft_batch_fill(&batch, &more, order, 0, 2, 0), FT_OK);
    assert_true(batch.target[0] == 0 && batch.target[3] == 0);
    free(storage);
}

// Where a sequence may be read at several rows, each has its slot in an array of its own, and every array of reads has room for them.
static void rows_that_are_read(void **state) {
    ft_batch_format format = format_of(3, 300, FROM_0, 2, 0);
    const size_t one_each = ft_batch_bytes(&format);
    format.reads = 300, format.most_reads = 100;
    char *base = aligned_alloc(256, ft_batch_bytes(&format));
    assert_non_null(base);
    ft_batch batch;
    ft_batch_bind(&batch, base, &format);
    assert_true(ft_batch_bytes(&format) > one_each);
    const char *const reads[] = {(char *)batch.read_row, (char *)batch.slot,     (char *)batch.read_slot, (char *)batch.read_position,
                                 (char *)batch.cu_reads, (char *)batch.label, (char *)batch.target,    (char *)batch.example};
    const size_t room[] = {4 * 300, 4 * 3, 4 * 300, 4 * 300, 4 * 4, 4 * 300, 2 * 4 * 300};
    for (int i = 0; i < 7; i++) assert_true(reads[i] + room[i] <= reads[i + 1]);
    assert_int_equal(ft_batch_fill(&batch, &data, NULL, 0, 3, 4), FT_OK);
    assert_int_equal(batch.reads, 3 * 1);
    assert_memory_equal(batch.read_slot, ((const int32_t[]){4, 5, 6}), 3 * sizeof(int32_t));
    assert_memory_equal(batch.read_row, batch.cu_seqlens, 3 * sizeof(int32_t));
    free(base);
}

static void fill(void **state) {
    const int32_t order[] = {5, 2, 0, 1, 3};
    ft_batch batch = make_batch(3, 9);
    assert_int_equal(ft_batch_fill(&batch, &data, order, 1, 3, 10), FT_OK); // examples 2, 0, 1: 1 + 3 + 5 tokens
    const int32_t expected_ids[] = {200, 0, 1, 2, 100, 101, 102, 103, 104};
    const int32_t expected_slot[] = {10, 11, 11, 11, 12, 12, 12, 12, 12};
    const int32_t expected_position[] = {0, 0, 1, 2, 0, 1, 2, 3, 4};
    const int32_t expected_bounds[] = {0, 1, 4, 9}, slots[] = {10, 11, 12}, expected_labels[] = {5, 7, 6};
    const int64_t examples[] = {2, 0, 1};
    assert_int_equal(batch.sequences, 3);
    assert_int_equal(batch.tokens, 9);
    assert_int_equal(batch.longest, 5);
    assert_int_equal(batch.reads, 3);
    assert_int_equal(batch.most_reads, 1);
    assert_memory_equal(batch.ids, expected_ids, sizeof expected_ids);
    assert_memory_equal(batch.token_slot, expected_slot, sizeof expected_slot);
    assert_memory_equal(batch.token_position, expected_position, sizeof expected_position);
    assert_memory_equal(batch.cu_seqlens, expected_bounds, sizeof expected_bounds);
    assert_memory_equal(batch.read_row, expected_bounds, 3 * sizeof(int32_t));
    assert_memory_equal(batch.slot, slots, sizeof slots);
    assert_memory_equal(batch.cu_reads, ((const int32_t[]){0, 1, 2, 3}), 4 * sizeof(int32_t));
    for (int i = 0; i < 3; i++)
        assert_int_equal(batch.read_position[i], 0);
    for (int i = 0; i < 9; i++)
        assert_int_equal(batch.token_type[i], 0);
    assert_memory_equal(batch.label, expected_labels, sizeof expected_labels);
    assert_memory_equal(batch.example, examples, sizeof examples);

    // A smaller batch in the same block; no labels, no order.
    ft_dataset unlabelled = data;
    unlabelled.label = NULL;
    assert_int_equal(ft_batch_fill(&batch, &unlabelled, NULL, 3, 2, 0), FT_OK);
    assert_int_equal(batch.sequences, 2);
    assert_int_equal(batch.tokens, 6);
    assert_int_equal(batch.longest, 4);
    assert_int_equal(batch.ids[5], 401);
    assert_int_equal(batch.label[0], 0);
    assert_int_equal(batch.label[1], 0);
    assert_int_equal(batch.cu_seqlens[2], 6);
    free(batch.storage);
}

// RoBERTa's rule: a text's own padding tokens have the row of the padding id, and nobody counts them.
static void positions_behind_the_padding(void **state) {
    int32_t text[] = {7, 1, 8, 1, 1, 9, 1, 5};
    int64_t bounds[] = {0, 6, 8};
    ft_dataset padded = {.input = &ft_text_input, .examples = 2, .sequences = 2, .tokens = 8, .ids = text, .offset = bounds};
    ft_batch batch = make_batch_behind(2, 8, PADDING_ID);
    assert_int_equal(ft_batch_fill(&batch, &padded, NULL, 0, 2, 0), FT_OK);
    assert_memory_equal(batch.position_row, ((const int32_t[]){2, 1, 3, 1, 1, 4, 1, 2}), 8 * sizeof(int32_t));
    assert_memory_equal(batch.token_position, ((const int32_t[]){0, 1, 2, 3, 4, 5, 0, 1}), 8 * sizeof(int32_t));
    free(batch.storage);
}

// The tokens of every table by row, those of a row as they stand: of rows of the table that is there, and with the filling behind.
static void tokens_in_order(void **state) {
    int32_t text[] = {5, 3, 9, 3, 5, 1, 3}, row_of[10] = {0, 7, 0, 2, 0, 1, 0, 0, 0, 4}; // rows 1 2 4 2, 1 7 2
    uint8_t types[] = {0, 0, 1, 1, 0, 1, 0};
    int64_t bounds[] = {0, 4, 7};
    ft_dataset texts = {.input = &ft_text_input, .examples = 2, .sequences = 2, .tokens = 7, .ids = text, .types = types, .offset = bounds};
    const unsigned orders = FT_ORDER_WORDS | FT_ORDER_POSITIONS | FT_ORDER_TYPES;
    ft_batch batch;
    ft_batch_format format = format_of(3, 8, FROM_0, 0, orders);
    void *storage = calloc(1, ft_batch_bytes(&format));
    assert_non_null(storage);
    ft_batch_bind(&batch, storage, &format);
    batch.row_of = row_of;
    int32_t space[8];
    assert_int_equal(ft_batch_fill(&batch, &texts, NULL, 0, 2, 0), FT_OK);
    ft_batch_put_in_order(&batch, space);
    assert_memory_equal(batch.word_order, ((const int32_t[]){0, 4, 1, 3, 6, 2, 5}), 7 * sizeof(int32_t));
    assert_memory_equal(batch.position_order, ((const int32_t[]){0, 4, 1, 5, 2, 6, 3}), 7 * sizeof(int32_t));
    assert_memory_equal(batch.type_order, ((const int32_t[]){0, 1, 4, 6, 2, 3, 5}), 7 * sizeof(int32_t));
    assert_int_equal(ft_batch_fill_up(&batch, 8, 8), FT_OK);
    ft_batch_put_in_order(&batch, space);
    assert_memory_equal(batch.word_order, ((const int32_t[]){0, 4, 1, 3, 6, 2, 5, 7}), 8 * sizeof(int32_t));
    assert_memory_equal(batch.position_order, ((const int32_t[]){0, 4, 1, 5, 2, 6, 3, 7}), 8 * sizeof(int32_t));
    assert_memory_equal(batch.type_order, ((const int32_t[]){0, 1, 4, 6, 2, 3, 5, 7}), 8 * sizeof(int32_t));
    format.orders = 0;
    ft_batch_bind(&batch, storage, &format);
    assert_int_equal(ft_batch_fill(&batch, &texts, NULL, 0, 2, 0), FT_OK);
    ft_batch_put_in_order(&batch, NULL); // none is wanted
    free(storage);
}

static void too_much_is_refused(void **state) {
    const int32_t beyond[] = {6}, negative[] = {-1};
    ft_batch batch = make_batch(2, 8);
    assert_int_equal(ft_batch_fill(&batch, &data, NULL, 0, 2, 0), FT_OK);
    assert_int_equal(ft_batch_fill(&batch, &data, NULL, 0, 3, 0), FT_FAILED);
    assert_int_equal(ft_batch_fill(&batch, &data, NULL, 1, 1, 0), FT_OK);
    assert_int_equal(ft_batch_fill(&batch, &data, NULL, 5, 1, 0), FT_FAILED);
    assert_int_equal(ft_batch_fill(&batch, &data, beyond, 0, 1, 0), FT_FAILED);
    assert_int_equal(ft_batch_fill(&batch, &data, negative, 0, 1, 0), FT_FAILED);
    assert_int_equal(batch.sequences, 1); // as it was
    assert_int_equal(batch.tokens, 5);
    assert_int_equal(batch.ids[0], 100);
    free(batch.storage);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_do_not_overlap),
        cmocka_unit_test(bind_reads_and_writes_nothing),
        cmocka_unit_test(cuts),
        cmocka_unit_test(pieces_make_the_whole),
        cmocka_unit_test(types_and_targets), cmocka_unit_test(rows_that_are_read), cmocka_unit_test(fill),
        cmocka_unit_test(positions_behind_the_padding),
        cmocka_unit_test(tokens_in_order),
        cmocka_unit_test(too_much_is_refused),
    };
    return cmocka_run_group_tests(tests, make_data, NULL);
}
