#include "hpo/search/tpe/parzen.h"

#include <stdlib.h>
#include <string.h>

static const double LOG_SQRT_2PI = 0.91893853320467274178;
enum { FULL_WEIGHT = 25 }; // so many of the latest observations weigh 1

static bool numeric(const ft_parzen_dimension *d) { return d->distribution->kind != FT_CATEGORICAL; }

// ---- Memory -----------------------------------------------------------------------------------------------------

#define GROW(array, n)                                                                                                 \
    do {                                                                                                               \
        void *grown_ = ft_realloc(array, (size_t)(n), sizeof *(array), "a Parzen estimator");                          \
        if (grown_ == NULL) return FT_NO_MEMORY;                                                                       \
        array = grown_;                                                                                                \
    } while (0)

// Room for `count` observations, the prior, and a block of slack that vector loops may read and ignore.
static ft_status reserve(ft_parzen *p, int count) {
    if (count <= p->capacity && p->capacity > 0) return FT_OK;
    int capacity = 2 * p->capacity > count ? 2 * p->capacity : count;
    if (capacity < 30) capacity = 30;
    for (int i = 0; i < p->dimensions; i++) {
        ft_parzen_dimension *d = &p->dimension[i];
        GROW(d->mu, capacity + 1);
        GROW(d->sigma, capacity + 1);
        GROW(d->norm, capacity + 1);
        GROW(d->sorted, capacity + 1);
        GROW(d->at, capacity + 1);
        GROW(d->scale, capacity + 1);
        GROW(d->slack, capacity + 1);
        GROW(d->group, capacity + 1);
    }
    GROW(p->weight, capacity + 1);
    GROW(p->log_weight, capacity + 1);
    p->capacity = capacity;
    return FT_OK;
}

void ft_parzen_free(ft_parzen *p) {
    for (int i = 0; p->dimension != NULL && i < p->dimensions; i++) {
        ft_parzen_dimension *d = &p->dimension[i];
        free(d->mu);
        free(d->sigma);
        free(d->norm);
        free(d->sorted);
        free(d->at);
        free(d->scale);
        free(d->slack);
        free(d->group);
    }
    free(p->dimension);
    free(p->weight);
    free(p->log_weight);
    *p = (ft_parzen){0};
}

// ---- Kernels ----------------------------------------------------------------------------------------------------

// Kernels are at least 1/parts of the range wide.
static int optuna_parts(int count) { return count + 2 < 100 ? count + 2 : 100; }

int ft_parzen_fine_parts(int64_t trials) {
    enum { MOST = 1000 };
    int64_t parts = 3 * ((trials + 9) / 10 + 2);
    return parts < MOST ? (int)parts : MOST;
}

static void set_kernel(ft_parzen_dimension *d, int k, double mu, double sigma) {
    d->mu[k] = mu;
    d->sigma[k] = sigma;
    d->norm[k] = ft_log_normal_mass((d->low - mu) / sigma, (d->high - mu) / sigma);
    // An observation so far outside today's range that no mass is left in it: the kernel is nowhere, not infinite.
    if (!(d->norm[k] > -INFINITY)) d->norm[k] = INFINITY;
    // What bounds the kernel from above: a parabola, in units of the range. Its constant is -slack.
    double range = d->high - d->low, density = d->norm[k] + log(sigma) + LOG_SQRT_2PI;
    if (d->distribution->step == 0) d->norm[k] = density;
    d->at[k] = (float)((mu - d->low) / range);
    d->scale[k] = (float)(range / sigma * sqrt(0.5));
    // 4e-6 of it covers the rounding of float; beyond 1e6 that is too much to tell anything, and the filter lets it
    // pass.
    d->slack[k] = fabs(density) <= 1e6            ? (float)(density - 4e-6 * fabs(density))
                  : density > 0 && isinf(density) ? INFINITY
                                                  : -INFINITY;
    d->group[k] = -1;
}

// Of the cell around a transformed value.
static double cell_width(const ft_parzen_dimension *d, double mu) {
    double step = d->distribution->step, value = d->distribution->log ? exp(mu) : mu;
    return d->distribution->log ? log((value + step / 2) / (value - step / 2)) : step;
}

