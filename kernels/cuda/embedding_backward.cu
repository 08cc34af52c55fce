// embedding_backward.cu - table_gradient[ids[t]] += dout[t], without atomics: every row of the table has one writer.
//
// The tokens are put in order of their ids (of equal ids in token order) by counting how many come before each; that is
// tokens^2 comparisons, a few microseconds for the tokens of a micro-batch. A block then adds the rows of 32 tokens
// that follow each other in this order. Ids that begin and end among them are finished there; the sums of the first and
// the last id, where these reach beyond, go to scratch, and a last kernel joins them in order. Sums and the table are
// fp32, whatever dout is.
#include "kernels/cuda/unit.h"

namespace {
enum { SKIPPED = INT32_MAX }; // the key of padding: behind all ids

template <class T> struct embedding_backward_job {
    const int32_t *ids, *order;
    int32_t padding;
    ft_view<const T> dout;
    ft_view<float> table;
    float *first, *last; // [runs, cols]: of the id that came in from the run before; of the one that goes on behind
    int tokens, cols;
};
} // namespace

FT_DEVICE int32_t key_of(const int32_t *ids, int32_t padding, int token) {
    int32_t id = ids[token];
    return id == padding ? (int32_t)SKIPPED : id; // no id is -1
}

FT_KERNEL void __launch_bounds__(FT_BLOCK)
    embedding_order_kernel(const int32_t *ids, int32_t padding, int tokens, int32_t *order) {
    FT_SHARED(int32_t, keys, FT_BLOCK);
    const int token = (int)blockIdx.x * FT_BLOCK + threadIdx.x;
    const int32_t mine = token < tokens ? key_of(ids, padding, token) : (int32_t)SKIPPED;
    int before = 0;
    for (int first = 0; first < tokens; first += FT_BLOCK) {
        __syncthreads();
        if (first + (int)threadIdx.x < tokens) keys[threadIdx.x] = key_of(ids, padding, first + threadIdx.x);
        __syncthreads();
        const int count = tokens - first < FT_BLOCK ? tokens - first : FT_BLOCK;
        for (int i = 0; i < count; i++)
            before += keys[i] < mine || (keys[i] == mine && first + i < token);
    }
    if (token < tokens) order[before] = token;
}

template <bool WHOLE> FT_DEVICE void add_to(float *to, const ft_unit &sum, int n) {
    ft_unit u = ft_load<WHOLE>(to, n);
#pragma unroll
    for (int i = 0; i < FT_CUDA_UNIT; i++)
        u.v[i] += sum.v[i];
    ft_store<WHOLE>(to, u, n);
}

// blockIdx.x: a run of sorted tokens; a thread has one unit of columns.
template <class T, bool WHOLE>
FT_KERNEL void __launch_bounds__(FT_BLOCK) embedding_runs_kernel(embedding_backward_job<T> job) {
    const int col = ((int)blockIdx.y * FT_BLOCK + threadIdx.x) * FT_CUDA_UNIT, n = job.cols - col;
    if (n <= 0) return;
    const int begin = (int)blockIdx.x * FT_CUDA_RUN_TOKENS;
    const int end = job.tokens - begin < FT_CUDA_RUN_TOKENS ? job.tokens : begin + FT_CUDA_RUN_TOKENS;
    const int32_t came_in = begin > 0 ? key_of(job.ids, job.padding, job.order[begin - 1]) : -1;
    const int32_t goes_on = end < job.tokens ? key_of(job.ids, job.padding, job.order[end]) : -1;
    int at = begin;
    while (at < end) {
        const int32_t key = key_of(job.ids, job.padding, job.order[at]);
        if (key == (int32_t)SKIPPED) return; // nothing but padding follows
        ft_unit sum = ft_unit_zero();
        for (; at < end; at++) {
            const int token = job.order[at];
            if (key_of(job.ids, job.padding, token) != key) break;
            ft_unit u = ft_load<WHOLE>(job.dout.at(token, col), n);
#pragma unroll
            for (int i = 0; i < FT_CUDA_UNIT; i++)
                sum.v[i] += u.v[i];
        }
        const int64_t partial = (int64_t)blockIdx.x * job.cols + col;
        if (key == came_in)
            ft_store<WHOLE>(job.first + partial, sum, n);
        else if (at == end && key == goes_on)
            ft_store<WHOLE>(job.last + partial, sum, n);
        else
            add_to<WHOLE>(job.table.at(key, col), sum, n);
    }
}

