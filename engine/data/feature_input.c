// feature_input.c - sequences as the row that a frozen trunk made of each.
#include "engine/data/batch.h"
#include "engine/data/input.h"

#include <string.h>

static int64_t length(const ft_dataset *data, int64_t sequence) { return (void)data, (void)sequence, 1; }

// The row is the only one of its sequence, and the one that is read. There is no token in it.
static void fill(const ft_dataset *data, int64_t sequence, ft_batch *batch, int32_t row) {
    const int64_t at = data->feature_row != NULL ? data->feature_row[sequence] : sequence;
    const size_t bytes = data->feature_bytes;
    batch->ids[row] = batch->token_type[row] = 0;
    memcpy((char *)batch->feature + (size_t)row * bytes, (const char *)data->feature + (size_t)at * bytes, bytes);
}

const ft_input_kind ft_feature_input = {.name = "features", .length = length, .fill = fill};
