#include "engine/data/batch.h"

#include "engine/data/input.h"
#include "kernels/ops/embedding.h"

#include <string.h>

enum { ALIGN = 256 };

static size_t aligned(size_t bytes) { return (bytes + ALIGN - 1) / ALIGN * ALIGN; }

// One walk over the layout serves both the size and the addresses, so that they cannot disagree. Addresses are computed
// as integers: `storage` may belong to a device, or be NULL when only the size is asked for.
static size_t lay_out(ft_batch *batch, uintptr_t storage, const ft_batch_format *f) {
    size_t tokens = aligned((size_t)f->tokens * sizeof(int32_t));
    size_t sequences = aligned((size_t)f->sequences * sizeof(int32_t));
    size_t bounds = aligned(((size_t)f->sequences + 1) * sizeof(int32_t));
    size_t reads = aligned((size_t)f->reads * sizeof(int32_t));
    size_t pieces = aligned((FT_BATCH_PIECES * (size_t)f->sequences + 1) * sizeof(int32_t));
    const bool several = f->most_reads != 1; // in some sequence, or none in one
    const struct {
        int32_t **array;
        size_t bytes;
        bool there;
    } layout[] = {{&batch->ids, tokens, true},
                  {&batch->token_slot, tokens, true},
                  {&batch->token_position, tokens, true},
                  {&batch->position_row, tokens, f->position_padding >= 0},
                  {&batch->token_type, tokens, true},
                  {&batch->word_order, tokens, f->orders & FT_ORDER_WORDS},
                  {&batch->position_order, tokens, f->orders & FT_ORDER_POSITIONS},
                  {&batch->type_order, tokens, f->orders & FT_ORDER_TYPES},
                  {&batch->cu_seqlens, bounds, true},
                  {&batch->read_row, reads, true},
                  {&batch->slot, sequences, true},
                  {&batch->read_slot, reads, several},
                  {&batch->read_position, reads, true},
                  {&batch->cu_reads, bounds, true},
                  {&batch->cu_pieces, pieces, f->pieces},
                  {&batch->label, reads, true},
                  {&batch->other_label, reads, f->mixed}};
    size_t at = 0;
    for (size_t i = 0; i < sizeof layout / sizeof *layout; i++) {
        *layout[i].array = layout[i].there ? (int32_t *)(storage + at) : NULL;
        if (layout[i].there) at += layout[i].bytes;
    }
    if (f->position_padding < 0) batch->position_row = batch->token_position;
    if (!several) batch->read_slot = batch->slot;
    batch->share = f->mixed ? (float *)(storage + at) : NULL;
    if (f->mixed) at += reads;
    batch->target = (float *)(storage + at);
    at += aligned((size_t)f->reads * (size_t)f->targets * sizeof(float));
    batch->patch = (void *)(storage + at);
    at += aligned((size_t)f->tokens * (size_t)f->patch_numbers * ft_dtype_size(f->patch_type));
    batch->feature = (void *)(storage + at);
    at += aligned((size_t)f->reads * f->feature_bytes);
    batch->example = (int64_t *)(storage + at);
    return at + aligned((size_t)f->sequences * sizeof(int64_t));
}

size_t ft_batch_bytes(const ft_batch_format *format) {
    ft_batch scratch;
    return lay_out(&scratch, 0, format);
}

void ft_batch_bind(ft_batch *batch, void *storage, const ft_batch_format *format) {
    memset(batch, 0, sizeof *batch);
    lay_out(batch, (uintptr_t)storage, format);
    batch->format = *format;
    batch->storage = storage;
}

static int64_t sequence_at(const int32_t *order, int64_t index) { return order != NULL ? order[index] : index; }

int64_t ft_batch_cut(const ft_dataset *data, const int32_t *order, int64_t first, int64_t last,
                     ft_batch_limits limits) {
    // Without a limit the batch still has to be counted in int32.
    int64_t most_tokens = limits.max_tokens > 0 && limits.max_tokens < INT32_MAX ? limits.max_tokens : INT32_MAX;
    int64_t most = limits.max_sequences > 0 && limits.max_sequences < INT32_MAX ? limits.max_sequences : INT32_MAX - 1;
    int64_t count = 0, tokens = 0;
    while (first + count < last && count < most) {
        tokens += ft_dataset_length(data, sequence_at(order, first + count));
        if (count > 0 && tokens > most_tokens) break;
        count++;
    }
    return count;
}