// blockIdx.x: a run. It joins the id that begins in it and goes on behind it, if there is one.
template <class T, bool WHOLE>
FT_KERNEL void __launch_bounds__(FT_BLOCK) embedding_join_kernel(embedding_backward_job<T> job) {
    const int col = ((int)blockIdx.y * FT_BLOCK + threadIdx.x) * FT_CUDA_UNIT, n = job.cols - col;
    if (n <= 0) return;
    const int begin = (int)blockIdx.x * FT_CUDA_RUN_TOKENS, end = begin + FT_CUDA_RUN_TOKENS;
    if (end >= job.tokens) return;
    const int32_t key = key_of(job.ids, job.padding, job.order[end - 1]);
    if (key == (int32_t)SKIPPED || key_of(job.ids, job.padding, job.order[end]) != key) return;
    if (begin > 0 && key_of(job.ids, job.padding, job.order[begin - 1]) == key) return; // it began before
    ft_unit sum = ft_load<WHOLE>(job.last + (int64_t)blockIdx.x * job.cols + col, n);
    for (int run = (int)blockIdx.x + 1; run * FT_CUDA_RUN_TOKENS < job.tokens; run++) {
        if (key_of(job.ids, job.padding, job.order[run * FT_CUDA_RUN_TOKENS]) != key) break;
        ft_unit u = ft_load<WHOLE>(job.first + (int64_t)run * job.cols + col, n);
#pragma unroll
        for (int i = 0; i < FT_CUDA_UNIT; i++)
            sum.v[i] += u.v[i];
    }
    add_to<WHOLE>(job.table.at(key, col), sum, n);
}

template <class I> static ft_status run(ft_device *device, const ft_embedding_backward_args *a) {
    using T = typename I::type;
    static const char op[] = "embedding_backward";
    const int64_t tokens = a->dout.rows, cols = a->dout.cols, runs = ft_cuda_runs(tokens);
    if (tokens == 0 || cols == 0) return FT_OK;
    int32_t *order = (int32_t *)a->workspace.data;
    float *first = (float *)((char *)a->workspace.data + ft_cuda_order_bytes(tokens));
    embedding_backward_job<T> job = {a->ids,
                                     order,
                                     a->padding_id,
                                     ft_view_of<const T>(a->dout),
                                     ft_view_of<float>(a->table_gradient),
                                     first,
                                     first + runs * cols,
                                     (int)tokens,
                                     (int)cols};
    const cudaStream_t stream = ft_stream(device);
    const dim3 grid((unsigned)runs, (unsigned)((cols + FT_BLOCK * FT_CUDA_UNIT - 1) / (FT_BLOCK * FT_CUDA_UNIT)));
    const int64_t warps = (cols + FT_WARP * FT_CUDA_UNIT - 1) / (FT_WARP * FT_CUDA_UNIT); // with work
    const dim3 block((unsigned)(warps < (int)FT_BLOCK_WARPS ? warps : (int)FT_BLOCK_WARPS) * FT_WARP);
    FT_TRY(ft_launch(op, embedding_order_kernel, dim3((unsigned)((tokens + FT_BLOCK - 1) / FT_BLOCK)), dim3(FT_BLOCK),
                     0, stream, a->ids, a->padding_id, (int)tokens, order));
    FT_TRY(ft_launch(op, embedding_runs_kernel<T, I::WHOLE>, grid, block, 0, stream, job));
    if (runs == 1) return FT_OK;
    return ft_launch(op, embedding_join_kernel<T, I::WHOLE>, grid, block, 0, stream, job);
}

ft_status ft_cuda_embedding_backward(ft_device *device, const ft_embedding_backward_args *args) {
    bool whole = ft_is_whole(args->dout) && ft_is_whole(args->table_gradient);
    return ft_pick(args->dout.dtype, whole, [&](auto i) { return run<decltype(i)>(device, args); });
}
