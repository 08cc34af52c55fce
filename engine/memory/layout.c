#include "engine/memory/layout.h"

#include "base/arena.h"
#include "base/context.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static size_t rounded(size_t bytes) {
    size_t size = (bytes + FT_LAYOUT_ALIGN - 1) / FT_LAYOUT_ALIGN * FT_LAYOUT_ALIGN;
    return size > 0 ? size : FT_LAYOUT_ALIGN;
}

static ft_status push_event(ft_layout *l, int32_t event) {
    if (l->event_count == l->event_capacity) {
        int32_t capacity = l->event_capacity ? 2 * l->event_capacity : 256;
        int32_t *grown = ft_realloc(l->events, (size_t)capacity, sizeof *grown, "the layout of a step");
        if (grown == NULL) return FT_NO_MEMORY;
        l->events = grown;
        l->event_capacity = capacity;
    }
    l->events[l->event_count++] = event;
    return FT_OK;
}

ft_status ft_layout_enter(ft_layout *l, size_t bytes, int32_t site, int32_t *index) {
    if (l->count == l->capacity) {
        int32_t capacity = l->capacity ? 2 * l->capacity : 128;
        ft_layout_request *grown = ft_realloc(l->requests, (size_t)capacity, sizeof *grown, "the layout of a step");
        if (grown == NULL) return FT_NO_MEMORY;
        l->requests = grown;
        l->capacity = capacity;
    }
    FT_TRY(push_event(l, l->count));
    l->requests[l->count] = (ft_layout_request){.bytes = bytes, .begin = l->event_count - 1, .end = INT32_MAX, .site = site};
    *index = l->count++;
    return FT_OK;
}

ft_status ft_layout_enter_at(ft_layout *l, size_t offset, size_t bytes, int32_t site, int32_t *index) {
    assert(offset % FT_LAYOUT_ALIGN == 0 && bytes % FT_LAYOUT_ALIGN == 0 && bytes > 0);
    FT_TRY(ft_layout_enter(l, bytes, site, index));
    l->requests[*index].fixed = true;
    l->requests[*index].offset = offset;
    return FT_OK;
}

ft_status ft_layout_leave(ft_layout *l, int32_t index) {
    FT_TRY(push_event(l, ~index));
    l->requests[index].end = l->event_count - 1;
    return FT_OK;
}

// ---- placement ----------------------------------------------------------------------------------------------------------

typedef struct ranked {
    double weight; // larger first; ties in the order of asking
    int32_t index;
} ranked;

static int by_weight(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->weight != y->weight) return x->weight > y->weight ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

// A request that has its place. Kept small: most of the time of a layout goes into walking over these.
typedef struct placed_request {
    size_t at, top;
    int32_t begin, end, rank; // rank: in the order
} placed_request;

// Of all places those that the first of the order have, still sorted; the bytes that they take.
static size_t keep_first(placed_request *placed, int32_t count, int32_t first) {
    size_t most = 0;
    for (int32_t i = 0, kept = 0; kept < first && i < count; i++) {
        if (placed[i].rank >= first) continue;
        if (placed[i].top > most) most = placed[i].top;
        placed[kept++] = placed[i];
    }
    return most;
}

// Places the requests in `order`, keeping those placed so far sorted by offset; the bytes that this takes. The `first` of them have
// the places of the last try.
static size_t place_in_order(const ft_layout_request *requests, int32_t count, const ranked *order, int32_t first, placed_request *placed,
                             size_t *offsets) {
    size_t most = first > 0 ? keep_first(placed, count, first) : 0;
    for (int32_t n = first; n < count; n++) {
        const ft_layout_request *r = &requests[order[n].index];
        const int32_t begin = r->begin, end = r->end;
        const size_t size = r->size;
        size_t at = 0;
        int32_t slot = r->fixed ? n : 0;
        if (r->fixed) at = r->offset;
        for (; slot < n; slot++) { // the lowest gap between those alive at the same time
            const placed_request p = placed[slot]; // whole: sanitizers check it once
            // Masks, for who is alive together is no pattern that a branch could be predicted by: the others are as nothing at 0.
            const size_t together = (size_t)0 - (size_t)((p.begin < end) & (begin < p.end)), top = p.top & together;
            if ((p.at & together) >= at + size) break;
            at = top > at ? top : at;
        }
        offsets[order[n].index] = at;
        while (slot > 0 && placed[slot - 1].at > at) slot--;
        for (int32_t i = n; i > slot; i--) placed[i] = placed[i - 1]; // memmove goes byte by byte under AddressSanitizer
        placed[slot] = (placed_request){at, at + size, begin, end, n};
        if (at + size > most) most = at + size;
    }
    return most;
}

