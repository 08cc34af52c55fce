// gpu_ops.h - an op in a test: both copies of its buffers, how they are made (gpu_ops_buffers.h), and how it is run. The ops' own are in
// gpu_ops_cases.c and the files that it names; judging and timing, in gpu_ops.c, is the same for all. Attention's paths beside each other: gpu_ops_attention.c.
#ifndef GPU_OPS_H
#define GPU_OPS_H

#include "kernels/cuda/kernels.h"

#include <stdio.h>

enum { BUFFERS = 16, CPU = 0, GPU = 1, SHORT = 128, LONG = 512 }; // SHORT, LONG: tokens of a sequence

// Both copies of what an op reads and writes.
typedef struct test {
    int64_t rows, cols, inner; // inner: K of a product, width of the head's rows, size of an attention head where it divides cols, ...
    int length;                // tokens of all sequences but the last: SHORT or LONG; of the longest, where they are ragged
    enum { EVEN, RAGGED, FIRST_TOKENS } layout; // of sequences; FIRST_TOKENS: ragged ones, of which the first token alone asks
    int window;                // of attention; 0: none
    ft_dtype type;             // of rows
    int count;
    size_t bytes[BUFFERS];
    ft_dtype dtype[BUFFERS]; // of their numbers; FT_U8: a state
    void *at[BUFFERS][2];    // on the CPU, on the GPU
    int tails;               // of numbers in two halves (kernels/split.h) the buffer of the second ones, behind that of the first; 0: none
    ft_device *device[2];
    double moved, flops; // by one run
} test;

typedef ft_status run_function(test *t, int side);
typedef void setup_function(test *t);

enum { ROWS, ROWS_UNTIMED, FLOATS, HALVES }; // which types an op has: all three, twice; fp32 alone, 16 bits alone
typedef struct gpu_op {
    const char *name;
    setup_function *setup;
    run_function *run;
    double tolerance; // of an element in fp32, relative to the largest of its buffer
    int types;
    int units; // of 16 bits: in the last place, that both may be apart beyond the tolerance, of the largest element
} gpu_op;
extern const gpu_op gpu_ops[];
extern const int gpu_op_count;

// Those of gpu_ops_attention_cases.c.
setup_function gpu_ops_attention_setup, gpu_ops_attention_backward_setup, gpu_ops_window_setup, gpu_ops_window_backward_setup;
setup_function gpu_ops_disentangled_setup, gpu_ops_disentangled_backward_setup, gpu_ops_ragged_setup, gpu_ops_ragged_backward_setup;
setup_function gpu_ops_pooled_setup, gpu_ops_pooled_backward_setup;
run_function gpu_ops_attention_forward, gpu_ops_attention_backward, gpu_ops_disentangled_forward, gpu_ops_disentangled_backward;

// Those of gpu_ops_magnitude.c.
setup_function gpu_ops_row_norm_setup, gpu_ops_column_scale_setup;
run_function gpu_ops_row_norm, gpu_ops_column_scale, gpu_ops_column_scale_times;

// Those of gpu_ops_segments.c.
setup_function gpu_ops_segment_product_setup;
run_function gpu_ops_segment_forward, gpu_ops_segment_weight;

// Ends the program with the error that `status` says, if it is one.
void need(ft_status status);

// The next buffer of a test, with the same bytes, or the same numbers of mean +- spread, on both sides: its place.
int gpu_ops_add_bytes(test *t, size_t bytes, ft_dtype dtype, const void *from);
int gpu_ops_add_numbers(test *t, ft_dtype dtype, int64_t n, double mean, double spread);
void gpu_ops_release(test *t);
// One scratch a side, as large as the largest: timing must not measure how it is taken. Freed before the devices are closed.
ft_workspace gpu_ops_scratch(ft_device *device, int side, size_t bytes);
void gpu_ops_free_scratch(ft_device *const device[2]);

// Number k of a buffer. Integers must be equal, which they are as the floats of their bits too.
float gpu_ops_number(ft_dtype dtype, const void *data, size_t k);
// What an element of rows of that op may be off by, relative to the largest of its buffer.
double gpu_ops_allowed(const char *op, ft_dtype type);

typedef struct gpu_ops_report {
    FILE *csv, *json; // NULL: not wanted
    int cases, wrong;
    const char *isa; // of a CPU that is timed: the peak beside it is that of its vectors
} gpu_ops_report;

typedef struct gpu_ops_attention_options {
    int64_t tokens;           // of timed cases
    ft_dtype type;            // FT_F32: both, the timed ones in bf16
    const char *candidate;    // what is judged beside mma: wgmma (or NULL), owner, tcgen05
    const char *path;         // NULL: both, timed in turns
    const char *const *names; // of layouts; none: all
    int name_count;
} gpu_ops_attention_options;
void gpu_ops_attention(gpu_ops_report *r, ft_device *cpu, ft_device *gpu, const gpu_ops_attention_options *o);

#endif
