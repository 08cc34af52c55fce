// buckets.h - the gradients of a step in pieces that travel: each can be summed over ranks while others are still
// computed, and dealt among ranks with the state of what is trained.
//
// A bucket is a range of the gradients (gradients.h) that begins and ends where groups of parameters do. They stand
// nearly in the order in which the backward pass completes them, so a bucket is closed when it is large enough; and
// where the order is broken - DeBERTa's queries and keys are complete at the end of the step alone - so that what is
// complete early waits for nobody.
#ifndef FT_BUCKETS_H
#define FT_BUCKETS_H

#include "engine/model/state/parameters.h"

// As PyTorch's DistributedDataParallel has them: the first one is small, so that the link has something to do early.
enum { FT_BUCKET_FIRST = 1 << 20, FT_BUCKET_BYTES = 25 << 20 };
// Sums of squares are of so many elements (kernels/ops/adamw.h): a part of a bucket is a multiple, so that norms do not
// depend on ranks.
enum { FT_BUCKET_CHUNK = 32768 };

typedef struct ft_bucket {
    int64_t first, count; // elements of the gradients
    int arrives;          // the first point at which something is
    int completes;        // the point behind which nothing is added to it
    bool late;            // the end of the step adds to it, behind all micro-batches
} ft_bucket;

// All of the gradients, front to back. free() *buckets. first_bytes, bytes: from which size on a bucket is closed.
ft_status ft_buckets_cut(const ft_parameters *p, size_t first_bytes, size_t bytes, ft_bucket **buckets, int *count);
// The same as a step sends them: in the order of their completion. What no bucket has - trained stores beside the first
// one - goes with the last, behind all.
ft_status ft_buckets_of_step(const ft_parameters *p, size_t first_bytes, size_t bytes, ft_bucket **buckets, int *count);
// Elements of the part that each rank has of it: the last parts are padded, or empty but for padding.
int64_t ft_bucket_part(const ft_bucket *bucket, int ranks);

#endif
