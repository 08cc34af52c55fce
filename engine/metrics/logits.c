#include "engine/metrics/logits.h"

#include "base/arena.h"
#include "base/files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    KEPT = 4 << 20,      // bytes: what is no larger stays in memory
    WINDOW = 1 << 20     // of a file; a row at least
};

static size_t row_bytes(int outputs) { return (size_t)outputs * sizeof(float); }

static int64_t window_rows(int64_t rows, int outputs) {
    const int64_t fit = (int64_t)(WINDOW / row_bytes(outputs));
    return fit < 1 ? 1 : fit < rows ? fit : rows;
}

static bool is_kept(int64_t rows, int outputs) { return (uint64_t)rows <= KEPT / row_bytes(outputs); }

size_t ft_logits_host_bytes(int64_t rows, int outputs) {
    return row_bytes(outputs) * (size_t)(is_kept(rows, outputs) ? rows : window_rows(rows, outputs));
}

ft_status ft_logits_open(int64_t rows, int outputs, const char *directory, ft_logits *l) {
    *l = (ft_logits){.rows = rows, .outputs = outputs, .divisor = 1, .file = -1};
    if (is_kept(rows, outputs)) {
        l->all = ft_calloc((size_t)rows * (size_t)outputs, sizeof *l->all, "logits");
        return l->all != NULL ? FT_OK : FT_NO_MEMORY;
    }
    l->window_rows = window_rows(rows, outputs);
    l->window = ft_calloc((size_t)l->window_rows * (size_t)outputs, sizeof *l->window, "logits");
    if (l->window == NULL) return FT_NO_MEMORY;
    return ft_scratch_file(directory, &l->file);
}

void ft_logits_close(ft_logits *l) {
    free(l->all);
    free(l->window);
    if (l->window != NULL && l->file >= 0) close(l->file);
    *l = (ft_logits){.file = -1};
}

void ft_logits_rewind(ft_logits *l) {
    l->written = l->first = l->count = 0;
    l->pace = (ft_pace){0};
    l->divisor = 1;
    l->status = FT_OK;
}

static ft_status write_rows(ft_logits *l, const float *rows, int64_t count) {
    const size_t bytes = (size_t)count * row_bytes(l->outputs);
    const off_t at = (off_t)l->written * (off_t)row_bytes(l->outputs);
    for (size_t done = 0; done < bytes;) {
        const ssize_t n = pwrite(l->file, (const char *)rows + done, bytes - done, at + (off_t)done);
        if (n > 0) done += (size_t)n;
        else if (errno != EINTR) return ft_fail_errno(FT_FAILED, errno, "logits of an evaluation", "cannot write the scratch file");
    }
    ft_pace_written(&l->pace, l->file, at + (off_t)bytes);
    return FT_OK;
}

ft_status ft_logits_append(ft_logits *l, const float *rows, int64_t count) {
    if (count > l->rows - l->written) return ft_fail(FT_FAILED, NULL, "internal: more logits than examples");
    if (l->all != NULL) memcpy(l->all + l->written * l->outputs, rows, (size_t)count * row_bytes(l->outputs));
    else FT_TRY(write_rows(l, rows, count));
    l->written += count;
    return FT_OK;
}

void ft_logits_divide(ft_logits *l, double divisor) {
    for (int64_t i = 0; l->all != NULL && i < l->rows * l->outputs; i++) l->all[i] = (float)((double)l->all[i] / divisor);
    if (l->all != NULL) return;
    l->divisor = divisor;
    l->count = 0;
}

static ft_status read_rows(ft_logits *l, int64_t first, int64_t count) {
    const size_t bytes = (size_t)count * row_bytes(l->outputs);
    for (size_t done = 0; done < bytes;) {
        const ssize_t n = pread(l->file, (char *)l->window + done, bytes - done, (off_t)first * (off_t)row_bytes(l->outputs) + (off_t)done);
        if (n > 0) done += (size_t)n;
        else if (n == 0) return ft_fail(FT_FAILED, "logits of an evaluation", "the scratch file ends early");
        else if (errno != EINTR) return ft_fail_errno(FT_FAILED, errno, "logits of an evaluation", "cannot read the scratch file");
    }
    for (int64_t i = 0; l->divisor != 1 && i < count * l->outputs; i++) l->window[i] = (float)((double)l->window[i] / l->divisor);
    return FT_OK;
}

const float *ft_logits_row(ft_logits *l, int64_t row) {
    if (l->all != NULL) return l->all + row * l->outputs;
    if (row < l->first || row >= l->first + l->count) {
        // Who reads in order gets the next window, who does not a row.
        const bool in_order = row == 0 || row == l->first + l->count;
        const int64_t left = l->rows - row, count = !in_order ? 1 : left < l->window_rows ? left : l->window_rows;
        const ft_status status = read_rows(l, row, count);
        if (status != FT_OK) {
            memset(l->window, 0, (size_t)count * row_bytes(l->outputs));
            l->status = status;
        }
        l->first = row;
        l->count = count;
    }
    return l->window + (row - l->first) * l->outputs;
}

ft_status ft_logits_status(const ft_logits *l) { return l->status; }
