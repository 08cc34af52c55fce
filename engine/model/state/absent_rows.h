// absent_rows.h - the rows of the word table that a run does not train (word_rows.h).
//
// Their gradient is zero in every step, so AdamW leaves them weight decay only: a product with the factor of every step
// (ft_adamw_keep), skipped steps left out. The factors are noted here, and the products are made when somebody needs the
// rows: by ft_absent_rows_refresh for those that evaluations read, which have weights on the device, and by
// ft_absent_rows_read for all of them when the whole table is written to a file. They are then taken from where they came
// from - the mapped file of the model, or the random numbers they are drawn from - through a window of fixed size: no
// memory ever holds them all. The bits are those of training with the whole table (decay.h).
#ifndef FT_ABSENT_ROWS_H
#define FT_ABSENT_ROWS_H

#include "engine/files/weights.h"
#include "engine/model/state/drawing.h"
#include "engine/model/state/staging.h"
#include "engine/model/state/word_rows.h"

#include <sys/stat.h>

enum { FT_DECAY_FACTORS = 1024 }; // that are on the device at once

typedef struct ft_absent_rows {
    const ft_word_rows *word_rows;   // NULL: the whole table is on the device, and nothing below is used
    ft_parameters *parameters;       // of the model, with the table
    ft_weights *file;                // mapped; NULL: the rows are drawn
    int tensor;                      // of the file
    struct stat file_was;            // when it was opened
    ft_drawing drawing;
    char sha256[65];                 // of the table in the file; "": drawn, or not asked for
    float *factors;                  // [count] of the completed steps, host
    int64_t count, capacity;
    int64_t in_source;               // of these, factors that the values in the file have been through
    int64_t in_held;                 // and the rows that only evaluations read
    float *device_factors;           // [FT_DECAY_FACTORS] device; NULL: these rows do not decay
} ft_absent_rows;

// What reading rows holds besides its window.
typedef struct ft_row_window {
    ft_staging staging;
    void *scratch; // [FT_STAGING_FLOATS] device; NULL where the device computes in the host's memory
} ft_row_window;

// Gradients and moments exist: what decays gets room for its factors.
ft_status ft_absent_rows_prepare(ft_absent_rows *rows);
void ft_absent_rows_free(ft_absent_rows *rows); // {0} is fine

// Between two devices: the part on the host leaves a model, and comes into another of the same shape and rows.
ft_absent_rows ft_absent_rows_detach(ft_absent_rows *rows);
void ft_absent_rows_attach(ft_absent_rows *rows, ft_absent_rows *detached);

// The values are those of tensor `tensor`; `file` is taken over. Or they are drawn.
void ft_absent_rows_from_file(ft_absent_rows *rows, ft_weights *file, int tensor);
void ft_absent_rows_from_drawing(ft_absent_rows *rows, ft_drawing drawing);
// Reads the whole table once: its sha256, which tells a resumed run that it is the same, and whether all of it is finite.
ft_status ft_absent_rows_digest(ft_absent_rows *rows, ft_staging *staging);

// A step with this rate was completed. Nothing where these rows do not decay.
ft_status ft_absent_rows_step(ft_absent_rows *rows, float learning_rate);
// The factors of a run that is resumed, instead of those noted so far; room for `count`, to be filled.
ft_status ft_absent_rows_restore(ft_absent_rows *rows, int64_t count);
// Before weights are read: brings the rows that only evaluations read up to date.
ft_status ft_absent_rows_refresh(ft_absent_rows *rows);

// FT_FAILED: the file was written over since, and its table is another.
ft_status ft_row_window_open(ft_absent_rows *rows, ft_memory *memory, ft_row_window *window);
void ft_row_window_close(ft_row_window *window); // {0} is fine
// Elements [first, first + count) of the whole table as training would have left it, to window->staging.data.
// count <= FT_STAGING_FLOATS.
ft_status ft_absent_rows_read(ft_absent_rows *rows, ft_row_window *window, int64_t first, int64_t count);

#endif