// The largest sum of live bytes, and the event at which it is reached.
static size_t largest_live(const ft_layout *l, int32_t *when) {
    size_t live = 0, most = 0;
    for (int32_t e = 0; e < l->event_count; e++) {
        if (l->events[e] < 0) {
            live -= l->requests[~l->events[e]].size;
            continue;
        }
        live += l->requests[l->events[e]].size;
        if (live <= most) continue;
        most = live;
        *when = e;
    }
    return most;
}

// A round is some tens of milliseconds at most. Small steps are the stubborn ones, and their rounds are short: more of them
// while an arena is over the bound by a fortieth.
enum { MOST_TRIES = 200, FIRST_ROUNDS = 5, MOST_ROUNDS = 40, MOST_COMPARISONS = 60000000 };

// PEAK_*: those alive at the fullest moment first, which packs that moment without a gap, then the others by size. PEAK_ENDS
// is for fixed places that fill up from the lowest on, and only with them: who leaves first must stand below who leaves later.
typedef enum strategy { PEAK_ASKED, PEAK_LIFE, PEAK_SIZE, AS_ASKED, BY_SIZE, BY_AREA, BY_LIFE, PEAK_ENDS, STRATEGIES } strategy;

static double weight_of(const ft_layout_request *r, strategy s, int32_t events, int32_t fullest) {
    const double life = (double)((r->end < events ? r->end : events) - r->begin), size = (double)r->size, first = 1e30;
    if (r->fixed) return 1e300; // before all others
    const bool at_peak = r->begin <= fullest && fullest < r->end;
    switch (s) {
    case PEAK_ASKED: return at_peak ? first : size;
    case PEAK_LIFE: return at_peak ? first * life : size;
    case PEAK_SIZE: return at_peak ? first * size : size;
    case PEAK_ENDS: return at_peak ? first / (1 + (double)r->end) : size;
    case BY_SIZE: return size;
    case BY_AREA: return size * life;
    case BY_LIFE: return life;
    default: return 0;
    }
}

// Moves the last placed of the requests that reach the top of the arena to an earlier place in the order, so that the
// next try places it while there is room below ("squeaky wheel": what complains is served earlier). How much earlier is
// drawn from a fixed sequence: always the same jump runs in circles. Tells to where: what comes before it stays as it is.
// Those with a place of their own stay in front; where they alone reach the top there is nothing to gain: NOTHING.
enum { NOTHING = -1 };
static int32_t serve_earlier(const ft_layout *l, int32_t fixed, const size_t *offsets, size_t top, ranked *order, uint32_t *draws) {
    int32_t at = l->count - 1;
    while (at >= fixed && offsets[order[at].index] + l->requests[order[at].index].size != top) at--;
    *draws = *draws * 1664525u + 1013904223u;
    if (at < fixed) return NOTHING;
    int32_t to = fixed + (*draws >> 31 ? (at - fixed) / 2 : (int32_t)((uint64_t)(*draws >> 8) * (uint64_t)(at - fixed) >> 24));
    ranked squeaky = order[at];
    memmove(order + to + 1, order + to, (size_t)(at - to) * sizeof *order);
    order[to] = squeaky;
    return to;
}

typedef struct search {
    int32_t fixed; // of the requests
    ranked *order;
    size_t *offsets;
    placed_request *placed;
    uint32_t draws;
    size_t tried;
} search;