static double sigma_at(const ft_parzen_dimension *d, int count, int parts, bool fine, int place) {
    double mu = d->mu[d->sorted[place]];
    double before = mu - (place > 0 ? d->mu[d->sorted[place - 1]] : d->low);
    double after = (place + 1 < count ? d->mu[d->sorted[place + 1]] : d->high) - mu;
    double sigma = before > after ? before : after;
    if (count >= 2 && place == 0) sigma = after;
    if (count >= 2 && place == count - 1) sigma = before;
    double range = d->high - d->low, least = range / parts;
    if (fine && d->distribution->step > 0) {
        double half_cell = 0.5 * cell_width(d, d->mu[d->sorted[place]]);
        if (least < half_cell) least = half_cell;
    }
    if (sigma < least) sigma = least;
    return sigma > range ? range : sigma;
}

static void set_prior(ft_parzen_dimension *d, int count) {
    if (numeric(d)) {
        set_kernel(d, count, 0.5 * (d->low + d->high), d->high - d->low);
        return;
    }
    int choices = d->distribution->choice_count;
    double prior = 1.0 / (count + 1), sum = choices * prior + 1;
    d->log_hit = log((prior + 1) / sum);
    d->log_miss = log(prior / sum);
    d->log_prior = log(1.0 / choices);
    d->mu[count] = -1; // no choice: the prior's row is log_prior
    d->at[count] = -1;
}

static double transform(const ft_parzen_dimension *d, double value) {
    return d->distribution->log ? log(value) : value;
}

static void set_weights(ft_parzen *p) {
    if (p->weighted == p->count) return;
    int n = p->count, old = n - FULL_WEIGHT;
    double sum = 0, step = old > 1 ? (1 - 1.0 / n) / (old - 1) : 0;
    for (int i = 0; i < n; i++) {
        p->weight[i] = p->equal || i >= old ? 1 : 1.0 / n + i * step;
        sum += p->weight[i];
    }
    p->weight[n] = 1;
    sum += 1;
    for (int i = 0; i <= n; i++) {
        p->weight[i] /= sum;
        p->log_weight[i] = log(p->weight[i]);
    }
    p->weighted = n;
}

ft_status ft_parzen_init(ft_parzen *p, const ft_distribution *const *distributions, int dimensions, bool equal) {
    *p = (ft_parzen){.dimensions = dimensions, .equal = equal, .weighted = -1};
    p->dimension = ft_calloc((size_t)dimensions, sizeof *p->dimension, "a Parzen estimator");
    if (p->dimension == NULL) return FT_NO_MEMORY;
    FT_TRY(reserve(p, 0));
    for (int i = 0; i < dimensions; i++) {
        ft_parzen_dimension *d = &p->dimension[i];
        d->distribution = distributions[i];
        d->low = transform(d, distributions[i]->low - distributions[i]->step / 2);
        d->high = transform(d, distributions[i]->high + distributions[i]->step / 2);
    }
    ft_parzen_refresh(p);
    return FT_OK;
}

// ---- All at once ------------------------------------------------------------------------------------------------

typedef struct sort_key {
    double mu;
    int kernel;
} sort_key;

static int by_mu(const void *a, const void *b) {
    const sort_key *p = a, *q = b;
    if (p->mu != q->mu) return p->mu < q->mu ? -1 : 1;
    return p->kernel - q->kernel;
}

ft_status ft_parzen_build(ft_parzen *p, const double *observations, int count) {
    FT_TRY(reserve(p, count));
    sort_key *places = ft_calloc((size_t)count + 1, sizeof *places, "a Parzen estimator");
    if (places == NULL) return FT_NO_MEMORY;
    p->count = count;
    p->parts = p->wanted > 0 ? p->wanted : optuna_parts(count);
    for (int i = 0; i < p->dimensions; i++) {
        ft_parzen_dimension *d = &p->dimension[i];
        for (int k = 0; k < count; k++) {
            d->mu[k] = transform(d, observations[(size_t)k * (size_t)p->dimensions + (size_t)i]);
            d->at[k] = (float)d->mu[k]; // choices; numbers: set_kernel
            places[k] = (sort_key){d->mu[k], k};
        }
        set_prior(d, count);
        if (!numeric(d)) continue;
        qsort(places, (size_t)count, sizeof *places, by_mu);
        for (int s = 0; s < count; s++)
            d->sorted[s] = places[s].kernel;
        for (int s = 0; s < count; s++)
            set_kernel(d, d->sorted[s], d->mu[d->sorted[s]], sigma_at(d, count, p->parts, p->fine, s));
    }
    free(places);
    set_weights(p);
    return FT_OK;
}

