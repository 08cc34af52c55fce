#include "engine/train/autofit.h"

#include "engine/train/trainer.h"

#include <stdio.h>

typedef struct search {
    const ft_trainer *t;
    size_t limit;
    int64_t most, least;    // tokens of the largest micro-batch of whole batches, and of the longest text
    bool cuts;              // micro-batches are ours to choose
    int64_t whole;          // train.micro_batch_tokens of micro-batches that are not cut
    bool recomputes;        // so is recomputation
    int64_t every;          // recomputation as it is
    ft_autofit *fit;
} search;

static ft_config with(const ft_config *config, int64_t tokens, int64_t every) {
    ft_config c = *config;
    c.train.micro_batch_tokens = tokens;
    c.train.gradient_checkpointing = every;
    return c;
}

// Rehearses a setting. *fits false: it does not; then nothing else is set.
static ft_status try_setting(const search *s, int64_t tokens, int64_t every, size_t limit, bool *fits, ft_fitting *found) {
    ft_config config = with(s->t->config, tokens, every);
    ft_trainer other = {.dir_lock = -1};
    ft_memory_refusal refusal = {0};
    ft_status status = ft_trainer_rehearse_like(s->t, &config, limit, &other);
    bool refused = status == FT_NO_MEMORY && other.memory != NULL && ft_memory_refused(other.memory, &refusal) && refusal.by_limit;
    *fits = status == FT_OK;
    if (status == FT_OK) {
        size_t reserved = ft_memory_read(other.memory).peak_reserved;
        *found = (ft_fitting){.micro_batch_tokens = tokens, .gradient_checkpointing = every, .reserved = reserved};
        status = ft_trainer_price(s->t, &other, &found->step_seconds);
    }
    ft_error error;
    ft_error_save(&error);
    ft_status closed = ft_trainer_close(&other);
    if (refused) return closed;
    if (status == FT_OK) return closed;
    ft_error_restore(&error);
    return status;
}

