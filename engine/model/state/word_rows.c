#include "engine/model/state/word_rows.h"

#include "base/arena.h"
#include "kernels/ops/adamw.h"

#include <stdlib.h>
#include <string.h>

// Until the rows are numbered, row_of says what an id is for.
enum { ABSENT = -1, EVALUATED = 0, TRAINED = 1 };

ft_status ft_word_rows_open(int64_t rows, ft_word_rows *v) {
    *v = (ft_word_rows){.rows = (int32_t)rows};
    v->row_of = ft_calloc((size_t)rows, sizeof *v->row_of, "the rows of words");
    v->blocks = ft_calloc((size_t)ft_norm_blocks(rows) + 1, sizeof *v->blocks, "the blocks of words");
    if (v->row_of == NULL || v->blocks == NULL) {
        ft_word_rows_free(v);
        return FT_NO_MEMORY;
    }
    for (int64_t id = 0; id < rows; id++) v->row_of[id] = ABSENT;
    return FT_OK;
}

void ft_word_rows_mark(ft_word_rows *v, const int32_t *ids, int64_t count, bool trains) {
    for (int64_t i = 0; i < count; i++)
        if (v->row_of[ids[i]] != TRAINED) v->row_of[ids[i]] = trains ? TRAINED : EVALUATED;
}

ft_status ft_word_rows_number(ft_word_rows *v) {
    for (int32_t id = 0; id < v->rows; id++) {
        v->trained += v->row_of[id] == TRAINED;
        v->held += v->row_of[id] != ABSENT;
    }
    v->id_of = ft_calloc((size_t)v->held + 1, sizeof *v->id_of, "the ids of words");
    if (v->id_of == NULL) return FT_NO_MEMORY;
    int32_t trained = 0, evaluated = v->trained;
    for (int32_t id = 0; id < v->rows; id++) {
        if (id % FT_NORM_ROWS == 0) v->blocks[id / FT_NORM_ROWS] = trained;
        if (v->row_of[id] == ABSENT) continue;
        int32_t row = v->row_of[id] == TRAINED ? trained++ : evaluated++;
        v->row_of[id] = row;
        v->id_of[row] = id;
    }
    v->blocks[ft_norm_blocks(v->rows)] = trained;
    return FT_OK;
}

void ft_word_rows_free(ft_word_rows *v) {
    free(v->row_of);
    free(v->id_of);
    free(v->blocks);
    memset(v, 0, sizeof *v);
}
