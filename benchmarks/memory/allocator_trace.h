// allocator_trace.h - what an eager framework asks of its allocator while it fine-tunes a BERT on texts of real
// lengths: the same requests, in the same order, every time. Nothing here knows of the layout of steps by which
// ftengine itself avoids these requests.
//
// Lengths: word pieces (bert-base-uncased, [CLS] and [SEP] included) of the training sentences of TREC and of SST-2,
// counted with transformers' tokenizer. Every epoch draws all of them without replacement, in another order. Tensors
// are fp32: per layer those of query, key and value, a fused attention (output and log-sum-exp), projection, dropout
// with a byte mask, residual, LayerNorm with its statistics, the feed-forward pair and GELU; autograd keeps what
// backward reads and drops the rest at once; weight gradients are new in every step and go after it (set_to_none);
// AdamW has two moments and, in its multi-tensor form, one temporary a parameter.
#ifndef FT_BENCH_ALLOCATOR_TRACE_H
#define FT_BENCH_ALLOCATOR_TRACE_H

#include "base/arena.h"
#include "base/status.h"

#include <stdint.h>
#include <stdlib.h>

enum { TRACE_PARAMETERS = 256, TRACE_GRADIENTS = 256, TRACE_LAYERS = 12, TRACE_LENGTHS = 8192 };

// sentences of n word pieces, from n = 0
static const int trec_lengths[] = {0,   0,   0,   0,   0,   1,   48,  171, 309, 461, 514, 560, 560, 510,
                                   488, 392, 291, 243, 215, 160, 125, 96,  79,  55,  43,  27,  22,  21,
                                   14,  9,   11,  4,   5,   4,   5,   1,   2,   2,   1,   1,   1,   1};
static const int sst2_lengths[] = {0,   0,   0,   0,   16,  44,  66,  77,  107, 128, 149, 173, 171, 199, 195, 190, 209,
                                   208, 235, 240, 245, 212, 240, 234, 223, 228, 223, 205, 221, 210, 184, 169, 162, 167,
                                   165, 137, 140, 124, 114, 84,  91,  90,  72,  78,  85,  49,  51,  46,  42,  30,  19,
                                   23,  26,  29,  16,  13,  18,  9,   7,   9,   4,   4,   1,   7,   1,   1,   1,   0,
                                   0,   1,   0,   1,   0,   0,   0,   0,   0,   0,   1,   0,   1};

typedef struct trace_model {
    int layers, hidden, inner, heads, vocabulary, labels;
} trace_model;

typedef struct trace_data {
    const char *name;
    const int *histogram;
    int longest;
} trace_data;

// events[i] >= 0: request of that number, bytes[number]; < 0: ~events[i] goes.
typedef struct trace {
    int32_t *events;
    size_t *bytes;
    int32_t count, capacity, requests, request_capacity, steps;
    size_t live, peak; // requested bytes
    ft_status status;  // of the host's memory
} trace;

static int32_t trace_ask(trace *t, size_t bytes) {
    if (t->status != FT_OK) return 0;
    if (t->requests == t->request_capacity) {
        int32_t capacity = t->requests ? 2 * t->requests : 4096;
        size_t *grown = ft_realloc(t->bytes, (size_t)capacity, sizeof *grown, "the trace");
        if (grown == NULL) return t->status = FT_NO_MEMORY, 0;
        t->bytes = grown;
        t->request_capacity = capacity;
    }
    if (t->count + 1 >= t->capacity) {
        int32_t capacity = t->capacity ? 2 * t->capacity : 8192;
        int32_t *grown = ft_realloc(t->events, (size_t)capacity, sizeof *grown, "the trace");
        if (grown == NULL) return t->status = FT_NO_MEMORY, 0;
        t->events = grown;
        t->capacity = capacity;
    }
    t->bytes[t->requests] = bytes;
    t->events[t->count++] = t->requests;
    t->live += bytes;
    if (t->peak < t->live) t->peak = t->live;
    return t->requests++;
}