// Within a thousandth of the bound no more is looked for; after a round, within a hundredth, later a fortieth.
static bool within(const ft_layout *l, size_t part, size_t enough) {
    return l->bytes != 0 && (l->bytes <= enough || l->bytes - l->live_bytes <= l->live_bytes / part);
}

// Tries from one order on; the shortest arena stays in the requests.
static void walk(ft_layout *l, search *s, size_t tries, size_t enough) {
    int32_t first = 0; // which the order has in common with the last one
    for (; tries > 0 && first != NOTHING && !within(l, 1000, enough); tries--, s->tried++) {
        size_t bytes = place_in_order(l->requests, l->count, s->order, first, s->placed, s->offsets);
        if (l->bytes == 0 || bytes < l->bytes) {
            l->bytes = bytes;
            for (int32_t i = 0; i < l->count; i++) l->requests[i].offset = s->offsets[i];
        }
        first = serve_earlier(l, s->fixed, s->offsets, bytes, s->order, &s->draws);
    }
}

// Sizes are set. Tells l->bytes and the offsets, and how many pairs of requests were compared.
static ft_status search_places(ft_layout *l, int32_t fullest, size_t enough, size_t *compared) {
    size_t n = (size_t)l->count;
    search s = {.order = ft_calloc(n, sizeof *s.order, "the layout of a step"),
                .offsets = ft_calloc(n, sizeof *s.offsets, "the layout of a step"),
                .placed = ft_calloc(n, sizeof *s.placed, "the layout of a step")};
    ft_status status = s.order && s.offsets && s.placed ? FT_OK : FT_NO_MEMORY;
    for (size_t i = 0; i < n; i++) s.fixed += l->requests[i].fixed;
    const strategy first = s.fixed > 0 ? PEAK_ENDS : PEAK_ASKED, all = s.fixed > 0 ? STRATEGIES : PEAK_ENDS;
    size_t tries = MOST_COMPARISONS / (all * n * n); // a try compares each request with those before it
    const int strategies = tries > 0 ? (int)all : 1, rounds = tries >= MOST_TRIES ? MOST_ROUNDS : tries > 0 ? FIRST_ROUNDS : 1;
    if (tries > MOST_TRIES) tries = MOST_TRIES;
    if (tries == 0) tries = 1;
    for (int round = 0; status == FT_OK && round < rounds && !within(l, round < FIRST_ROUNDS ? 100 : 40, enough); round++) {
        for (int k = 0; k < strategies && !within(l, 1000, enough); k++) {
            for (int32_t i = 0; i < l->count; i++)
                s.order[i] = (ranked){weight_of(&l->requests[i], (strategy)(((int)first + k) % STRATEGIES), l->event_count, fullest), i};
            qsort(s.order, n, sizeof *s.order, by_weight);
            s.draws = 1 + (uint32_t)round;
            walk(l, &s, tries, enough);
        }
    }
    *compared = s.tried * n * n;
    free(s.order);
    free(s.offsets);
    free(s.placed);
    return status;
}

// ---- what was placed lately ---------------------------------------------------------------------------------------------

// A layout of the same sizes and lifetimes under the same `enough` is the same layout, and a stubborn one is searched for seconds.
// What is found at once is not worth a place here: it would push out those that are.
typedef struct remembered {
    ft_layout_request *requests; // NULL: no entry
    int32_t count;
    size_t bytes, enough;
} remembered;

enum { REMEMBERED = 64, MOST_REMEMBERED_REQUESTS = 20000, WORTH_COMPARISONS = 1000000 };
typedef struct layouts { // of a context, under its lock
    remembered list[REMEMBERED];
    int next_to_forget;
} layouts;

static void forget(void *value) {
    layouts *memory = value;
    for (int k = 0; k < REMEMBERED; k++) free(memory->list[k].requests);
    free(memory);
}