// Positions behind those up to the padding id's, which belong to nobody; a padding token within the text does not count.
static void count_positions(ft_batch *batch, int32_t row, int32_t length) {
    const int32_t padding = batch->format.position_padding;
    for (int32_t i = row, next = padding; i < row + length; i++)
        batch->position_row[i] = batch->ids[i] == padding ? padding : ++next;
}

// The rows that a run holds were counted over its texts: a token without one is an error of the program.
static ft_status take_rows(ft_batch *batch, int32_t tokens) {
    if (batch->row_of == NULL) return FT_OK;
    for (int32_t i = 0; i < tokens; i++) {
        int32_t id = batch->ids[i];
        batch->ids[i] = batch->row_of[id];
        if (batch->ids[i] < 0) return ft_fail(FT_FAILED, NULL, "token %d has no row in the table of this run", id);
    }
    return FT_OK;
}

// Lists a row of sequence `index`, which begins at `row`, behind the rows that are read already.
static void list_read(ft_batch *batch, int32_t at, int32_t index, int32_t row, int32_t position) {
    batch->read_row[at] = row + position;
    batch->read_slot[at] = batch->slot[index];
    batch->read_position[at] = position;
    if (!batch->format.mixed) return;
    batch->other_label[at] = 0;
    batch->share[at] = 1;
}

// What is to be learned of a read row: of a text, the same of all, or of the row itself.
static void set_label(ft_batch *batch, int32_t at, const ft_dataset *data, int64_t example, int64_t labelled) {
    const size_t targets = (size_t)batch->format.targets;
    batch->label[at] = data->label != NULL ? data->label[labelled] : 0;
    if (targets == 0) return;
    float *row = batch->target + (size_t)at * targets;
    const float *target = ft_dataset_target(data, example, row);
    if (target == NULL) memset(row, 0, targets * sizeof *row);
    else if (target != row) memcpy(row, target, targets * sizeof *row);
}

// The rows of sequence `index` that are read, with their labels: its first (or last), or those that the data set lists.
static void list_reads(ft_batch *batch, int32_t index, int32_t row, const ft_dataset *data, int64_t sequence) {
    const int64_t example = ft_dataset_example(data, sequence), reads = ft_dataset_reads(data, sequence);
    const int64_t first = data->first_read != NULL ? data->first_read[sequence] : 0;
    for (int64_t i = 0; i < reads; i++) {
        const int32_t at = batch->cu_reads[index] + (int32_t)i;
        const int32_t plain = batch->format.reads_last && data->first_read == NULL && data->input != NULL ? (int32_t)ft_dataset_length(data, sequence) - 1 : (int32_t)i;
        list_read(batch, at, index, row, data->read_position != NULL ? data->read_position[first + i] : plain);
        set_label(batch, at, data, example, data->first_read != NULL ? first + i : example);
    }
    batch->cu_reads[index + 1] = batch->cu_reads[index] + (int32_t)reads;
    if (reads > batch->most_reads) batch->most_reads = (int32_t)reads;
}

// Of sequence `index`, which begins at `row`; of the next one these bounds begin with its end.
static void list_pieces(ft_batch *batch, int32_t index, int32_t row, int32_t length) {
    if (!batch->format.pieces) return;
    int32_t *bounds = batch->cu_pieces + (int64_t)FT_BATCH_PIECES * index;
    bounds[0] = row;
    bounds[1] = row + 1;
    bounds[2] = row + length;
}