// The largest micro-batch that fits with this recomputation; found->reserved 0: none. `beyond`: only larger ones count.
static ft_status largest(const search *s, int64_t every, int64_t beyond, ft_fitting *found) {
    bool fits;
    *found = (ft_fitting){.reserved = 0};
    ft_fitting one;
    FT_TRY(try_setting(s, s->whole, every, s->limit, &fits, &one));
    if (fits) *found = one;
    if (fits || !s->cuts) return FT_OK;
    // On the grid: least + grain * i. The whole batch fails.
    int64_t good = -1, bad = (s->most - s->least + FT_FITTING_GRAIN - 1) / FT_FITTING_GRAIN;
    if (beyond > s->least) good = (beyond - s->least) / FT_FITTING_GRAIN; // not known to fit: tried first
    const int64_t floor = good;
    if (floor < 0) {
        FT_TRY(try_setting(s, s->least, every, s->limit, &fits, &one));
        if (!fits) return FT_OK;
        *found = one;
        good = 0;
    }
    while (bad - good > 1) {
        // Nothing above the floor is worth the search if the next step up fails.
        int64_t middle = good == floor ? good + 1 : good + (bad - good) / 2;
        FT_TRY(try_setting(s, s->least + FT_FITTING_GRAIN * middle, every, s->limit, &fits, &one));
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

static ft_status search_settings(search *s) {
    bool fits;
    ft_fitting found;
    FT_TRY(try_setting(s, s->whole, s->every, SIZE_MAX / 4, &fits, &s->fit->ideal));
    FT_TRY(largest(s, s->every, 0, &found));
    keep(s, &found);
    if (!s->recomputes) return FT_OK;
    FT_TRY(largest(s, 1, 0, &found));
    keep(s, &found);
    // Longer stretches keep fewer inputs and recompute as much: they are better only by larger micro-batches.
    int64_t size = tokens_of(s, &found);
    for (int64_t every = 2; every <= s->t->model_config.num_hidden_layers && every <= 8 && size < s->most; every++) {
        FT_TRY(largest(s, every, size, &found));
        keep(s, &found);
        if (found.reserved > 0) size = tokens_of(s, &found);
    }
    return FT_OK;
}

// Steps and evaluation as the choice cuts them.
static ft_status take_up(search *s, ft_config *config) {
    const ft_fitting *choice = &s->fit->choice;
    ft_trainer other = {.dir_lock = -1};
    *config = with(s->t->config, choice->micro_batch_tokens, choice->gradient_checkpointing);
    ft_status status = ft_trainer_rehearse_like(s->t, config, choice->reserved > s->limit ? choice->reserved : s->limit, &other);
    s->fit->plan = other.plan;
    s->fit->eval_limits = other.eval_limits;
    s->fit->eval_capacity = other.eval_capacity;
    s->fit->eval_extra = other.eval_extra;
    ft_status closed = ft_trainer_close(&other);
    s->fit->chosen = status == FT_OK;
    return status != FT_OK ? status : closed;
}

ft_status ft_autofit_choose(const ft_trainer *t, size_t limit, ft_config *config, ft_autofit *fit) {
    const ft_config *c = t->config;
    *fit = (ft_autofit){.limit = limit};
    *config = *c;
    search s = {.t = t, .limit = limit, .fit = fit, .most = t->plan.capacity.tokens, .least = t->plan.capacity.longest,
                .cuts = c->train.micro_batch_tokens == FT_AUTO && c->train.micro_batch == FT_AUTO,
                .whole = c->train.micro_batch_tokens,
                .recomputes = c->train.gradient_checkpointing == FT_AUTO};
    s.every = s.recomputes ? 0 : c->train.gradient_checkpointing;
    if (!s.cuts && !s.recomputes) return FT_OK;
    FT_TRY(search_settings(&s));
    return fit->choice.reserved > 0 ? take_up(&s, config) : FT_OK;
}

// The setting that needs least, if that is less than now.
static ft_status smallest(search *s) {
    bool fits;
    ft_fitting one, *best = &s->fit->choice;
    const int64_t tokens = s->least < s->most ? s->least : s->whole;
    for (int recompute = 0; recompute <= (s->recomputes ? 1 : 0); recompute++) {
        FT_TRY(try_setting(s, tokens, recompute ? 1 : s->every, SIZE_MAX / 4, &fits, &one));
        if (fits && one.reserved < s->fit->ideal.reserved && (best->reserved == 0 || one.reserved < best->reserved)) *best = one;
    }
    return FT_OK;
}

ft_status ft_autofit_reduce(const ft_trainer *t, size_t limit, ft_config *config, ft_autofit *fit) {
    const ft_config *c = t->config;
    const int64_t least = t->plan.capacity.longest * t->config->memory.min_micro_batch;
    *fit = (ft_autofit){.limit = limit};
    *config = *c;
    search s = {.t = t, .limit = limit, .fit = fit, .most = t->plan.capacity.tokens, .least = least,
                .cuts = least < t->plan.capacity.tokens,
                .whole = c->train.micro_batch_tokens,
                .recomputes = t->asked->train.gradient_checkpointing == FT_AUTO,
                .every = c->train.gradient_checkpointing == FT_AUTO ? 0 : c->train.gradient_checkpointing};
    FT_TRY(search_settings(&s));
    if (fit->choice.reserved == 0) FT_TRY(smallest(&s));
    return fit->choice.reserved > 0 ? take_up(&s, config) : FT_OK;
}

void ft_autofit_take(ft_trainer *t, const ft_config *config, const ft_autofit *fit) {
    t->fitted = *config;
    t->config = &t->fitted;
    t->plan = fit->plan;
    t->eval_limits = fit->eval_limits;
    t->eval_capacity = fit->eval_capacity;
    t->eval_extra = fit->eval_extra;
}

const char *ft_fitting_text(const ft_fitting *f, char out[96]) {
    char *at = out, *end = out + 96;
    if (f->micro_batch_tokens == FT_AUTO) at += snprintf(at, 96, "the whole batch at once");
    else at += snprintf(at, 96, "micro-batches of %lld tokens", (long long)f->micro_batch_tokens);
    size_t left = (size_t)(end - at);
    if (f->gradient_checkpointing == 0) snprintf(at, left, ", no recomputation");
    else if (f->gradient_checkpointing == 1) snprintf(at, left, ", recomputing every layer");
    else snprintf(at, left, ", recomputing %lld layers at a time", (long long)f->gradient_checkpointing);
    return out;
}
