#include "engine/train/job/run_plan.h"

#include "base/spill.h"
#include "base/stop.h"
#include "engine/config/device_list.h"
#include "engine/train/job/schedule.h"

#include <math.h>
#include <stdlib.h>

ft_step_cut ft_run_plan_cut(const ft_run_plan *plan, const ft_dataset *data, const int32_t *order, int64_t first, int64_t last) {
    ft_step_cut cut = {.data = data, .order = order, .limits = plan->limits, .last = last, .parts = plan->ranks};
    int64_t tokens = 0, batches = 0;
    if (plan->ranks < 2) return cut;
    for (int64_t at = first; at < last; batches++) at += ft_batch_cut(data, order, at, last, plan->limits);
    for (int64_t i = first; i < last; i++) tokens += ft_dataset_length(data, order != NULL ? order[i] : i);
    if (batches < plan->ranks) cut.tokens = tokens;
    return cut;
}

// Each sequence is where its middle is.
int64_t ft_step_cut_next(ft_step_cut *cut, int64_t at) {
    const int64_t most = ft_batch_cut(cut->data, cut->order, at, cut->last, cut->limits);
    int64_t count = 0, part = 0;
    if (cut->tokens == 0) return most;
    for (; count < most; count++) {
        const int64_t length = ft_dataset_length(cut->data, cut->order != NULL ? cut->order[at + count] : at + count);
        const int64_t here = (2 * cut->before + length) * cut->parts / (2 * cut->tokens);
        if (count > 0 && here != part) break;
        part = here;
        cut->before += length;
    }
    return count;
}

// Enlarges `capacity` by the micro-batches of sequences [first, last) of an order, and *rows by the rows of theirs that are read; how
// many micro-batches these are.
static int64_t measure(ft_step_cut cut, int64_t first, ft_capacity *capacity, int64_t *rows) {
    const ft_dataset *data = cut.data;
    const int32_t *order = cut.order;
    const int64_t last = cut.last;
    int64_t batches = 0;
    for (; first < last; batches++) {
        int64_t count = ft_step_cut_next(&cut, first), tokens = 0, reads = 0;
        for (int64_t i = first; i < first + count; i++) {
            int64_t sequence = order != NULL ? order[i] : i;
            int64_t length = ft_dataset_length(data, sequence);
            tokens += length;
            reads += ft_dataset_reads(data, sequence);
            if (length > capacity->longest) capacity->longest = (int32_t)length;
        }
        if (tokens > capacity->tokens) capacity->tokens = (int32_t)tokens;
        if (count > capacity->sequences) capacity->sequences = (int32_t)count;
        if (reads > capacity->reads) capacity->reads = (int32_t)reads;
        *rows += reads;
        first += count;
    }
    // Of a sequence all may be read, or none.
    capacity->most_reads = data->first_read != NULL ? capacity->longest : 1;
    return batches;
}

// Of so many micro-batches: that add to gradients which nobody else adds to.
static int64_t most_of_whole(const ft_run_plan *plan) { return plan->ranks < 2 ? 1 : plan->apart ? plan->ranks : 0; }

// As far as the number of sequences goes.
static bool may_be_whole(const ft_run_plan *plan, int64_t sequences) {
    const int64_t most = plan->effective_batch < sequences ? plan->effective_batch : sequences;
    return plan->limits.max_sequences == 0 || plan->limits.max_sequences >= most;
}

// by_row: of every sequence all rows may be read, else one is.
static ft_capacity capacity_of(int64_t tokens, int64_t sequences, int32_t longest, bool by_row) {
    const int32_t most = (int32_t)(tokens < INT32_MAX ? tokens : INT32_MAX);
    return (ft_capacity){.tokens = most,
                         .sequences = (int32_t)sequences,
                         .longest = longest,
                         .reads = by_row ? most : (int32_t)sequences,
                         .most_reads = by_row ? longest : 1};
}

