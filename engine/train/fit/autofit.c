#include "engine/train/fit/autofit.h"

#include "engine/train/fit/run_rehearsal.h"
#include "kernels/devices/devices.h"

#include <stdio.h>

enum { ON_HOST = FT_SAVE_OPTIMIZER | FT_SAVE_INPUTS | FT_SAVE_TRUNK };

typedef struct search {
    const ft_room *room;
    size_t limit;
    int64_t most, least;    // tokens of the largest micro-batch of whole batches, and of the longest text
    bool cuts;              // micro-batches are ours to choose
    int64_t whole;          // train.micro_batch_tokens of micro-batches that are not cut
    bool recomputes;        // so is recomputation
    int64_t every;          // recomputation as it is
    unsigned savings, free; // those there are in any case; those that may come to them
    unsigned judged;        // savings on the host that have to do with `host`: pinned, no system can swap them out
    size_t host;            // what all that is pinned may come to; 0: unknown
    ft_keep storage;        // of frozen weights as it is
    bool stores;            // and ours to choose
    ft_shard_kind shard;    // distributed.shard as it is
    bool shards;            // the same
    ft_autofit *fit;
} search;

// What is saved by a run of this configuration as it is, and what of the rest is left to us by `asked`.
static unsigned savings_of(const ft_room *room, const ft_config *c) {
    const bool activation = c->memory.recompute_activation == FT_RECOMPUTE_TRUE || ft_precision_is_half(c->train.precision);
    return (activation ? FT_SAVE_ACTIVATION : 0u) |
           (c->memory.recompute_layernorm == FT_RECOMPUTE_TRUE ? FT_SAVE_NORMS : 0u) |
           (ft_offloads_optimizer(c, room->device) ? FT_SAVE_OPTIMIZER : 0u) |
           (ft_offloads_inputs(c, room->device) ? FT_SAVE_INPUTS : 0u) | (ft_offloads_trunk(c, room->device) ? FT_SAVE_TRUNK : 0u);
}

static unsigned free_savings(const ft_room *room, const ft_config *asked, unsigned savings) {
    const bool fp32 = !ft_precision_is_half(asked->train.precision);
    unsigned free = 0;
    if (fp32 && asked->memory.recompute_activation == FT_RECOMPUTE_AUTO) free |= FT_SAVE_ACTIVATION;
    if (fp32 && asked->memory.recompute_layernorm == FT_RECOMPUTE_AUTO) free |= FT_SAVE_NORMS;
    if (asked->memory.offload == FT_OFFLOAD_AUTO && ft_device_queues(room->device)) free |= ON_HOST;
    return free & ~savings;
}

unsigned ft_fitting_offload(const ft_fitting *f) {
    return ft_offload_set_of((f->savings & FT_SAVE_OPTIMIZER) != 0, (f->savings & FT_SAVE_INPUTS) != 0, (f->savings & FT_SAVE_TRUNK) != 0);
}

static ft_config with(const ft_config *config, const ft_fitting *f) {
    ft_config c = *config;
    c.model.storage = f->storage;
    c.distributed.shard = f->shard;
    c.train.micro_batch_tokens = f->micro_batch_tokens;
    c.train.gradient_checkpointing = f->gradient_checkpointing;
    c.memory.recompute_activation = f->savings & FT_SAVE_ACTIVATION ? FT_RECOMPUTE_TRUE : FT_RECOMPUTE_FALSE;
    c.memory.recompute_layernorm = f->savings & FT_SAVE_NORMS ? FT_RECOMPUTE_TRUE : FT_RECOMPUTE_FALSE;
    c.memory.offload = (ft_offload_choice)ft_fitting_offload(f);
    return c;
}

// Has the host no room for this?
static bool beyond_host(const search *s, unsigned savings, size_t pinned) {
    return (savings & s->judged) != 0 && s->host > 0 && pinned > s->host;
}

