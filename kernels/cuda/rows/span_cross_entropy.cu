// span_cross_entropy.cu - a block a sequence, one column after the other; a thread has every FT_BLOCK-th row, in the same steps as the CPU's.
#include "kernels/cuda/unit.h"

extern "C" {
#include "kernels/ops/span_cross_entropy.h"
}

namespace {
struct span_job {
    ft_view<const float> logits;
    const int32_t *cu_rows, *marks;
    const ft_step_state *step;
    float *losses;
    ft_view<float> dlogits;
    int columns;
};
} // namespace

FT_KERNEL void __launch_bounds__(FT_BLOCK) span_cross_entropy_kernel(span_job job) {
    FT_SHARED(float, part, FT_BLOCK_WARPS);
    FT_SHARED(int, places, FT_BLOCK_WARPS);
    const int lane = threadIdx.x % FT_WARP, warp = threadIdx.x / FT_WARP;
    const int begin = job.cu_rows[blockIdx.x], end = job.cu_rows[blockIdx.x + 1];
    for (int row = begin + (int)threadIdx.x; row < end; row += FT_BLOCK) job.losses[row] = 0.0f;
    for (int c = 0; c < job.columns; c++) {
        float most = -INFINITY; // a NaN may be lost here but not in the sum, and so reaches the loss
        int marked = end;       // the first row that is marked
        for (int row = begin + (int)threadIdx.x; row < end; row += FT_BLOCK) {
            most = fmaxf(most, *job.logits.at(row, c));
            if ((job.marks[row] >> c & 1) != 0 && row < marked) marked = row;
        }
        most = ft_warp_max(most);
        for (int step = FT_WARP / 2; step > 0; step /= 2) {
            const int other = __shfl_xor_sync(FT_ALL_LANES, marked, step);
            marked = other < marked ? other : marked;
        }
        if (lane == 0) part[warp] = most, places[warp] = marked;
        __syncthreads();
        for (int w = 0; w < FT_BLOCK_WARPS; w++) {
            most = fmaxf(most, part[w]);
            marked = places[w] < marked ? places[w] : marked;
        }
        __syncthreads();
        float sum = 0.0f;
        const float chosen = marked < end ? *job.logits.at(marked, c) : 0.0f; // before dlogits, which may be logits, is written
        for (int row = begin + (int)threadIdx.x; row < end; row += FT_BLOCK) sum += expf(*job.logits.at(row, c) - most);
        sum = ft_warp_sum(sum);
        if (lane == 0) part[warp] = sum;
        __syncthreads();
        sum = part[0];
        for (int w = 1; w < FT_BLOCK_WARPS; w++) sum += part[w];
        __syncthreads();
        const double share = 1.0 / (double)job.columns;
        const double factor = job.dlogits.data != nullptr ? share * (double)job.step->loss_factor * (double)job.step->loss_scale : 0.0;
        const float scale = (float)(factor / (double)sum);
        for (int row = begin + (int)threadIdx.x; row < end; row += FT_BLOCK) {
            if (row == marked)
                job.losses[row] = (float)((double)job.losses[row] + share * (log((double)sum) + ((double)most - (double)chosen)));
            if (job.dlogits.data == nullptr) continue;
            float *d = job.dlogits.at(row, c);
            // Of a confident right answer p - 1 is minus the sum of the others; subtracting in double keeps what is left of it.
            if (marked == end) *d = 0.0f;
            else if (row == marked) *d = (float)((exp((double)chosen - (double)most) / (double)sum - 1.0) * factor);
            else *d = expf(*job.logits.at(row, c) - most) * scale;
        }
    }
}

ft_status ft_cuda_span_cross_entropy(ft_device *device, const ft_span_cross_entropy_args *args) {
    if (args->sequences == 0 || args->logits.rows == 0) return FT_OK;
    span_job job = {ft_view_of<const float>(args->logits), args->cu_rows, args->marks, args->step, (float *)args->losses.data,
                    ft_view_of<float>(args->dlogits), (int)args->logits.cols};
    return ft_launch("span_cross_entropy", span_cross_entropy_kernel, dim3((unsigned)args->sequences), dim3(FT_BLOCK), 0, ft_stream(device), job);
}
