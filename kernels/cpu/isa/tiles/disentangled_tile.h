// disentangled_tile.h - a tile of disentangled scores, and the panels of the tables it is made from.
//
// Scores lie as in attention_forward.c: keys down, queries across the lanes. With delta = i - j the term of a table is
// constant along the diagonals, so a vector of scores of key j + 1 whose lanes begin one query further to the right has
// the very distances of the vector of key j. Hence a tile in registers is slanted: its rows share one vector of either
// table, whose 16 lanes are 16 distances, read from a panel [head_dim][16] where it lies; the queries are read one lane
// further from row to row; nothing is gathered, and the three products of a score are one chain over the channels:
//     z = fma(k, scale PQ, fma(scale q, k + PK, z))
// The lanes that a slanted tile has outside of the block go to the pads beside its rows, where nobody reads them.
//
// Windows of Q PK and K PQ as matrix products, shifted into place afterwards, would take the multiply-adds of twice the
// scores for either term, and still have to be moved; slanted tiles compute a quarter more than a block of 64 x 64 has.
//
// The panels of all heads are made once an op, before the tiles: they depend on the distances only, and 4 bytes times
// heads * head_dim * distances is no more than a few tables.
#ifndef FT_CPU_DISENTANGLED_TILE_H
#define FT_CPU_DISENTANGLED_TILE_H

#include "kernels/cpu/disentangled_plan.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/isa/tiles/attention_rows.h"

#if defined(FT_ISA_avx512)
enum { SLANT_ROWS = 16 };
#elif defined(FT_ISA_avx2) || defined(FT_ISA_neon)
enum { SLANT_ROWS = 4 };
#else
enum { SLANT_ROWS = 2 };
#endif

// Columns [column, column + columns) of rows as fp32, without gaps and with zeros up to `width`.
FT_VEC void copy_lanes(ft_tensor t, int64_t row, int64_t column, int64_t rows, int64_t columns, float *out, int64_t width, const bool halves) {
    for (int64_t i = 0; i < rows; i++) {
        const lane_row in = lanes_of(t, row + i, halves);
        for (int64_t c = 0; c < columns; c += FT_LANES)
            v_store(out + i * width + c, v_load_row(in, column + c, columns - c, halves));
    }
}
static void copy_rows(ft_tensor t, int64_t row, int64_t column, int64_t rows, int64_t columns, float *out, int64_t width) {
    if (t.dtype == FT_BF16)
        copy_lanes(t, row, column, rows, columns, out, width, true);
    else
        copy_lanes(t, row, column, rows, columns, out, width, false);
}

// ---- panels ---------------------------------------------------------------------------------------------------------

// Both tables, and where their panels are: of the first table for all heads, then of the second.
typedef struct position_panels {
    const ft_disentangled_shape *shape;
    ft_panels plan;
    ft_tensor table[2]; // PK, PQ
    float *data[2];     // NULL where there is no table
    float *near_rows;   // scratch of the threads while panels are made, near_stride floats apart
    size_t near_stride;
} position_panels;

// Takes its memory from *at. near_rows: 16 whole rows of a head for every thread, free again when the panels are made.
static position_panels panels_at(const ft_disentangled_shape *shape, ft_tensor pos_key, ft_tensor pos_query, float **at,
                                 float *near_rows, size_t near_stride) {
    position_panels p = {.shape = shape,
                         .plan = ft_panels_of(shape),
                         .table = {pos_key, pos_query},
                         .near_rows = near_rows,
                         .near_stride = near_stride};
    for (int t = 0; t < 2; t++) {
        if (!p.table[t].data) continue;
        p.data[t] = *at;
        *at += p.plan.floats * shape->attention.heads;
    }
    return p;
}

// Task: a panel of one head, in both tables. PQ comes scaled, since no query stands beside it in a product.
static void make_panel(void *context, int task, int thread) {
    const position_panels *p = context;
    const int64_t d = p->shape->attention.head_dim, width = ft_round_up(d, FT_LANES);
    const int64_t head = task / p->plan.count, panel = task % p->plan.count;
    float *rows = p->near_rows + (size_t)thread * p->near_stride;
    for (int t = 0; t < 2; t++) {
        if (!p->data[t]) continue;
        for (int64_t x = 0; x < FT_DELTAS; x++) {
            int64_t slot = ft_slot_of(p->shape, (p->plan.first + panel) * FT_DELTAS + x);
            copy_rows(p->table[t], slot, head * d, 1, d, rows + x * width, width);
        }
        tile_transpose(rows, width, FT_DELTAS, d, t ? p->shape->attention.scale : 1.0f,
                       p->data[t] + head * p->plan.floats + panel * FT_DELTAS * d, FT_DELTAS);
    }
}

static void make_panels(const ft_cpu *cpu, position_panels *p) {
    ft_pool_run(cpu->pool, (int)(p->plan.count * p->shape->attention.heads), make_panel, p);
}

// ---- scores ---------------------------------------------------------------------------------------------------------

