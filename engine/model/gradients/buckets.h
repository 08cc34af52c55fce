// buckets.h - the gradients of a step in pieces that travel: each can be summed over ranks while others are still
// computed, and dealt among ranks with the state of what is trained.
//
// A bucket is a range of the gradients (gradients.h) that begins and ends where groups of parameters do, mostly. They
// stand nearly in the order in which the backward pass completes them, so a bucket is closed when it is large enough; and
// where the order is broken - DeBERTa's queries and keys are complete at the end of the step alone - so that what is
// complete early waits for nobody: of a group of queries, keys and values these then stand alone (joins). The word table
// stands alone where it can be summed by rows (word_sums.h). What is complete at the same point is one operation,
// wherever a rank is with its gradients.
#ifndef FT_BUCKETS_H
#define FT_BUCKETS_H

#include "engine/model/state/parameters.h"

// As PyTorch's DistributedDataParallel has them: the first one is small, so that the link has something to do early.
enum { FT_BUCKET_FIRST = 1 << 20, FT_BUCKET_BYTES = 25 << 20 };
// Sums of squares are of so many elements (kernels/ops/adamw.h): a part of a bucket is a multiple, so that norms do not
// depend on ranks.
enum { FT_BUCKET_CHUNK = 32768 };
enum { FT_BUCKET_PADDING = 64 }; // groups begin at multiples (parameters.h): less is behind the last one

typedef struct ft_bucket {
    int64_t first, count; // elements of the gradients
    int arrives;          // the first point at which something is
    int completes;        // the point behind which nothing is added to it
    bool late;            // the end of the step adds to it, behind all micro-batches
    bool joins;           // it goes on with the group in which the bucket in front of it ends
    bool words;           // it is the word table, which the embeddings alone add to, and nothing else
} ft_bucket;

// All of the gradients, front to back. free() *buckets. first_bytes, bytes: from which size on a bucket is closed.
ft_status ft_buckets_cut(const ft_parameters *p, size_t first_bytes, size_t bytes, ft_bucket **buckets, int *count);
// The same as a step sends them: in the order of their completion. What no bucket has - trained stores beside the first
// one - goes with the last, behind all.
ft_status ft_buckets_of_step(const ft_parameters *p, size_t first_bytes, size_t bytes, ft_bucket **buckets, int *count);
// Of the pieces of a step, how many from `at` on are complete at the same point.
int ft_buckets_at_once(const ft_bucket *buckets, int count, int at);
// Is the parameter such a table? Once its rows are known.
bool ft_bucket_is_words(const ft_parameters *p, int index);
// Elements of the part that each rank has of it: the last parts are padded, or empty but for padding.
int64_t ft_bucket_part(const ft_bucket *bucket, int ranks);

#endif
