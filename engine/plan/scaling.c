#include "engine/plan/scaling.h"

#include "base/heap.h"
#include "base/json/json.h"
#include "engine/model/gradients/gradients.h"
#include "engine/model/state/shards.h"
#include "engine/train/room/joining.h"

#include <stdlib.h>

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
    s->exposed = end > backward ? end - backward : 0;
    s->slowed = busy * (s->reducing - s->exposed > 0 ? s->reducing - s->exposed : 0);
    s->step = s->alone + s->exposed + s->slowed;
}

// The first note behind the point where the bucket is complete.
static double when(const ft_backward_notes *notes, int completes) {
    int i = 0;
    while (i + 1 < notes->count && notes->list[i].point <= completes)
        i++;
    return notes->list[i].seconds;
}

static int by_completion(const void *a, const void *b) {
    const double first = ((const ft_reduction *)a)->complete, second = ((const ft_reduction *)b)->complete;
    return (first > second) - (first < second);
}

// What of the pieces is there at once beside this rank's part: the late ones, and the two largest of the others.
static size_t travelling(const ft_bucket *piece, int count) {
    size_t late = 0, most[2] = {0, 0};
    for (int b = 0; b < count; b++) {
        const size_t bytes = (size_t)piece[b].count * sizeof(float);
        if (piece[b].late)
            late += bytes;
        else if (bytes > most[0])
            most[1] = most[0], most[0] = bytes;
        else if (bytes > most[1])
            most[1] = bytes;
    }
    return late + most[0] + most[1];
}

// Bytes a rank of what is trained, by the stores that a run has: the weights that ops read stay everywhere.
static ft_status find_state(const ft_parameters *p, ft_scaling *s) {
    size_t *state = s->state;
    ft_bucket *piece;
    int count;
    FT_TRY(ft_buckets_of_step(p, FT_BUCKET_FIRST, FT_BUCKET_BYTES, &piece, &count));
    s->gradients = (size_t)p->trainable * sizeof(float);
    state[FT_SHARD_NONE] = state[FT_SHARD_OPTIMIZER] = s->gradients;
    state[FT_SHARD_GRADIENTS] = travelling(piece, count);
    free(piece);
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
    return FT_OK;
}

static ft_status find(ft_rehearsal *r, const ft_scaling_request *request, ft_backward_notes *notes, ft_scaling *s) {
    const ft_parameters *p = &r->room.model.parameters;
    ft_bucket *buckets = NULL;
    FT_TRY(ft_rehearsal_backward(r, notes, &s->alone));
    ft_status status = ft_buckets_cut(p, FT_BUCKET_FIRST, FT_BUCKET_BYTES, &buckets, &s->buckets);
    ft_reduction *sums = status == FT_OK ? ft_calloc((size_t)s->buckets + 1, sizeof *sums, "sums of gradients") : NULL;
    if (sums == NULL) return free(buckets), FT_NO_MEMORY;
    for (int b = 0; b < s->buckets; b++)
        sums[b] = (ft_reduction){when(notes, buckets[b].completes), (double)buckets[b].count * sizeof(float)};
    qsort(sums, (size_t)s->buckets, sizeof *sums, by_completion);
    if (notes->count > 0)
        ft_scaling_time(s->buckets, sums, notes->list[notes->count - 1].seconds,
                        (double)s->channels / request->sm_count, s);
    free(buckets);
    free(sums);
    return find_state(p, s);
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

json_t *ft_scaling_json(const ft_scaling *s) {
    bool failed = false;
    json_t *state = json_object();
    for (int i = 0; i < FT_SHARDS; i++)
        ft_json_put(state, ft_shard_name(i), json_integer((json_int_t)s->state[i]), &failed);
    json_t *all = json_pack(
        "{s:i, s:b, s:I, s:i, s:I, s:{s:s, s:f, s:s}, s:i, s:{s:f, s:f, s:f, s:f, s:f}, s:f, s:s, s:o}", "count",
        s->devices, "runs", s->devices <= FT_GROUP_RANKS, "communication_bytes", (json_int_t)s->communication,
        "channels", s->channels, "gradient_bytes", (json_int_t)s->gradients, "link", "name", s->link.name,
        "bytes_per_second", s->link.bytes, "source", s->link.source, "buckets", s->buckets, "seconds", "alone",
        s->alone, "reduce", s->reducing, "exposed", s->exposed, "slowed", s->slowed, "step", s->step, "efficiency",
        s->alone / s->step, "shard", ft_shard_name(s->shard), "state_bytes", state);
    if (all == NULL || failed) ft_fail_memory(0, "several devices as JSON");
    return all;
}
