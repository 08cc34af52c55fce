#include "engine/generate/generator.h"

#include "base/heap.h"
#include "engine/data/batch.h"

#include <stdlib.h>
#include <string.h>

// What the cache is told of a micro-batch, behind the batch in its block.
typedef struct ft_generator_rows {
    int32_t *row, *cu_queries, *cu_keys[FT_CACHE_WINDOWS];
} ft_generator_rows;

// Of a slot.
typedef struct ft_generator_text {
    int64_t index; // of the prompts; -1: the slot is free
    int32_t count; // tokens whose keys are there
    int32_t next;  // the token behind them
    int64_t written;
} ft_generator_text;

enum { ALIGN = 256 };

const char *ft_finish_name(ft_finish finish) {
    return finish == FT_FINISH_STOP ? "stop" : finish == FT_FINISH_LENGTH ? "length" : NULL;
}

// ---- in and out ---------------------------------------------------------------------------------------------------

static ft_batch_format format_of(const ft_generator *g) {
    return (ft_batch_format){.sequences = g->sizes.slots,
                             .tokens = g->prompts.tokens > g->sizes.slots ? g->prompts.tokens : g->sizes.slots,
                             .reads = g->sizes.slots,
                             .most_reads = 1,
                             .position_padding = g->model->position_padding,
                             .reads_last = g->model->last_pooling};
}

static size_t aligned(size_t count) { return (count * sizeof(int32_t) + ALIGN - 1) / ALIGN * ALIGN; }

static size_t rows_bytes(const ft_generator *g) {
    return aligned((size_t)format_of(g).tokens) + (1 + FT_CACHE_WINDOWS) * aligned(2 * (size_t)g->sizes.slots + 1);
}

// Of a block of the host or the device.
static ft_generator_rows rows_in(const ft_generator *g, void *block) {
    const ft_batch_format format = format_of(g);
    const size_t bounds = aligned(2 * (size_t)g->sizes.slots + 1);
    char *at = (char *)block + ft_batch_bytes(&format);
    ft_generator_rows r = {.row = (int32_t *)at};
    at += aligned((size_t)format.tokens);
    r.cu_queries = (int32_t *)at;
    for (int w = 0; w < FT_CACHE_WINDOWS; w++)
        r.cu_keys[w] = (int32_t *)(at += bounds);
    return r;
}

static ft_status make_batch(ft_generator *g) {
    const ft_batch_format format = format_of(g);
    const size_t bytes = ft_batch_bytes(&format) + rows_bytes(g);
    ft_memory *memory = g->model->memory;
    FT_TRY(ft_memory_alloc_staging(memory, bytes, "staging of a batch", &g->staging));
    FT_TRY(ft_memory_alloc(memory, bytes, FT_MEM_DATA, "batch", &g->device));
    ft_batch_bind(&g->batch, g->staging, &format);
    ft_batch_bind(&g->on_device, g->device, &format);
    if ((g->rows = ft_calloc(1, sizeof *g->rows, "a generator")) == NULL) return FT_NO_MEMORY;
    *g->rows = rows_in(g, g->staging);
    const ft_generator_rows there = rows_in(g, g->device);
    g->cache.row = there.row;
    g->cache.cu_queries = there.cu_queries;
    for (int w = 0; w < FT_CACHE_WINDOWS; w++)
        g->cache.cu_keys[w] = there.cu_keys[w];
    return FT_OK;
}

static size_t logit_bytes(const ft_generator_sizes *sizes, int64_t vocabulary) {
    return (size_t)sizes->slots * (size_t)vocabulary * sizeof(float);
}

size_t ft_generator_host_bytes(const ft_generator_sizes *sizes, int64_t vocabulary) {
    return logit_bytes(sizes, vocabulary) + 2 * ft_token_sampler_host_bytes(vocabulary) +
           (size_t)sizes->slots * (sizeof(ft_generator_text) + sizeof(int32_t)); // 2: to put in order
}

ft_status ft_generator_open(ft_model *model, const ft_generator_sizes *sizes, ft_generator *g) {
    *g = (ft_generator){.model = model, .sizes = *sizes};
    if (model->vocabulary == 0 || sizes->slots < 1 || sizes->longest > sizes->tokens || sizes->longest > sizes->room)
        return ft_fail(FT_FAILED, "generator", "%d texts of %d tokens, prompts of %d, %d at once", sizes->slots,
                       sizes->room, sizes->longest, sizes->tokens);
    g->prompts = (ft_capacity){.tokens = sizes->tokens,
                               .sequences = sizes->slots,
                               .longest = sizes->longest,
                               .reads = sizes->slots,
                               .most_reads = 1};
    g->next = (ft_capacity){
        .tokens = sizes->slots, .sequences = sizes->slots, .longest = 1, .reads = sizes->slots, .most_reads = 1};
    ft_memory_set_phase(model->memory, FT_PHASE_EVAL);
    FT_TRY(ft_memory_scope_begin(model->memory, FT_SCOPE_PASS));
    g->in_scope = true;
    FT_TRY(ft_cache_create(model, sizes->slots, sizes->room, &g->cache));
    FT_TRY(make_batch(g));
    void *data;
    FT_TRY(ft_memory_alloc(model->memory, logit_bytes(sizes, model->vocabulary), FT_MEM_ACTIVATIONS,
                           "logits of next tokens", &data));
    g->logits = data;
    return ft_model_begin_prediction(model, g->prompts);
}

