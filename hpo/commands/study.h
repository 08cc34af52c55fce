// study.h - what the parts of `ftengine study` share.
#ifndef FT_COMMAND_STUDY_H
#define FT_COMMAND_STUDY_H

#include "engine/commands/commands.h"
#include "engine/commands/text_table.h"
#include "hpo/exchange/exchange.h"
#include "hpo/report/view.h"
#include "hpo/storage/locate.h"

// The command line behind the subcommand, and the study that it names.
typedef struct study_call {
    const char *subcommand;
    const char *study, *storage, *state, *format, *output, *top, *from, *svg, *space, *direction, *step, *steps, *epochs, *constraints, *trial; // flags; NULL = not given
    bool json, yes, force, skip_if_exists;
    ft_words words;        // without the study's name
    const char **settings; // words with '=', for enqueue
    int setting_count;
    ft_arena arena;
    ft_study_place place;
    ft_storage *file;
    ft_stored *opened;
} study_call;

// Each does its work on an open study (`create`, `list` and `import` on none) and prints.
ft_status ft_study_create(study_call *call);
ft_status ft_study_list(study_call *call);
ft_status ft_study_show(study_call *call);
ft_status ft_study_best(study_call *call);
ft_status ft_study_trials(study_call *call);
ft_status ft_study_enqueue(study_call *call);
ft_status ft_study_ask(study_call *call);
ft_status ft_study_tell(study_call *call);
ft_status ft_study_thaw(study_call *call);
ft_status ft_study_export(study_call *call);
ft_status ft_study_import(study_call *call);
ft_status ft_study_report(study_call *call);
ft_status ft_study_delete(study_call *call);

// What `ftengine tune` would run with: the files and settings of the words, without a file the study's own or
// configs/tune.ini. Free config.
ft_status ft_tune_config(const char *study, const char *storage, ft_words *words, ft_arena *arena, ft_config *config);

// FT_FAILED: why there is no best trial.
ft_status ft_study_no_best(const ft_stored *study);
// Prints one document with format_version in front, and takes it. `failed`: it could not be built.
ft_status ft_study_print_json(json_t *document, bool failed);

#endif
