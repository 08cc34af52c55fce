// targets.h - labels that are no single class: any number of classes, or numbers.
//
// Any number of classes, in one of these forms, which the table tells:
//   several columns     every column is a class, its cells are 0 or 1 (also 0.0, true, false)
//   JSON lists of 0, 1  all of one length above 1: a place is a class
//   JSON lists          of the names of the classes that hold
//   one column          such names, separated by ft_labels.separator; an empty cell is none
// Numbers: a column, several, or a JSON list; as many in every row. They are written with a point, as 3.5; in a file whose
// columns are separated by ; as spreadsheets do where the comma is the decimal sign, also as 3,5.
#ifndef FT_TARGETS_H
#define FT_TARGETS_H

#include "engine/data/labels/labels.h"

// The outputs of a task with targets (labels->kind and separator are set, count and names are filled): the classes in order
// of bytes, numbers by value; those of columns in their order. other (NULL: none) may have more classes.
ft_status ft_targets_labels(const ft_table *train, const ft_table *other, ft_arena *arena, ft_labels *labels);
// Numbers: target [rows * labels->count]. Classes: sets, whose arrays (base/spill.h) are the caller's to free, also on failure. FT_INVALID with
// file:line for an unknown class or what is no number.
ft_status ft_targets_assign(const ft_labels *labels, const ft_table *table, const char *path, float *target);
ft_status ft_targets_assign_sets(const ft_labels *labels, const ft_table *table, const char *path, ft_label_sets *sets);

#endif
