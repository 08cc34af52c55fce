// talking.cu - attention of talking heads (kernels/ops/talking_attention.h), for rare models: by fused multiply-adds, with scores of all heads
// in scratch. A wave is some queries of some sequences (talking_geometry.h). A block has one query: its scores, probabilities and what becomes of
// them on the way back. Behind that, a block has a key, or a row of the tables, or a thread a number of the mixing matrices, and adds up what the
// wave's queries give it, in their order.
#include "kernels/cuda/disentangled/disentangled.h"

extern "C" {
#include "kernels/ops/talking_attention.h"
#include "kernels/ops/talking_geometry.h"
}

namespace {

constexpr int THREADS = 128, WARPS = THREADS / FT_WARP;

struct wave {
    int first_sequence, sequences, first_row, rows;
    bool first, last; // of a sequence's
};

template <class T> struct arguments {
    ft_view<const T> q, k, v, pos_key, pos_query, mix_scores, mix_weights, dout;
    ft_view<T> out, dq, dk, dv;
    ft_view<float> lse, dpos_key, dpos_query, dmix_scores, dmix_weights;
    ft_position_slots slots;
    ft_attention_problem problem;
    float *scratch, *sums; // sums: of dk and dv, [keys, 2, width], where the queries of a sequence are more than one wave
    int64_t record;        // numbers of one query
    int pitch;             // from head to head
    wave at;
};

// Rows of a sequence; and of the wave those of its queries.
struct sequence_rows {
    int first_query, queries, first_key, keys, begin, end;
};
template <class T> FT_DEVICE sequence_rows rows_of(const arguments<T> &a, int sequence) {
    sequence_rows s;
    s.first_query = a.problem.cu_queries[sequence];
    s.queries = a.problem.cu_queries[sequence + 1] - s.first_query;
    s.first_key = a.problem.cu_keys[sequence];
    s.keys = a.problem.cu_keys[sequence + 1] - s.first_key;
    s.begin = a.at.first_row;
    s.end = s.begin + a.at.rows < s.queries ? s.begin + a.at.rows : s.queries;
    return s;
}
template <class T> FT_DEVICE float *record_of(const arguments<T> &a, int sequence, int query) {
    return a.scratch + (int64_t(sequence - a.at.first_sequence) * a.at.rows + query - a.at.first_row) * a.record;
}

// ---- one query -----------------------------------------------------------------------------------------------------------

template <class T> struct query_block {
    const arguments<T> &a;
    sequence_rows s;
    int sequence, i, row; // row of q

    FT_METHOD void scores(float *z) const {
        const int d = a.problem.head_dim;
        const bool positions = a.pos_key.data != nullptr || a.pos_query.data != nullptr;
        for (int pair = int(threadIdx.x); pair < a.problem.heads * s.keys; pair += THREADS) {
            const int head = pair / s.keys, j = pair % s.keys;
            const int64_t slot = positions ? a.slots.of(i - j) : 0;
            float contents = 0.0f, of_key = 0.0f, of_query = 0.0f;
            for (int column = head * d; column < (head + 1) * d; column++) {
                const float q = ft_to_float(*a.q.at(row, column)), k = ft_to_float(*a.k.at(s.first_key + j, column));
                contents = fmaf(q, k, contents);
                if (a.pos_key.data != nullptr) of_key = fmaf(q, ft_to_float(*a.pos_key.at(slot, column)), of_key);
                if (a.pos_query.data != nullptr) of_query = fmaf(k, ft_to_float(*a.pos_query.at(slot, column)), of_query);
            }
            z[head * a.pitch + j] = (contents + of_key + of_query) * a.problem.scale;
        }
        __syncthreads();
    }
    // y_g = factor * sum_h matrix[g,h] x_h; transposed: matrix[h,g]
    FT_METHOD void mix(ft_view<const T> matrix, bool transposed, float factor, const float *x, float *y) const {
        for (int at = int(threadIdx.x); at < a.problem.heads * s.keys; at += THREADS) {
            const int g = at / s.keys, j = at % s.keys;
            float sum = 0.0f;
            for (int h = 0; h < a.problem.heads; h++)
                sum = fmaf(ft_to_float(transposed ? *matrix.at(h, g) : *matrix.at(g, h)), x[h * a.pitch + j], sum);
            y[g * a.pitch + j] = sum * factor;
        }
        __syncthreads();
    }
    // m becomes probabilities, dropped ones zero.
    FT_METHOD void softmax(float *m) const {
        const int lane = int(threadIdx.x) % FT_WARP;
        for (int g = int(threadIdx.x) / FT_WARP; g < a.problem.heads; g += WARPS) {
            float *const of = m + g * a.pitch;
            float most = -INFINITY, sum = 0.0f;
            for (int j = lane; j < s.keys; j += FT_WARP) most = fmaxf(most, of[j]);
            most = ft_warp_max(most);
            for (int j = lane; j < s.keys; j += FT_WARP) sum += of[j] = expf(of[j] - most);
            sum = ft_warp_sum(sum);
            for (int j = lane; j < s.keys; j += FT_WARP) of[j] *= factor(g, j) / sum;
            if (a.lse.data != nullptr && lane == 0) *a.lse.at(row, g) = s.keys > 0 ? most + logf(sum) : -INFINITY;
        }
        __syncthreads();
    }
    FT_METHOD float factor(int head, int j) const {
        ft_attention_place place = {};
        place.sequence = sequence;
        place.head = head;
        return ft_keeps(ft_score_filter_of(a.problem, place), i, j) ? a.problem.keep_scale : 0.0f;
    }
    // Of every column: sum_j weight_j (x_j + the table's row for its distance)
    FT_METHOD void weighted_rows(const float *weight, ft_view<const T> x, ft_view<const T> table, ft_view<T> y) const {
        const int d = a.problem.head_dim;
        for (int column = int(threadIdx.x); column < a.problem.heads * d; column += THREADS) {
            const float *const of = weight + column / d * a.pitch;
            float sum = 0.0f;
            for (int j = 0; j < s.keys; j++) {
                float value = ft_to_float(*x.at(s.first_key + j, column));
                if (table.data != nullptr) value += ft_to_float(*table.at(a.slots.of(i - j), column));
                sum = fmaf(of[j], value, sum);
            }
            *y.at(row, column) = ft_from_float<T>(sum);
        }
    }
    // terms[g,h] = sum_j x_g y_h
    FT_METHOD void terms(const float *x, const float *y, float *terms) const {
        const int lane = int(threadIdx.x) % FT_WARP, heads = a.problem.heads;
        for (int pair = int(threadIdx.x) / FT_WARP; pair < heads * heads; pair += WARPS) {
            float sum = 0.0f;
            for (int j = lane; j < s.keys; j += FT_WARP) sum = fmaf(x[pair / heads * a.pitch + j], y[pair % heads * a.pitch + j], sum);
            sum = ft_warp_sum(sum);
            if (lane == 0) terms[pair] = sum;
        }
        __syncthreads();
    }
    // p of m, x = dropout(p), da = <dout, v>
    FT_METHOD void probabilities(float *p, float *x, float *da) const {
        const int d = a.problem.head_dim;
        for (int pair = int(threadIdx.x); pair < a.problem.heads * s.keys; pair += THREADS) {
            const int g = pair / s.keys, j = pair % s.keys, at = g * a.pitch + j;
            float sum = 0.0f;
            for (int c = g * d; c < (g + 1) * d; c++)
                sum = fmaf(ft_to_float(*a.dout.at(row, c)), ft_to_float(*a.v.at(s.first_key + j, c)), sum);
            da[at] = sum;
            p[at] = expf(p[at] - *a.lse.at(row, g));
            x[at] = p[at] * factor(g, j);
        }
        __syncthreads();
    }
    // x: of dropped probabilities, becomes that of m.
    FT_METHOD void softmax_gradient(const float *p, float *x) const {
        const int lane = int(threadIdx.x) % FT_WARP;
        for (int g = int(threadIdx.x) / FT_WARP; g < a.problem.heads; g += WARPS) {
            const float *const of = p + g * a.pitch;
            float *const dp = x + g * a.pitch, mean = 0.0f;
            for (int j = lane; j < s.keys; j += FT_WARP) mean = fmaf(of[j], dp[j] *= factor(g, j), mean);
            mean = ft_warp_sum(mean);
            for (int j = lane; j < s.keys; j += FT_WARP) dp[j] = of[j] * (dp[j] - mean);
        }
        __syncthreads();
    }
};

template <class T, bool BACKWARD> FT_KERNEL void __launch_bounds__(THREADS) talking_query(arguments<T> a) {
    const int sequence = a.at.first_sequence + int(blockIdx.x) / a.at.rows, i = a.at.first_row + int(blockIdx.x) % a.at.rows;
    const sequence_rows s = rows_of(a, sequence);
    if (i >= s.end) return;
    const query_block<T> b = {a, s, sequence, i, s.first_query + i};
    const int64_t scores = int64_t(a.problem.heads) * a.pitch;
    float *const z = record_of(a, sequence, i), *const p = z + scores;
    b.scores(z);
    b.mix(a.mix_scores, false, 1.0f, z, p);
    if constexpr (!BACKWARD) {
        b.softmax(p);
        b.mix(a.mix_weights, false, 1.0f, p, z);
        b.weighted_rows(z, a.v, ft_view<const T>{}, a.out);
    } else {
        float *const da = p + scores, *const x = da + scores, *const weights = x + scores, *const terms = weights + scores;
        b.probabilities(p, x, da);
        b.mix(a.mix_weights, false, 1.0f, x, weights);
        b.terms(da, x, terms + a.problem.heads * a.problem.heads);
        b.mix(a.mix_weights, true, 1.0f, da, x);
        b.softmax_gradient(p, x);
        b.terms(x, z, terms);
        b.mix(a.mix_scores, true, a.problem.scale, x, z);
        b.weighted_rows(z, a.k, a.pos_key, a.dq);
    }
}

// ---- sums over the queries of a wave -------------------------------------------------------------------------------------

template <class T> FT_KERNEL void __launch_bounds__(THREADS) talking_key(arguments<T> a) {
    const int sequence = a.at.first_sequence + int(blockIdx.x) / a.pitch, j = int(blockIdx.x) % a.pitch;
    const sequence_rows s = rows_of(a, sequence);
    if (j >= s.keys) return;
    const int d = a.problem.head_dim, width = a.problem.heads * d;
    const int64_t scores = int64_t(a.problem.heads) * a.pitch;
    for (int column = int(threadIdx.x); column < width; column += THREADS) {
        float *const kept = a.sums + 2 * int64_t(j) * width + column;
        float dk = a.at.first ? 0.0f : kept[0], dv = a.at.first ? 0.0f : kept[width];
#pragma unroll 2 // (four at a time, which the compiler takes by itself, spill on sm_89)
        for (int i = s.begin; i < s.end; i++) {
            const float *const of = record_of(a, sequence, i) + column / d * a.pitch + j;
            float q = ft_to_float(*a.q.at(s.first_query + i, column));
            if (a.pos_query.data != nullptr) q += ft_to_float(*a.pos_query.at(a.slots.of(i - j), column));
            dk = fmaf(of[0], q, dk);
            dv = fmaf(of[4 * scores], ft_to_float(*a.dout.at(s.first_query + i, column)), dv);
        }
        if (a.at.last) {
            *a.dk.at(s.first_key + j, column) = ft_from_float<T>(dk);
            *a.dv.at(s.first_key + j, column) = ft_from_float<T>(dv);
        } else {
            kept[0] = dk;
            kept[width] = dv;
        }
    }
}

// Distances of a slot: from the first whose slot is not below it to the last whose slot is not above it.
struct distances {
    int low, high;
};
FT_DEVICE distances distances_of(const ft_position_slots &slots, int slot) {
    const int count = 2 * slots.reach + 1, far = 1 << 30;
    int ends[2];
    for (int above = 0; above < 2; above++) { // the first of a slot of at least slot + above
        int low = 0, high = count;
        while (low < high) {
            const int middle = (low + high) / 2;
            if (slots.slots[middle] >= slot + above) high = middle;
            else low = middle + 1;
        }
        ends[above] = low;
    }
    if (ends[0] == ends[1]) return {1, 0};
    return {ends[0] == 0 ? -far : ends[0] - slots.reach, ends[1] == count ? far : ends[1] - 1 - slots.reach};
}

template <class T> FT_KERNEL void __launch_bounds__(THREADS) talking_table(arguments<T> a) {
    const int slot = int(blockIdx.x), head = int(blockIdx.y), d = a.problem.head_dim;
    const distances of = distances_of(a.slots, slot);
    if (of.low > of.high) return;
    for (int column = head * d + int(threadIdx.x); column < (head + 1) * d; column += THREADS) {
        float of_key = 0.0f, of_query = 0.0f;
        bool met = false;
        for (int sequence = a.at.first_sequence; sequence < a.at.first_sequence + a.at.sequences; sequence++) {
            const sequence_rows s = rows_of(a, sequence);
            float own_key = 0.0f, own_query = 0.0f; // sums of sums: a chain of all pairs would round too often
            for (int i = s.begin; i < s.end; i++) {
                const float *const dz = record_of(a, sequence, i) + head * a.pitch;
                const int low = i - of.high > 0 ? i - of.high : 0, high = i - of.low < s.keys - 1 ? i - of.low : s.keys - 1;
                float weight = 0.0f, keys = 0.0f;
                for (int j = low; j <= high; j++) {
                    weight += dz[j];
                    keys = fmaf(dz[j], ft_to_float(*a.k.at(s.first_key + j, column)), keys);
                }
                own_key = fmaf(weight, ft_to_float(*a.q.at(s.first_query + i, column)), own_key);
                own_query += keys;
                met = met || low <= high;
            }
            of_key += own_key;
            of_query += own_query;
        }
        if (!met) continue;
        if (a.dpos_key.data != nullptr) *a.dpos_key.at(slot, column) += of_key;
        if (a.dpos_query.data != nullptr) *a.dpos_query.at(slot, column) += of_query;
    }
}

template <class T> FT_KERNEL void __launch_bounds__(THREADS) talking_mixing(arguments<T> a) {
    const int heads = a.problem.heads, all = heads * heads, at = int(blockIdx.x) * THREADS + int(threadIdx.x);
    const int number = at % all;
    const ft_view<float> gradient = at < all ? a.dmix_scores : a.dmix_weights;
    if (at >= 2 * all || gradient.data == nullptr) return;
    float sum = 0.0f;
    for (int sequence = a.at.first_sequence; sequence < a.at.first_sequence + a.at.sequences; sequence++) {
        const sequence_rows s = rows_of(a, sequence);
        float own = 0.0f;
        for (int i = s.begin; i < s.end; i++) own += record_of(a, sequence, i)[5 * int64_t(heads) * a.pitch + at];
        sum += own;
    }
    *gradient.at(number / heads, number % heads) += sum;
}

// ---- launches ------------------------------------------------------------------------------------------------------------

template <class T, class A> arguments<T> arguments_of(const A &args) {
    arguments<T> a = {};
    a.q = ft_view_of<const T>(args.q);
    a.k = ft_view_of<const T>(args.k);
    a.v = ft_view_of<const T>(args.v);
    a.pos_key = ft_view_of<const T>(args.pos_key);
    a.pos_query = ft_view_of<const T>(args.pos_query);
    a.mix_scores = ft_view_of<const T>(args.mix_scores);
    a.mix_weights = ft_view_of<const T>(args.mix_weights);
    a.lse = ft_view_of<float>(args.lse);
    a.slots = ft_position_slots_of(args.shape);
    a.problem = ft_attention_problem_of(args.shape.attention, 1, 1);
    a.scratch = static_cast<float *>(args.workspace.data);
    a.pitch = args.shape.attention.max_keys;
    return a;
}

// Wave after wave: `queue` launches what there is to do for one.
template <class T, class Queue> ft_status run_waves(const ft_attention_shape &shape, arguments<T> a, bool backward, Queue queue) {
    const ft_cuda_talking_wave most = ft_cuda_talking_wave_of(shape.sequences, shape.max_queries, shape.max_keys, shape.heads, backward);
    a.record = ft_cuda_talking_row(shape.max_keys, shape.heads, backward);
    a.sums = a.scratch + most.sequences * most.rows * a.record;
    for (int sequence = 0; sequence < shape.sequences; sequence += int(most.sequences))
        for (int row = 0; row == 0 || row < shape.max_queries; row += int(most.rows)) {
            const int left = shape.sequences - sequence;
            a.at.first_sequence = sequence;
            a.at.sequences = left < most.sequences ? left : int(most.sequences);
            a.at.first_row = row;
            a.at.rows = int(most.rows);
            a.at.first = row == 0;
            a.at.last = row + int(most.rows) >= shape.max_queries;
            FT_TRY(queue(a));
        }
    return FT_OK;
}

template <class T> ft_status run_forward(ft_device *device, const ft_talking_attention_forward_args &args) {
    arguments<T> a = arguments_of<T>(args);
    a.out = ft_view_of<T>(args.out);
    return run_waves(args.shape.attention, a, false, [&](const arguments<T> &of) {
        return ft_launch("talking_attention_forward", talking_query<T, false>, dim3(unsigned(of.at.sequences * of.at.rows)), dim3(THREADS), 0,
                         ft_stream(device), of);
    });
}

template <class T> ft_status run_backward(ft_device *device, const ft_talking_attention_backward_args &args) {
    static const char op[] = "talking_attention_backward";
    arguments<T> a = arguments_of<T>(args);
    a.dout = ft_view_of<const T>(args.dout);
    a.dq = ft_view_of<T>(args.dq);
    a.dk = ft_view_of<T>(args.dk);
    a.dv = ft_view_of<T>(args.dv);
    a.dpos_key = ft_view_of<float>(args.dpos_key);
    a.dpos_query = ft_view_of<float>(args.dpos_query);
    a.dmix_scores = ft_view_of<float>(args.dmix_scores);
    a.dmix_weights = ft_view_of<float>(args.dmix_weights);
    const unsigned heads = unsigned(args.shape.attention.heads);
    const int64_t slots = args.dpos_key.data != nullptr ? args.dpos_key.rows : args.dpos_query.rows;
    return run_waves(args.shape.attention, a, true, [&](const arguments<T> &of) -> ft_status {
        const auto queue = [&](auto kernel, dim3 blocks) {
            return blocks.x > 0 ? ft_launch(op, kernel, blocks, dim3(THREADS), 0, ft_stream(device), of) : FT_OK;
        };
        FT_TRY(queue(talking_query<T, true>, dim3(unsigned(of.at.sequences * of.at.rows))));
        FT_TRY(queue(talking_key<T>, dim3(unsigned(of.at.sequences * of.pitch))));
        if (args.dpos_key.data != nullptr || args.dpos_query.data != nullptr) FT_TRY(queue(talking_table<T>, dim3(unsigned(slots), heads)));
        if (args.dmix_scores.data == nullptr && args.dmix_weights.data == nullptr) return FT_OK;
        return queue(talking_mixing<T>, dim3((2 * heads * heads + THREADS - 1) / THREADS));
    });
}

} // namespace

ft_status ft_cuda_talking_attention_forward(ft_device *device, const ft_talking_attention_forward_args *args) {
    if (args->shape.attention.sequences == 0 || args->out.rows == 0) return FT_OK;
    return ft_pick_type<false>(args->q.dtype, [&](auto i) { return run_forward<typename decltype(i)::type>(device, *args); });
}

ft_status ft_cuda_talking_attention_backward(ft_device *device, const ft_talking_attention_backward_args *args) {
    if (args->shape.attention.sequences == 0) return FT_OK;
    return ft_pick_type<false>(args->q.dtype, [&](auto i) { return run_backward<typename decltype(i)::type>(device, *args); });
}
