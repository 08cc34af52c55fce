// layernorm_backward.cu - dy and s are read once. A block has a tile of rows and keeps a few of them at a time in shared
// memory, while the next ones are on their way: a warp a row makes its two means and draws its dropout, then a thread a quad
// of columns writes ds and dx and adds up dgamma, dbeta and dbias, in a fixed order. ds may take dy's place: a row is written
// when all of it is kept. `past` may be ds: a quad is read right before it is written. R: the type of dy, past and ds, fp32 or T.
#include "kernels/cuda/rows/column_tiles.h"
#include "kernels/cuda/rows/row_types.h"
#include "kernels/cuda/tile/async_copy.h"
#include "kernels/cuda/tile/kept_row.h"

extern "C" {
#include "kernels/ops/layernorm.h"
}

namespace {
enum { DGAMMA, DBETA, DBIAS, SUMS };

// What is kept: `buffers` (2, or 1 where the rows are too long) of `rows` rows, the means of these and what they drop. The
// tile's row r is kept with r + steps, r + 2 steps, ...; the sums of those are chains, which follow each other.
struct kept_rows { int rows, buffers, steps; };
// Of one row: dy, and s behind it. Numbers of 16 bits lie there as they do in memory.
template <class V> FT_HOST_DEVICE int kept_of_row(int units) { return sizeof(V) == sizeof(float) ? ft_kept_quads(units) : units; }
template <class T, class R> FT_HOST_DEVICE int kept_quads(int units) { return kept_of_row<R>(units) + kept_of_row<T>(units); }

template <class T, class R> struct layernorm_backward_job {
    ft_view<const R> dy, past;
    ft_view<const float> gamma;
    ft_view<const T> s;
    const float *mean, *rstd;
    ft_view<R> ds;
    ft_view<T> dx;
    ft_row_dropout dropout;
    ft_sum_outputs<SUMS> sums;
    float *partial; // [sum][tile][column]
    bool rms;
    FT_METHOD bool gradients() const { return ds.data != nullptr || dx.data != nullptr || sums.out[DBIAS] != nullptr; }
};
} // namespace

// One row on its way into shared memory, by a warp: dy, and behind it s. What is not whole units is there at once. (A lane's next
// quad lies half a warp further.)
template <class V> FT_DEVICE void keep_unit(float4 *to, int high, int unit, const ft_unit &u) {
    if constexpr (sizeof(V) == sizeof(float))
        ft_keep_unit(to, high, unit, u);
    else
        ft_store<false>(reinterpret_cast<V *>(to + unit), u, FT_CUDA_UNIT); // of whole units __stwb stores, to global memory alone
}
template <bool WHOLE, class T, class R>
FT_DEVICE void keep_row(float4 *to, int units, const layernorm_backward_job<T, R> &job, int64_t row, int cols) {
    const int lane = threadIdx.x % FT_WARP, high = ft_kept_high(units);
    float4 *const s = to + kept_of_row<R>(units);
    if constexpr (WHOLE) {
        const int first = ft_kept_place(high, lane);
        if constexpr (sizeof(R) == sizeof(float))
#pragma unroll 1
            for (int quad = lane; quad < cols / FT_QUAD; quad += FT_WARP) {
                ft_copy_async16(to + first + (quad - lane) / 2, job.dy.at(row, quad * FT_QUAD));
                if constexpr (sizeof(T) == sizeof(float))
                    ft_copy_async16(s + first + (quad - lane) / 2, job.s.at(row, quad * FT_QUAD));
            }
        if constexpr (sizeof(T) < sizeof(float))
#pragma unroll 1
            for (int unit = lane; unit < cols / FT_CUDA_UNIT; unit += FT_WARP) {
                if constexpr (sizeof(R) < sizeof(float)) ft_copy_async16(to + unit, job.dy.at(row, unit * FT_CUDA_UNIT));
                ft_copy_async16(s + unit, job.s.at(row, unit * FT_CUDA_UNIT));
            }
    } else {
        for (int unit = lane; unit < units; unit += FT_WARP) {
            const int col = unit * FT_CUDA_UNIT, n = cols - col;
            keep_unit<R>(to, high, unit, ft_load<false>(job.dy.at(row, col), n));
            keep_unit<T>(s, high, unit, ft_load<false>(job.s.at(row, col), n));
        }
    }
}
template <class V> FT_DEVICE ft_unit kept_unit(const float4 *row, int high, int unit) {
    if constexpr (sizeof(V) == sizeof(float))
        return ft_kept_unit(row, high, unit);
    else
        return ft_load<true>(reinterpret_cast<const V *>(row + unit), FT_CUDA_UNIT);
}
template <class V> FT_DEVICE ft_quad kept_quad(const float4 *row, int high, int quad) {
    if constexpr (sizeof(V) == sizeof(float))
        return ft_kept_quad(row, high, quad);
    else
        return ft_load_quad<true>(reinterpret_cast<const V *>(row) + quad * FT_QUAD, FT_QUAD);
}

