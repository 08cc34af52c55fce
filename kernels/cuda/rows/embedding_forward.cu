// embedding_forward.cu - the sum of up to three table rows per token.
#include "kernels/cuda/unit.h"

extern "C" {
#include "kernels/ops/embedding.h"
}

template <class T, bool WHOLE> struct embedding_forward_body {
    const int32_t *word_ids, *position_ids, *type_ids;
    ft_view<const T> word, position, type;
    ft_view<T> out;
    FT_METHOD static void add(ft_unit &sum, const T *from, int n) {
        ft_unit u = ft_load<WHOLE>(from, n);
#pragma unroll
        for (int i = 0; i < FT_CUDA_UNIT; i++)
            sum.v[i] += u.v[i];
    }
    FT_METHOD void operator()(int64_t row, int col, int n) const {
        ft_unit sum = ft_load<WHOLE>(word.at(word_ids[row], col), n);
        if (position.data != nullptr) add(sum, position.at(position_ids[row], col), n);
        if (type.data != nullptr) add(sum, type.at(type_ids[row], col), n);
        ft_store<WHOLE>(out.at(row, col), sum, n);
    }
};

template <class I> static ft_status run(ft_device *device, const ft_embedding_forward_args *a) {
    using T = typename I::type;
    embedding_forward_body<T, I::WHOLE> body = {a->word_ids,
                                                a->position_ids,
                                                a->type_ids,
                                                ft_view_of<const T>(a->word),
                                                ft_view_of<const T>(a->position),
                                                ft_view_of<const T>(a->type),
                                                ft_view_of<T>(a->out)};
    return ft_each_unit("embedding_forward", device, body, a->out.rows, a->out.cols);
}

ft_status ft_cuda_embedding_forward(ft_device *device, const ft_embedding_forward_args *args) {
    bool whole =
        ft_is_whole(args->word) && ft_is_whole(args->position) && ft_is_whole(args->type) && ft_is_whole(args->out);
    return ft_pick(args->out.dtype, whole, [&](auto i) { return run<decltype(i)>(device, args); });
}