// Rehearses a setting. *fits false: it does not; then nothing else is set.
static ft_status try_setting(const search *s, ft_fitting setting, size_t limit, bool *fits, ft_fitting *found) {
    setting.storage = s->storage;
    setting.shard = s->shard;
    ft_config config = with(s->room->config, &setting);
    ft_rehearsal other;
    ft_memory_refusal refusal = {0};
    ft_status status = ft_rehearse_again(s->room, &config, limit, &other);
    bool refused = status == FT_NO_MEMORY && other.room.memory != NULL &&
                   ft_memory_refused(other.room.memory, &refusal) && refusal.by_limit;
    *fits = status == FT_OK && !beyond_host(s, setting.savings, ft_memory_read(other.room.memory).peak_pinned);
    if (*fits) {
        const ft_memory_counters planned = ft_memory_read(other.room.memory);
        setting.reserved = planned.peak_reserved;
        setting.pinned = planned.peak_pinned;
        *found = setting;
        status = ft_rehearsal_price(&other, &found->step_seconds, NULL);
    }
    ft_error error;
    ft_error_save(&error);
    ft_status closed = ft_rehearsal_close(&other);
    if (refused) return closed;
    if (status == FT_OK) return closed;
    ft_error_restore(&error);
    return status;
}

static ft_status try_tokens(const search *s, ft_fitting setting, int64_t tokens, bool *fits, ft_fitting *found) {
    setting.micro_batch_tokens = tokens;
    return try_setting(s, setting, s->limit, fits, found);
}

// The largest micro-batch that fits with all else as in `setting`; found->reserved 0: none. `beyond`: only larger ones count.
static ft_status largest(const search *s, ft_fitting setting, int64_t beyond, ft_fitting *found) {
    bool fits;
    *found = (ft_fitting){.reserved = 0};
    ft_fitting one;
    FT_TRY(try_tokens(s, setting, s->whole, &fits, &one));
    if (fits) *found = one;
    if (fits || !s->cuts) return FT_OK;
    // On the grid: least + grain * i. The whole batch fails.
    int64_t good = -1, bad = (s->most - s->least + FT_FITTING_GRAIN - 1) / FT_FITTING_GRAIN;
    if (beyond > s->least) good = (beyond - s->least) / FT_FITTING_GRAIN; // not known to fit: tried first
    const int64_t floor = good;
    if (floor < 0) {
        FT_TRY(try_tokens(s, setting, s->least, &fits, &one));
        if (!fits) return FT_OK;
        *found = one;
        good = 0;
    }
    while (bad - good > 1) {
        // Nothing above the floor is worth the search if the next step up fails.
        int64_t middle = good == floor ? good + 1 : good + (bad - good) / 2;
        FT_TRY(try_tokens(s, setting, s->least + FT_FITTING_GRAIN * middle, &fits, &one));
        if (fits) good = middle, *found = one;
        else bad = middle;
    }
    return FT_OK;
}

static void keep(search *s, const ft_fitting *found) {
    ft_fitting *best = &s->fit->choice, *next = &s->fit->next;
    if (found->reserved == 0) return;
    if (best->reserved == 0 || found->step_seconds < best->step_seconds) {
        *next = *best;
        *best = *found;
    } else if (next->reserved == 0 || found->step_seconds < next->step_seconds) {
        *next = *found;
    }
}

static int64_t tokens_of(const search *s, const ft_fitting *f) {
    return f->reserved == 0 ? 0 : f->micro_batch_tokens == s->whole ? s->most : f->micro_batch_tokens;
}

// The largest micro-batches found so far, by what else is saved.
typedef struct sizes {
    int64_t of[FT_SAVINGS];
} sizes;

// Can it be the fastest? Of smaller micro-batches it takes no less time than with the whole batch at once.
static ft_status promises(const search *s, ft_fitting setting, bool *may) {
    bool fits;
    ft_fitting whole;
    *may = true;
    if (!s->cuts || s->fit->choice.reserved == 0) return FT_OK;
    setting.micro_batch_tokens = s->whole;
    FT_TRY(try_setting(s, setting, SIZE_MAX / 4, &fits, &whole));
    *may = !fits || whole.step_seconds < s->fit->choice.step_seconds; // !fits: the host has no room for so many
    return FT_OK;
}