static void trace_drop(trace *t, int32_t request) {
    if (t->status != FT_OK) return;
    if (t->count == t->capacity) {
        int32_t *grown = ft_realloc(t->events, 2 * (size_t)t->capacity, sizeof *grown, "the trace");
        if (grown == NULL) {
            t->status = FT_NO_MEMORY;
            return;
        }
        t->events = grown;
        t->capacity *= 2;
    }
    t->events[t->count++] = ~request;
    t->live -= t->bytes[request];
}

static void trace_free(trace *t) {
    free(t->events);
    free(t->bytes);
}

// ---- a model ----------------------------------------------------------------------------------------------------

typedef struct trace_run {
    trace *t;
    trace_model m;
    size_t parameter_bytes[TRACE_PARAMETERS];
    int parameters;
    int32_t gradients[TRACE_GRADIENTS];
    int gradient_count;
    bool moments;
    size_t tokens, sequences, longest; // of the batch; padded: tokens = sequences x longest
    bool packed;
} trace_run;

// What a layer keeps for its backward.
typedef struct trace_layer {
    int32_t x, q, k, v, attention, lse, mask, sum, mean, rstd, y, f1, gelu, mask2, sum2, mean2, rstd2;
} trace_layer;

static size_t th(const trace_run *r) { return r->tokens * (size_t)r->m.hidden * 4; }
static size_t ti(const trace_run *r) { return r->tokens * (size_t)r->m.inner * 4; }

static void parameter(trace_run *r, size_t elements) {
    r->parameter_bytes[r->parameters++] = elements * 4;
    (void)trace_ask(r->t, elements * 4);
}

static void trace_open(trace_run *r, trace *t, const trace_model *m) {
    *r = (trace_run){.t = t, .m = *m};
    size_t h = (size_t)m->hidden, inner = (size_t)m->inner;
    parameter(r, (size_t)m->vocabulary * h);
    parameter(r, 512 * h);
    parameter(r, 2 * h);
    parameter(r, h), parameter(r, h);
    for (int l = 0; l < m->layers; l++) {
        for (int i = 0; i < 4; i++)
            parameter(r, h * h), parameter(r, h); // query, key, value, projection
        parameter(r, h), parameter(r, h);
        parameter(r, inner * h), parameter(r, inner);
        parameter(r, inner * h), parameter(r, h);
        parameter(r, h), parameter(r, h);
    }
    parameter(r, h * h), parameter(r, h);
    parameter(r, h * (size_t)m->labels), parameter(r, (size_t)m->labels);
}

static void gradient(trace_run *r, size_t elements) {
    r->gradients[r->gradient_count++] = trace_ask(r->t, elements * 4);
}

// x -> LayerNorm(x + Dropout(y)); y goes. Returns the output.
static int32_t add_norm(trace_run *r, int32_t y, int32_t *mask, int32_t *sum, int32_t *mean, int32_t *rstd) {
    trace *t = r->t;
    int32_t dropped = trace_ask(t, th(r));
    *mask = trace_ask(t, th(r) / 4);
    trace_drop(t, y);
    *sum = trace_ask(t, th(r));
    trace_drop(t, dropped);
    int32_t out = trace_ask(t, th(r));
    *mean = trace_ask(t, r->tokens * 4);
    *rstd = trace_ask(t, r->tokens * 4);
    return out;
}

static int32_t layer_forward(trace_run *r, trace_layer *s, int32_t x) {
    trace *t = r->t;
    s->x = x;
    s->q = trace_ask(t, th(r));
    s->k = trace_ask(t, th(r));
    s->v = trace_ask(t, th(r));
    s->attention = trace_ask(t, th(r));
    size_t rows = r->packed ? r->tokens : r->sequences * ((r->longest + 31) / 32 * 32);
    s->lse = trace_ask(t, rows * (size_t)r->m.heads * 4);
    s->y = add_norm(r, trace_ask(t, th(r)), &s->mask, &s->sum, &s->mean, &s->rstd);
    s->f1 = trace_ask(t, ti(r));
    s->gelu = trace_ask(t, ti(r));
    return add_norm(r, trace_ask(t, th(r)), &s->mask2, &s->sum2, &s->mean2, &s->rstd2);
}

