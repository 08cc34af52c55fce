#include "hpo/search/history/pareto.h"

#include "base/arena.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct point_set {
    const double *points;
    int objectives;
} point_set;

static int lexicographic(const void *a, const void *b, void *context) {
    const point_set *set = context;
    int64_t i = *(const int64_t *)a, j = *(const int64_t *)b;
    for (int o = 0; o < set->objectives; o++) {
        double x = set->points[i * set->objectives + o], y = set->points[j * set->objectives + o];
        if (x != y) return x < y ? -1 : 1;
    }
    return (i > j) - (i < j);
}

static bool equal_points(const double *points, int objectives, int64_t i, int64_t j) {
    for (int o = 0; o < objectives; o++)
        if (points[i * objectives + o] != points[j * objectives + o]) return false;
    return true;
}

// a <= b in every objective. Unequal points: a dominates b.
static bool covers(const double *a, const double *b, int objectives) {
    for (int o = 0; o < objectives; o++)
        if (a[o] > b[o]) return false;
    return true;
}

// Moves the points that no other one dominates to the front of `unique` (sorted: a later one never dominates an earlier
// one), both parts staying in order; returns how many. `rest` is scratch.
static int64_t peel(const double *points, int objectives, int64_t *unique, int64_t count, int64_t *rest) {
    int64_t kept = 0, left = 0;
    double best = INFINITY;
    for (int64_t i = 0; i < count; i++) {
        const double *p = points + unique[i] * objectives;
        bool beaten = false;
        if (objectives == 2) { // sorted by the first: beaten when some earlier one is as good in the second
            beaten = i > 0 && p[1] >= best;
            best = p[1] < best ? p[1] : best;
        }
        for (int64_t j = 0; objectives != 2 && j < kept && !beaten; j++)
            beaten = covers(points + unique[j] * objectives, p, objectives);
        if (beaten)
            rest[left++] = unique[i];
        else
            unique[kept++] = unique[i];
    }
    memcpy(unique + kept, rest, (size_t)left * sizeof *rest);
    return kept;
}

// ---- Hypervolume ------------------------------------------------------------------------------------------------

static double volume_3d(const double *points, int stride, const int64_t *order, int64_t n, const double *reference,
                        double (*stairs)[2]) {
    // Upwards along the third objective; the area that the points so far cover in the other two is a staircase, x
    // rising and y falling.
    double volume = 0, area = 0;
    int64_t steps = 0;
    for (int64_t i = 0; i < n; i++) {
        const double *p = points + order[i] * stride;
        int64_t at = 0;
        while (at < steps && stairs[at][0] <= p[0])
            at++;
        double top = at > 0 ? stairs[at - 1][1] : reference[1];
        if (p[1] < top) {
            int64_t end = at; // steps at..end-1 are covered by the new one
            if (at > 0 && stairs[at - 1][0] == p[0]) at--;
            double x = p[0], y = top;
            for (; end < steps && stairs[end][1] >= p[1]; end++) {
                area += (stairs[end][0] - x) * (y - p[1]);
                x = stairs[end][0];
                y = stairs[end][1];
            }
            double right = end < steps ? stairs[end][0] : reference[0];
            area += (right - x) * (y - p[1]);
            memmove(stairs + at + 1, stairs + end, (size_t)(steps - end) * sizeof *stairs);
            steps += at + 1 - end;
            stairs[at][0] = p[0];
            stairs[at][1] = p[1];
        }
        double next = i + 1 < n ? points[order[i + 1] * stride + 2] : reference[2];
        if (next > p[2]) volume += (next - p[2]) * area;
    }
    return volume;
}

// Slices along the last objective: between two neighbouring values the volume is that of one objective less, of the
// points that start before. `order` has room for objectives * n indices.
static double volume_of(const double *points, int stride, int64_t *order, int64_t n, int objectives,
                        const double *reference, double (*stairs)[2]) {
    if (n == 0) return 0;
    if (objectives == 1) {
        double least = points[order[0] * stride];
        for (int64_t i = 1; i < n; i++)
            least = fmin(least, points[order[i] * stride]);
        return reference[0] - least;
    }
    int last = objectives - 1;
    for (int64_t i = 1; i < n; i++) { // insertion sort: in a slice the points come nearly sorted or are few
        int64_t moved = order[i], j = i;
        for (; j > 0 && points[moved * stride + last] < points[order[j - 1] * stride + last]; j--)
            order[j] = order[j - 1];
        order[j] = moved;
    }
    if (objectives == 3) return volume_3d(points, stride, order, n, reference, stairs);
    double volume = 0;
    int64_t *inner = order + n;
    for (int64_t i = 0; i < n; i++) {
        double from = points[order[i] * stride + last];
        double to = i + 1 < n ? points[order[i + 1] * stride + last] : reference[last];
        if (to <= from) continue;
        memcpy(inner, order, (size_t)(i + 1) * sizeof *inner);
        volume += (to - from) * volume_of(points, stride, inner, i + 1, last, reference, stairs);
    }
    return volume;
}

