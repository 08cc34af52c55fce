// matrix.h - symmetric positive definite matrices, row-major [n][n], of which the upper triangle counts. Every loop has
// one fixed order and the innermost goes along a row, so that the compiler makes vectors of it without changing a bit.
#ifndef FT_HPO_MATRIX_H
#define FT_HPO_MATRIX_H

#include <stdbool.h>

// Twice as wide where the processor can: without contraction the bits are those of plain code. Sanitizers run before
// what chooses between both.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&               \
    !defined(__SANITIZE_THREAD__)
#define FT_WIDE __attribute__((target_clones("avx2", "default")))
#else
#define FT_WIDE
#endif

// A = R'R in place, R upper; what is below the diagonal is left as it was. false: A is not positive definite.
bool ft_cholesky(double *a, int n);
// R'x = b in place, then R x = b: x becomes A^-1 b.
void ft_cholesky_solve(const double *r, int n, double *x);
// inverse [n][n] = A^-1, both triangles; scratch [n][n].
void ft_cholesky_inverse(const double *r, int n, double *scratch, double *inverse);
// out [n] = sum of x[i] times row i of a whole matrix [n][n].
void ft_matrix_rows(const double *matrix, const double *x, int n, double *out);
double ft_cholesky_half_log_det(const double *r, int n); // ln det(A) / 2

#endif
