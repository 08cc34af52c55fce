// An input of another kind than texts: batches are cut and filled by its own lengths and rows, and it is built and closed as it is opened.
#include "engine/data/batch.h"
#include "engine/data/input.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

// Sequence n has n + 1 rows, and each of them the id 10 n.
typedef struct steps {
    int64_t sequences;
    int closed;
} steps;
static steps made;

static ft_status open_steps(const ft_input_request *request, void **own) {
    made = (steps){.sequences = atoi(request->directory)};
    *own = made.sequences > 0 ? &made : NULL;
    return *own != NULL ? FT_OK : ft_fail(FT_INVALID, request->directory, "no steps");
}

static void close_steps(void *own) {
    if (own != NULL) ((steps *)own)->closed++;
}

static ft_input_sizes sizes(const void *own) {
    const int64_t n = ((const steps *)own)->sequences;
    return (ft_input_sizes){.vocabulary = 10 * n, .longest = n};
}

static const char *digest(const void *own) { return "steps"; }

static const char *const *files(const void *own) {
    static const char *const names[] = {"steps.json", NULL};
    return names;
}

static ft_status build(const void *own, const ft_input_wanted *wanted, ft_dataset *dataset, bool *from_cache) {
    const int64_t n = ((const steps *)own)->sequences;
    if (wanted->max_length < n) return ft_fail(FT_INVALID, wanted->path, "too long");
    *dataset = (ft_dataset){.examples = n, .sequences = n, .tokens = n * (n + 1) / 2, .longest = (int32_t)n};
    return FT_OK;
}

static int64_t length(const ft_dataset *data, int64_t sequence) { return sequence + 1; }

static void fill(const ft_dataset *data, int64_t sequence, ft_batch *batch, int32_t row) {
    for (int64_t i = 0; i <= sequence; i++) batch->ids[row + i] = (int32_t)(10 * sequence), batch->token_type[row + i] = 0;
}

static const ft_input_kind kind = {.name = "steps", .open = open_steps, .close = close_steps, .sizes = sizes, .digest = digest,
                                   .files = files, .build = build, .length = length, .fill = fill};

static void batches_by_its_own_rows(void **state) {
    ft_input input;
    ft_dataset data;
    ft_batch batch;
    assert_int_equal(ft_input_open(&kind, &(ft_input_request){.directory = "4"}, &input), FT_OK);
    assert_int_equal(ft_input_sizes_of(&input).vocabulary, 40);
    assert_string_equal(ft_input_digest(&input), "steps");
    assert_string_equal(ft_input_files(&input)[0], "steps.json");
    assert_int_equal(ft_input_build(&input, &(ft_input_wanted){.path = "s", .max_length = 3}, &data, NULL), FT_INVALID);
    assert_int_equal(ft_input_build(&input, &(ft_input_wanted){.path = "s", .max_length = 4}, &data, NULL), FT_OK);
    assert_ptr_equal(data.input, &kind);

    const int32_t order[] = {3, 0, 2, 1};
    assert_int_equal(ft_batch_cut(&data, order, 0, 4, (ft_batch_limits){.max_tokens = 7}), 2); // 4 + 1 rows, 3 more are too many
    const ft_batch_format format = {.sequences = 2, .tokens = 5, .reads = 2, .most_reads = 1, .position_padding = -1};
    void *storage = calloc(1, ft_batch_bytes(&format));
    assert_non_null(storage);
    ft_batch_bind(&batch, storage, &format);
    assert_int_equal(ft_batch_fill(&batch, &data, order, 0, 2, 0), FT_OK);
    assert_memory_equal(batch.ids, ((const int32_t[]){30, 30, 30, 30, 0}), 5 * sizeof(int32_t));
    assert_memory_equal(batch.token_position, ((const int32_t[]){0, 1, 2, 3, 0}), 5 * sizeof(int32_t));
    assert_memory_equal(batch.cu_seqlens, ((const int32_t[]){0, 4, 5}), 3 * sizeof(int32_t));
    assert_memory_equal(batch.read_row, ((const int32_t[]){0, 4}), 2 * sizeof(int32_t));
    free(storage);
    ft_input_close(&input);
    ft_input_close(&input); // once is enough
    assert_int_equal(made.closed, 1);
}

static void none_is_open(void **state) {
    ft_input input;
    assert_int_equal(ft_input_open(&kind, &(ft_input_request){.directory = "0"}, &input), FT_INVALID);
    ft_input_close(&input);
    const ft_input_sizes nothing = ft_input_sizes_of(&input);
    assert_true(nothing.vocabulary == 0 && nothing.longest == 0 && !nothing.windows);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(batches_by_its_own_rows), cmocka_unit_test(none_is_open)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