ft_status ft_hypervolume(const double *points, int64_t n, int objectives, const double *reference, double *volume) {
    int64_t *order = ft_calloc((size_t)n * (size_t)objectives + 1, sizeof *order, "hypervolume");
    double(*stairs)[2] = ft_calloc((size_t)n + 1, sizeof *stairs, "hypervolume");
    if (order == NULL || stairs == NULL) {
        free(order);
        free(stairs);
        return FT_NO_MEMORY;
    }
    int64_t front = 0;
    for (int64_t i = 0; i < n; i++) {
        const double *p = points + i * objectives;
        bool counts = true;
        for (int o = 0; o < objectives; o++)
            counts = counts && p[o] < reference[o];
        for (int64_t j = 0; j < front && counts; j++)
            counts = !covers(points + order[j] * objectives, p, objectives);
        if (!counts) continue;
        int64_t kept = 0; // those that p covers go
        for (int64_t j = 0; j < front; j++)
            if (!covers(p, points + order[j] * objectives, objectives)) order[kept++] = order[j];
        order[kept++] = i;
        front = kept;
    }
    *volume = volume_of(points, objectives, order, front, objectives, reference, stairs);
    free(order);
    free(stairs);
    return FT_OK;
}

// ---- Greedy choice ----------------------------------------------------------------------------------------------

// Two objectives: each point keeps the corner of the rectangle that it would add, so a step is linear.
static ft_status choose_2d(const double *points, const int64_t *unique, int64_t n, int64_t k, const double *reference,
                           bool *chosen) {
    double(*corner)[2] = ft_calloc((size_t)n, sizeof *corner, "hypervolume");
    if (corner == NULL) return FT_NO_MEMORY;
    for (int64_t i = 0; i < n; i++)
        memcpy(corner[i], reference, sizeof corner[i]);
    for (int64_t step = 0; step < k; step++) {
        int64_t best = -1;
        double most = 0;
        for (int64_t i = 0; i < n; i++) {
            if (chosen[unique[i]]) continue;
            const double *p = points + 2 * unique[i];
            double gain = (corner[i][0] - p[0]) * (corner[i][1] - p[1]);
            if (best >= 0 && !(gain > most)) continue;
            best = i;
            most = gain;
        }
        chosen[unique[best]] = true;
        const double *p = points + 2 * unique[best];
        for (int64_t i = 0; i < best; i++)
            corner[i][0] = fmin(corner[i][0], p[0]);
        for (int64_t i = best + 1; i < n; i++)
            corner[i][1] = fmin(corner[i][1], p[1]);
    }
    free(corner);
    return FT_OK;
}

// What `point` adds to the first `count` points of `set`, whose volume is `volume`. set has room for one more.
static ft_status gain_of(double *set, int64_t count, int objectives, const double *point, const double *reference,
                         double volume, double *limited, double *gain) {
    if (isinf(volume)) {
        *gain = INFINITY;
        return FT_OK;
    }
    double other = 0;
    if (objectives == 3) { // as Optuna: with it, less without it
        memcpy(set + count * objectives, point, (size_t)objectives * sizeof *set);
        FT_TRY(ft_hypervolume(set, count + 1, objectives, reference, &other));
        *gain = other - volume;
        return FT_OK;
    }
    // The point's own box less what the set covers of it: in that box few points remain.
    double own = 1;
    for (int o = 0; o < objectives; o++)
        own *= reference[o] - point[o];
    for (int64_t i = 0; i < count; i++)
        for (int o = 0; o < objectives; o++)
            limited[i * objectives + o] = fmax(set[i * objectives + o], point[o]);
    if (!isinf(own)) FT_TRY(ft_hypervolume(limited, count, objectives, reference, &other));
    *gain = own - other;
    return FT_OK;
}

// Three and more: gains only shrink as points are chosen, so an old gain is an upper bound. The point with the largest
// is looked at again until the largest is new: nothing else can exceed it.
static ft_status choose_nd(const double *points, int objectives, const int64_t *unique, int64_t n, int64_t k,
                           const double *reference, bool *chosen) {
    size_t width = (size_t)objectives * sizeof(double);
    double *bound = ft_calloc((size_t)n, sizeof *bound, "hypervolume");
    int64_t *known_at = ft_calloc((size_t)n, sizeof *known_at, "hypervolume");
    double *set = ft_calloc((size_t)k + 1, width, "hypervolume"),
           *limited = ft_calloc((size_t)k + 1, width, "hypervolume");
    ft_status status = bound == NULL || known_at == NULL || set == NULL || limited == NULL ? FT_NO_MEMORY : FT_OK;
    double volume = 0;
    for (int64_t i = 0; status == FT_OK && i < n; i++) {
        bound[i] = 1;
        for (int o = 0; o < objectives; o++)
            bound[i] *= reference[o] - points[unique[i] * objectives + o];
    }
    for (int64_t step = 0; status == FT_OK && step < k;) {
        int64_t best = -1;
        for (int64_t i = 0; i < n; i++)
            if (!chosen[unique[i]] && (best < 0 || bound[i] > bound[best])) best = i;
        const double *point = points + unique[best] * objectives;
        if (known_at[best] < step) {
            status = gain_of(set, step, objectives, point, reference, volume, limited, &bound[best]);
            known_at[best] = step;
            continue;
        }
        chosen[unique[best]] = true;
        memcpy(set + step * objectives, point, width);
        volume += bound[best];
        step++;
    }
    free(bound);
    free(known_at);
    free(set);
    free(limited);
    return status;
}