typedef struct slant {
    int64_t d, key_row;
    const float *queries, *keys;      // first row's lanes of channel 0; first key
    const float *pos_key, *pos_query; // panels, NULL where there is no table
    float *scores;
} slant;

// Lanes r .. r + 15 of a row of queries. With registers of 64 bytes nearly every load of them would cross a cache line,
// which costs two: there they are cut out of two whole vectors, which rows share.
#if defined(FT_ISA_avx512)
typedef struct query_lanes {
    __m512i near, far;
} query_lanes;
FT_VEC query_lanes query_load(const float *q) {
    return (query_lanes){_mm512_loadu_si512(q), _mm512_loadu_si512(q + FT_LANES)};
}
FT_VEC v16 query_from(query_lanes q, const int r) { // r is a constant; the instruction takes no other
    // clang-format off
#define FT_FROM(n) case n: return _mm512_castsi512_ps(_mm512_alignr_epi32(q.far, q.near, n));
    switch (r) {
        FT_FROM(1) FT_FROM(2) FT_FROM(3) FT_FROM(4) FT_FROM(5) FT_FROM(6) FT_FROM(7) FT_FROM(8)
        FT_FROM(9) FT_FROM(10) FT_FROM(11) FT_FROM(12) FT_FROM(13) FT_FROM(14) FT_FROM(15)
        default: return _mm512_castsi512_ps(q.near);
    }
    // clang-format on
#undef FT_FROM
}
#else
typedef const float *query_lanes;
FT_VEC query_lanes query_load(const float *q) { return q; }
FT_VEC v16 query_from(query_lanes q, const int r) { return v_load(q + r); }
#endif

// The tables that there are: constants where this is inlined. The first row's first lane is a multiple of SLANT_ROWS.
FT_VEC void slant_run(const slant *s, const bool c2p, const bool p2c) {
    v16 z[SLANT_ROWS];
#pragma GCC unroll 16
    for (int r = 0; r < SLANT_ROWS; r++)
        z[r] = v_zero();
    const float *q = s->queries, *k = s->keys, *pk = s->pos_key, *pq = s->pos_query;
    const int64_t key_row = s->key_row;
    for (int64_t c = s->d; c > 0; c--, q += FT_SCORE_ROW, k++) {
        v16 of_key = v_zero(), of_query = v_zero();
        if (c2p) of_key = v_load(pk), pk += FT_DELTAS;
        if (p2c) of_query = v_load(pq), pq += FT_DELTAS;
        query_lanes lanes = query_load(q);
#pragma GCC unroll 16
        for (int r = 0; r < SLANT_ROWS; r++) {
            v16 key = v_set1(k[r * key_row]);
            z[r] = v_fma(query_from(lanes, r), c2p ? v_add(key, of_key) : key, z[r]);
            if (p2c) z[r] = v_fma(key, of_query, z[r]);
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < SLANT_ROWS; r++)
        v_store(s->scores + r * (FT_SCORE_ROW + 1), z[r]);
}

static void slant_c2p(const slant *s) { slant_run(s, true, false); }
static void slant_p2c(const slant *s) { slant_run(s, false, true); }
static void slant_both(const slant *s) { slant_run(s, true, true); }

// Scores of `rows` queries from position `query` on and `keys` keys from `key` on, both multiples of 16.
//   queries [d][FT_SCORE_ROW]: times scale, query i in lane FT_SCORE_PAD + i, zeros in absent lanes
//   near_keys [keys][key_row];  scores [keys][FT_SCORE_ROW], query i in lane FT_SCORE_PAD + i
// Both hold whole tiles: up to the next multiple of 16, keys that are not there are read and get scores all the same.
static void slanted_scores(const position_panels *p, int32_t head, int64_t query, int64_t rows, int64_t key,
                           int64_t keys, const float *queries, const float *near_keys, int64_t key_row, float *scores) {
    const int64_t d = p->shape->attention.head_dim, lanes = ft_round_up(rows, FT_LANES);
    for (int64_t e = ft_round_down(1 - keys, FT_DELTAS); e < lanes; e += FT_DELTAS) {
        int64_t panel = head * p->plan.floats + ft_panel_of(&p->plan, query - key + e) * FT_DELTAS * d;
        // Keys for which one of the 16 lanes lies in the block. Absent lanes count: they are read like others.
        int64_t j = e < 0 ? -FT_DELTAS - e : 0, last = lanes - e < keys ? lanes - e : keys;
        slant s = {.d = d,
                   .key_row = key_row,
                   .pos_key = p->data[0] ? p->data[0] + panel : NULL,
                   .pos_query = p->data[1] ? p->data[1] + panel : NULL};
        for (; j < last; j += SLANT_ROWS) {
            s.queries = queries + FT_SCORE_PAD + e + j;
            s.keys = near_keys + j * key_row;
            s.scores = scores + j * FT_SCORE_ROW + FT_SCORE_PAD + e + j;
            if (!s.pos_query)
                slant_c2p(&s);
            else if (!s.pos_key)
                slant_p2c(&s);
            else
                slant_both(&s);
        }
    }
}

#endif
