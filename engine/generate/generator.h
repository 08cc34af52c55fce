// generator.h - prompts to completions, token by token.
//
//     FT_TRY(ft_generator_open(model, &sizes, &generator));
//     status = ft_generator_run(&generator, prompts, count, &options, sink, context);
//     return ft_generator_close(&generator, status);
//
// So many texts as there are slots are under way at once. When a text has ended its slot is free, and as soon as a few
// are, or nothing else is under way, the prompts that come next are read together, in micro-batches of at most
// sizes.prompts.tokens tokens. Whoever sorts them by length has texts beside each other that end at about the same
// time.
#ifndef FT_GENERATOR_H
#define FT_GENERATOR_H

#include "engine/generate/sampling.h"
#include "engine/model/model.h"

// What is asked of memory. slots 0: nothing.
typedef struct ft_generator_sizes {
    int32_t slots;   // texts at once
    int32_t room;    // tokens of a text, prompt and completion
    int32_t tokens;  // of prompts that are read at once, at least those of the longest
    int32_t longest; // prompt
} ft_generator_sizes;

typedef struct ft_prompt {
    const int32_t *ids;
    int32_t count; // at least 1, at most sizes.longest
    uint64_t row;  // its number in what is drawn
} ft_prompt;

typedef enum ft_finish { FT_GOES_ON, FT_FINISH_STOP, FT_FINISH_LENGTH } ft_finish;
const char *ft_finish_name(ft_finish finish); // as others call it: "stop", "length"; NULL for a text that goes on

// token: the next one; of FT_FINISH_STOP the one that ended the text, which is no part of it. index: of the prompts
// that were given. A sink may stop it all by returning anything but FT_OK.
typedef ft_status ft_token_sink(void *context, int64_t index, int32_t token, ft_finish finish);

typedef struct ft_generator_options {
    ft_sampling sampling;
    int64_t max_new_tokens; // at least 1
    const int32_t *ends;    // tokens that end a text
    int end_count;
} ft_generator_options;

typedef struct ft_generator {
    ft_model *model;
    ft_generator_sizes sizes;
    ft_capacity prompts, next; // of the two kinds of micro-batches
    bool in_scope;
    ft_cache cache;
    void *staging, *device; // a batch, and behind it what the cache is told of it
    ft_batch batch, on_device;
    struct ft_generator_rows *rows; // where in the two blocks that is
    float *logits, *home;           // [slots, vocabulary] device, host
    struct ft_generator_text *text; // [slots]
    int32_t *order;                 // [slots] whose text each sequence of the batch is
    ft_token_sampler sampler;
} ft_generator;

// Close it also when opening it failed; the outcome passes through, as in ft_memory_scope_end.
ft_status ft_generator_open(ft_model *model, const ft_generator_sizes *sizes, ft_generator *generator);
ft_status ft_generator_close(ft_generator *generator, ft_status outcome);
// A text without room for a token more ends with FT_FINISH_LENGTH, as one of max_new_tokens does.
ft_status ft_generator_run(ft_generator *generator, const ft_prompt *prompts, int64_t count,
                           const ft_generator_options *options, ft_token_sink *sink, void *context);
// Opens one, and computes one micro-batch of either kind, whatever the device computes.
ft_status ft_generator_rehearse(ft_model *model, const ft_generator_sizes *sizes);
// Bytes of the host that it takes beside the device's memory.
size_t ft_generator_host_bytes(const ft_generator_sizes *sizes, int64_t vocabulary);

#endif
