// gpu_ops.h - an op in a test: both copies of its buffers, how they are made, and how it is run. The ops' own are in
// gpu_ops_cases.c; judging and timing, in gpu_ops.c, is the same for all.
#ifndef GPU_OPS_H
#define GPU_OPS_H

#include "kernels/cuda/kernels.h"

enum { BUFFERS = 14, CPU = 0, GPU = 1, SHORT = 128, LONG = 512 }; // SHORT, LONG: tokens of a sequence

// Both copies of what an op reads and writes.
typedef struct test {
    int64_t rows, cols, inner; // inner: K of a product, width of the head's rows, ...
    int length;                // tokens of all sequences but the last: SHORT or LONG
    ft_dtype type;             // of rows
    int count;
    size_t bytes[BUFFERS];
    ft_dtype dtype[BUFFERS]; // of their numbers; FT_U8: a state
    void *at[BUFFERS][2];    // on the CPU, on the GPU
    ft_device *device[2];
    double moved, flops; // by one run
} test;

typedef ft_status run_function(test *t, int side);
typedef void setup_function(test *t);

enum { ROWS, FLOATS, HALVES }; // which types an op has: all three, fp32 alone, 16 bits alone
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

// Ends the program with the error that `status` says, if it is one.
void need(ft_status status);
// Before the devices are closed.
void gpu_ops_free_scratch(ft_device *const device[2]);

#endif