// As ft_store_quad, of which nvcc takes the plain store of 16 bytes apart here.
template <bool WHOLE, class T> FT_DEVICE void store_quad(T *to, const ft_quad &q, int n) {
    if constexpr (WHOLE && sizeof(T) == sizeof(float))
        __stwb(reinterpret_cast<float4 *>(to), make_float4(q.v[0], q.v[1], q.v[2], q.v[3]));
    else
        ft_store_quad<WHOLE>(to, q, n);
}

// QUADS: of columns that a thread has at most.
template <class T, bool WHOLE, int QUADS, class R>
FT_KERNEL void __launch_bounds__(FT_BLOCK)
    layernorm_backward_kernel(layernorm_backward_job<T, R> job, int64_t rows, int cols, kept_rows kept) {
    FT_DYNAMIC_SHARED(bytes);
    const int lane = threadIdx.x % FT_WARP, warp = threadIdx.x / FT_WARP;
    const int units = (cols + FT_CUDA_UNIT - 1) / FT_CUDA_UNIT, high = ft_kept_high(units);
    const int tile = kept.rows * kept.steps;
    const int64_t first = (int64_t)blockIdx.x * tile;
    const int present = rows - first < tile ? (int)(rows - first) : tile;
    const int ahead = kept.buffers - 1; // steps by which my warp asks for its row before its turn
    const int row_quads = kept_quads<T, R>(units), step_quads = kept.rows * row_quads;
    float4 *const all = reinterpret_cast<float4 *>(bytes), *const of_rows = all + kept.buffers * step_quads; // mean, rstd, two means
    unsigned char *const dropped = reinterpret_cast<unsigned char *>(of_rows + kept.rows);                  // a unit's bits
    const bool gradients = job.gradients(), drops = gradients && job.dropout.drops();
    const uint64_t key = drops ? job.dropout.key() : 0;

    struct numbers { float mean, rstd; int32_t slot, position; }; // that go with my warp's row: read one step before
    const auto is_mine = [&](int step) {
        return warp < kept.rows && step >= 0 && step < kept.steps && step + warp * kept.steps < present;
    };
    const auto ask_for = [&](int step) {
        float4 *const to = all + (step & ahead) * step_quads + warp * row_quads;
        if (is_mine(step)) keep_row<WHOLE>(to, units, job, first + step + warp * kept.steps, cols);
        ft_copy_async_commit();
    };
    const auto numbers_of = [&](int step) {
        numbers n = {};
        if (!is_mine(step)) return n;
        const int64_t row = first + step + warp * kept.steps;
        n.mean = job.mean[row], n.rstd = job.rstd[row];
        if (drops) n.slot = job.dropout.slot[row], n.position = job.dropout.position[row];
        return n;
    };
    numbers next = {};
    float totals[QUADS][SUMS][FT_QUAD] = {};
    for (int step = -1; step < kept.steps && step < present; step++) {
        ask_for(step + ahead);
        const numbers mine = next;
        next = numbers_of(step + 1);
        if (step < 0) continue;
        if (ahead > 0)
            ft_copy_async_wait<1>();
        else
            ft_copy_async_wait<0>();
        __syncwarp();
        const float4 *const here = all + (step & ahead) * step_quads;
        if (is_mine(step)) {
            const float4 *const dy = here + warp * row_quads, *const s = dy + kept_of_row<R>(units);
            float sum = 0.0f, dot = 0.0f;
            for (int unit = lane; gradients && unit < units; unit += FT_WARP) {
                const int col = unit * FT_CUDA_UNIT;
                const ft_unit d = kept_unit<R>(dy, high, unit), u = kept_unit<T>(s, high, unit);
                const ft_unit gamma = ft_load<WHOLE>(job.gamma.at(0, col), cols - col); // past the end dy = gamma = 0
#pragma unroll
                for (int i = 0; i < FT_CUDA_UNIT; i++) {
                    const float g = d.v[i] * gamma.v[i];
                    sum += g;
                    dot = fmaf(g, (u.v[i] - mine.mean) * mine.rstd, dot);
                }
                if (drops) dropped[warp * units + unit] = job.dropout.drawn(key, mine.slot, mine.position, col);
            }
            sum = job.rms ? 0.0f : ft_warp_sum(sum) / (float)cols; // the whole grid alike
            dot = ft_warp_sum(dot) / (float)cols;
            if (lane == 0) of_rows[warp] = make_float4(mine.mean, mine.rstd, sum, dot);
        }
        __syncthreads();

#pragma unroll
        for (int q = 0; q < QUADS; q++) {
            const int quad = q * FT_BLOCK + threadIdx.x, col = quad * FT_QUAD, n = cols - col;
            if (n <= 0) break;
            const ft_quad gamma = ft_load_quad<WHOLE>(job.gamma.at(0, col), n);
            float chain[SUMS][FT_QUAD] = {};
            const float4 *dy = here, *s = here + kept_of_row<R>(units), *of_row = of_rows;
            const unsigned char *bits = dropped + quad / 2;
            for (int row = step; row < present; row += kept.steps) {
                ft_quad d = kept_quad<R>(dy, high, quad), hat = kept_quad<T>(s, high, quad);
                const float4 of = *of_row;
#pragma unroll
                for (int i = 0; i < FT_QUAD; i++) {
                    hat.v[i] = (hat.v[i] - of.x) * of.y;
                    chain[DGAMMA][i] = fmaf(d.v[i], hat.v[i], chain[DGAMMA][i]);
                    chain[DBETA][i] += d.v[i];
                }
                if (gradients) {
#pragma unroll
                    for (int i = 0; i < FT_QUAD; i++)
                        d.v[i] = of.y * fmaf(-hat.v[i], of.w, d.v[i] * gamma.v[i] - of.z);
                    if (job.past.data != nullptr) {
                        const ft_quad past = ft_load_quad<WHOLE>(job.past.at(first + row, col), n);
#pragma unroll
                        for (int i = 0; i < FT_QUAD; i++)
                            d.v[i] += past.v[i];
                    }
                    if (job.ds.data != nullptr) store_quad<WHOLE>(job.ds.at(first + row, col), d, n);
                    if (drops) {
#pragma unroll
                        for (int i = 0; i < FT_QUAD; i++)
                            d.v[i] *= (*bits >> quad % 2 * FT_QUAD >> i & 1) != 0 ? 0.0f : job.dropout.scale;
                    }
                    if (job.dx.data != nullptr) store_quad<WHOLE>(job.dx.at(first + row, col), d, n);
#pragma unroll
                    for (int i = 0; i < FT_QUAD; i++)
                        chain[DBIAS][i] += d.v[i];
                }
                dy += row_quads, s += row_quads, of_row++, bits += units;
            }
#pragma unroll
            for (int sum = 0; sum < SUMS; sum++)
#pragma unroll
                for (int i = 0; i < FT_QUAD; i++)
                    totals[q][sum][i] += chain[sum][i];
        }
        __syncthreads(); // the rows are done with, and the next may take their place
    }

#pragma unroll
    for (int q = 0; q < QUADS; q++) {
        const int col = (q * FT_BLOCK + threadIdx.x) * FT_QUAD, n = cols - col;
        if (n <= 0) break;
#pragma unroll
        for (int s = 0; s < SUMS; s++) {
            if (job.sums.out[s] == nullptr) continue;
            const ft_quad total = {{totals[q][s][0], totals[q][s][1], totals[q][s][2], totals[q][s][3]}};
            ft_store_quad<WHOLE>(job.partial + ((int64_t)s * gridDim.x + blockIdx.x) * cols + col, total, n);
        }
    }
}