// What no micro-batch can exceed, whatever the order.
static ft_status bound(const ft_dataset *train, ft_run_plan *plan, ft_capacity *capacity) {
    int64_t longest = 0;
    for (int64_t i = 0; i < train->sequences; i++)
        if (ft_dataset_length(train, i) > longest) longest = ft_dataset_length(train, i);
    int64_t *count = ft_calloc((size_t)longest + 1, sizeof *count, "lengths of texts"); // of sequences that are so long
    if (count == NULL) return FT_NO_MEMORY;
    for (int64_t i = 0; i < train->sequences; i++) count[ft_dataset_length(train, i)]++;
    int64_t most = plan->effective_batch < train->sequences ? plan->effective_batch : train->sequences, tokens = 0;
    if (plan->limits.max_sequences > 0 && plan->limits.max_sequences < most) most = plan->limits.max_sequences;
    for (int64_t length = longest, left = most; left > 0; length--) { // the longest that may come together
        const int64_t those = count[length] < left ? count[length] : left;
        tokens += those * length;
        left -= those;
    }
    free(count);
    int64_t limit = plan->limits.max_tokens;
    plan->whole_steps = plan->ranks < 2 && (limit == 0 || tokens <= limit) && may_be_whole(plan, train->sequences);
    if (limit > 0 && tokens > limit) tokens = limit > longest ? limit : longest;
    *capacity = capacity_of(tokens, most, (int32_t)longest, train->first_read != NULL);
    // And in a step of several micro-batches, at most.
    const int64_t step = plan->effective_batch < train->sequences ? plan->effective_batch : train->sequences;
    plan->step_rows = train->first_read != NULL ? step * longest : step;
    plan->step_tokens = step * longest;
    return FT_OK;
}

// Walks the whole run in its real order. A run that is longer than MOST_LOOKS texts gets the bound instead.
static ft_status measure_run(const ft_dataset *train, ft_run_plan *plan) {
    enum { MOST_LOOKS = 50000000 };
    if (plan->total_steps > MOST_LOOKS / plan->effective_batch) return bound(train, plan, &plan->texts);
    int32_t *order = ft_spill_calloc((size_t)train->sequences, sizeof *order, "the order of an epoch");
    if (order == NULL) return FT_NO_MEMORY;
    ft_status status = FT_OK;
    int64_t known = -1;
    plan->whole_steps = most_of_whole(plan) > 0; // else they add to gradients that are kept
    for (int64_t step = 0; step < plan->total_steps && status == FT_OK; step++) {
        int64_t epoch, first, last;
        ft_run_plan_step(plan, step, &epoch, &first, &last);
        if (epoch != known) {
            status = ft_epoch_order(plan->order_seed, epoch, train->sequences, order);
            if (ft_stop_signal() != 0) status = ft_fail(ft_stop_status(ft_stop_signal()), NULL, "stopped before the first step");
        }
        known = epoch;
        int64_t rows = 0;
        if (status == FT_OK && measure(ft_run_plan_cut(plan, train, order, first, last), first, &plan->texts, &rows) > most_of_whole(plan)) plan->whole_steps = false;
        if (rows > plan->step_rows) plan->step_rows = rows;
        int64_t tokens = 0;
        for (int64_t i = first; status == FT_OK && i < last; i++) tokens += ft_dataset_length(train, order[i]);
        if (tokens > plan->step_tokens) plan->step_tokens = tokens;
    }
    ft_spill_free(order);
    return status;
}

// What does not depend on the data.
static ft_run_plan begin(const ft_config *c) {
    ft_run_plan plan = {.effective_batch = c->train.batch_size * c->train.gradient_accumulation_steps};
    plan.order_seed = (uint64_t)(c->train.data_seed == FT_AUTO ? c->train.seed : c->train.data_seed);
    plan.ranks = ft_device_list_count(c->device.name);
    plan.apart = ft_device_list_is_apart(c->device.name);
    plan.limits.max_sequences = c->train.micro_batch == FT_AUTO ? c->train.batch_size : c->train.micro_batch;
    plan.limits.max_tokens = c->train.micro_batch_tokens == FT_AUTO ? 0 : c->train.micro_batch_tokens;
    return plan;
}

// The sequence that does it is shorter than the longest text, so that there are positions for it.
void ft_run_plan_fill_up(ft_run_plan *plan) {
    ft_capacity *most = &plan->capacity;
    if (most->longest == 0 || most->tokens > INT32_MAX - FT_STEP_GRAPH_TOKENS) return;
    // A power of two: the numbers of rows from which on kernels sum in larger tiles are multiples of it (kernels/ops/geometry.h), so that
    // filling up changes no bit of a sum.
    plan->bucket = FT_STEP_GRAPH_TOKENS;
    while (plan->bucket > most->longest) plan->bucket /= 2;
    most->tokens = (most->tokens + plan->bucket - 1) / plan->bucket * plan->bucket;
    most->sequences++;
    most->reads += FT_FILLER_READS;
}