// k of the `all` points of one rank (ascending), `unique` of which are different (sorted, lowest index for each).
static ft_status cut_rank(const double *points, int objectives, const int64_t *all, int64_t all_count,
                          const int64_t *unique, int64_t unique_count, int64_t k, bool *chosen) {
    double *corner = ft_calloc((size_t)objectives, sizeof *corner, "hypervolume");
    if (corner == NULL) return FT_NO_MEMORY;
    bool finite = true;
    for (int o = 0; o < objectives; o++) {
        double worst = -INFINITY;
        for (int64_t i = 0; i < all_count; i++)
            worst = fmax(worst, points[all[i] * objectives + o]);
        corner[o] = fmax(1.1 * worst, 0.9 * worst);
        if (corner[o] == 0) corner[o] = 1e-12;
        finite = finite && isfinite(corner[o]);
    }
    ft_status status = FT_OK;
    if (unique_count <= k || !finite) {
        int64_t taken = 0;
        for (; taken < unique_count && taken < k; taken++)
            chosen[unique[taken]] = true;
        for (int64_t i = 0; i < all_count && taken < k; i++) {
            taken += !chosen[all[i]];
            chosen[all[i]] = true;
        }
    } else if (objectives == 2) {
        status = choose_2d(points, unique, unique_count, k, corner, chosen);
    } else {
        status = choose_nd(points, objectives, unique, unique_count, k, corner, chosen);
    }
    free(corner);
    return status;
}

// unique: the different points, sorted, of equal ones the earliest, which of [n] tells for each. Returns how many.
// sorted [n] is scratch.
static int64_t find_unique(const double *points, int64_t n, int objectives, int64_t *sorted, int64_t *unique,
                           int64_t *of) {
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++)
        sorted[i] = i;
    qsort_r(sorted, (size_t)n, sizeof *sorted, lexicographic, &(point_set){points, objectives});
    for (int64_t i = 0; i < n; i++) {
        bool fresh = i == 0 || !equal_points(points, objectives, sorted[i - 1], sorted[i]);
        if (fresh) unique[count++] = sorted[i];
        of[sorted[i]] = unique[count - 1];
    }
    return count;
}

ft_status ft_pareto_front(const double *points, int64_t n, int objectives, bool *front) {
    memset(front, 0, (size_t)n * sizeof *front);
    int64_t *sorted = ft_calloc(4 * (size_t)n + 1, sizeof *sorted, "objectives");
    if (sorted == NULL) return FT_NO_MEMORY;
    int64_t *unique = sorted + n, *of = unique + n, *rest = of + n;
    int64_t size = peel(points, objectives, unique, find_unique(points, n, objectives, sorted, unique, of), rest);
    for (int64_t i = 0; i < size; i++)
        front[unique[i]] = true;
    for (int64_t i = 0; i < n; i++)
        front[i] = front[of[i]];
    free(sorted);
    return FT_OK;
}

ft_status ft_pareto_best(const double *points, int64_t n, int objectives, int64_t k, bool *chosen) {
    memset(chosen, 0, (size_t)n * sizeof *chosen);
    int64_t *sorted = ft_calloc(5 * (size_t)n + 1, sizeof *sorted, "objectives");
    if (sorted == NULL) return FT_NO_MEMORY;
    int64_t *unique = sorted + n, *of = unique + n, *rest = of + n, *all = rest + n;
    int64_t left = find_unique(points, n, objectives, sorted, unique, of);
    bool *in_rank = ft_calloc((size_t)n + 1, sizeof *in_rank, "objectives");
    ft_status status = in_rank == NULL ? FT_NO_MEMORY : FT_OK;
    while (status == FT_OK && k > 0) {
        int64_t size = peel(points, objectives, unique, left, rest), count = 0;
        memset(in_rank, 0, (size_t)n * sizeof *in_rank);
        for (int64_t i = 0; i < size; i++)
            in_rank[unique[i]] = true;
        for (int64_t i = 0; i < n; i++)
            if (in_rank[of[i]]) all[count++] = i;
        if (count > k) {
            status = cut_rank(points, objectives, all, count, unique, size, k, chosen);
            break;
        }
        for (int64_t i = 0; i < count; i++)
            chosen[all[i]] = true;
        k -= count;
        unique += size;
        left -= size;
    }
    free(in_rank);
    free(sorted);
    return status;
}
