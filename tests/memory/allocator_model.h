// allocator_model.h - the rules of engine/memory/allocator/allocator.h once more, the plain way: arrays, scans over everything,
// no tree, no lists, no running sums. test_allocator.c plays the same requests to both and compares every decision.
#ifndef FT_TEST_ALLOCATOR_MODEL_H
#define FT_TEST_ALLOCATOR_MODEL_H

#include "tests/memory/allocator_device.h"

#include <assert.h>
#include <stdlib.h>

enum { M_FREE, M_LIVE, M_HOLE, M_ANY = -1, M_SEGMENTS = 256, M_BLOCKS = 512, M_PIECES = 512 };

typedef struct m_block {
    size_t offset, size, requested;
    int state, stream, id;
    uint64_t used;
} m_block;

typedef struct m_segment {
    uint64_t number;
    size_t size;
    int stream, count;
    bool small;
    m_block blocks[M_BLOCKS];
    size_t pieces[M_PIECES]; // where large pieces begin; all are as long as model.piece
    int piece_count;
} m_segment;

typedef struct model {
    ft_allocator_options options;
    refusals device;
    size_t page; // 0: buffers
    size_t piece; // 0: any page goes by itself
    m_segment *segments[M_SEGMENTS];
    int count;
    uint64_t next_number, now;
    ft_allocator_counters counters; // those that are not sums over the state
} model;

typedef struct m_place {
    uint64_t segment;
    size_t offset, size;
} m_place;

