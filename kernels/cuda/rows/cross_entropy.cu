// cross_entropy.cu - a warp a row of logits, in the same steps as the CPU's.
#include "kernels/cuda/unit.h"

extern "C" {
#include "kernels/ops/cross_entropy.h"
}

namespace {
struct cross_entropy_job {
    ft_view<const float> logits;
    const int32_t *labels;
    const ft_step_state *step;
    float *losses;
    ft_view<float> dlogits;
    int64_t rows;
    int classes;
};
} // namespace

FT_KERNEL void __launch_bounds__(FT_BLOCK) cross_entropy_kernel(cross_entropy_job job) {
    const int lane = threadIdx.x % FT_WARP;
    const int64_t row = (int64_t)blockIdx.x * FT_BLOCK_WARPS + threadIdx.x / FT_WARP;
    if (row >= job.rows) return; // whole warps
    const float *x = job.logits.at(row, 0);
    const int label = job.labels[row];
    const float chosen = x[label]; // before dlogits, which may be x, is written
    float most = -INFINITY;        // a NaN may be lost here but not in the sum, and so reaches the loss
    for (int c = lane; c < job.classes; c += FT_WARP)
        most = fmaxf(most, x[c]);
    most = ft_warp_max(most);
    float sum = 0.0f;
    for (int c = lane; c < job.classes; c += FT_WARP)
        sum += expf(x[c] - most);
    sum = ft_warp_sum(sum);
    if (lane == 0) job.losses[row] = (float)(log((double)sum) + ((double)most - (double)chosen));
    if (job.dlogits.data == nullptr) return;
    __syncwarp(); // every lane has read its copy of the chosen logit
    float *d = job.dlogits.at(row, 0);
    const float factor = job.step->loss_factor * job.step->loss_scale, scale = factor / sum;
    for (int c = lane; c < job.classes; c += FT_WARP) {
        // Of a confident right answer p - 1 is minus the sum of the others; subtracting in double keeps what is left of
        // it.
        if (c == label)
            d[c] = (float)((exp((double)chosen - (double)most) / (double)sum - 1.0) * (double)factor);
        else
            d[c] = expf(x[c] - most) * scale;
    }
}

ft_status ft_cuda_cross_entropy(ft_device *device, const ft_cross_entropy_args *args) {
    const int64_t rows = args->logits.rows;
    if (rows == 0) return FT_OK;
    cross_entropy_job job = {ft_view_of<const float>(args->logits),
                             args->labels,
                             args->step,
                             (float *)args->losses.data,
                             ft_view_of<float>(args->dlogits),
                             rows,
                             (int)args->logits.cols};
    return ft_launch("cross_entropy", cross_entropy_kernel,
                     dim3((unsigned)((rows + FT_BLOCK_WARPS - 1) / FT_BLOCK_WARPS)), dim3(FT_BLOCK), 0,
                     ft_stream(device), job);
}
