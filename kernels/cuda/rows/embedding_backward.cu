// embedding_backward.cu - table_gradient[ids[t]] += dout[t], without atomics: every row of the table has one writer.
//
// The host brings the tokens in order of their ids, of equal ids in token order (kernels/ops/embedding.h): linear there and
// beside the device's work, where the device would compare every token with every other one. A block adds the rows of
// 32 tokens that follow each other in this order. Ids that begin and end among them are finished there; the sums of the
// first and the last id, where these reach beyond, go to scratch, and a second kernel joins them. Sums and the table
// are fp32, whatever dout is.
//
// The tables of positions and types go the same way, though their ids have a pattern. Of dense S512 the order of
// positions is a transposition and each run of 32 is one row of the table; but packed texts differ in length, and then
// it is none. Types are one or two ids for all tokens, so that half or all of the runs have one sum: 512 of 16,384
// tokens. That is why eight warps share the joining of an id, and find its end by halving: 512 sums one after the
// other, each behind two loads, would take 0.15 to 0.27 ms of an H200 (predicted). Sums of columns by type would read
// dout as often, and need kernels of their own.
#include "kernels/cuda/unit.h"

extern "C" {
#include "kernels/ops/embedding.h"
}

namespace {
enum {
    NOBODY = -1,                          // no id
    RUN_COLUMNS = FT_WARP * FT_CUDA_UNIT, // of a warp
    PITCH = FT_WARP + 4,                  // as in column_tiles.h
};

template <class T> struct embedding_backward_job {
    const int32_t *ids, *order;
    int32_t padding;
    ft_view<const T> dout;
    ft_view<float> table;
    float *first, *last; // [runs, cols]: of the id that came in from the run before; of the one that goes on behind
    int tokens, cols;
    FT_METHOD int32_t id_at(int at) const { return ids[order[at]]; }
};
} // namespace

FT_DEVICE void add(ft_unit &sum, const ft_unit &u) {
#pragma unroll
    for (int i = 0; i < FT_CUDA_UNIT; i++)
        sum.v[i] += u.v[i];
}

// blockIdx.x: a run of sorted tokens; a thread has one unit of columns.
template <class T, bool WHOLE>
FT_KERNEL void __launch_bounds__(FT_BLOCK) embedding_runs_kernel(embedding_backward_job<T> job) {
    FT_SHARED(int32_t, token,
              FT_CUDA_RUN_TOKENS + 2); // of the run and beside it, so that no load waits for another's address
    FT_SHARED(int32_t, key, FT_CUDA_RUN_TOKENS + 2);
    const int col = ((int)blockIdx.y * blockDim.x + threadIdx.x) * FT_CUDA_UNIT, n = job.cols - col;
    const int begin = (int)blockIdx.x * FT_CUDA_RUN_TOKENS;
    const int count = job.tokens - begin < FT_CUDA_RUN_TOKENS ? job.tokens - begin : (int)FT_CUDA_RUN_TOKENS;
    for (int i = threadIdx.x; i < count + 2; i += blockDim.x) {
        const int at = begin + i - 1;
        const bool there = at >= 0 && at < job.tokens;
        token[i] = there ? job.order[at] : 0;
        key[i] = there ? job.ids[token[i]] : (int32_t)NOBODY;
    }
    __syncthreads();
    if (n <= 0) return;
    const int64_t partial = (int64_t)blockIdx.x * job.cols + col;
    for (int at = 1, stop; at <= count; at = stop) {
        const int32_t id = key[at];
        for (stop = at + 1; stop <= count && key[stop] == id;)
            stop++;
        if (id == job.padding) continue;
        ft_unit sum = ft_unit_zero();
#pragma unroll 4
        for (int i = at; i < stop; i++)
            add(sum, ft_load<WHOLE>(job.dout.at(token[i], col), n));
        if (key[at - 1] == id) {
            ft_store<WHOLE>(job.first + partial, sum, n);
        } else if (key[stop] == id) {
            ft_store<WHOLE>(job.last + partial, sum, n);
        } else {
            float *to = job.table.at(id, col);
            ft_unit u = ft_load<WHOLE>(to, n);
            add(u, sum);
            ft_store<WHOLE>(to, u, n);
        }
    }
}