static size_t m_up(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

static void m_insert(m_segment *s, int at, m_block block) {
    assert(s->count < M_BLOCKS);
    memmove(&s->blocks[at + 1], &s->blocks[at], (size_t)(s->count - at) * sizeof *s->blocks);
    s->blocks[at] = block;
    s->count++;
}

// Rule 3, over the whole segment.
static void m_merge(m_segment *s) {
    for (int i = 0; i + 1 < s->count;) {
        m_block *a = &s->blocks[i], *b = a + 1;
        bool holes = a->state == M_HOLE && b->state == M_HOLE;
        bool same = a->state == M_FREE && b->state == M_FREE &&
                    (a->stream == b->stream || a->stream == M_ANY || b->stream == M_ANY);
        if (!holes && !same) {
            i++;
            continue;
        }
        a->size += b->size;
        if (a->stream == M_ANY) a->stream = b->stream;
        if (a->used < b->used) a->used = b->used;
        s->count--;
        memmove(b, b + 1, (size_t)(s->count - i - 1) * sizeof *b);
    }
}

// The border of a page nearest to `at`, from there on or up to there, that no piece lies across.
static size_t m_border(const model *m, const m_segment *s, size_t at, bool up) {
    const size_t unit = m->page > 0 ? m->page : s->size;
    at = up ? m_up(at, unit) : at / unit * unit;
    for (int i = 0; i < s->piece_count; i++)
        if (s->pieces[i] < at && at < s->pieces[i] + m->piece) return up ? s->pieces[i] + m->piece : s->pieces[i];
    return at;
}

// A stretch of free neighbours, of whatever streams: blocks [first, last].
typedef struct m_run {
    int first, last;
    size_t bytes, end; // releasable: up to `end`
    uint64_t used;
} m_run;

// The run that begins with block i; bytes == 0 where none begins, or nothing of it can go.
static m_run m_run_at(const model *m, const m_segment *s, int i) {
    m_run r = {.first = i, .last = i};
    if (s->blocks[i].state != M_FREE || (i > 0 && s->blocks[i - 1].state == M_FREE)) return r;
    for (int j = i; j < s->count && s->blocks[j].state == M_FREE; j++) {
        r.last = j;
        if (r.used < s->blocks[j].used) r.used = s->blocks[j].used;
    }
    size_t stop = s->blocks[r.last].offset + s->blocks[r.last].size;
    const size_t begin = m_border(m, s, s->blocks[i].offset, true);
    r.end = m_border(m, s, stop, false);
    if (begin < r.end) r.bytes = r.end - begin;
    return r;
}

static size_t m_releasable_around(const model *m, const m_segment *s, int i) {
    while (i > 0 && s->blocks[i - 1].state == M_FREE)
        i--;
    return m_run_at(m, s, i).bytes;
}

static ft_allocator_counters m_read(const model *m) {
    ft_allocator_counters c = m->counters;
    c.allocated = c.reserved = c.inactive_split = c.largest_free = c.live_blocks = 0;
    c.segments = (size_t)m->count;
    for (int k = 0; k < m->count; k++) {
        const m_segment *s = m->segments[k];
        size_t unused = 0;
        bool live = false;
        for (int i = 0; i < s->count; i++) {
            const m_block *b = &s->blocks[i];
            if (b->state != M_HOLE) c.reserved += b->size;
            if (b->state == M_FREE) {
                unused += b->size;
                if (b->size > c.largest_free) c.largest_free = b->size;
            }
            if (b->state == M_LIVE) {
                live = true;
                c.allocated += b->size;
                c.live_blocks++;
            }
        }
        if (live) c.inactive_split += unused;
    }
    return c;
}

static void m_remove_segment(model *m, int k) {
    free(m->segments[k]);
    m->count--;
    memmove(&m->segments[k], &m->segments[k + 1], (size_t)(m->count - k) * sizeof *m->segments);
    if (m->count == 0) m->next_number = 0;
}

// Gives back up to `need` bytes of one run.
static size_t m_release(model *m, int k, m_run r, size_t need) {
    m_segment *s = m->segments[k];
    size_t begin = r.end - r.bytes;
    if (m->page > 0 && need < r.bytes) begin = m_border(m, s, r.end - m_up(need, m->page), false);
    const size_t bytes = r.end - begin;
    int kept = 0;
    for (int i = 0; i < s->piece_count; i++)
        if (s->pieces[i] < begin || s->pieces[i] >= r.end) s->pieces[kept++] = s->pieces[i];
    s->piece_count = kept;
    m->counters.device_frees++;
    m->device.held -= bytes;
    if (m->page == 0) {
        m_remove_segment(m, k);
        return bytes;
    }
    for (int i = r.first; i < s->count && s->blocks[i].offset < r.end;
         i++) { // cut at both ends, what lies between goes
        m_block *b = &s->blocks[i], rest = *b;
        size_t cut = b->offset < begin ? begin : r.end;
        if (b->offset < cut && b->offset + b->size > cut) {
            rest.offset = cut;
            rest.size = b->offset + b->size - cut;
            b->size = cut - b->offset;
            m_insert(s, i + 1, rest);
        }
        b = &s->blocks[i];
        if (b->offset >= begin) *b = (m_block){.offset = b->offset, .size = b->size, .state = M_HOLE};
    }
    m_merge(s);
    if (s->count == 1 && s->blocks[0].state == M_HOLE) m_remove_segment(m, k);
    return bytes;
}

// A place where memory could come to; compare ft_growth.
typedef struct m_growth {
    size_t bytes, kept, left, right; // left, right: offsets of the free neighbours it builds on, SIZE_MAX: none
    int segment, hole;               // -1: a new segment
    uint64_t number;
} m_growth;

static bool m_protected(const m_growth *g, const m_segment *s, const m_run *r) {
    if (g->number != s->number) return false;
    for (int i = r->first; i <= r->last; i++)
        if (s->blocks[i].offset == g->left || s->blocks[i].offset == g->right) return true;
    return false;
}

// Rule 9: oldest use first, no more than needed. false: nothing was left.
static bool m_release_oldest(model *m, size_t need, m_growth g) {
    bool any = false;
    while (need > 0) {
        int oldest_k = -1;
        m_run oldest = {0};
        for (int k = 0; k < m->count; k++) {
            for (int i = 0; i < m->segments[k]->count; i++) {
                m_run r = m_run_at(m, m->segments[k], i);
                if (r.bytes == 0 || m_protected(&g, m->segments[k], &r)) continue;
                if (oldest_k >= 0 && oldest.used < r.used) continue;
                oldest_k = k;
                oldest = r;
            }
        }
        if (oldest_k < 0) break;
        size_t released = m_release(m, oldest_k, oldest, need);
        m->counters.released_for_retry++;
        need -= released < need ? released : need;
        any = true;
    }
    return any;
}

static void m_better(m_growth *best, m_growth g, bool tight) {
    size_t cost = g.bytes + (tight ? g.kept : 0), least = best->bytes + (tight ? best->kept : 0);
    if (best->segment < 0 ? !tight || cost <= least : cost < least) *best = g; // a new segment is the last choice
}

static m_growth m_plan(const model *m, size_t size, int stream, bool small, bool tight) {
    m_growth best = {.segment = -1, .number = UINT64_MAX, .left = SIZE_MAX, .right = SIZE_MAX};
    best.bytes = m->page > 0 ? m_up(size, m->page)
                 : small     ? FT_ALLOCATOR_SMALL_SEGMENT
                             : m_up(size, FT_ALLOCATOR_ROUND);
    for (int k = 0; m->page > 0 && k < m->count; k++) {
        const m_segment *s = m->segments[k];
        if (s->small != small || s->stream != stream) continue;
        for (int i = 0; i < s->count; i++) {
            const m_block *hole = &s->blocks[i];
            if (hole->state != M_HOLE) continue;
            bool left = i > 0 && hole[-1].state == M_FREE && (hole[-1].stream == stream || hole[-1].stream == M_ANY);
            bool right =
                i + 1 < s->count && hole[1].state == M_FREE && (hole[1].stream == stream || hole[1].stream == M_ANY);
            m_growth g = {.segment = k, .number = s->number, .hole = i, .left = SIZE_MAX, .right = SIZE_MAX};
            size_t have = 0;
            if (left) {
                have = hole[-1].size;
                g.left = hole[-1].offset;
                g.kept = m_releasable_around(m, s, i - 1);
            }
            g.bytes = m_up(size - have, m->page);
            if (g.bytes > hole->size) {
                g.bytes = hole->size;
                if (!right || have + hole->size + hole[1].size < size) continue;
                g.right = hole[1].offset;
                g.kept += m_releasable_around(m, s, i + 1);
            }
            m_better(&best, g, tight);
        }
    }
    return best;
}

static void m_commit(model *m, const m_growth *g, int stream, bool small) {
    m->device.held += g->bytes;
    m->counters.device_allocations++;
    m_segment *s;
    int hole = g->hole;
    if (g->segment >= 0) {
        s = m->segments[g->segment];
    } else {
        assert(m->count < M_SEGMENTS);
        s = m->segments[m->count++] = calloc(1, sizeof *s);
        assert(s != NULL);
        s->number = m->next_number++;
        s->size = m->page > 0 ? m_up(m->options.limit, m->page) : g->bytes;
        s->small = small;
        s->stream = stream;
        s->count = 1;
        s->blocks[0] = (m_block){.size = s->size, .state = M_HOLE};
        hole = 0;
    }
    m_block rest = s->blocks[hole];
    for (size_t at = 0; m->piece > 0 && at + m->piece < g->bytes; at += m->piece) { // a page at least stays behind them
        assert(s->piece_count < M_PIECES);
        s->pieces[s->piece_count++] = rest.offset + at;
    }
    s->blocks[hole].size = g->bytes;
    s->blocks[hole].state = M_FREE;
    s->blocks[hole].stream = stream;
    s->blocks[hole].used = ++m->now;
    rest.offset += g->bytes;
    rest.size -= g->bytes;
    if (rest.size > 0) m_insert(s, hole + 1, rest);
    m_merge(s);
}

static ft_status m_grow(model *m, size_t size, int stream, bool small, bool *by_limit) {
    double threshold = m->options.garbage_collection_threshold;
    size_t limit = m->options.limit, soft = threshold > 0 ? (size_t)(threshold * (double)limit) : limit;
    bool tight = false;
    for (;;) {
        m_growth g = m_plan(m, size, stream, small, tight);
        size_t releasable = 0;
        for (int k = 0; k < m->count; k++)
            for (int i = 0; i < m->segments[k]->count; i++)
                releasable += m_run_at(m, m->segments[k], i).bytes;
        size_t reserved = m_read(m).reserved, needed = reserved - (releasable - g.kept) + g.bytes;
        if (needed > limit && m->page > 0 && !tight) {
            tight = true;
            continue;
        }
        if (needed > limit) {
            *by_limit = true;
            return FT_NO_MEMORY;
        }

        if (reserved + g.bytes > soft && m_release_oldest(m, reserved + g.bytes - soft, g)) continue;
        if (!refused(&m->device, g.bytes)) {
            m_commit(m, &g, stream, small);
            return FT_OK;
        }
        if (m_release_oldest(m, g.bytes, g)) continue;
        if (tight || g.kept == 0) return FT_NO_MEMORY;
        tight = true;
    }
}

// Rule 6, with what rule 7 forbids. false: none.
static bool m_best_fit(const model *m, size_t size, int stream, bool small, int *best_k, int *best_i) {
    *best_k = -1;
    for (int k = 0; k < m->count; k++) {
        for (int i = 0; i < m->segments[k]->count; i++) {
            const m_block *b = &m->segments[k]->blocks[i];
            if (m->segments[k]->small != small || b->state != M_FREE || b->size < size) continue;
            if (b->stream != stream && b->stream != M_ANY) continue;
            size_t most = m->options.max_split_size;
            if (most > 0 && size < most && b->size > most && b->size - size > FT_ALLOCATOR_SPLIT_WASTE) continue;
            if (*best_k >= 0 && m->segments[*best_k]->blocks[*best_i].size <= b->size) continue;
            *best_k = k;
            *best_i = i;
        }
    }
    return *best_k >= 0;
}

static ft_status m_take(model *m, size_t bytes, int stream, int id, m_place *place, bool *by_limit) {
    *by_limit = bytes > m->options.limit;
    if (*by_limit) return FT_NO_MEMORY;
    size_t size = m_up(bytes > 0 ? bytes : 1, FT_ALLOCATOR_GRANULE);
    bool small = size <= FT_ALLOCATOR_SMALL;
    int k, i;
    if (!m_best_fit(m, size, stream, small, &k, &i)) {
        ft_status status = m_grow(m, size, stream, small, by_limit);
        if (status != FT_OK) return status;
        bool found = m_best_fit(m, size, stream, small, &k, &i); // nothing else is large enough: the new memory
        assert(found);
    }
    m_segment *s = m->segments[k];
    m_block rest = s->blocks[i], *b = &s->blocks[i];
    size_t most = m->options.max_split_size;
    bool whole = most > 0 && size < most && b->size > most;
    bool split =
        !whole && b->size - size >= (size_t)(small || m->page > 0 ? FT_ALLOCATOR_GRANULE : FT_ALLOCATOR_LARGE_REST);
    m->now++;
    if (split) {
        rest.offset += size;
        rest.size -= size;
        rest.used = m->now;
        b->size = size;
    }
    b->state = M_LIVE;
    b->stream = stream;
    b->id = id;
    b->used = m->now;
    b->requested = bytes;
    *place = (m_place){s->number, b->offset, b->size};
    if (split) m_insert(s, i + 1, rest);
    ft_allocator_counters c = m_read(m);
    if (c.allocated > m->counters.peak_allocated) m->counters.peak_allocated = c.allocated;
    if (c.reserved > m->counters.peak_reserved) m->counters.peak_reserved = c.reserved;
    return FT_OK;
}

static void m_give(model *m, int id) {
    for (int k = 0; k < m->count; k++) {
        m_segment *s = m->segments[k];
        for (int i = 0; i < s->count; i++) {
            if (s->blocks[i].state != M_LIVE || s->blocks[i].id != id) continue;
            s->blocks[i].state = M_FREE;
            s->blocks[i].used = ++m->now;
            m_merge(s);
            return;
        }
    }
    assert(!"no such block");
}

static void m_trim(model *m) {
    m_growth none = {.segment = -1, .number = UINT64_MAX};
    uint64_t retries = m->counters.released_for_retry;
    m_release_oldest(m, SIZE_MAX, none);
    m->counters.released_for_retry = retries;
}

static void m_join(model *m) {
    for (int k = 0; k < m->count; k++) {
        for (int i = 0; i < m->segments[k]->count; i++)
            if (m->segments[k]->blocks[i].state == M_FREE) m->segments[k]->blocks[i].stream = M_ANY;
        m_merge(m->segments[k]);
    }
}

static void m_close(model *m) {
    while (m->count > 0)
        m_remove_segment(m, m->count - 1);
}

#endif