// ---- One by one -------------------------------------------------------------------------------------------------

static void regap(ft_parzen_dimension *d, int count, int parts, bool fine, int place) {
    if (place < 0 || place >= count) return;
    int k = d->sorted[place];
    double sigma = sigma_at(d, count, parts, fine, place);
    if (sigma != d->sigma[k]) set_kernel(d, k, d->mu[k], sigma);
}

#define MOVE(array, to, from, n) memmove((array) + (to), (array) + (from), (size_t)(n) * sizeof *(array))

ft_status ft_parzen_insert(ft_parzen *p, int position, const double *observation) {
    FT_TRY(reserve(p, p->count + 1));
    int later = p->count - position, n = p->count + 1;
    for (int i = 0; i < p->dimensions; i++) {
        ft_parzen_dimension *d = &p->dimension[i];
        double mu = transform(d, observation[i]);
        MOVE(d->mu, position + 1, position, later + 1);
        MOVE(d->at, position + 1, position, later + 1);
        d->mu[position] = mu;
        d->at[position] = (float)mu; // choices; numbers: set_kernel
        if (!numeric(d)) continue;
        MOVE(d->sigma, position + 1, position, later + 1);
        MOVE(d->norm, position + 1, position, later + 1);
        MOVE(d->scale, position + 1, position, later + 1);
        MOVE(d->slack, position + 1, position, later + 1);
        MOVE(d->group, position + 1, position, later + 1);
        if (later > 0)
            for (int s = 0; s < p->count; s++)
                d->sorted[s] += d->sorted[s] >= position;
        int low = 0, high = p->count; // the first place behind (mu, position)
        while (low < high) {
            int middle = (low + high) / 2, k = d->sorted[middle];
            if (d->mu[k] < mu || (d->mu[k] == mu && k < position))
                low = middle + 1;
            else
                high = middle;
        }
        MOVE(d->sorted, low + 1, low, p->count - low);
        d->sorted[low] = position;
        d->sigma[position] = -1; // no sigma: regap sets it
        for (int s = low - 1; s <= low + 1; s++)
            regap(d, n, p->parts, p->fine, s);
    }
    p->count = n;
    return FT_OK;
}

void ft_parzen_remove(ft_parzen *p, int position) {
    int later = p->count - position - 1, n = p->count - 1;
    for (int i = 0; i < p->dimensions; i++) {
        ft_parzen_dimension *d = &p->dimension[i];
        MOVE(d->mu, position, position + 1, later + 1);
        MOVE(d->at, position, position + 1, later + 1);
        if (!numeric(d)) continue;
        MOVE(d->sigma, position, position + 1, later + 1);
        MOVE(d->norm, position, position + 1, later + 1);
        MOVE(d->scale, position, position + 1, later + 1);
        MOVE(d->slack, position, position + 1, later + 1);
        MOVE(d->group, position, position + 1, later + 1);
        int place = 0, kept = 0;
        for (int s = 0; s < p->count; s++) {
            int k = d->sorted[s];
            if (k == position)
                place = s;
            else
                d->sorted[kept++] = k - (k > position);
        }
        regap(d, n, p->parts, p->fine, place - 1);
        regap(d, n, p->parts, p->fine, place);
    }
    p->count = n;
}

void ft_parzen_refresh_like(ft_parzen *p, const ft_parzen *other) {
    if (p->weighted != p->count && other->weighted == p->count && other->equal == p->equal) {
        size_t bytes = (size_t)(p->count + 1) * sizeof *p->weight;
        memcpy(p->weight, other->weight, bytes);
        memcpy(p->log_weight, other->log_weight, bytes);
        p->weighted = p->count;
    }
    ft_parzen_refresh(p);
}

void ft_parzen_refresh(ft_parzen *p) {
    int parts = p->wanted > 0 ? p->wanted : optuna_parts(p->count);
    for (int i = 0; i < p->dimensions; i++) {
        ft_parzen_dimension *d = &p->dimension[i];
        set_prior(d, p->count);
        if (!numeric(d) || parts == p->parts) continue;
        for (int s = 0; s < p->count; s++)
            regap(d, p->count, parts, p->fine, s);
    }
    p->parts = parts;
    set_weights(p);
}

// ---- Drawing ----------------------------------------------------------------------------------------------------