// Of the host, which a rehearsal does without.
static ft_status make_texts(ft_generator *g) {
    const size_t slots = (size_t)g->sizes.slots;
    if (g->text == NULL) g->text = ft_calloc(slots, sizeof *g->text, "texts under way");
    if (g->order == NULL) g->order = ft_calloc(slots, sizeof *g->order, "texts under way");
    if (g->home == NULL)
        g->home = ft_calloc(slots * (size_t)g->model->vocabulary, sizeof *g->home, "logits of next tokens");
    if (g->text == NULL || g->order == NULL || g->home == NULL) return FT_NO_MEMORY;
    for (size_t s = 0; s < slots; s++)
        g->text[s].index = -1;
    return FT_OK;
}

ft_status ft_generator_close(ft_generator *g, ft_status outcome) {
    ft_memory *memory = g->model->memory;
    if (g->in_scope) {
        ft_model_end_prediction(g->model);
        ft_memory_free(memory, g->logits);
        ft_memory_free_staging(memory, g->staging);
        ft_memory_free(memory, g->device);
        ft_cache_free(&g->cache);
        outcome = ft_memory_scope_end(memory, outcome);
        ft_memory_trim(memory);
    }
    free(g->rows);
    free(g->text);
    free(g->order);
    free(g->home);
    ft_token_sampler_free(&g->sampler);
    *g = (ft_generator){.model = NULL};
    return outcome;
}

// ---- a micro-batch ------------------------------------------------------------------------------------------------

static void begin_batch(ft_generator *g) {
    ft_batch *b = &g->batch;
    b->sequences = b->tokens = b->longest = b->reads = 0;
    b->cu_seqlens[0] = b->cu_reads[0] = 0;
    b->most_reads = 1;
}

// Tokens of a slot's text from number `first` on; the last one is read.
static void add_text(ft_generator *g, int32_t slot, const int32_t *ids, int32_t first, int32_t count) {
    ft_batch *b = &g->batch;
    const int32_t n = b->sequences++, row = b->tokens;
    for (int32_t i = 0; i < count; i++) {
        b->ids[row + i] = ids[i];
        b->token_slot[row + i] = n;
        b->token_position[row + i] = first + i;
        b->token_type[row + i] = 0;
        g->rows->row[row + i] = slot * g->sizes.room + first + i;
    }
    b->tokens += count;
    b->slot[n] = n;
    b->read_row[n] = row + count - 1;
    b->read_position[n] = first + count - 1;
    b->label[n] = 0;
    b->cu_seqlens[n + 1] = b->tokens;
    b->cu_reads[n + 1] = ++b->reads;
    if (count > b->longest) b->longest = count;
}

// Queries and keys of all slots, and of what lies between (cache.h). A free slot has neither.
static void set_bounds(ft_generator *g) {
    const ft_generator_rows *r = g->rows;
    int32_t queries = 0;
    for (int32_t s = 0; s < g->sizes.slots; s++) {
        const bool goes_on = g->text[s].index >= 0;
        const int32_t begin = s * g->sizes.room, count = goes_on ? g->text[s].count : 0; // its new token among them
        r->cu_queries[2 * s] = queries;
        r->cu_queries[2 * s + 1] = queries += goes_on;
        for (int w = 0; w < g->cache.windows; w++) {
            r->cu_keys[w][2 * s] = begin + ft_cache_first(&g->cache, w, count);
            r->cu_keys[w][2 * s + 1] = begin + count;
        }
    }
    r->cu_queries[2 * g->sizes.slots] = queries;
    for (int w = 0; w < g->cache.windows; w++)
        r->cu_keys[w][2 * g->sizes.slots] = g->sizes.slots * g->sizes.room;
}

static ft_status compute(ft_generator *g, bool steps) {
    ft_device *device = g->model->device;
    ft_batch *to = &g->on_device;
    const ft_batch *from = &g->batch;
    const size_t bytes = ft_batch_bytes(&from->format) + rows_bytes(g);
    to->sequences = from->sequences;
    to->tokens = from->tokens;
    to->longest = from->longest;
    to->reads = from->reads;
    to->most_reads = from->most_reads;
    FT_TRY(device->functions->upload(device, g->device, g->staging, bytes));
    g->cache.steps = steps;
    const ft_tensor logits = ft_matrix(g->logits, from->reads, g->model->vocabulary, FT_F32);
    FT_TRY(ft_model_next_batch(g->model, to, steps ? g->next : g->prompts, &g->cache, logits));
    FT_TRY(device->functions->download(device, g->home, g->logits,
                                       (size_t)from->reads * (size_t)g->model->vocabulary * sizeof(float)));
    return device->functions->sync(device);
}

// ---- texts --------------------------------------------------------------------------------------------------------

