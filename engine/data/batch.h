// batch.h - packed micro-batches: the sequences of one effective batch laid end to end, no padding.
#ifndef FT_BATCH_H
#define FT_BATCH_H

#include "engine/data/dataset.h"
#include "kernels/dtype.h"

// Tables of embeddings whose gradients want the tokens by row (kernels/ops/embedding.h), a bit each.
enum { FT_ORDER_WORDS = 1, FT_ORDER_POSITIONS = 2, FT_ORDER_TYPES = 4 };

// The sequence that fills a batch up is read at so many of its rows.
enum { FT_FILLER_READS = 1 };

// Pieces of a sequence whose means stand side by side: its first row, and the others.
enum { FT_BATCH_PIECES = 2 };

// What a batch has room for, and which of its arrays are there.
typedef struct ft_batch_format {
    int32_t sequences, tokens;
    int32_t reads, most_reads; // rows that are read, in all and of one sequence
    int32_t targets;           // numbers a read row, of tasks that have them (train.task); 0: none
    int32_t position_padding;  // -1, or RoBERTa's rule: tokens of this id have its row, the others the rows behind it
    bool reads_last;           // of a sequence without a list of rows that are read the last one is, else the first
    unsigned orders;           // which orders the batch has
    size_t feature_bytes;      // of a read row, where a frozen trunk made it already; 0: the batch has tokens
    int64_t patch_numbers;     // of every row, of pictures; 0: the batch has none
    ft_dtype patch_type;
    bool pieces;               // its sequences have bounds of pieces
    bool mixed;                // its rows have a second label
} ft_batch_format;

// One micro-batch on the host. Its sequences are computed in all their tokens, but only some rows are read: those go through the
// head, and each has a label. They are a list, in the order of the sequences. slot: index of the sequence within the effective
// batch (the dropout key).
typedef struct ft_batch {
    int32_t sequences, tokens, longest;
    int32_t reads, most_reads; // rows that are read, in all and of one sequence
    int32_t filler;           // tokens of the last sequence, when that belongs to no text and fills the batch up; else 0
    int32_t *ids;             // [tokens]
    int32_t *token_slot;      // [tokens]
    int32_t *token_position;  // [tokens] position in its sequence
    int32_t *position_row;    // [tokens] row of a position table: token_position itself, or see position_padding
    int32_t *token_type;      // [tokens] 0, and 1 in the second text of a pair
    int32_t *word_order;      // [tokens] the tokens by `ids`, as ft_embedding_order has them; NULL: not in `orders`
    int32_t *position_order;  // [tokens] by position_row
    int32_t *type_order;      // [tokens] by token_type
    int32_t *cu_seqlens;      // [sequences + 1]
    int32_t *slot;            // [sequences]
    int32_t *read_row;        // [reads] which row each is
    int32_t *read_slot;       // [reads] of its sequence; `slot` itself where every sequence has one
    int32_t *read_position;   // [reads] in its sequence
    int32_t *cu_reads;        // [sequences + 1] what cu_seqlens is of the rows that are read
    int32_t *label;           // [reads]; 0 when unlabelled
    int32_t *other_label;     // [reads] a second label (picture_feed.h); NULL: not asked for
    float *share;             // [reads] of the first label where there is a second one: 1 unless somebody says else
    float *target;            // [reads, targets]; 0 when the data has none
    int32_t *cu_pieces;       // [2 * sequences + 1] what cu_seqlens is of the pieces of sequences; NULL: not asked for
    void *patch;              // [tokens, patch_numbers] of patch_type: what a linear layer makes a row of; zeros where there is no patch
    void *feature;            // [reads] rows of feature_bytes: what the head reads of each
    int64_t *example;         // [sequences] index of the sequence in the data set; last in storage, behind what a device needs
    ft_batch_format format;
    const int32_t *row_of;    // host, of an id: its row in the table of word embeddings, which `ids` then holds; -1: there is none.
                              // NULL: the id itself. Not the batch's
    const struct ft_picture_feed *feed; // host: pictures as they stand in this epoch (picture_feed.h); NULL: as they lie in the data set. Not the batch's
    void *storage; // all arrays, in one block of ft_batch_bytes(): one copy brings them to a device
} ft_batch;

// How an effective batch is cut: as many sequences, in order, as fit both limits; a sequence longer than max_tokens
// stands alone. 0 = no limit.
typedef struct ft_batch_limits {
    int64_t max_tokens, max_sequences;
} ft_batch_limits;

// Bytes of a block that holds a batch of this format; every array begins at a multiple of 256.
size_t ft_batch_bytes(const ft_batch_format *format);
// Lays the arrays into `storage` (the caller's, of ft_batch_bytes()). The same call on a device address gives the
// device pointers of the uploaded image.
void ft_batch_bind(ft_batch *batch, void *storage, const ft_batch_format *format);

// How many of order[first .. last) make the next micro-batch (at least 1 when first < last). order NULL: 0, 1, 2, ...
int64_t ft_batch_cut(const ft_dataset *data, const int32_t *order, int64_t first, int64_t last, ft_batch_limits limits);
// Fills `batch` with order[first .. first + count); slots count from first_slot. Too small a capacity: FT_FAILED, and
// the batch is as before. A token without a row is FT_FAILED too.
ft_status ft_batch_fill(ft_batch *batch, const ft_dataset *data, const int32_t *order, int64_t first, int64_t count,
                        int32_t first_slot);
// Fills a batch up to a multiple of `multiple` tokens by one sequence more, of tokens that it has already, so that batches of
// many sizes have one shape. Nobody wants its loss, and its logits get no gradient (loss.c). longest becomes a multiple too, as far as
// `longest` goes, and no smaller than the sequence.
ft_status ft_batch_fill_up(ft_batch *batch, int32_t multiple, int32_t longest);
// Puts the tokens of a filled batch in its orders. `space` is [tokens] of scratch.
void ft_batch_put_in_order(ft_batch *batch, int32_t *space);

#endif