static void layer_forget(trace_run *r, const trace_layer *s) {
    const int32_t kept[] = {s->x,    s->q, s->k,  s->v,    s->attention, s->lse,  s->mask,  s->sum,  s->mean,
                            s->rstd, s->y, s->f1, s->gelu, s->mask2,     s->sum2, s->mean2, s->rstd2};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        trace_drop(r->t, kept[i]);
}

// Backward of add_norm: *residual is the gradient of the sum, the result that of y.
static int32_t norm_backward(trace_run *r, int32_t dy, int32_t mask, int32_t sum, int32_t mean, int32_t rstd,
                             int32_t *residual) {
    trace *t = r->t;
    *residual = trace_ask(t, th(r));
    gradient(r, (size_t)r->m.hidden), gradient(r, (size_t)r->m.hidden);
    trace_drop(t, dy), trace_drop(t, sum), trace_drop(t, mean), trace_drop(t, rstd);
    int32_t d = trace_ask(t, th(r));
    trace_drop(t, mask);
    return d;
}

// Backward of y = x W: the gradient of x, of `bytes`.
static int32_t linear_backward(trace_run *r, int32_t dy, size_t bytes, size_t in, size_t out) {
    int32_t dx = trace_ask(r->t, bytes);
    gradient(r, in * out), gradient(r, out);
    trace_drop(r->t, dy);
    return dx;
}

static int32_t sum_of(trace_run *r, int32_t a, int32_t b) {
    int32_t sum = trace_ask(r->t, th(r));
    trace_drop(r->t, a), trace_drop(r->t, b);
    return sum;
}

static int32_t layer_backward(trace_run *r, const trace_layer *s, int32_t dy) {
    trace *t = r->t;
    size_t h = (size_t)r->m.hidden, inner = (size_t)r->m.inner;
    int32_t residual, d = norm_backward(r, dy, s->mask2, s->sum2, s->mean2, s->rstd2, &residual);
    d = linear_backward(r, d, ti(r), inner, h);
    trace_drop(t, s->gelu);
    int32_t df1 = trace_ask(t, ti(r));
    trace_drop(t, d), trace_drop(t, s->f1);
    d = linear_backward(r, df1, th(r), h, inner);
    trace_drop(t, s->y);
    d = sum_of(r, d, residual);
    d = norm_backward(r, d, s->mask, s->sum, s->mean, s->rstd, &residual);
    d = linear_backward(r, d, th(r), h, h);
    int32_t parts[3];
    for (int i = 0; i < 3; i++)
        parts[i] = trace_ask(t, th(r));
    trace_drop(t, d), trace_drop(t, s->q), trace_drop(t, s->k), trace_drop(t, s->v);
    trace_drop(t, s->attention), trace_drop(t, s->lse);
    for (int i = 0; i < 3; i++)
        residual = sum_of(r, linear_backward(r, parts[i], th(r), h, h), residual);
    trace_drop(t, s->x);
    return residual;
}

