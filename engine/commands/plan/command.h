// command.h - inside `ftengine plan`: what was asked for, and its three kinds of answer.
//
// Each answer goes to standard output as text, CSV or one JSON document. Not fitting is FT_NO_MEMORY with the error
// set, after the answer was written, and a card that the kernels do not run on FT_NO_DEVICE: the exit code is the verdict.
#ifndef FT_PLAN_COMMAND_H
#define FT_PLAN_COMMAND_H

#include "engine/config/options.h"
#include "engine/plan/cards.h"
#include "engine/plan/plan.h"
#include "engine/plan/texts.h"

#include <jansson.h>

typedef enum ft_plan_format { FT_PLAN_TEXT = 0, FT_PLAN_CSV, FT_PLAN_JSON } ft_plan_format;

typedef struct ft_plan_task {
    ft_config config;    // where it names texts that are not here, without them
    ft_config asked;     // as it was given; the strings are those of `config`
    const ft_card *card; // --gpu; NULL: none
    bool memory_given;   // --memory; it is in config.memory.limit
    ft_scaling_request ranks; // --devices N of a card; devices 0: not given
    int labels;          // --labels; 0: not given
    char missing[FT_PLAN_MISSING]; // of the configuration's texts, so that it is planned without (engine/plan/texts.h)
    ft_plan_format format;
    const struct ft_words *words; // as they were given
    const char *svg;     // --svg: a picture of the table, the sweep or the space goes there too; NULL: none
    const struct ft_plan_addition *space; // the configuration has a search space; NULL: none
} ft_plan_task;

// What a study has to say to the plan of a configuration with a search space (hpo/commands/plan.c). own: what it made.
typedef struct ft_plan_addition {
    bool (*wanted)(const ft_config *config); // is there a space?
    ft_status (*make)(const ft_plan_task *task, void **own);
    void (*print)(const ft_plan_task *task, const void *own);
    json_t *(*json)(const ft_plan_task *task, const void *own); // the document's `space`
    size_t (*most)(const void *own);                            // bytes of the worst point
    ft_status (*draw)(const ft_plan_task *task, const void *own, const char *path);
    ft_status (*verdict)(const ft_plan_task *task, const void *own); // FT_OK: something fits
    void (*free)(void *own);                                         // NULL is fine
} ft_plan_addition;

// The command, with sections and an addition of those above (NULL: none).
ft_status ft_plan_command(const ft_section *const *sections, int argc, char **argv, const ft_plan_addition *addition);

// ---- several devices: ranks.c; words are those of the command line, NULL: not given -------------------------------------
ft_status ft_plan_take_ranks(const char *devices, const char *link, const char *channels, ft_plan_task *task);
void ft_plan_print_ranks(const ft_plan_task *task, const ft_plan *plan);

ft_status ft_plan_report(const ft_plan_task *task);                                      // one configuration
ft_status ft_plan_table(const ft_plan_task *task);                                       // --table
ft_status ft_plan_sweep(const ft_plan_task *task, int count, const char *const *sweeps); // --sweep, as given

// ---- what they share: words.c -----------------------------------------------------------------------------------------

ft_plan_request ft_plan_request_of(const ft_plan_task *task);
// "24.00GiB (RTX 4090: ...)": the budget and where it comes from.
void ft_plan_budget_text(const ft_plan_task *task, const ft_config *config, size_t budget, char *out, size_t size);
// The card as JSON; NULL without one.
json_t *ft_plan_card_json(const ft_plan_task *task);
// The model as people call it: a built-in name, else the last component of its path.
const char *ft_plan_model_name(const ft_config *config);
// The error of a plan that the host has no room for (host_short).
ft_status ft_plan_refuse_host(const ft_plan *plan);
// The error of a plan for a card that the kernels do not run on (not_supported).
ft_status ft_plan_refuse_card(const ft_plan_task *task, const ft_plan *plan);
// What the numbers hold for, on standard output. missing: of the texts; "": nothing.
void ft_plan_print_notes(const ft_plan *plan, const char *missing);
// Writes a field of a CSV line, quoted where it has to be.
void ft_plan_csv_field(const char *text);
// Writes the document and frees it; NULL or `failed` is FT_NO_MEMORY.
ft_status ft_plan_write_json(json_t *root, bool failed);

// Sequences of an evaluation for one of training, where that is named; sizes that are searched stop so much earlier.
static inline int64_t ft_plan_eval_multiplier(const ft_config *config) {
    return config->eval.batch_multiplier != FT_AUTO ? config->eval.batch_multiplier : 1;
}

#endif