typedef struct run {
    ft_generator *g;
    const ft_prompt *prompts;
    int64_t count, taken; // of them
    const ft_generator_options *options;
    ft_token_sink *sink;
    void *context;
} run;

static bool ends(const ft_generator_options *o, int32_t token) {
    for (int i = 0; i < o->end_count; i++)
        if (o->ends[i] == token) return true;
    return false;
}

// The token behind the text of a slot, from row n of the logits.
static ft_status take_token(run *r, int32_t slot, int32_t n) {
    ft_generator *g = r->g;
    ft_generator_text *t = &g->text[slot];
    int32_t token;
    FT_TRY(ft_sample(&r->options->sampling, g->home + (int64_t)n * g->model->vocabulary, g->model->vocabulary,
                     r->prompts[t->index].row, (uint64_t)t->written, &g->sampler, &token));
    const bool stops = ends(r->options, token),
               full = t->written + 1 >= r->options->max_new_tokens || t->count + 1 > g->sizes.room;
    const ft_finish finish = stops ? FT_FINISH_STOP : full ? FT_FINISH_LENGTH : FT_GOES_ON;
    t->next = token;
    t->written++;
    const int64_t index = t->index;
    if (finish != FT_GOES_ON) t->index = -1;
    return r->sink(r->context, index, token, finish);
}

static int32_t free_slots(const ft_generator *g) {
    int32_t n = 0;
    for (int32_t s = 0; s < g->sizes.slots; s++)
        n += g->text[s].index < 0;
    return n;
}

// As many of the prompts that come next as there are slots and tokens for.
static ft_status read_prompts(run *r) {
    ft_generator *g = r->g;
    begin_batch(g);
    for (int32_t s = 0; s < g->sizes.slots && r->taken < r->count; s++) {
        const ft_prompt *p = &r->prompts[r->taken];
        if (g->text[s].index >= 0) continue;
        if (g->batch.sequences > 0 && g->batch.tokens + p->count > g->sizes.tokens) break;
        if (p->count < 1 || p->count > g->sizes.longest)
            return ft_fail(FT_FAILED, "generator", "a prompt of %d tokens, where there is room for %d", p->count,
                           g->sizes.longest);
        FT_TRY(ft_cache_clear(&g->cache, s));
        g->text[s] = (ft_generator_text){.index = r->taken++, .count = p->count};
        g->order[g->batch.sequences] = s;
        add_text(g, s, p->ids, 0, p->count);
    }
    FT_TRY(compute(g, false));
    for (int32_t n = 0; n < g->batch.sequences; n++)
        FT_TRY(take_token(r, g->order[n], n));
    return FT_OK;
}

// All texts under way by a token.
static ft_status go_on(run *r) {
    ft_generator *g = r->g;
    begin_batch(g);
    for (int32_t s = 0; s < g->sizes.slots; s++) {
        ft_generator_text *t = &g->text[s];
        if (t->index < 0) continue;
        g->order[g->batch.sequences] = s;
        add_text(g, s, &t->next, t->count, 1);
        t->count++;
    }
    set_bounds(g);
    FT_TRY(compute(g, true));
    for (int32_t n = 0; n < g->batch.sequences; n++)
        FT_TRY(take_token(r, g->order[n], n));
    return FT_OK;
}

ft_status ft_generator_run(ft_generator *g, const ft_prompt *prompts, int64_t count,
                           const ft_generator_options *options, ft_token_sink *sink, void *context) {
    run r = {.g = g, .prompts = prompts, .count = count, .options = options, .sink = sink, .context = context};
    const int32_t several =
        g->sizes.slots > 4 ? g->sizes.slots / 4 : 1; // so that few micro-batches of prompts stand between two steps
    FT_TRY(make_texts(g));
    for (;;) {
        const int32_t left = free_slots(g);
        const bool waits = r.taken < count;
        if (!waits && left == g->sizes.slots) return FT_OK;
        FT_TRY((waits && (left >= several || left == g->sizes.slots) ? read_prompts : go_on)(&r));
    }
}

// ---- a rehearsal --------------------------------------------------------------------------------------------------

static ft_status rehearse(ft_generator *g) {
    const ft_capacity kinds[] = {g->prompts, g->next};
    FT_TRY(ft_cache_clear(&g->cache, 0));
    for (int k = 0; k < 2; k++) {
        ft_batch *b = &g->on_device;
        b->tokens = kinds[k].tokens;
        b->sequences = kinds[k].sequences;
        b->longest = kinds[k].longest;
        b->reads = kinds[k].reads;
        b->most_reads = kinds[k].most_reads;
        g->cache.steps = k == 1;
        FT_TRY(ft_model_next_batch(g->model, b, kinds[k], &g->cache,
                                   ft_matrix(g->logits, b->reads, g->model->vocabulary, FT_F32)));
    }
    return FT_OK;
}

ft_status ft_generator_rehearse(ft_model *model, const ft_generator_sizes *sizes) {
    ft_generator g;
    ft_status status = ft_generator_open(model, sizes, &g);
    if (status == FT_OK) status = rehearse(&g);
    return ft_generator_close(&g, status);
}
