#include "engine/plan/scaling.h"

#include "base/heap.h"
#include "base/json/json.h"
#include "engine/model/gradients/gradients.h"
#include "engine/model/gradients/word_sums.h"
#include "engine/model/state/shards.h"
#include "engine/train/room/joining.h"
#include "engine/train/step/step_words.h"

#include <math.h>
#include <stdlib.h>

// Words in texts of n tokens, where there are none to count: FIRST at FIRST_TOKENS, more as the POWER of n (Heaps' law).
// As many as English reviews have (docs/numbers.md).
static const double FIRST = 15000, FIRST_TOKENS = 131072, POWER = 0.64;

// Steps that words are counted in, where there are texts.
enum { COUNTED_STEPS = 4 };

// To begin a sum, and each of its 2 (N - 1) ways from one rank to the next: assumed, as published latencies of small
// sums are (some 40 us among 8).
static const double START_SECONDS = 15e-6, HOP_SECONDS = 2e-6;

const char *ft_shard_name(int shard) {
    static const char *const names[FT_SHARDS] = {"none", "optimizer", "gradients"};
    return names[shard < FT_SHARDS ? shard : FT_SHARD_NONE]; // auto: where nothing had to be
}

static double sum_seconds(const ft_scaling *s, double bytes) {
    const double ways = 2.0 * (s->devices - 1);
    return START_SECONDS + ways * HOP_SECONDS + ways / s->devices * bytes / s->link.bytes;
}

void ft_scaling_time(int count, const ft_reduction *reductions, double backward, double busy, ft_scaling *s) {
    double end = 0;
    s->reducing = 0;
    for (int i = 0; i < count; i++) {
        const double seconds = sum_seconds(s, reductions[i].bytes),
                     begin = reductions[i].complete > end ? reductions[i].complete : end;
        end = begin + seconds;
        s->reducing += seconds;
    }
    s->exposed = (end > backward ? end - backward : 0) + s->words.seconds;
    const double hidden = s->reducing - (s->exposed - s->words.seconds);
    s->slowed = busy * (hidden > 0 ? hidden : 0);
    s->step = s->alone + s->exposed + s->slowed - s->dealt + s->spread;
}

// The first note behind the point where the bucket is complete.
static double when(const ft_backward_notes *notes, int completes) {
    int i = 0;
    while (i + 1 < notes->count && notes->list[i].point <= completes)
        i++;
    return notes->list[i].seconds;
}

// What of the pieces is there at once beside this rank's part: the late ones, the two largest of the others, and rows of
// words.
static size_t travelling(const ft_bucket *piece, int count, size_t rows) {
    size_t late = rows, most[2] = {0, 0};
    for (int b = 0; b < count; b++) {
        const size_t bytes = (size_t)piece[b].count * sizeof(float);
        if (piece[b].late || piece[b].joins)
            late += bytes;
        else if (bytes > most[0])
            most[1] = most[0], most[0] = bytes;
        else if (bytes > most[1])
            most[1] = bytes;
    }
    return late + most[0] + most[1];
}

// Bytes a rank of what is trained, by the stores that a run has: the weights that ops read stay everywhere.
static void find_state(const ft_parameters *p, const ft_bucket *piece, int count, ft_scaling *s) {
    size_t *state = s->state;
    s->gradients = (size_t)p->trainable * sizeof(float);
    state[FT_SHARD_NONE] = state[FT_SHARD_OPTIMIZER] = s->gradients;
    state[FT_SHARD_GRADIENTS] = travelling(piece, count, ft_word_sums_hold_room(p) ? ft_word_sums_bytes(p) : 0);
    for (int i = 0; i < p->store_count; i++) {
        const ft_store *t = &p->stores[i];
        if (!t->trainable) continue;
        const size_t all = (size_t)t->count, part = (size_t)ft_shard_of(t->count, 0, s->devices).room,
                     exact = ft_store_state_size(t, FT_STATE_EXACT),
                     moments = ft_store_state_size(t, FT_STATE_M) + ft_store_state_size(t, FT_STATE_V),
                     weights = all * ft_dtype_size(t->format.dtype),
                     dealt = (t->category == FT_MEM_ADAPTERS ? all : part) * exact + part * moments;
        state[FT_SHARD_NONE] += weights + all * (exact + moments);
        state[FT_SHARD_OPTIMIZER] += weights + dealt;
        state[FT_SHARD_GRADIENTS] += weights + dealt + part * sizeof(float);
    }
}

