// logits.h - the logits of a data set: of a small one in an array, of a large one in a file without a name, of which a window is in
// memory. They are put there in order, once, and read as often as figures need it.
//
//     FT_TRY(ft_logits_open(examples, outputs, directory, &logits));
//     FT_TRY(ft_logits_append(&logits, rows, count)); ...
//     const float *row = ft_logits_row(&logits, i);
//     FT_TRY(ft_logits_status(&logits)); // was all that was read there?
#ifndef FT_LOGITS_H
#define FT_LOGITS_H

#include "base/pace.h"
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct ft_logits {
    int64_t rows, written;
    int outputs;
    double divisor;        // of what is read from the file
    float *all;            // [rows, outputs]; NULL: in the file
    int file;
    ft_pace pace;
    float *window;         // [window_rows, outputs]: rows [first, first + count) of the file
    int64_t window_rows, first, count;
    ft_status status;      // of reading
} ft_logits;

// directory: of the file, where there is one; it is gone when it is closed, or with the process. FT_NO_MEMORY, or FT_FAILED where no file
// can be made.
ft_status ft_logits_open(int64_t rows, int outputs, const char *directory, ft_logits *logits);
// Those of an array [rows, outputs] of the caller's, who does not close them.
static inline ft_logits ft_logits_in(float *all, int64_t rows, int outputs) {
    return (ft_logits){.rows = rows, .outputs = outputs, .divisor = 1, .all = all, .file = -1};
}
void ft_logits_close(ft_logits *logits); // {0} is fine
// Bytes of memory that such logits take.
size_t ft_logits_host_bytes(int64_t rows, int outputs);

void ft_logits_rewind(ft_logits *logits); // nothing is there yet
// rows [count, outputs], behind those that are there.
ft_status ft_logits_append(ft_logits *logits, const float *rows, int64_t count);
// Everything is (float)((double)x / divisor) from now on.
void ft_logits_divide(ft_logits *logits, double divisor);
// [outputs], until the next call. What cannot be read is zeros, and ft_logits_status says so: who makes a pass asks once.
const float *ft_logits_row(ft_logits *logits, int64_t row);
ft_status ft_logits_status(const ft_logits *logits);

#endif
