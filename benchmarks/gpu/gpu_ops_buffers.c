// gpu_ops_buffers.c - what the ops of a test read and write: numbers, bounds of sequences, scratch.
#include "benchmarks/gpu/gpu_ops_buffers.h"

#include "kernels/half.h"
#include "kernels/philox.h"

#include <stdlib.h>

static uint64_t seed = 1;
double gpu_ops_uniform(void) { return (double)(ft_splitmix64(++seed) >> 11) * 0x1p-53; }

int gpu_ops_add_bytes(test *t, size_t bytes, ft_dtype dtype, const void *from) {
    int i = t->count++;
    t->bytes[i] = bytes;
    t->dtype[i] = dtype;
    for (int side = 0; side < 2; side++) {
        ft_device *d = t->device[side];
        need(d->functions->buffer_alloc(d, bytes, &t->at[i][side]));
        need(d->functions->upload(d, t->at[i][side], from, bytes));
        need(d->functions->sync(d));
    }
    return i;
}

int gpu_ops_add_numbers(test *t, ft_dtype dtype, int64_t n, double mean, double spread) {
    float *host = malloc((size_t)n * sizeof *host + 1);
    uint16_t *half = malloc((size_t)n * sizeof *half + 1);
    if (host == NULL || half == NULL) need(ft_fail_memory((size_t)n * 6, "a test's numbers"));
    for (int64_t i = 0; i < n; i++)
        host[i] = (float)(mean + spread * (2 * gpu_ops_uniform() - 1));
    if (ft_is_half(dtype)) ft_narrow(dtype, host, half, n);
    int added =
        gpu_ops_add_bytes(t, (size_t)n * ft_dtype_size(dtype), dtype, ft_is_half(dtype) ? (void *)half : (void *)host);
    free(host);
    free(half);
    return added;
}

int gpu_ops_add_integers(test *t, int64_t n, int64_t limit) {
    int32_t *host = malloc((size_t)n * sizeof *host + 1);
    if (host == NULL) need(ft_fail_memory((size_t)n * sizeof *host, "a test's numbers"));
    for (int64_t i = 0; i < n; i++)
        host[i] = (int32_t)(limit > 0    ? (double)limit * gpu_ops_uniform()
                            : limit == 0 ? (double)i
                                         : (double)(i % -limit));
    int added = gpu_ops_add_bytes(t, (size_t)n * sizeof *host, FT_I32, host);
    free(host);
    return added;
}

int gpu_ops_add_step(test *t) {
    ft_step_state step = {.seed = 7, .step = 3, .learning_rate = 1e-3f, .loss_factor = 0.125f, .loss_scale = 1};
    return gpu_ops_add_bytes(t, sizeof step, FT_U8, &step);
}

int gpu_ops_length_of(const test *t, int sequence) {
    const int ragged[] = {t->length * 3 / 5, 1, t->length, 20};
    return t->layout == EVEN ? t->length : ragged[sequence % 4];
}
int gpu_ops_sequences_of(const test *t) {
    int n = 0;
    for (int64_t begins = 0; begins < t->rows; n++)
        begins += gpu_ops_length_of(t, n);
    return n;
}
int gpu_ops_add_bounds(test *t) {
    int n = gpu_ops_sequences_of(t);
    int32_t *host = malloc(((size_t)n + 1) * sizeof *host);
    if (host == NULL) need(ft_fail_memory(0, "bounds"));
    for (int64_t i = 0, begins = 0; i <= n; begins += gpu_ops_length_of(t, (int)i++))
        host[i] = (int32_t)(begins < t->rows ? begins : t->rows);
    int added = gpu_ops_add_bytes(t, ((size_t)n + 1) * sizeof *host, FT_I32, host);
    free(host);
    return added;
}

// One scratch a side.
static ft_workspace kept[2];
ft_workspace gpu_ops_scratch(ft_device *device, int side, size_t bytes) {
    if (bytes > kept[side].bytes) {
        if (kept[side].data != NULL) device->functions->buffer_free(device, kept[side].data, kept[side].bytes);
        need(device->functions->buffer_alloc(device, bytes, &kept[side].data));
        kept[side].bytes = bytes;
    }
    return kept[side];
}

void gpu_ops_free_scratch(ft_device *const device[2]) {
    for (int side = 0; side < 2; side++)
        if (kept[side].data != NULL)
            device[side]->functions->buffer_free(device[side], kept[side].data, kept[side].bytes);
}
