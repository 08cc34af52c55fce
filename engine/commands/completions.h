// completions.h - what a language model writes behind prompts: for predict, eval and the library.
#ifndef FT_COMPLETIONS_H
#define FT_COMPLETIONS_H

#include "engine/commands/commands.h"
#include "engine/data/prompts.h"

#include <jansson.h>

// As words of a command line; NULL: not given.
typedef struct ft_generation_words {
    const char *max_new_tokens, *temperature, *top_p, *top_k, *seed;
    bool samples; // tokens are drawn, as the model's files say where no other words do
} ft_generation_words;
enum { FT_USUAL_NEW_TOKENS = 256, FT_GENERATION_FLAGS = 6 };
// flags [FT_GENERATION_FLAGS] that fill them; returns how many.
int ft_generation_flags(ft_generation_words *words, ft_flag *flags);
// FT_INVALID with the flag's name. Greedy where neither a temperature is given nor drawing is asked for; seed 42. What
// else nobody said is left to ft_completion_settings.
ft_status ft_generation_parse(const ft_generation_words *words, ft_generator_options *options);
bool ft_generation_is_given(const ft_generation_words *words);

typedef struct ft_completion {
    int64_t row;
    const int32_t *ids; // what was written, without the token that ended it
    size_t count;
    ft_finish finish;
} ft_completion;
typedef struct ft_completion_sinks {
    ft_status (*token)(void *context, int64_t row, int32_t token,
                       ft_finish finish);                             // as they come; NULL: nobody wants them so
    ft_status (*row)(void *context, const ft_completion *completion); // in the order of rows
    void *context;
} ft_completion_sinks;

// What of a file a language model goes on with. references: what was answered too, where the file has it.
ft_table_request ft_completion_request(const ft_classifier *classifier, ft_format format, bool references);
// What the words left open. Of drawn tokens temperature, top_p and top_k of generation_config.json, else as
// transformers has them: 1, 1, 50. And tokens that end a text: of generation_config.json, or else config.json; the
// tokenizer's; and what closes an assistant's turn, in the arena. FT_INVALID with the file.
ft_status ft_completion_settings(const ft_classifier *classifier, const ft_prompts *prompts, ft_arena *arena,
                                 ft_generator_options *options);
// What of memory they ask for; and of the host, beside the device's.
ft_generator_sizes ft_completion_sizes(const ft_classifier *classifier, const ft_prompts *prompts,
                                       const ft_generator_options *options);
size_t ft_completion_host_bytes(const ft_classifier *classifier, const ft_generator_sizes *sizes,
                                const ft_generator_options *options);
// Plans the work, reads the weights where they are not there, and writes; who has loaded them has planned with these
// sizes. options->ends are set. first_row: of the file, the prompts' first one. host: bytes that the caller takes
// besides.
ft_status ft_completions_write(ft_classifier *classifier, const ft_prompts *prompts, int64_t first_row,
                               const ft_generator_options *options, size_t host, const ft_completion_sinks *sinks);
// The text of ids; those of no token, which only the table of the model has, and special tokens are nothing. Appended
// to `out`.
ft_status ft_completion_text(const ft_classifier *classifier, const int32_t *ids, size_t count, ft_decoded *out);

// What completions are worth.
typedef struct ft_completion_judgement {
    const char *command; // of the user's, which reads a line of JSON a prompt (id, completion, finish_reason,
                         // reference) and prints a number; NULL: none
    double exact_match; // share of those that are what was answered, white space at both ends aside, among prompts with
                        // an answer; NaN: there are none
    double figure;      // of the command
} ft_completion_judgement;
// Behind ft_classifier_load. The prompts have references.
ft_status ft_completions_judge(ft_classifier *classifier, const ft_prompts *prompts,
                               const ft_generator_options *options, ft_completion_judgement *judgement);
// The members of a line that every completion has: completion and finish_reason.
void ft_completion_put(json_t *line, const ft_completion *completion, const ft_decoded *text, bool *failed);

// The line of JSON that predict writes of a completion. row: of the prompts. id is taken over; NULL: there was no
// memory. room: scratch.
ft_status ft_completion_write_line(const ft_classifier *classifier, const ft_prompts *prompts,
                                   const ft_completion *completion, json_t *id, ft_decoded *room, FILE *out);

// predict with a language model: a line of JSON a prompt, or on a terminal the text of one as it comes.
typedef struct ft_completion_job {
    const char *data, *text; // a file, or a prompt
    const char *id, *output;
    ft_format format;
    bool json;
    const ft_generation_words *words;
    FILE *out;
} ft_completion_job;
ft_status ft_predict_completions(ft_classifier *classifier, const ft_completion_job *job);

#endif
