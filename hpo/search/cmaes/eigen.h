// eigen.h - a symmetric matrix as axes and lengths: A = sum over k of value[k] times vector k times its transpose.
#ifndef FT_HPO_EIGEN_H
#define FT_HPO_EIGEN_H

// Cyclic Jacobi: one fixed order, so the same matrix gives the same bits. a [n][n] whole, is used up; values [n] in no
// order; vectors [n][n], vector k is column k.
void ft_eigen(double *a, int n, double *values, double *vectors);

#endif
