#include "engine/train/step/step_words.h"

#include "base/heap.h"
#include "base/spill.h"
#include "engine/data/order/order.h"

#include <stdlib.h>

enum { BITS = 64 };

ft_status ft_step_words_open(int64_t rows, ft_step_words *w) {
    *w = (ft_step_words){.rows = rows};
    w->seen = ft_calloc((size_t)(rows + BITS - 1) / BITS, sizeof *w->seen, "the words of a step");
    return w->seen != NULL ? FT_OK : FT_NO_MEMORY;
}

void ft_step_words_close(ft_step_words *w) {
    free(w->seen);
    *w = (ft_step_words){.rows = 0};
}

static void mark(ft_step_words *w, const ft_dataset *data, int64_t sequence, const ft_word_rows *word_rows) {
    for (int64_t i = data->offset[sequence]; i < data->offset[sequence + 1]; i++) {
        const int32_t row = word_rows != NULL ? word_rows->row_of[data->ids[i]] : data->ids[i];
        w->seen[row / BITS] |= (uint64_t)1 << (row % BITS);
    }
}

int64_t ft_step_words_find(ft_step_words *w, const ft_dataset *data, const int32_t *order, int64_t first, int64_t last,
                           const ft_word_rows *word_rows, int32_t *list, int64_t room) {
    int64_t count = 0;
    for (int64_t i = first; i < last; i++)
        mark(w, data, order != NULL ? order[i] : i, word_rows);
    for (int64_t at = 0; at < (w->rows + BITS - 1) / BITS; at++) {
        for (uint64_t left = w->seen[at]; left != 0; left &= left - 1, count++)
            if (list != NULL && count < room) list[count] = (int32_t)(at * BITS + __builtin_ctzll(left));
        w->seen[at] = 0;
    }
    return count;
}

ft_status ft_step_words_count(const ft_room *room, int64_t steps, int64_t rows, int64_t *in_step) {
    const ft_job *job = room->job;
    const ft_dataset *data = &job->split[FT_SPLIT_TRAIN].data;
    ft_step_words words = {.rows = 0};
    int32_t *order = ft_spill_calloc((size_t)data->sequences + 1, sizeof *order, "the order of an epoch");
    int64_t all = 0;
    if (steps > room->plan.steps_per_epoch) steps = room->plan.steps_per_epoch;
    ft_status status = order != NULL ? ft_step_words_open(rows, &words) : FT_NO_MEMORY;
    if (status == FT_OK) status = ft_epoch_order(room->plan.order_seed, 0, data->sequences, order);
    for (int64_t step = 0; status == FT_OK && step < steps; step++) {
        int64_t epoch, first, last;
        ft_run_plan_step(&room->plan, step, &epoch, &first, &last);
        all += ft_step_words_find(&words, data, order, first, last, job->word_rows, NULL, 0);
    }
    *in_step = steps > 0 ? (all + steps / 2) / steps : 0;
    ft_step_words_close(&words);
    ft_spill_free(order);
    return status;
}
