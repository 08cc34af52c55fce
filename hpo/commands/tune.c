#include "base/clock.h"
#include "base/files.h"
#include "engine/config/deadline.h"
#include "hpo/commands/commands.h"
#include "hpo/commands/study.h"
#include "hpo/commands/tune_need.h"
#include "hpo/space/options_study.h"
#include "hpo/study/study.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char standard[] = "configs/tune.ini";

static ft_status whole_number(const char *flag, const char *text, int64_t *out) {
    char *end;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || value < 1 || value > 1 << 30)
        return ft_fail(FT_INVALID, flag, "takes a whole number of trials, at least 1; got '%.40s'", text);
    *out = value;
    return FT_OK;
}

// Without a configuration: that of the study when it has one, else the one that works after the quick start.
static ft_status standard_config(const char *study, const char *storage, ft_arena *arena, const char **path) {
    *path = standard;
    if (study != NULL) {
        ft_study_place place;
        FT_TRY(ft_study_locate(study, storage, arena, &place));
        const char *own = ft_path_join(arena, place.directory, "config.ini");
        if (own == NULL) return FT_NO_MEMORY;
        if (ft_path_exists(own)) *path = own;
    }
    if (ft_path_exists(*path)) return FT_OK;
    ft_fail(FT_INVALID, "tune", "no configuration given, and there is no %s here", standard);
    ft_hint("ftengine tune CONFIG.ini [--study NAME] [section.key=value ...]; ftengine help tune");
    return FT_INVALID;
}

// A flag is a short name of an option: it becomes an override.
static ft_status add_override(ft_words *words, ft_arena *arena, const char *option, const char *value) {
    if (value == NULL) return FT_OK;
    const char *text = ft_arena_format(arena, "%s=%s", option, value);
    if (text == NULL) return FT_NO_MEMORY;
    words->overrides[words->override_count++] = text;
    return FT_OK;
}

// What is otherwise by default for trials: a file before the others, so that whoever sets the option has it. Hundreds
// of timelines are megabytes that nobody looks at.
static ft_status load_config(const ft_words *words, ft_arena *arena, ft_config *config) {
    static const char defaults[] = "[memory]\ntimeline = false\n";
    const char **files = ft_arena_alloc(arena, (size_t)(words->plain_count + 1) * sizeof *files);
    int ends[2];
    if (files == NULL) return FT_NO_MEMORY;
    if (pipe(ends) != 0) return ft_fail_errno(FT_FAILED, errno, "tune", "cannot make a pipe");
    bool written = write(ends[1], defaults, sizeof defaults - 1) == sizeof defaults - 1; // it has room for more
    close(ends[1]);
    files[0] = ft_arena_format(arena, "/dev/fd/%d", ends[0]);
    memcpy(files + 1, words->plain, (size_t)words->plain_count * sizeof *files);
    ft_status status = !written           ? ft_fail(FT_FAILED, "tune", "cannot write into a pipe")
                       : files[0] == NULL ? FT_NO_MEMORY
                                          : ft_study_config_load(config, words->plain_count + 1, files, words->override_count,
                                                           words->overrides);
    close(ends[0]);
    return status;
}

ft_status ft_tune_config(const char *study, const char *storage, ft_words *words, ft_arena *arena, ft_config *config) {
    if (words->plain_count == 0) {
        FT_TRY(standard_config(study, storage, arena, &words->plain[0]));
        words->plain_count = 1;
    }
    return load_config(words, arena, config);
}

// The study as `ftengine study show --json` has it.
static ft_status print_study(const ft_config *config, const ft_tuning_call *tuned) {
    const ft_study_options *o = ft_study_options_of(config);
    study_call call = {.subcommand = "show", .json = true};
    const char *name = tuned->study != NULL ? tuned->study : o->name[0] != '\0' ? o->name : config->name; // as ft_tuning_open
    const char *storage = tuned->storage != NULL ? tuned->storage : o->storage[0] != '\0' ? o->storage : NULL;
    ft_status status = ft_study_open(name, storage, FT_STORAGE_READ, &call.arena, &call.place, &call.file, &call.opened);
    if (status == FT_OK) status = ft_study_show(&call);
    ft_error error;
    ft_error_save(&error);
    ft_stored_close(call.opened);
    const ft_status closed = ft_storage_close(call.file);
    ft_arena_free(&call.arena);
    if (status == FT_OK) return closed;
    ft_error_restore(&error);
    return status;
}

static ft_status begin_deadline(const char *text, double *at) {
    double left;
    FT_TRY(ft_deadline_left(text, "--deadline", &left));
    if (left <= 0) return ft_fail(FT_INVALID, "--deadline", "%s is past", text);
    *at = ft_now() + left;
    return FT_OK;
}

static ft_status tune(int argc, char **argv, ft_arena *arena, ft_config *config) {
    ft_tuning_call call = {0};
    const char *trials = NULL, *timeout = NULL, *add = NULL, *parallel = NULL, *failures = NULL, *deadline = NULL;
    const ft_flag flags[] = {{"--study", &call.study, NULL},
                             {"--storage", &call.storage, NULL},
                             {"--trials", &trials, NULL},
                             {"--add", &add, NULL},
                             {"--timeout", &timeout, NULL},
                             {"--deadline", &deadline, NULL},
                             {"--parallel", &parallel, NULL},
                             {"--max-failures", &failures, NULL},
                             {"--json", NULL, &call.untold}};
    ft_words words;
    FT_TRY(ft_parse_words("tune", argc, argv, sizeof flags / sizeof flags[0], flags, arena, &words));
    if (add != NULL) FT_TRY(whole_number("--add", add, &call.add));
    if (add != NULL && trials != NULL)
        return ft_fail(FT_INVALID, "--add", "does not go with --trials: one counts from now, the other in all");
    if (deadline != NULL) FT_TRY(begin_deadline(deadline, &call.deadline));
    // Every flag took at least one word of the command line, which is the room that its override needs.
    FT_TRY(add_override(&words, arena, "study.trials", trials));
    FT_TRY(add_override(&words, arena, "study.timeout", timeout));
    FT_TRY(add_override(&words, arena, "study.parallel", parallel));
    FT_TRY(add_override(&words, arena, "study.max_failures", failures));
    FT_TRY(ft_tune_config(call.study, call.storage, &words, arena, config));
    call.need = ft_tune_need(config);
    FT_TRY(ft_tune(config, &call));
    return call.untold ? print_study(config, &call) : FT_OK;
}

ft_status ft_command_tune(const ft_section *const *sections, int argc, char **argv) {
    ft_arena arena = {0};
    ft_config config = {0};
    ft_status status = tune(argc, argv, &arena, &config);
    ft_config_free(&config);
    ft_arena_free(&arena);
    return status;
}