// Every set of savings with this recomputation. What saves more takes longer: it is better only by larger micro-batches than
// those of its subsets, and not at all where one of those is too slow with any.
static ft_status search_savings(search *s, int64_t every, sizes *found) {
    bool slow[FT_SAVINGS] = {false};
    for (unsigned more = 0; more < FT_SAVINGS; more++) {
        int64_t size = 0;
        bool may;
        ft_fitting one;
        if ((more & s->free) != more || ((more & FT_SAVE_INPUTS) && every == 0)) continue;
        for (unsigned less = 0; less <= more; less++)
            if ((less & more) == less) {
                if (found->of[less] > size) size = found->of[less];
                slow[more] = slow[more] || slow[less];
            }
        if (size >= s->most || slow[more]) continue;
        const ft_fitting setting = {.gradient_checkpointing = every, .savings = s->savings | more};
        FT_TRY(promises(s, setting, &may));
        slow[more] = !may;
        if (!may) continue;
        FT_TRY(largest(s, setting, size, &one));
        keep(s, &one);
        if (one.reserved > 0) found->of[more] = tokens_of(s, &one);
    }
    return FT_OK;
}

static ft_status search_settings(search *s) {
    sizes found = {{0}};
    FT_TRY(search_savings(s, s->every, &found));
    if (!s->recomputes) return FT_OK;
    // Recomputation takes longer than none, so it too is better only by larger micro-batches. Longer stretches take less than
    // shorter ones: what is above the last input is not computed again, and fewer inputs travel. Their sizes are their own.
    const sizes without = s->every == 0 ? found : (sizes){{0}};
    for (int64_t every = 1; every <= s->room->job->model_config.num_hidden_layers && every <= 8; every++) {
        if (every == s->every) continue;
        found = without;
        FT_TRY(search_savings(s, every, &found));
    }
    return FT_OK;
}

// From the most exact to the smallest.
static const ft_keep forms[] = {FT_KEEP_AS_READ, FT_KEEP_BF16, FT_KEEP_INT8, FT_KEEP_NF4, FT_KEEP_NF4_DOUBLE};
enum { FORMS = sizeof forms / sizeof forms[0] };

// Is anything frozen that another form, or another place, could be for?
static ft_status find_frozen(search *s) {
    ft_rehearsal other;
    ft_status status = ft_rehearse_again(s->room, s->room->config, SIZE_MAX / 4, &other);
    if (status == FT_OK) {
        const ft_parameters *p = &other.room.model.parameters;
        s->stores = s->stores && ft_parameters_frozen_factors(p) > 0;
        if (ft_parameters_frozen_in_layers(p) == 0) s->free &= ~(unsigned)FT_SAVE_TRUNK;
    }
    ft_status closed = ft_rehearsal_close(&other);
    return status != FT_OK ? status : closed;
}

static ft_status find_places(search *s) { return s->free & FT_SAVE_TRUNK ? find_frozen(s) : FT_OK; }

// Of several GPUs the least that is dealt out with which all else can stay: what travels more is less than what anything else
// computes more. Where nothing fits so, all is dealt out for what is tried next.
static ft_status search_shards(search *s, ft_fitting asked) {
    bool fits = false;
    ft_fitting one;
    for (s->shard = FT_SHARD_OPTIMIZER; s->shard < FT_SHARDS; s->shard++) {
        FT_TRY(try_setting(s, asked, s->limit, &fits, &one));
        if (fits) return keep(s, &one), FT_OK;
    }
    s->shard = FT_SHARD_GRADIENTS;
    return FT_OK;
}

// As it is; where the form of frozen weights is ours to choose, the most exact with which anything fits.
static ft_status search_forms(search *s) {
    bool fits;
    const ft_fitting asked = {.micro_batch_tokens = s->whole, .gradient_checkpointing = s->every, .savings = s->savings};
    FT_TRY(try_setting(s, asked, SIZE_MAX / 4, &fits, &s->fit->ideal));
    if (s->shards) FT_TRY(search_shards(s, asked));
    if (s->fit->choice.reserved > 0) return FT_OK;
    FT_TRY(search_settings(s));
    if (!s->stores || s->fit->choice.reserved > 0) return FT_OK;
    FT_TRY(find_frozen(s));
    for (int i = 1; i < FORMS && s->stores && s->fit->choice.reserved == 0; i++) {
        if (forms[i] == FT_KEEP_BF16 && ft_precision_is_half(s->room->config->train.precision)) continue;
        s->storage = forms[i];
        FT_TRY(search_settings(s));
    }
    return FT_OK;
}

