// gradient_norm.cu - the squares of fixed chunks summed to more than fp32's digits, then one block that adds the chunks, looks at
// the losses and writes the outcome of the step and the next loss scale: nothing comes to the host.
#include "kernels/cuda/unit.h"

extern "C" {
#include "kernels/ops/adamw.h"
}

#include <math.h>

FT_DEVICE double block_sum(double *shared, double mine) {
    shared[threadIdx.x] = mine;
    for (int width = FT_BLOCK / 2; width > 0; width /= 2) {
        __syncthreads();
        if ((int)threadIdx.x < width) shared[threadIdx.x] += shared[threadIdx.x + width];
    }
    __syncthreads();
    return shared[0];
}

// A sum of squares as two floats, of together 48 bits or so: chips for workstations have one double for 64 floats. A square is x*x and what its
// rounding lost (exact by FMA), a sum what it is and what its rounding lost (Knuth's TwoSum; Dekker 1971, Ogita, Rump and Oishi 2005,
// "Accurate sum and dot product", algorithm 5.3). No operation may be contracted into another. Exact as long as no square leaves the range of normal
// floats: `largest` says so.
struct square_sum {
    float high, low, largest;
};
constexpr float SMALLEST = 0x1p-50f, LARGEST = 0x1p50f; // what squares beside the largest lose does not count; millions have room

FT_DEVICE void add_square(square_sum &s, float x) {
    const float square = __fmul_rn(x, x), lost = __fmaf_rn(x, x, -square);
    const float sum = __fadd_rn(s.high, square), added = __fadd_rn(sum, -s.high);
    const float rounded = __fadd_rn(__fadd_rn(s.high, -__fadd_rn(sum, -added)), __fadd_rn(square, -added));
    s.low = __fadd_rn(s.low, __fadd_rn(rounded, lost));
    s.high = sum;
    s.largest = x != x ? INFINITY : fmaxf(s.largest, fabsf(x));
}

// each(add): add(x) with every x of the thread's. Numbers out of the range of such sums, and those that are no numbers, are summed in double.
template <typename EACH> FT_DEVICE double sum_of_squares(EACH each) {
    square_sum s = {0.0f, 0.0f, 0.0f};
    each([&](float x) { add_square(s, x); });
    if (s.largest == 0.0f || (s.largest >= SMALLEST && s.largest <= LARGEST)) return (double)s.high + (double)s.low;
    double sum = 0.0;
    each([&](float x) { sum += (double)x * (double)x; });
    return sum;
}

