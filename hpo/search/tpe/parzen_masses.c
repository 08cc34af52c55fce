// parzen_masses.c - two hash tables: kernels by (mu, sigma), rows of masses by value.
#include "hpo/search/tpe/parzen_masses.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_MASSES = 1 << 20 }; // a table that outgrows 8 MiB starts again

static uint64_t hash_double(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits *= 0x9E3779B97F4A7C15u;
    return bits ^ bits >> 29;
}

void ft_mass_table_free(ft_mass_table *t) {
    for (int i = 0; i < t->row_size; i++)
        free(t->rows[i].mass);
    free(t->rows);
    free(t->index);
    free(t->mu);
    free(t->sigma);
    *t = (ft_mass_table){0};
}

static ft_status start_table(ft_mass_table *t, ft_parzen_dimension *d, int kernels) {
    ft_mass_table_free(t);
    for (int k = 0; k < kernels; k++)
        d->group[k] = -1;
    t->decided_at = kernels;
    t->group_capacity = 2 * kernels + 64;
    t->index_size = 4 * t->group_capacity;
    t->index = ft_calloc((size_t)t->index_size, sizeof *t->index, "TPE");
    t->mu = ft_calloc((size_t)t->group_capacity, sizeof *t->mu, "TPE");
    t->sigma = ft_calloc((size_t)t->group_capacity, sizeof *t->sigma, "TPE");
    t->row_size = 64;
    t->rows = ft_calloc((size_t)t->row_size, sizeof *t->rows, "TPE");
    if (t->index == NULL || t->mu == NULL || t->sigma == NULL || t->rows == NULL) {
        ft_mass_table_free(t); // without rows the sizes must not stay
        return FT_NO_MEMORY;
    }
    for (int i = 0; i < t->index_size; i++)
        t->index[i] = -1;
    return FT_OK;
}

ft_status ft_mass_table_group(ft_mass_table *t, ft_parzen_dimension *d, int kernels) {
    bool grown = kernels >= 2 * t->decided_at;
    if (t->direct && !grown) return FT_OK;
    if (t->index == NULL || grown) FT_TRY(start_table(t, d, kernels));
    for (int k = 0; k < kernels; k++) {
        if (d->group[k] >= 0) continue;
        uint64_t place = (hash_double(d->mu[k]) * 31 + hash_double(d->sigma[k])) % (uint64_t)t->index_size;
        int g;
        while ((g = t->index[place]) >= 0 && (t->mu[g] != d->mu[k] || t->sigma[g] != d->sigma[k]))
            place = (place + 1) % (uint64_t)t->index_size;
        if (g < 0) {
            if (t->groups == t->group_capacity) { // full of pairs that are no more
                FT_TRY(start_table(t, d, kernels));
                k = -1;
                continue;
            }
            g = t->groups++;
            t->mu[g] = d->mu[k];
            t->sigma[g] = d->sigma[k];
            t->index[place] = g;
        }
        d->group[k] = g;
    }
    t->direct = kernels > 64 && t->decided_at == kernels && t->groups > kernels / 2;
    return FT_OK;
}

static ft_mass_row *find_row(ft_mass_row *rows, int size, double value) {
    uint64_t place = hash_double(value) % (uint64_t)size;
    while (rows[place].mass != NULL && rows[place].value != value)
        place = (place + 1) % (uint64_t)size;
    return &rows[place];
}

static void forget_rows(ft_mass_table *t) {
    for (int i = 0; i < t->row_size; i++)
        free(t->rows[i].mass);
    memset(t->rows, 0, (size_t)t->row_size * sizeof *t->rows);
    t->row_count = 0;
    t->masses = 0;
}

ft_status ft_mass_table_row(ft_mass_table *t, double value, double **mass) {
    ft_mass_row *row = find_row(t->rows, t->row_size, value);
    if (row->mass == NULL || row->length < t->groups) {
        int length = t->groups + t->groups / 4 + 16;
        if (t->masses + (size_t)length > MOST_MASSES) forget_rows(t);
        if (2 * t->row_count >= t->row_size) {
            ft_mass_row *rows = ft_calloc(2 * (size_t)t->row_size, sizeof *rows, "TPE");
            if (rows == NULL) return FT_NO_MEMORY;
            for (int i = 0; i < t->row_size; i++)
                if (t->rows[i].mass != NULL) *find_row(rows, 2 * t->row_size, t->rows[i].value) = t->rows[i];
            free(t->rows);
            t->rows = rows;
            t->row_size *= 2;
        }
        row = find_row(t->rows, t->row_size, value);
        double *longer = ft_realloc(row->mass, (size_t)length, sizeof *longer, "TPE");
        if (longer == NULL) return FT_NO_MEMORY;
        for (int g = row->length; g < length; g++)
            longer[g] = FT_MASS_UNKNOWN;
        t->row_count += row->mass == NULL;
        t->masses += (size_t)(length - row->length);
        *row = (ft_mass_row){value, longer, length};
    }
    *mass = row->mass;
    return FT_OK;
}
