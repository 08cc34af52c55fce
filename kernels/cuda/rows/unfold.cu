// unfold.cu - windows of neighbouring rows, and back. A thread has a unit of x's columns; the rows of its sequence it
// finds by halving.
#include "kernels/cuda/unit.h"

extern "C" {
#include "kernels/ops/unfold.h"
}

namespace {
struct window_rows {
    const int32_t *cu_seqlens;
    int sequences, taps;
};
} // namespace

FT_DEVICE int sequence_of(const window_rows &w, int64_t row) {
    int low = 0, high = w.sequences;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (w.cu_seqlens[middle] <= row)
            low = middle;
        else
            high = middle;
    }
    while (w.cu_seqlens[low + 1] <= row) // past empty ones that begin at the same row
        low++;
    return low;
}

template <class T> struct unfold_body {
    window_rows rows;
    ft_view<const T> x;
    ft_view<T> y;
    FT_METHOD void operator()(int64_t row, int col, int n) const {
        const int sequence = sequence_of(rows, row);
        const int64_t first = rows.cu_seqlens[sequence], last = rows.cu_seqlens[sequence + 1];
        for (int k = 0; k < rows.taps; k++) {
            const int64_t from = row + k - (rows.taps - 1) / 2;
            const bool inside = from >= first && from < last;
            for (int i = 0; i < n; i++)
                *y.at(row, (col + i) * rows.taps + k) = inside ? *x.at(from, col + i) : ft_from_float<T>(0.0f);
        }
    }
};

template <class T> struct fold_add_body {
    window_rows rows;
    ft_view<const T> y;
    ft_view<float> x;
    FT_METHOD void operator()(int64_t row, int col, int n) const {
        const int sequence = sequence_of(rows, row);
        const int64_t first = rows.cu_seqlens[sequence], last = rows.cu_seqlens[sequence + 1];
        ft_unit sum = ft_load<false>(x.at(row, col), n);
        for (int k = 0; k < rows.taps; k++) {
            const int64_t from = row - k + (rows.taps - 1) / 2;
            if (from < first || from >= last) continue;
#pragma unroll
            for (int i = 0; i < FT_CUDA_UNIT; i++)
                if (i < n) sum.v[i] += ft_to_float(*y.at(from, (col + i) * rows.taps + k));
        }
        ft_store<false>(x.at(row, col), sum, n);
    }
};

template <class I> static ft_status run(ft_device *device, const ft_unfold_args *a) {
    using T = typename I::type;
    unfold_body<T> body = {{a->cu_seqlens, a->sequences, a->taps}, ft_view_of<const T>(a->x), ft_view_of<T>(a->y)};
    return ft_each_unit("unfold", device, body, a->x.rows, a->x.cols);
}

template <class I> static ft_status run(ft_device *device, const ft_fold_add_args *a) {
    using T = typename I::type;
    fold_add_body<T> body = {{a->cu_seqlens, a->sequences, a->taps}, ft_view_of<const T>(a->y), ft_view_of<float>(a->x)};
    return ft_each_unit("fold_add", device, body, a->x.rows, a->x.cols);
}

ft_status ft_cuda_unfold(ft_device *device, const ft_unfold_args *args) {
    return ft_pick_type<false>(args->x.dtype, [&](auto i) { return run<decltype(i)>(device, args); });
}

ft_status ft_cuda_fold_add(ft_device *device, const ft_fold_add_args *args) {
    return ft_pick_type<false>(args->y.dtype, [&](auto i) { return run<decltype(i)>(device, args); });
}