static bool is_same(const remembered *r, const ft_layout *l, size_t enough) {
    if (r->requests == NULL || r->count != l->count || r->enough != enough) return false;
    for (int32_t i = 0; i < l->count; i++) {
        const ft_layout_request *a = &r->requests[i], *b = &l->requests[i];
        if (a->size != b->size || a->begin != b->begin || a->end != b->end || a->fixed != b->fixed) return false;
        if (a->fixed && a->offset != b->offset) return false;
    }
    return true;
}

static bool recall(ft_layout *l, size_t enough) {
    bool found = false;
    ft_context *context = ft_context_now();
    pthread_mutex_lock(&context->lock);
    const layouts *memory = context->kept[FT_CONTEXT_LAYOUTS].value;
    for (int k = 0; k < REMEMBERED && !found && memory != NULL; k++) {
        const remembered *r = &memory->list[k];
        found = is_same(r, l, enough);
        for (int32_t i = 0; found && i < l->count; i++) l->requests[i].offset = r->requests[i].offset;
        if (found) l->bytes = r->bytes;
    }
    pthread_mutex_unlock(&context->lock);
    return found;
}

// The first time there is something to remember they are made; NULL: without memory.
static layouts *layouts_of(ft_context *context) {
    if (context->kept[FT_CONTEXT_LAYOUTS].value == NULL) {
        context->kept[FT_CONTEXT_LAYOUTS].value = calloc(1, sizeof(layouts));
        context->kept[FT_CONTEXT_LAYOUTS].forget = forget;
    }
    return context->kept[FT_CONTEXT_LAYOUTS].value;
}

// Without memory for it, it is forgotten.
static void remember(const ft_layout *l, size_t enough) {
    if (l->count > MOST_REMEMBERED_REQUESTS) return;
    ft_layout_request *copy = malloc((size_t)l->count * sizeof *copy);
    if (copy == NULL) return;
    memcpy(copy, l->requests, (size_t)l->count * sizeof *copy);
    ft_context *context = ft_context_now();
    pthread_mutex_lock(&context->lock);
    layouts *memory = layouts_of(context);
    if (memory != NULL) {
        remembered *r = &memory->list[memory->next_to_forget];
        memory->next_to_forget = (memory->next_to_forget + 1) % REMEMBERED;
        free(r->requests);
        *r = (remembered){copy, l->count, l->bytes, enough};
        copy = NULL;
    }
    pthread_mutex_unlock(&context->lock);
    free(copy);
}

ft_status ft_layout_place(ft_layout *l, size_t padding, size_t enough) {
    for (int32_t i = 0; i < l->count; i++) l->requests[i].size = rounded(l->requests[i].bytes + (l->requests[i].fixed ? 0 : padding));
    int32_t fullest = 0;
    l->live_bytes = largest_live(l, &fullest);
    l->bytes = 0;
    if (l->count == 0) return FT_OK;
    size_t compared;
    if (enough == SIZE_MAX) return search_places(l, fullest, enough, &compared); // one try, and of many sizes
    if (recall(l, enough)) return FT_OK;
    FT_TRY(search_places(l, fullest, enough, &compared));
    if (compared >= WORTH_COMPARISONS) remember(l, enough);
    return FT_OK;
}

ft_status ft_layout_copy(const ft_layout *l, ft_layout *out) {
    *out = (ft_layout){.count = l->count, .capacity = l->count, .event_count = l->event_count, .event_capacity = l->event_count,
                       .bytes = l->bytes, .live_bytes = l->live_bytes};
    out->requests = ft_calloc((size_t)l->count + 1, sizeof *out->requests, "the layout of a step");
    out->events = ft_calloc((size_t)l->event_count + 1, sizeof *out->events, "the layout of a step");
    if (out->requests == NULL || out->events == NULL) {
        ft_layout_free(out);
        return FT_NO_MEMORY;
    }
    if (l->count > 0) memcpy(out->requests, l->requests, (size_t)l->count * sizeof *l->requests);
    if (l->event_count > 0) memcpy(out->events, l->events, (size_t)l->event_count * sizeof *l->events);
    return FT_OK;
}

void ft_layout_free(ft_layout *l) {
    free(l->requests);
    free(l->events);
    *l = (ft_layout){0};
}