ft_status ft_run_plan_make(const ft_config *c, const ft_dataset *train, ft_run_plan *plan) {
    *plan = begin(c);
    plan->sequences = train->sequences;
    if (c->train.drop_last) plan->sequences -= train->sequences % c->train.batch_size;
    if (plan->sequences == 0) {
        ft_fail(FT_INVALID, "train.drop_last", "all %lld training examples are fewer than one batch of %lld and would be dropped",
                (long long)train->sequences, (long long)c->train.batch_size);
        ft_hint("set train.drop_last = false or a smaller train.batch_size");
        return FT_INVALID;
    }
    plan->steps_per_epoch = (plan->sequences + plan->effective_batch - 1) / plan->effective_batch;
    plan->total_steps = c->train.max_steps > 0 ? c->train.max_steps : (int64_t)ceil(c->train.epochs * (double)plan->steps_per_epoch);
    plan->warmup_steps = ft_warmup_steps(c->train.warmup_ratio, c->train.warmup_steps, plan->total_steps);
    FT_TRY(measure_run(train, plan));
    if (plan->step_rows < 1) plan->step_rows = 1; // the loss of a step without a labelled row, where all are such
    if (plan->texts.reads < 1) plan->texts.reads = 1;
    plan->capacity = plan->texts;
    return FT_OK;
}

// `sequences` texts of max_length tokens, as many as the limits let in; a text longer than max_tokens stands alone.
static ft_capacity worst(int64_t sequences, ft_batch_limits limits, int max_length, bool by_row) {
    if (limits.max_sequences > 0 && limits.max_sequences < sequences) sequences = limits.max_sequences;
    int64_t tokens = sequences * max_length, most = limits.max_tokens > max_length ? limits.max_tokens : max_length;
    if (limits.max_tokens > 0 && tokens > most) tokens = most;
    return capacity_of(tokens, sequences, max_length, by_row);
}

// Texts of that length in a micro-batch.
static int64_t at_once(const ft_run_plan *plan, int max_length) {
    int64_t count = plan->limits.max_sequences > 0 ? plan->limits.max_sequences : plan->effective_batch;
    if (plan->limits.max_tokens > 0 && plan->limits.max_tokens / max_length < count) count = plan->limits.max_tokens / max_length;
    return count > 0 ? count : 1;
}

void ft_run_plan_worst(const ft_config *c, int max_length, bool by_row, ft_run_plan *plan) {
    *plan = begin(c);
    plan->sequences = plan->effective_batch;
    plan->total_steps = c->train.max_steps;
    const int64_t most = plan->limits.max_tokens, all = plan->effective_batch;
    int64_t pieces = (all + at_once(plan, max_length) - 1) / at_once(plan, max_length), share = all;
    if (pieces < plan->ranks) share = (all + plan->ranks - 1) / plan->ranks, pieces = plan->ranks; // one each (ft_run_plan_cut)
    plan->capacity = plan->texts = worst(share, plan->limits, max_length, by_row);
    plan->step_rows = by_row ? plan->effective_batch * max_length : plan->effective_batch;
    plan->step_tokens = plan->effective_batch * max_length;
    if (plan->ranks < 2) plan->whole_steps = (most == 0 || plan->effective_batch * max_length <= most) && may_be_whole(plan, plan->sequences);
    else plan->whole_steps = pieces <= most_of_whole(plan);
}

void ft_run_plan_step(const ft_run_plan *plan, int64_t step, int64_t *epoch, int64_t *first, int64_t *last) {
    *epoch = step / plan->steps_per_epoch;
    *first = step % plan->steps_per_epoch * plan->effective_batch;
    *last = *first + plan->effective_batch < plan->sequences ? *first + plan->effective_batch : plan->sequences;
}

ft_batch_limits ft_eval_limits(const ft_config *c, ft_capacity train) {
    if (c->eval.batch_size != FT_AUTO) return (ft_batch_limits){.max_sequences = c->eval.batch_size};
    return (ft_batch_limits){.max_tokens = train.tokens * c->eval.batch_multiplier, .max_sequences = train.sequences * c->eval.batch_multiplier};
}

ft_capacity ft_eval_capacity(const ft_dataset *data, ft_batch_limits limits) {
    ft_capacity capacity = {.tokens = 0};
    int64_t rows = 0;
    measure((ft_step_cut){.data = data, .limits = limits, .last = data->sequences}, 0, &capacity, &rows);
    return capacity;
}

ft_capacity ft_eval_capacity_worst(ft_batch_limits limits, int max_length, bool by_row) {
    int64_t sequences = limits.max_sequences > 0 ? limits.max_sequences : limits.max_tokens / max_length;
    return worst(sequences > 1 ? sequences : 1, limits, max_length, by_row);
}

ft_capacity ft_capacity_union(ft_capacity a, ft_capacity b) {
    return (ft_capacity){.tokens = a.tokens > b.tokens ? a.tokens : b.tokens,
                         .sequences = a.sequences > b.sequences ? a.sequences : b.sequences,
                         .longest = a.longest > b.longest ? a.longest : b.longest,
                         .reads = a.reads > b.reads ? a.reads : b.reads,
                         .most_reads = a.most_reads > b.most_reads ? a.most_reads : b.most_reads};
}
