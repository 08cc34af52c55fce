// folds.h - a table in K parts of equal size and equal classes, each of which is once what the others are judged on.
#ifndef FT_FOLDS_H
#define FT_FOLDS_H

#include "engine/data/tables/table.h"

// fold_of[i], 0 <= fold < folds, for every row; a function of its arguments alone.
//
// label (NULL: none): rows of a class are spread so that its numbers in two folds differ by at most one, and so do the
// sizes of the folds. Which of them go where is drawn.
// group (NULL: none): rows of one group share a fold. Groups are dealt out from the largest, each to the fold where the
// squares of the classes' shares, and of the sizes, grow least: the rule of scikit-learn's StratifiedGroupKFold, which
// minimises the variance of the shares, in the form in which a group costs no look at other classes than its own.
// More than FT_FOLD_CLASSES different labels are no classes, and are not looked at.
//
// FT_INVALID, WHERE `where`: fewer rows or groups than folds.
enum { FT_FOLD_CLASSES = 1000 };
ft_status ft_folds_assign(const char *const *label, const char *const *group, int64_t rows, int folds, uint64_t seed,
                          const char *where, int32_t *fold_of);

// Moves the rows of `fold` into *out, whose texts stay in `table`: free *out first, or at least do not read it afterwards.
// moved_row, kept_row [table->rows]: of which row of the file each of theirs is. *out is {0} on failure.
ft_status ft_table_split(ft_table *table, const int32_t *fold_of, int fold, ft_table *out, int64_t *kept_row, int64_t *moved_row);
// Rows that are marked, [table->rows], leave the table.
void ft_table_leave_out(ft_table *table, const bool *marked);

#endif