ft_status ft_batch_fill(ft_batch *batch, const ft_dataset *data, const int32_t *order, int64_t first, int64_t count,
                        int32_t first_slot) {
    if (count < 0 || count > batch->format.sequences)
        return ft_fail(FT_FAILED, NULL, "a batch for %d sequences cannot hold %lld", batch->format.sequences,
                       (long long)count);
    int64_t tokens = 0, reads = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t sequence = sequence_at(order, first + i);
        if (sequence < 0 || sequence >= data->sequences)
            return ft_fail(FT_FAILED, NULL, "sequence %lld of a data set of %lld was asked for", (long long)sequence,
                           (long long)data->sequences);
        tokens += ft_dataset_length(data, sequence);
        reads += ft_dataset_reads(data, sequence);
    }
    if (reads > batch->format.reads)
        return ft_fail(FT_FAILED, NULL, "a batch for %d rows that are read cannot hold %lld", batch->format.reads, (long long)reads);
    if ((data->target != NULL || data->sets.first != NULL) && data->targets != batch->format.targets)
        return ft_fail(FT_FAILED, NULL, "a batch with %d targets a text cannot hold %d", batch->format.targets, data->targets);
    if (data->feature_bytes != batch->format.feature_bytes || (data->feature_bytes > 0 && data->feature == NULL))
        return ft_fail(FT_FAILED, NULL, "a batch for rows of %zu bytes cannot hold rows of %zu", batch->format.feature_bytes,
                       data->feature_bytes);
    if (tokens > batch->format.tokens)
        return ft_fail(FT_FAILED, NULL, "a batch for %d tokens cannot hold %lld", batch->format.tokens,
                       (long long)tokens);

    int32_t row = 0, longest = 0;
    batch->cu_reads[0] = 0;
    batch->most_reads = 1;
    for (int64_t i = 0; i < count; i++) {
        int64_t sequence = sequence_at(order, first + i);
        int32_t length = (int32_t)ft_dataset_length(data, sequence), slot = first_slot + (int32_t)i;
        batch->cu_seqlens[i] = row;
        batch->slot[i] = slot;
        list_reads(batch, (int32_t)i, row, data, sequence);
        batch->example[i] = sequence;
        list_pieces(batch, (int32_t)i, row, length);
        data->input->fill(data, sequence, batch, row);
        for (int32_t position = 0; position < length; position++) {
            batch->token_slot[row + position] = slot;
            batch->token_position[row + position] = position;
        }
        if (batch->format.position_padding >= 0) count_positions(batch, row, length);
        row += length;
        if (length > longest) longest = length;
    }
    batch->cu_seqlens[count] = row;
    batch->sequences = (int32_t)count;
    batch->reads = batch->cu_reads[count];
    batch->tokens = row;
    batch->longest = longest;
    batch->filler = 0;
    return take_rows(batch, row);
}

static int32_t up_to(int32_t value, int32_t multiple) { return (value + multiple - 1) / multiple * multiple; }

// Of each table the last row that the batch reads: sums over the tokens of a row are made in the order of rows, and are cut as they
// are without the filling when that stands behind everything else.
static void fill_behind(int32_t *array, int32_t tokens, int32_t filler) {
    int32_t last = array[0];
    for (int32_t i = 1; i < tokens; i++)
        if (array[i] > last) last = array[i];
    for (int32_t i = 0; i < filler; i++) array[tokens + i] = last;
}

ft_status ft_batch_fill_up(ft_batch *batch, int32_t multiple, int32_t longest) {
    const int32_t first = batch->tokens, sequence = batch->sequences, filler = up_to(first, multiple) - first;
    if (sequence == 0) return FT_OK;
    if (filler > 0 && (sequence == batch->format.sequences || first + filler > batch->format.tokens))
        return ft_fail(FT_FAILED, NULL, "a batch for %d sequences and %d tokens cannot be filled up from %d and %d",
                       batch->format.sequences, batch->format.tokens, sequence, first);
    fill_behind(batch->ids, first, filler); // rows of the table by now
    fill_behind(batch->token_slot, first, filler);
    fill_behind(batch->token_position, first, filler);
    fill_behind(batch->token_type, first, filler);
    if (batch->format.position_padding >= 0) fill_behind(batch->position_row, first, filler);
    const int32_t rounded = up_to(batch->longest > filler ? batch->longest : filler, multiple);
    batch->longest = rounded < longest ? rounded : longest;
    batch->filler = filler;
    if (filler == 0) return FT_OK;
    batch->slot[sequence] = batch->slot[sequence - 1];
    if (batch->cu_reads[sequence] + FT_FILLER_READS > batch->format.reads)
        return ft_fail(FT_FAILED, NULL, "a batch for %d rows that are read has none left to be filled up", batch->format.reads);
    list_reads(batch, sequence, first, &(ft_dataset){0}, 0);
    list_pieces(batch, sequence, first, filler);
    batch->example[sequence] = batch->example[sequence - 1];
    batch->cu_seqlens[sequence + 1] = first + filler;
    batch->sequences = sequence + 1;
    batch->reads = batch->cu_reads[sequence + 1];
    batch->tokens = first + filler;
    return FT_OK;
}

void ft_batch_put_in_order(ft_batch *batch, int32_t *space) {
    const struct {
        const int32_t *rows;
        int32_t *order;
    } all[] = {{batch->ids, batch->word_order}, {batch->position_row, batch->position_order}, {batch->token_type, batch->type_order}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].order != NULL) ft_embedding_order(all[i].rows, batch->tokens, all[i].order, space);
}
