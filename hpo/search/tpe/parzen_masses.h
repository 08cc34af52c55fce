// parzen_masses.h - the masses of cells that kernels were asked for, kept for later points and trials.
//
// A mass costs two error functions. Values with a step repeat, and with them (mu, sigma): kernels with an equal pair form a
// group, and every value asked for gets a row with one mass a group, filled when needed.
#ifndef FT_HPO_PARZEN_MASSES_H
#define FT_HPO_PARZEN_MASSES_H

#include "hpo/search/tpe/parzen.h"

#define FT_MASS_UNKNOWN 1.0 // no logarithm of a probability

typedef struct ft_mass_row {
    double value;
    double *mass; // [groups] at least, FT_MASS_UNKNOWN until asked for; NULL = free place
    int length;
} ft_mass_row;

// Of one dimension of one estimator, for good; {0} is empty.
typedef struct ft_mass_table {
    int *index; // hash table of groups, -1 = free
    int index_size, groups, group_capacity;
    double *mu, *sigma; // [groups]
    ft_mass_row *rows;  // hash table by value
    int row_size, row_count;
    size_t masses;  // in all rows
    bool direct;    // hardly any two kernels are equal: masses are computed where they are needed
    int decided_at; // kernels when that was found
} ft_mass_table;

void ft_mass_table_free(ft_mass_table *table);
// Gives every kernel of the dimension that has none its group (d->group [kernels]); nothing when the table is `direct`.
ft_status ft_mass_table_group(ft_mass_table *table, ft_parzen_dimension *d, int kernels);
// The row of a value: masses by group, to be filled in where they are FT_MASS_UNKNOWN. Good until the next call.
ft_status ft_mass_table_row(ft_mass_table *table, double value, double **mass);

#endif