// As many rows at once as two buffers of them have room for: a warp each at most.
template <class T, class R> static kept_rows kept_of(int64_t rows, int64_t cols, size_t *bytes) {
    const int units = (int)((cols + FT_CUDA_UNIT - 1) / FT_CUDA_UNIT);
    kept_rows kept = {FT_BLOCK_WARPS, 2, 0};
    const auto room = [&] {
        return (size_t)kept.rows * ((size_t)(kept.buffers * kept_quads<T, R>(units) + 1) * sizeof(float4) + (size_t)units);
    };
    while (kept.rows > 1 && room() > FT_SHARED_LIMIT)
        kept.rows /= 2;
    if (room() > FT_SHARED_LIMIT) kept.buffers = 1;
    kept.steps = ft_cuda_tile_rows(rows) / kept.rows;
    *bytes = room();
    return kept;
}

template <class I, class R> static ft_status run(ft_device *device, const ft_layernorm_backward_args *a) {
    using T = typename I::type;
    const int64_t rows = a->dy.rows, cols = a->dy.cols;
    if (rows == 0 || cols == 0) return FT_OK;
    size_t bytes;
    const kept_rows kept = kept_of<T, R>(rows, cols, &bytes);
    const ft_sum_outputs<SUMS> sums = {{(float *)a->dgamma.data, (float *)a->dbeta.data, (float *)a->dbias.data}};
    layernorm_backward_job<T, R> job = {ft_view_of<const R>(a->dy),
                                        ft_view_of<const R>(a->past),
                                        ft_view_of<const float>(a->gamma),
                                        ft_view_of<const T>(a->s),
                                        (const float *)a->mean.data,
                                        (const float *)a->rstd.data,
                                        ft_view_of<R>(a->ds),
                                        ft_view_of<T>(a->dx),
                                        ft_row_dropout_of(&a->dropout),
                                        sums,
                                        (float *)a->workspace.data,
                                        a->rms};
    const auto launch = [&](auto kernel) {
        return ft_launch("layernorm_backward", kernel, dim3((unsigned)ft_cuda_tiles(rows)), dim3(FT_BLOCK), bytes, ft_stream(device), job,
                         rows, (int)cols, kept);
    };
    static_assert(8 * FT_BLOCK * FT_QUAD == FT_CUDA_NORM_COLUMNS, "what check.c lets pass");
    FT_TRY(cols <= FT_BLOCK * FT_QUAD ? launch(layernorm_backward_kernel<T, I::WHOLE, 1, R>) : launch(layernorm_backward_kernel<T, I::WHOLE, 8, R>));
    return ft_add_tiles("layernorm_backward", device, job.partial, rows, cols, sums);
}

ft_status ft_cuda_layernorm_backward(ft_device *device, const ft_layernorm_backward_args *args) {
    bool whole = ft_is_whole(args->dy) && ft_is_whole(args->past) && ft_is_whole(args->s) && ft_is_whole_vector(args->gamma) &&
                 ft_is_whole(args->ds) && ft_is_whole(args->dx);
    return ft_pick_rows(args->s.dtype, args->dy.dtype, whole, [&](auto i, auto r) { return run<decltype(i), typename decltype(r)::type>(device, args); });
}