// Steps and evaluation as the choice cuts them.
static ft_status take_up(search *s, ft_config *config) {
    const ft_fitting *choice = &s->fit->choice;
    ft_rehearsal other;
    *config = with(s->room->config, choice);
    ft_status status = ft_rehearse_again(s->room, config, choice->reserved > s->limit ? choice->reserved : s->limit, &other);
    s->fit->plan = other.room.plan;
    s->fit->eval_limits = other.room.eval_limits;
    s->fit->eval_capacity = other.room.eval_capacity;
    s->fit->eval_extra = other.room.eval_extra;
    ft_status closed = ft_rehearsal_close(&other);
    s->fit->chosen = status == FT_OK;
    return status != FT_OK ? status : closed;
}

// Of micro-batches of steps, and of the pass that makes features: both are cut alike.
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t most_tokens(const ft_room *room) { return larger(room->plan.texts.tokens, room->plan.trunk.tokens); }
static int64_t longest(const ft_room *room) { return larger(room->plan.texts.longest, room->plan.trunk.longest); }

// What is left to us, of a run that does not fit as it is. false: nothing.
static bool open_search(const ft_room *room, size_t limit, ft_autofit *fit, search *s) {
    const ft_config *c = room->config;
    *fit = (ft_autofit){.limit = limit};
    *s = (search){.room = room, .limit = limit, .fit = fit, .most = most_tokens(room), .least = longest(room),
                  .cuts = c->train.micro_batch_tokens == FT_AUTO && c->train.micro_batch == FT_AUTO,
                  .whole = c->train.micro_batch_tokens,
                  .recomputes = c->train.gradient_checkpointing == FT_AUTO};
    s->every = ft_checkpoint_every(c, room->device);
    s->savings = savings_of(room, c);
    s->free = free_savings(room, c, s->savings);
    s->judged = s->free & ON_HOST; // what was asked for by name is refused elsewhere
    s->host = room->budget.pinned;
    s->stores = c->model.storage == FT_KEEP_AUTO;
    s->storage = s->stores ? FT_KEEP_AS_READ : c->model.storage;
    s->shards = c->distributed.shard == FT_SHARD_AUTO && room->plan.apart;
    s->shard = s->shards ? FT_SHARD_NONE : c->distributed.shard;
    return s->cuts || s->recomputes || s->free != 0 || s->stores || s->shards;
}

ft_status ft_autofit_choose(const ft_room *room, size_t limit, ft_config *config, ft_autofit *fit) {
    search s;
    *config = *room->config;
    if (!open_search(room, limit, fit, &s)) return FT_OK;
    FT_TRY(find_places(&s));
    FT_TRY(search_forms(&s));
    return fit->choice.reserved > 0 ? take_up(&s, config) : FT_OK;
}

// The setting that mostly takes least. Where it fits the search comes to it, unless something else has fitted before; where it
// does not, another may all the same.
ft_status ft_autofit_can(const ft_room *room, size_t limit, bool *can) {
    ft_autofit fit;
    search s;
    ft_fitting found;
    *can = false;
    if (!open_search(room, limit, &fit, &s)) return FT_OK;
    FT_TRY(find_places(&s));
    const int64_t every = s.recomputes ? 1 : s.every;
    const unsigned all = every > 0 ? s.free : s.free & ~(unsigned)FT_SAVE_INPUTS;
    if (s.shards) s.shard = FT_SHARD_GRADIENTS;
    const ft_fitting least = {.micro_batch_tokens = s.cuts ? s.least : s.whole, .gradient_checkpointing = every, .savings = s.savings | all};
    FT_TRY(try_setting(&s, least, limit, can, &found));
    if (*can) return FT_OK;
    if (s.shards) s.shard = FT_SHARD_NONE;
    FT_TRY(search_forms(&s));
    *can = fit.choice.reserved > 0;
    return FT_OK;
}

static ft_status smallest_of(search *s, int64_t tokens) {
    bool fits;
    ft_fitting one, *best = &s->fit->choice;
    for (int recompute = 0; recompute <= (s->recomputes ? 1 : 0); recompute++)
        for (unsigned more = 0; more < FT_SAVINGS; more++) {
            if ((more & s->free) != more || ((more & FT_SAVE_INPUTS) && !recompute && s->every == 0)) continue;
            const ft_fitting setting = {.micro_batch_tokens = tokens, .gradient_checkpointing = recompute ? 1 : s->every,
                                        .savings = s->savings | more};
            FT_TRY(try_setting(s, setting, SIZE_MAX / 4, &fits, &one));
            if (fits && one.reserved < s->fit->ideal.reserved && (best->reserved == 0 || one.reserved < best->reserved)) *best = one;
        }
    return FT_OK;
}