// ---- words of a step

static double expected_words(int64_t tokens, int64_t rows) {
    const double words = FIRST * pow((double)tokens / FIRST_TOKENS, POWER);
    return fmin(words, fmin((double)tokens, (double)rows));
}

static ft_status find_words(const ft_room *room, const ft_rates *rates, ft_scaling *s) {
    const ft_parameters *p = &room->model.parameters;
    if (!ft_word_sums_hold_room(p)) return FT_OK;
    const ft_parameter *table = &p->list[p->table];
    s->words.rows = table->rows;
    s->words.assumed = room->job->without_data;
    if (s->words.assumed)
        s->words.in_step = (int64_t)expected_words(room->plan.step_tokens, table->rows);
    else
        FT_TRY(ft_step_words_count(room, COUNTED_STEPS, table->rows, &s->words.in_step));
    s->words.by_row = s->words.in_step <= p->words->room;
    // Read and written when they are gathered; and put back, what was cleared meanwhile is read and written too.
    const double bytes = (double)(s->words.in_step * table->cols) * sizeof(float);
    if (s->words.by_row) s->words.seconds = 5 * bytes / rates->bytes + 2 * rates->op_seconds;
    return FT_OK;
}

// ---- time

static double bytes_of(const ft_parameters *p, const ft_bucket *b, const ft_scaling *s) {
    const int64_t words = b->words && s->words.by_row ? s->words.in_step * p->list[p->table].cols : b->count;
    return (double)words * sizeof(float);
}

// What a rank leaves to others of the update, and what it gets of theirs: nothing hides it.
static void find_update(const ft_parameters *p, const ft_rates *rates, ft_scaling *s) {
    double bytes = 0;
    if (!p->deals) return;
    for (int i = 0; i < p->store_count; i++) {
        const ft_store *t = &p->stores[i];
        const double count = (double)t->count;
        if (!t->trainable) continue;
        const double copy = t->format.exact == FT_EXACT_BY_MASTER ? (double)ft_dtype_size(t->format.dtype) : 0;
        s->dealt += (count - (double)t->own.count) * (7 * sizeof(float) + copy) / rates->bytes; // as adamw's cost
        bytes += count * (double)ft_dtype_size(t->format.dtype);
        if (!t->deals_exact) bytes += count * (double)ft_store_state_size(t, FT_STATE_EXACT);
        for (int k = 0; k < t->all_count; k++)
            if (t->all_ranges[k].wide != NULL) bytes += (double)t->all_ranges[k].count * sizeof(float);
    }
    s->alone += s->dealt;
    s->spread = START_SECONDS + (s->devices - 1) * HOP_SECONDS + bytes / s->link.bytes;
}

// One sum for what is complete at the same point; what ranks tell each other goes behind all that the end of the step adds
// nothing to, as steps have it.
static int list_sums(const ft_parameters *p, const ft_backward_notes *notes, const ft_bucket *piece, int count,
                     const ft_scaling *s, ft_reduction *sums) {
    bool told = false;
    int made = 0;
    for (int b = 0; b < count;) {
        const int together = ft_buckets_at_once(piece, count, b);
        ft_reduction sum = {.complete = when(notes, piece[b].completes)};
        if (piece[b].late && !told) {
            sums[made] = (ft_reduction){.complete = made > 0 ? sums[made - 1].complete : 0};
            made++;
        }
        told = told || piece[b].late;
        for (const int end = b + together; b < end; b++)
            sum.bytes += bytes_of(p, &piece[b], s);
        sums[made++] = sum;
    }
    if (!told) sums[made++] = (ft_reduction){.complete = when(notes, FT_BACKWARD_DONE)};
    return made;
}

