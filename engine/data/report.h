// report.h - what there is to know about a data set before it is trained on: lengths, classes, repeated texts.
#ifndef FT_DATA_REPORT_H
#define FT_DATA_REPORT_H

#include "engine/data/dataset.h"

// The texts of a table (with their second ones), findable by what they are.
typedef struct ft_text_index {
    const ft_table *table;
    uint64_t *hash; // [table->rows] of base/spill.h
} ft_text_index;
ft_status ft_text_index_build(const ft_table *table, ft_text_index *index); // table outlives it
void ft_text_index_free(ft_text_index *index);                               // {0} is fine

enum { FT_QUANTILES = 5 }; // least, median, 90%, 99%, most

typedef struct ft_data_report {
    int64_t examples;
    int64_t empty;         // texts of nothing but blanks
    int64_t truncated;     // longer than max_length: cut, or in windows
    int32_t length[FT_QUANTILES]; // tokens of a sequence: of a text as cut, or of a window. A quantile is the least length that so many have at most
    int64_t repeated;      // rows whose text an earlier row has
    int64_t contradicting; // of those, rows with another label than the first such row
    int64_t contradicting_row, contradicted_row; // the first of them, and the row with the other label
    int64_t known;         // rows whose text the training data has; 0 for the training data itself
    int64_t known_row, train_row; // the first of them, and where the training data has it
} ft_data_report;

// `own`: the index of the table; `train`: that of the training data, NULL when this is it. data: the same rows tokenised.
ft_status ft_data_report_make(const ft_text_index *own, const ft_dataset *data, const ft_text_index *train, ft_data_report *report);

#endif