// blockIdx.x: a run. If an id begins in it and goes on behind it, the block joins the sums of that id: warp w adds
// those of runs w, w + 8, ... behind the first, then the warps follow each other.
template <class T, bool WHOLE>
FT_KERNEL void __launch_bounds__(FT_BLOCK) embedding_join_kernel(embedding_backward_job<T> job) {
    FT_SHARED(float, shared, FT_BLOCK_WARPS *FT_CUDA_UNIT *PITCH);
    const int own = (int)blockIdx.x, begin = own * FT_CUDA_RUN_TOKENS, end = begin + FT_CUDA_RUN_TOKENS;
    if (end >= job.tokens) return; // the whole block alike, and below
    const int32_t id = job.id_at(end - 1);
    if (id == job.padding || job.id_at(end) != id) return;
    if (begin > 0 && job.id_at(begin - 1) == id) return; // it began before
    int last = own + 1, beyond = (job.tokens + FT_CUDA_RUN_TOKENS - 1) / FT_CUDA_RUN_TOKENS;
    while (beyond - last > 1) {
        const int middle = (last + beyond) / 2;
        if (job.id_at(middle * FT_CUDA_RUN_TOKENS) == id)
            last = middle;
        else
            beyond = middle;
    }
    const int lane = threadIdx.x % FT_WARP, warp = threadIdx.x / FT_WARP;
    const int col = (int)blockIdx.y * RUN_COLUMNS + lane * FT_CUDA_UNIT, n = job.cols - col;
    ft_unit sum = ft_unit_zero();
    if (n > 0)
#pragma unroll 4
        for (int run = own + warp; run <= last; run += FT_BLOCK_WARPS)
            add(sum, ft_load<WHOLE>((run == own ? job.last : job.first) + (int64_t)run * job.cols + col, n));
#pragma unroll
    for (int i = 0; i < FT_CUDA_UNIT; i++)
        shared[(warp * FT_CUDA_UNIT + i) * PITCH + lane] = sum.v[i];
    __syncthreads();
    const int mine = (int)blockIdx.y * RUN_COLUMNS + threadIdx.x;
    if (mine >= job.cols) return;
    float total = 0.0f;
    for (int w = 0; w < FT_BLOCK_WARPS && own + w <= last; w++)
        total += shared[(w * FT_CUDA_UNIT + threadIdx.x % FT_CUDA_UNIT) * PITCH + threadIdx.x / FT_CUDA_UNIT];
    *job.table.at(id, mine) += total;
}

template <class I> static ft_status run(ft_device *device, const ft_embedding_backward_args *a) {
    using T = typename I::type;
    static const char op[] = "embedding_backward";
    const int64_t tokens = a->dout.rows, cols = a->dout.cols, runs = ft_cuda_runs(tokens);
    if (tokens == 0 || cols == 0) return FT_OK;
    float *first = (float *)a->workspace.data;
    embedding_backward_job<T> job = {a->ids,
                                     a->order,
                                     a->padding_id,
                                     ft_view_of<const T>(a->dout),
                                     ft_view_of<float>(a->table_gradient),
                                     first,
                                     first + runs * cols,
                                     (int)tokens,
                                     (int)cols};
    const cudaStream_t stream = ft_stream(device);
    const int64_t columns = (cols + RUN_COLUMNS - 1) / RUN_COLUMNS; // warps that have work
    const unsigned warps = (unsigned)(columns < (int)FT_BLOCK_WARPS ? columns : (int)FT_BLOCK_WARPS);
    FT_TRY(ft_launch(op, embedding_runs_kernel<T, I::WHOLE>,
                     dim3((unsigned)runs, (unsigned)((columns + warps - 1) / warps)), dim3(warps * FT_WARP), 0, stream,
                     job));
    if (runs == 1) return FT_OK;
    return ft_launch(op, embedding_join_kernel<T, I::WHOLE>, dim3((unsigned)runs, (unsigned)columns), dim3(FT_BLOCK), 0,
                     stream, job);
}

ft_status ft_cuda_embedding_backward(ft_device *device, const ft_embedding_backward_args *args) {
    bool whole = ft_is_whole(args->dout) && ft_is_whole(args->table_gradient);
    return ft_pick(args->dout.dtype, whole, [&](auto i) { return run<decltype(i)>(device, args); });
}