static ft_status find(ft_rehearsal *r, const ft_scaling_request *request, ft_backward_notes *notes, ft_scaling *s) {
    const ft_parameters *p = &r->room.model.parameters;
    ft_bucket *pieces = NULL;
    FT_TRY(ft_rehearsal_backward(r, notes, &s->alone));
    FT_TRY(find_words(&r->room, &request->rates, s));
    find_update(p, &request->rates, s);
    FT_TRY(ft_buckets_of_step(p, FT_BUCKET_FIRST, FT_BUCKET_BYTES, &pieces, &s->buckets));
    ft_reduction *sums = ft_calloc((size_t)s->buckets + 1, sizeof *sums, "sums of gradients");
    if (sums == NULL) return free(pieces), FT_NO_MEMORY;
    const int count = list_sums(p, notes, pieces, s->buckets, s, sums);
    if (notes->count > 0)
        ft_scaling_time(count, sums, notes->list[notes->count - 1].seconds, (double)s->channels / request->sm_count, s);
    find_state(p, pieces, s->buckets, s);
    free(pieces);
    free(sums);
    return FT_OK;
}

ft_status ft_scaling_find(ft_rehearsal *r, const ft_scaling_request *request, ft_scaling *s) {
    ft_backward_notes notes = {.capacity = ft_backward_point(r->room.model.layers + 4, 0)};
    *s = (ft_scaling){.devices = request->devices,
                      .channels = request->channels,
                      .link = request->link,
                      .shard = r->room.config->distributed.shard,
                      .whole_steps = r->room.plan.whole_steps,
                      .communication = ft_room_communication(r->room.config)};
    notes.list = ft_calloc((size_t)notes.capacity, sizeof *notes.list, "the order of gradients");
    if (notes.list == NULL) return FT_NO_MEMORY;
    ft_plan_set_rates(r->room.device, request->rates);
    const ft_status status = find(r, request, &notes, s);
    free(notes.list);
    return status;
}

static json_t *words_json(const ft_scaling *s) {
    return json_pack("{s:I, s:I, s:b, s:b}", "rows", (json_int_t)s->words.rows, "in_step", (json_int_t)s->words.in_step,
                     "assumed", s->words.assumed, "by_row", s->words.by_row);
}

json_t *ft_scaling_json(const ft_scaling *s) {
    bool failed = false;
    json_t *state = json_object();
    for (int i = 0; i < FT_SHARDS; i++)
        ft_json_put(state, ft_shard_name(i), json_integer((json_int_t)s->state[i]), &failed);
    json_t *all = json_pack(
        "{s:i, s:b, s:I, s:i, s:I, s:{s:s, s:f, s:s}, s:i, s:{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}, s:f, s:s, s:o}",
        "count", s->devices, "runs", s->devices <= FT_GROUP_RANKS, "communication_bytes", (json_int_t)s->communication,
        "channels", s->channels, "gradient_bytes", (json_int_t)s->gradients, "link", "name", s->link.name,
        "bytes_per_second", s->link.bytes, "source", s->link.source, "buckets", s->buckets, "seconds", "alone",
        s->alone, "reduce", s->reducing, "exposed", s->exposed, "slowed", s->slowed, "step", s->step, "words",
        s->words.seconds, "dealt", s->dealt, "spread", s->spread, "efficiency", s->alone / s->step, "shard",
        ft_shard_name(s->shard), "state_bytes", state);
    if (s->words.rows > 0) ft_json_put(all, "words", words_json(s), &failed);
    if (all == NULL || failed) ft_fail_memory(0, "several devices as JSON");
    return all;
}
