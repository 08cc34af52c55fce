// documents.c - the commands of the program, as functions: words in, the document of --json out.
#include "library/engine.h"

#include "base/log.h"
#include "engine/commands/commands.h"
#include "hpo/commands/commands.h"
#include "hpo/space/options_study.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Behind the first `before` words comes --json, so that no flag without its value takes it for that.
static ft_status run(ft_command_function command, int before, int count, const char *const *words, FILE *out) {
    char json[] = "--json", **argv = ft_calloc((size_t)count + 2, sizeof *argv, "the words of a command");
    if (argv == NULL) return FT_NO_MEMORY;
    int used = 0;
    for (int i = 0; i < before; i++) argv[used++] = (char *)words[i]; // commands change the list, not the words
    argv[used++] = json;
    for (int i = before; i < count; i++) argv[used++] = (char *)words[i];
    ft_context_now()->results = out;
    const ft_log_level level = ft_log_get_level(); // --quiet is for this call
    const ft_status status = command(ft_study_sections, used, argv);
    ft_log_set_level(level);
    ft_context_now()->results = NULL;
    free(argv);
    return status;
}

static ft_status run_command(ft_command_function command, int before, int count, const char *const *words, char **json) {
    char *text = NULL;
    size_t size = 0;
    FT_TRY(ft_library_check_words(count, words));
    if (count < before) return ft_fail(FT_INVALID, NULL, "no words given");
    FILE *out = open_memstream(&text, &size);
    if (out == NULL) return ft_fail_errno(FT_FAILED, errno, NULL, "cannot keep a document");
    ft_status status = run(command, before, count, words, out);
    const bool whole = fclose(out) == 0;
    if (whole && size > 0 && json != NULL) *json = text;
    else free(text);
    return status == FT_OK && !whole ? ft_fail_memory(0, "a document") : status;
}

static int call(ftengine *engine, ft_command_function command, int before, int count, const char *const *words, char **json) {
    if (json != NULL) *json = NULL;
    if (!ft_engine_enter(engine)) return FTENGINE_BUSY;
    return ft_engine_leave(engine, run_command(command, before, count, words, json));
}

int ftengine_plan(ftengine *engine, int count, const char *const *words, char **json) {
    return call(engine, ft_command_plan, 0, count, words, json);
}

int ftengine_quote(ftengine *engine, int count, const char *const *words, char **json) {
    return call(engine, ft_command_quote, 0, count, words, json);
}

int ftengine_train(ftengine *engine, int count, const char *const *words, char **json) {
    return call(engine, ft_command_train, 0, count, words, json);
}

int ftengine_eval(ftengine *engine, int count, const char *const *words, char **json) {
    return call(engine, ft_command_eval, 0, count, words, json);
}

int ftengine_report(ftengine *engine, int count, const char *const *words, char **json) {
    return call(engine, ft_command_report, 0, count, words, json);
}

int ftengine_study(ftengine *engine, int count, const char *const *words, char **json) {
    return call(engine, ft_command_study, 1, count, words, json);
}

int ftengine_config(ftengine *engine, int count, const char *const *words, char **json) {
    return call(engine, ft_command_config, 0, count, words, json);
}

int ftengine_devices(ftengine *engine, char **json) { return call(engine, ft_command_devices, 0, 0, NULL, json); }

int ftengine_best_device(ftengine *engine, const char *min_free, char **json) {
    const char *words[] = {"--pick", "--min-free", min_free};
    return call(engine, ft_command_devices, 0, min_free != NULL ? 3 : 1, words, json);
}

int ftengine_resume(ftengine *engine, const char *directory, int count, const char *const *words, char **json) {
    const char **all = calloc((size_t)(count > 0 ? count : 0) + 1, sizeof *all);
    if (json != NULL) *json = NULL;
    if (all == NULL) return FTENGINE_NO_MEMORY;
    all[0] = directory;
    for (int i = 0; i < count; i++) all[i + 1] = words != NULL ? words[i] : NULL;
    const int code = call(engine, ft_command_train, 0, count + 1, all, json);
    free(all);
    return code;
}

// ---- a study ------------------------------------------------------------------------------------------------------------------

static bool is_program(char out[PATH_MAX], const char *folder, size_t length, const char *below) {
    const int used = snprintf(out, PATH_MAX, "%.*s%s", (int)length, folder, below);
    return used > 0 && used < PATH_MAX && access(out, X_OK) == 0;
}

// Beside the library as `make install` lays them, else in PATH.
static bool find_program(char out[PATH_MAX]) {
    Dl_info info;
    const char *slash = dladdr((void *)find_program, &info) != 0 && info.dli_fname != NULL ? strrchr(info.dli_fname, '/') : NULL;
    const size_t folder = slash != NULL ? (size_t)(slash - info.dli_fname) : 0;
    if (folder > 0 && (is_program(out, info.dli_fname, folder, "/../bin/ftengine") || is_program(out, info.dli_fname, folder, "/ftengine"))) return true;
    const char *path = getenv("PATH");
    for (const char *at = path != NULL ? path : ""; *at != '\0';) {
        const size_t length = strcspn(at, ":");
        if (length > 0 && is_program(out, at, length, "/ftengine")) return true;
        at += length + (at[length] == ':');
    }
    return false;
}

static ft_status tune(ftengine *engine, int count, const char *const *words, char **json) {
    if (engine->context.program == NULL) {
        if (!find_program(engine->program)) {
            ft_fail(FT_INVALID, "ftengine", "trials are run by the program, which is neither beside the library nor in PATH");
            ft_hint("ftengine_set_program names it");
            return FT_INVALID;
        }
        engine->context.program = engine->program;
    }
    return run_command(ft_command_tune, 0, count, words, json);
}

int ftengine_tune(ftengine *engine, int count, const char *const *words, char **json) {
    if (json != NULL) *json = NULL;
    if (!ft_engine_enter(engine)) return FTENGINE_BUSY;
    return ft_engine_leave(engine, tune(engine, count, words, json));
}
