#include "hpo/search/cmaes/eigen.h"

#include <float.h>
#include <math.h>

enum { SWEEPS = 50 }; // six are usual: each squares what is left beside the diagonal

static double beside_diagonal(const double *a, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        for (int k = i + 1; k < n; k++)
            sum += a[i * n + k] * a[i * n + k];
    return sum;
}

static double on_diagonal(const double *a, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += a[i * n + i] * a[i * n + i];
    return sum;
}

// Turns axes p and q so that a[p][q] becomes 0.
static void turn(double *a, int n, int p, int q, double *vectors) {
    const double half = (a[q * n + q] - a[p * n + p]) / (2 * a[p * n + q]);
    const double t = (half >= 0 ? 1 : -1) / (fabs(half) + sqrt(half * half + 1));
    const double c = 1 / sqrt(t * t + 1), s = t * c;
    for (int k = 0; k < n; k++) {
        const double x = a[k * n + p], y = a[k * n + q];
        a[k * n + p] = c * x - s * y;
        a[k * n + q] = s * x + c * y;
    }
    for (int k = 0; k < n; k++) {
        const double x = a[p * n + k], y = a[q * n + k], v = vectors[k * n + p], w = vectors[k * n + q];
        a[p * n + k] = c * x - s * y;
        a[q * n + k] = s * x + c * y;
        vectors[k * n + p] = c * v - s * w;
        vectors[k * n + q] = s * v + c * w;
    }
    a[p * n + q] = a[q * n + p] = 0;
}

void ft_eigen(double *a, int n, double *values, double *vectors) {
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++)
            vectors[i * n + k] = i == k;
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        if (beside_diagonal(a, n) <= DBL_EPSILON * DBL_EPSILON * on_diagonal(a, n)) break;
        for (int p = 0; p < n; p++)
            for (int q = p + 1; q < n; q++)
                if (fabs(a[p * n + q]) > DBL_MIN) turn(a, n, p, q, vectors);
    }
    for (int i = 0; i < n; i++)
        values[i] = a[i * n + i];
}