template <bool WHOLE>
FT_KERNEL void __launch_bounds__(FT_BLOCK) gradient_squares_kernel(const float *gradient, int64_t n, double *partial) {
    FT_SHARED(double, shared, FT_BLOCK);
    const int64_t begin = (int64_t)blockIdx.x * FT_CUDA_NORM_CHUNK;
    const int64_t end = n - begin < FT_CUDA_NORM_CHUNK ? n : begin + FT_CUDA_NORM_CHUNK;
    const double mine = sum_of_squares([&](auto add) {
        for (int64_t at = begin + (int64_t)threadIdx.x * FT_QUAD; at < end; at += FT_BLOCK * FT_QUAD) {
            const int left = end - at < FT_QUAD ? (int)(end - at) : FT_QUAD;
            const ft_quad u =
                WHOLE && left == FT_QUAD ? ft_load_quad<true>(gradient + at, left) : ft_load_quad<false>(gradient + at, left);
#pragma unroll
            for (int i = 0; i < FT_QUAD; i++)
                add(u.v[i]);
        }
    });
    const double sum = block_sum(shared, mine);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// As PyTorch's GradScaler: half of it after a step that was skipped, twice after so many in a row that were not.
FT_DEVICE void next_loss_scale(ft_update_state *update, bool finite, int growth_interval) {
    if (!finite) {
        update->loss_scale *= 0.5f;
        update->finite_steps = 0;
    } else if (update->finite_steps + 1 < (uint32_t)growth_interval) {
        update->finite_steps++;
    } else {
        if (isfinite(update->loss_scale * 2.0f)) update->loss_scale *= 2.0f;
        update->finite_steps = 0;
    }
}

// blockIdx.x: a block of rows of the whole table. A thread adds up columns of its own, row after row: a row of zeros
// changes no sum.
template <bool WHOLE>
FT_KERNEL void __launch_bounds__(FT_BLOCK)
    table_squares_kernel(const float *table, int64_t table_rows, int cols, const int32_t *blocks, double *partial) {
    FT_SHARED(double, shared, FT_BLOCK);
    const int64_t begin = (int64_t)blockIdx.x * FT_NORM_ROWS;
    int64_t row = begin, last = begin + FT_NORM_ROWS < table_rows ? begin + FT_NORM_ROWS : table_rows;
    if (blocks != nullptr) row = blocks[blockIdx.x], last = blocks[blockIdx.x + 1];
    const double mine = sum_of_squares([&](auto add) {
        for (int64_t r = row; r < last; r++)
            for (int col = (int)threadIdx.x * FT_QUAD; col < cols; col += FT_BLOCK * FT_QUAD) {
                const ft_quad u = ft_load_quad<WHOLE>(table + r * cols + col, cols - col);
#pragma unroll
                for (int i = 0; i < FT_QUAD; i++)
                    add(u.v[i]);
            }
    });
    const double sum = block_sum(shared, mine);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

FT_KERNEL void __launch_bounds__(FT_BLOCK)
    gradient_norm_kernel(const double *partial, int64_t chunks, ft_view<const float> losses, int64_t loss_rows,
                         int loss_cols, ft_adamw_hyper hyper, const ft_step_state *step, int growth_interval,
                         bool stops, ft_update_state *update) {
    FT_SHARED(double, shared, FT_BLOCK);
    double sum = 0.0, bad = 0.0;
    for (int64_t c = threadIdx.x; c < chunks; c += FT_BLOCK)
        sum += partial[c];
    for (int64_t i = threadIdx.x; i < loss_rows * loss_cols; i += FT_BLOCK)
        bad += isfinite(*losses.at(i / loss_cols, (int)(i % loss_cols))) ? 0.0 : 1.0;
    sum = block_sum(shared, sum);
    __syncthreads(); // everybody has read the sum
    bad = block_sum(shared, bad);
    if (threadIdx.x != 0) return;
    const double norm = sqrt(sum) / (step != nullptr ? (double)step->loss_scale : 1.0);
    const double clip = hyper.max_gradient_norm > 0 ? hyper.max_gradient_norm / (norm + 1e-6) : 1.0;
    const bool stopped = update->stopped != 0, finite = !stopped && isfinite(norm) && bad == 0.0;
    update->norm = norm;
    update->clip = clip < 1.0 ? (float)clip : 1.0f;
    update->finite = finite;
    if (stopped) return;
    if (stops && !finite) update->stopped = 1;
    if (growth_interval > 0) next_loss_scale(update, finite, growth_interval);
    if (!finite) {
        update->skipped++;
        return;
    }
    const uint64_t count = update->count + 1;
    update->count = count;
    update->correction1 = 1.0 - pow(hyper.beta1, (double)count);
    update->correction2 = 1.0 - pow(hyper.beta2, (double)count);
}

ft_status ft_cuda_gradient_norm(ft_device *device, const ft_gradient_norm_args *args) {
    static const char op[] = "gradient_norm";
    const int64_t n = args->gradient.rows * args->gradient.cols,
                  chunks = (n + FT_CUDA_NORM_CHUNK - 1) / FT_CUDA_NORM_CHUNK;
    const float *gradient = (const float *)args->gradient.data;
    const ft_norm_pieces *pieces = &args->pieces;
    const int64_t before = pieces->sums != NULL ? pieces->first : 0;
    double *all = pieces->sums != NULL ? pieces->sums : (double *)args->workspace.data, *partial = all + before;
    if (chunks > 0)
        FT_TRY(ft_launch(
            op, ft_is_whole_vector(args->gradient) ? gradient_squares_kernel<true> : gradient_squares_kernel<false>,
            dim3((unsigned)chunks), dim3(FT_BLOCK), 0, ft_stream(device), gradient, n, partial));
    const int64_t blocks = ft_norm_blocks(args->table_rows);
    if (blocks > 0)
        FT_TRY(ft_launch(op, ft_is_whole(args->table) ? table_squares_kernel<true> : table_squares_kernel<false>,
                         dim3((unsigned)blocks), dim3(FT_BLOCK), 0, ft_stream(device), (const float *)args->table.data,
                         args->table_rows, (int)args->table.cols, args->table_blocks, partial + chunks));
    if (pieces->sums != NULL && !pieces->last) return FT_OK;
    const ft_tensor losses = args->losses != NULL ? *args->losses : ft_absent();
    return ft_launch(op, gradient_norm_kernel, dim3(1), dim3(FT_BLOCK), 0, ft_stream(device), (const double *)all,
                     before + chunks + blocks, ft_view_of<const float>(losses), losses.rows, (int)losses.cols, args->hyper, args->step,
                     args->growth_interval, args->stops, args->update);
}