int ft_parzen_pick(const ft_parzen *p, const double *weight, double uniform) {
    double total = 0, sum = 0;
    for (int k = 0; k <= p->count; k++)
        total += weight[k];
    for (int k = 0; k < p->count; k++) {
        sum += weight[k];
        if (sum / total > uniform) return k;
    }
    return p->count;
}

static double draw_choice(const ft_parzen *p, const ft_parzen_dimension *d, int kernel, double uniform) {
    int choices = d->distribution->choice_count;
    double sum = 0;
    for (int c = 0; c < choices - 1; c++) {
        sum += exp(ft_parzen_choice(d, kernel, p->count, c));
        if (sum >= uniform) return c;
    }
    return choices - 1;
}

double ft_parzen_draw(const ft_parzen *p, int dimension, int kernel, double uniform) {
    const ft_parzen_dimension *d = &p->dimension[dimension];
    if (!numeric(d)) return draw_choice(p, d, kernel, uniform);
    double mu = d->mu[kernel], sigma = d->sigma[kernel];
    double x = mu + sigma * ft_truncated_normal_quantile(uniform, (d->low - mu) / sigma, (d->high - mu) / sigma);
    if (d->distribution->log) x = exp(x);
    double low = d->distribution->low, high = d->distribution->high, step = d->distribution->step;
    if (step != 0) x = low + nearbyint((x - low) / step) * step;
    if (!(x > low)) return low;
    return x < high ? x : high;
}

// ---- Density ----------------------------------------------------------------------------------------------------

ft_parzen_cell ft_parzen_cell_of(const ft_parzen_dimension *d, double value) {
    if (!numeric(d)) return (ft_parzen_cell){value, value, true};
    double half = d->distribution->step / 2;
    ft_parzen_cell cell = {transform(d, value - half), transform(d, value + half), true};
    if (half == 0) cell.inside = cell.left >= d->low && cell.left <= d->high;
    return cell;
}

double ft_parzen_log_sum(const double *terms, int count) {
    double most = -INFINITY, sums[FT_PARZEN_SUMS] = {0};
    for (int i = 0; i < count; i++)
        most = terms[i] > most ? terms[i] : most;
    if (most == -INFINITY) return -INFINITY;
    for (int i = 0, kept = 0; i < count; i++)
        if (terms[i] >= most - FT_PARZEN_CUT) sums[kept++ % FT_PARZEN_SUMS] += ft_parzen_exp(terms[i] - most);
    return ft_parzen_log_of_sums(sums, most);
}

// Adds the logarithm of every kernel in one dimension to terms [count + 1]; false where the point is in none.
static bool add_kernels(const ft_parzen *p, int dimension, double value, double *terms) {
    const ft_parzen_dimension *d = &p->dimension[dimension];
    ft_parzen_cell cell = ft_parzen_cell_of(d, value);
    if (!cell.inside) return false;
    for (int k = 0; k <= p->count; k++) {
        if (!numeric(d))
            terms[k] += ft_parzen_choice(d, k, p->count, value);
        else if (d->distribution->step == 0)
            terms[k] += ft_parzen_continuous(d, k, cell.left);
        else
            terms[k] += ft_parzen_discrete(d, k, cell);
    }
    return true;
}

double ft_parzen_log_density(const ft_parzen *p, const double *point, double *scratch) {
    memcpy(scratch, p->log_weight, (size_t)(p->count + 1) * sizeof *scratch);
    for (int i = 0; i < p->dimensions; i++)
        if (!add_kernels(p, i, point[i], scratch)) return -INFINITY;
    return ft_parzen_log_sum(scratch, p->count + 1);
}

void ft_parzen_given(const ft_parzen *p, const double *point, const bool *known, double *weight) {
    double most = -INFINITY;
    memcpy(weight, p->log_weight, (size_t)(p->count + 1) * sizeof *weight);
    for (int i = 0; i < p->dimensions; i++)
        if (known[i]) add_kernels(p, i, point[i], weight); // outside of the range: no kernel is nearer than another
    for (int k = 0; k <= p->count; k++)
        most = weight[k] > most ? weight[k] : most;
    bool nowhere = most == -INFINITY; // a value with a step, far outside of today's range
    for (int k = 0; k <= p->count; k++)
        weight[k] = nowhere ? p->weight[k] : weight[k] < most - FT_PARZEN_CUT ? 0 : ft_parzen_exp(weight[k] - most);
}