// The setting that needs least, if that is less than now. Small micro-batches have fewer activations but gradients that are kept
// (gradients.h), so the whole batch may need less.
static ft_status smallest(search *s) {
    FT_TRY(smallest_of(s, s->whole));
    return s->least < s->most ? smallest_of(s, s->least) : FT_OK;
}

ft_status ft_autofit_reduce(const ft_room *room, size_t limit, ft_config *config, ft_autofit *fit) {
    const ft_config *c = room->config;
    const int64_t least = longest(room) * room->config->memory.min_micro_batch;
    *fit = (ft_autofit){.limit = limit};
    *config = *c;
    search s = {.room = room, .limit = limit, .fit = fit, .most = most_tokens(room), .least = least,
                .cuts = least < most_tokens(room),
                .whole = c->train.micro_batch_tokens,
                .recomputes = room->job->config->train.gradient_checkpointing == FT_AUTO,
                .every = ft_checkpoint_every(c, room->device),
                .storage = c->model.storage,
                .shard = c->distributed.shard};
    s.savings = savings_of(room, c);
    // The host is reserved for what lies there already: nothing new goes there, and what does takes no more of it than planned.
    s.free = free_savings(room, room->job->config, s.savings) & ~(unsigned)ON_HOST;
    s.judged = s.savings & ON_HOST;
    s.host = room->planned.peak_pinned;
    FT_TRY(search_forms(&s));
    if (fit->choice.reserved == 0) FT_TRY(smallest(&s));
    return fit->choice.reserved > 0 ? take_up(&s, config) : FT_OK;
}

ft_status ft_autofit_least(const ft_room *room, size_t limit, ft_config *config, ft_autofit *fit) {
    search s;
    bool fits;
    *config = *room->config;
    if (!open_search(room, limit, fit, &s)) return FT_OK;
    const ft_fitting asked = {.micro_batch_tokens = s.whole, .gradient_checkpointing = s.every, .savings = s.savings};
    FT_TRY(try_setting(&s, asked, SIZE_MAX / 4, &fits, &fit->ideal));
    if (s.stores || (s.free & FT_SAVE_TRUNK)) FT_TRY(find_frozen(&s));
    if (s.stores) s.storage = forms[FORMS - 1];
    if (s.shards) s.shard = FT_SHARD_GRADIENTS;
    FT_TRY(smallest_of(&s, s.whole));
    if (s.cuts) FT_TRY(smallest_of(&s, s.least));
    return fit->choice.reserved > 0 ? take_up(&s, config) : FT_OK;
}

void ft_autofit_take(ft_room *room, const ft_config *config, const ft_autofit *fit) {
    room->fitted = *config;
    room->config = &room->fitted;
    room->plan = fit->plan;
    room->eval_limits = fit->eval_limits;
    room->eval_capacity = fit->eval_capacity;
    room->eval_extra = fit->eval_extra;
}

const char *ft_fitting_text(const ft_fitting *f, char out[FT_FITTING_TEXT]) {
    char tokens[48], layers[48];
    snprintf(tokens, sizeof tokens, "micro-batches of %lld tokens", (long long)f->micro_batch_tokens);
    snprintf(layers, sizeof layers, ", recomputing %lld layers at a time", (long long)f->gradient_checkpointing);
    const unsigned set = ft_fitting_offload(f);
    const char *storage = f->storage != FT_KEEP_AS_READ && f->storage != FT_KEEP_AUTO ? ft_keep_name(f->storage) : NULL;
    const char *dealt = f->shard == FT_SHARD_OPTIMIZER ? ", moments dealt out" : f->shard == FT_SHARD_GRADIENTS ? ", moments and gradients dealt out" : "";
    snprintf(out, FT_FITTING_TEXT, "%s%s%s%s%s%s%s%s%s", f->micro_batch_tokens == FT_AUTO ? "the whole batch at once" : tokens,
             f->gradient_checkpointing == 0 ? ", no recomputation" : f->gradient_checkpointing == 1 ? ", recomputing every layer" : layers,
             f->savings & FT_SAVE_NORMS ? ", norms made again" : "", set != 0 ? ", " : "",
             set != 0 ? ft_offload_text(set) : "", set != 0 ? " on the host" : "",
             storage != NULL ? ", frozen weights in " : "", storage != NULL ? storage : "", dealt);
    return out;
}