// One step: forward, and with `train` backward and update.
static void trace_step(trace_run *r, bool train) {
    trace *t = r->t;
    size_t h = (size_t)r->m.hidden;
    int32_t inputs[3], gathered[3], mask, mean, rstd;
    for (int i = 0; i < 3; i++)
        inputs[i] = trace_ask(t, r->tokens * 8);
    for (int i = 0; i < 3; i++)
        gathered[i] = trace_ask(t, th(r));
    int32_t sum = sum_of(r, sum_of(r, gathered[0], gathered[1]), gathered[2]), normed = trace_ask(t, th(r));
    mean = trace_ask(t, r->tokens * 4), rstd = trace_ask(t, r->tokens * 4);
    int32_t x = trace_ask(t, th(r));
    mask = trace_ask(t, th(r) / 4);
    trace_drop(t, normed);
    trace_layer layers[TRACE_LAYERS];
    for (int l = 0; l < r->m.layers; l++) {
        x = layer_forward(r, &layers[l], x);
        if (!train) layer_forget(r, &layers[l]);
    }
    size_t pooled_bytes = r->sequences * h * 4, logit_bytes = r->sequences * (size_t)r->m.labels * 4;
    int32_t first = trace_ask(t, pooled_bytes), pooled = trace_ask(t, pooled_bytes), logits = trace_ask(t, logit_bytes);
    int32_t loss = trace_ask(t, 4);
    if (train) {
        int32_t d = trace_ask(t, logit_bytes);
        d = linear_backward(r, d, pooled_bytes, h, (size_t)r->m.labels);
        d = linear_backward(r, d, pooled_bytes, h, h);
        int32_t dx = trace_ask(t, th(r));
        trace_drop(t, d), trace_drop(t, x);
        for (int l = r->m.layers; l-- > 0;)
            dx = layer_backward(r, &layers[l], dx);
        x = norm_backward(r, dx, mask, sum, mean, rstd, &dx);
        trace_drop(t, dx);
        gradient(r, (size_t)r->m.vocabulary * h), gradient(r, 512 * h), gradient(r, 2 * h);
        t->steps++;
    } else {
        const int32_t kept[] = {mask, sum, mean, rstd};
        for (int i = 0; i < 4; i++)
            trace_drop(t, kept[i]);
    }
    trace_drop(t, x), trace_drop(t, first), trace_drop(t, pooled), trace_drop(t, logits), trace_drop(t, loss);
    for (int i = 0; i < 3; i++)
        trace_drop(t, inputs[i]);
    if (!train) return;
    for (int i = 0; !r->moments && i < 2 * r->parameters; i++)
        (void)trace_ask(t, r->parameter_bytes[i / 2]);
    r->moments = true;
    int32_t temporary[TRACE_PARAMETERS];
    for (int i = 0; i < r->parameters; i++)
        temporary[i] = trace_ask(t, r->parameter_bytes[i]);
    for (int i = 0; i < r->parameters; i++)
        trace_drop(t, temporary[i]);
    for (int i = 0; i < r->gradient_count; i++)
        trace_drop(t, r->gradients[i]);
    r->gradient_count = 0;
}

// ---- a run: epochs of training with an evaluation of 1,000 sentences after each -----------------------------------

static ft_status trace_make(trace *t, const trace_model *m, const trace_data *data, int batch, bool packed,
                            int epochs) {
    *t = (trace){0};
    trace_run run;
    trace_open(&run, t, m);
    run.packed = packed;
    static int lengths[TRACE_LENGTHS];
    int count = 0;
    for (int n = 0; n < data->longest; n++)
        for (int i = 0; i < data->histogram[n]; i++)
            lengths[count++] = n;
    uint64_t random = 0x2545F4914F6CDD1Du;
    for (int epoch = 0; epoch < epochs; epoch++) {
        for (int i = count - 1; i > 0; i--) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            int j = (int)((random >> 20) % (uint64_t)(i + 1)), length = lengths[i];
            lengths[i] = lengths[j];
            lengths[j] = length;
        }
        for (int pass = 0; pass < 2; pass++) {
            int sentences = pass == 0 ? count : 1000, size = pass == 0 ? batch : 2 * batch;
            for (int begin = 0; begin < sentences; begin += size) {
                run.sequences = (size_t)(sentences - begin < size ? sentences - begin : size);
                run.tokens = run.longest = 0;
                for (size_t i = 0; i < run.sequences; i++) {
                    size_t n = (size_t)lengths[begin + (int)i];
                    run.tokens += n;
                    if (run.longest < n) run.longest = n;
                }
                if (!packed) run.tokens = run.sequences * run.longest;
                trace_step(&run, pass == 0);
            }
        }
    }
    return t->status;
}

#endif
