#include "hpo/search/gp/matrix.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

// row -= factor * other, from `from` on
FT_WIDE static void subtract(double *restrict row, const double *restrict other, double factor, int from, int n) {
    for (int j = from; j < n; j++)
        row[j] -= factor * other[j];
}

// The pivot's row, ready; false: there is none.
static bool finish_row(double *row, int k, int n) {
    if (!(row[k] > 0) || isinf(row[k])) return false;
    const double pivot = sqrt(row[k]);
    row[k] = pivot;
    for (int j = k + 1; j < n; j++)
        row[j] /= pivot;
    return true;
}

// row -= x * a + y * b, one after the other, from `from` on
FT_WIDE static void subtract_two(double *restrict row, const double *restrict a, double x, const double *restrict b,
                                 double y, int from, int n) {
    for (int j = from; j < n; j++)
        row[j] = (row[j] - x * a[j]) - y * b[j];
}

// Two rows at a time halve the traffic; each element still sees them one after the other.
bool ft_cholesky(double *a, int n) {
    const size_t width = (size_t)n;
    for (int k = 0; k < n; k += 2) {
        double *row = a + (size_t)k * width, *next = row + width;
        if (!finish_row(row, k, n)) return false;
        if (k + 1 == n) break;
        subtract(next, row, row[k + 1], k + 1, n);
        if (!finish_row(next, k + 1, n)) return false;
        for (int i = k + 2; i < n; i++)
            subtract_two(a + (size_t)i * width, row, row[i], next, next[i], i, n);
    }
    return true;
}

FT_WIDE void ft_matrix_rows(const double *matrix, const double *x, int n, double *restrict out) {
    const size_t width = (size_t)n;
    memset(out, 0, width * sizeof *out);
    int i = 0;
    for (; i + 4 <= n; i += 4) {
        const double *a = matrix + (size_t)i * width, *b = a + width, *c = b + width, *d = c + width;
        const double p = x[i], q = x[i + 1], r = x[i + 2], s = x[i + 3];
        for (int j = 0; j < n; j++)
            out[j] = (((out[j] + p * a[j]) + q * b[j]) + r * c[j]) + s * d[j];
    }
    for (; i < n; i++)
        for (int j = 0; j < n; j++)
            out[j] += x[i] * matrix[(size_t)i * width + (size_t)j];
}

void ft_cholesky_solve(const double *r, int n, double *x) {
    for (int k = 0; k < n; k++) {
        const double *row = r + (size_t)k * (size_t)n;
        x[k] /= row[k];
        subtract(x, row, x[k], k + 1, n);
    }
    for (int i = n - 1; i >= 0; i--) {
        const double *row = r + (size_t)i * (size_t)n;
        double sum = x[i];
        for (int j = i + 1; j < n; j++)
            sum -= row[j] * x[j];
        x[i] = sum / row[i];
    }
}

void ft_cholesky_inverse(const double *r, int n, double *scratch, double *inverse) {
    const size_t width = (size_t)n;
    // scratch = R^-1, from the last row up
    memset(scratch, 0, width * width * sizeof *scratch);
    for (int i = n - 1; i >= 0; i--) {
        const double *row = r + (size_t)i * width;
        double *out = scratch + (size_t)i * width;
        for (int k = i + 1; k < n; k++)
            subtract(out, scratch + (size_t)k * width, row[k], k, n);
        for (int j = i + 1; j < n; j++)
            out[j] /= row[i];
        out[i] = 1 / row[i];
    }
    // its lower triangle = its transpose, whose rows the products go along
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++)
            scratch[(size_t)i * width + (size_t)j] = scratch[(size_t)j * width + (size_t)i];
    memset(inverse, 0, width * width * sizeof *inverse);
    for (int k = 0; k < n; k++) {
        const double *column = scratch + (size_t)k * width;
        for (int i = 0; i <= k; i++)
            subtract(inverse + (size_t)i * width, column, -column[i], i, k + 1);
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++)
            inverse[(size_t)i * width + (size_t)j] = inverse[(size_t)j * width + (size_t)i];
}

double ft_cholesky_half_log_det(const double *r, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += log(r[(size_t)i * (size_t)n + (size_t)i]);
    return sum;
}
