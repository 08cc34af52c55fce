// disentangled_plan.h - scratch of disentangled attention on the CPU, and how its backward goes over the sequences: the
// part that does not depend on the instruction set. isa/disentangled_tile.h says what the pieces are for.
#ifndef FT_CPU_DISENTANGLED_PLAN_H
#define FT_CPU_DISENTANGLED_PLAN_H

#include "kernels/cpu/attention_plan.h"
#include "kernels/ops/disentangled_attention.h"

enum {
    FT_DELTAS = 16,                                         // distances in a panel of a table: lanes of a vector
    FT_SCORE_PAD = 16,                                      // room for lanes beside a row of scores
    FT_SCORE_ROW = FT_ATTENTION_QUERIES + 2 * FT_SCORE_PAD, // from key to key
    FT_WINDOW = FT_ATTENTION_QUERIES + FT_ATTENTION_KEYS,   // distances in a tile of scores, one more than there are
    FT_BAND = 8,                                            // distances whose gradients are summed together
    FT_BAND_ROWS = FT_ATTENTION_KEYS + 2 * FT_BAND,         // rows of scores with zeros before and behind
    FT_DELTA_FLOATS = 1 << 19,                              // gradients by distance that find room anyhow: 2 MiB
};

// The largest multiple of `grain` that is not above x.
static inline int64_t ft_round_down(int64_t x, int64_t grain) { return (x >= 0 ? x : x - grain + 1) / grain * grain; }
static inline int64_t ft_round_up(int64_t x, int64_t grain) { return -ft_round_down(-x, grain); }

// Panels of one table for one head. Panel p holds the distances [16 p, 16 p + 16); first and last stand for all beyond
// them: either no tile goes there, or one slot is all there is.
typedef struct ft_panels {
    int64_t first, count;
    int64_t floats; // of one head and table
} ft_panels;
ft_panels ft_panels_of(const ft_disentangled_shape *shape);
static inline int64_t ft_panel_of(const ft_panels *panels, int64_t delta) { // delta: a multiple of 16
    int64_t p = delta / FT_DELTAS - panels->first;
    return p < 0 ? 0 : p >= panels->count ? panels->count - 1 : p;
}

static inline int64_t ft_slot_of(const ft_disentangled_shape *shape, int64_t delta) {
    int64_t reach = shape->reach;
    return shape->slots[(delta < -reach ? -reach : delta > reach ? reach : delta) + reach];
}

// Where a thread's pieces begin, in floats from the start of its scratch. width: head_dim rounded up to whole vectors.
typedef struct ft_disentangled_scratch {
    int64_t width;
    size_t queries, keys, values, scores;                     // both directions
    size_t near_queries, near_douts, douts, dscores, rows[2]; // backward; rows of PK, of PQ
    size_t floats;
} ft_disentangled_scratch;
ft_disentangled_scratch ft_disentangled_forward_scratch(int64_t head_dim);
ft_disentangled_scratch ft_disentangled_backward_scratch(int64_t head_dim);

// Gradients of a table by distance, for one head of one sequence: distances [first, first + rows).
typedef struct ft_delta_rows {
    int64_t first, rows;
} ft_delta_rows;
static inline ft_delta_rows ft_delta_rows_of(int64_t queries, int64_t keys) {
    ft_delta_rows r = {.first = ft_round_down(1 - keys, FT_BAND)};
    r.rows = ft_round_up(queries, FT_BAND) - r.first;
    return r;
}
// Room for them, in floats: for all heads of at least one sequence, and enough to keep the threads busy. Never more
// than the sequences take.
size_t ft_delta_floats(const ft_disentangled_shape *shape, int tables, int threads);
// The first sequence behind those from `first` on whose gradients by distance fit the room.
int32_t ft_delta_wave(const ft_disentangled_shape *shape, int tables, size_t room, int32_t first);

// Do the sequences end where the rows do, and is none longer than the shape says? The scratch holds no more.
ft_status ft_check_lengths(const char *op, const ft_attention_shape *shape, int64_t queries, int64_t keys);

#endif
