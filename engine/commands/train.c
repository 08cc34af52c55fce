#include "engine/commands/commands.h"
#include "engine/commands/device_names.h"
#include "engine/commands/launched.h"
#include "engine/commands/ranks.h"

#include "base/context.h"
#include "base/files.h"
#include "base/json/json.h"
#include "engine/config/device_list.h"
#include "engine/plan/advice.h"
#include "engine/train/room/observer.h"
#include "engine/train/repeat/repeat.h"
#include "engine/train/run_dir.h"
#include "engine/train/watch.h"

#include <errno.h>
#include <string.h>

// A run directory among the configurations stands for its own, and goes on there unless the command line says otherwise.
static ft_status take_runs(ft_words *words, ft_arena *arena) {
    for (int i = 0; i < words->plain_count; i++) {
        const char *run = words->plain[i], *file = ft_run_dir_config(run, arena);
        if (file == NULL) continue;
        const char **overrides = ft_arena_alloc(arena, (size_t)(words->override_count + 2) * sizeof *overrides);
        const char *dir = ft_arena_format(arena, "output.dir=%s", run);
        if (overrides == NULL || dir == NULL) return FT_NO_MEMORY;
        overrides[0] = dir;
        overrides[1] = "output.exists=resume";
        if (words->override_count > 0) memcpy(overrides + 2, words->overrides, (size_t)words->override_count * sizeof *overrides);
        words->overrides = overrides;
        words->override_count += 2;
        words->plain[i] = file;
    }
    return FT_OK;
}

// RUN/config.ini says not where it lies, so that it can begin another run; to go on can only mean RUN.
static void find_resumed(const ft_words *words, ft_config *config) {
    if (words->plain_count == 0 || config->output.dir[0] != '\0' || config->output.exists != FT_EXISTS_RESUME) return;
    const char *dir = ft_run_dir_of_config(words->plain[words->plain_count - 1], &config->arena);
    if (dir != NULL) config->output.dir = dir;
}

// The run directory, for --json: the first one that is told of. Who watches the context is told all the same.
typedef struct listener {
    ft_run_watch watch;
    const ft_run_watch *other;
    ft_arena *arena;
    const char *dir; // NULL: there is none
} listener;

static void listen(void *owner, const ft_run_news *news) {
    listener *l = owner;
    if (l->dir == NULL) l->dir = ft_arena_strdup(l->arena, news->dir);
    if (l->other != NULL) l->other->told(l->other->owner, news);
}

// To look at it, or to go on. One that diverged would diverge again.
static void put_next(json_t *document, const char *dir, bool *failed) {
    const char *status = json_string_value(json_object_get(document, "status"));
    const bool completed = status != NULL && strcmp(status, "completed") == 0, diverged = status != NULL && strcmp(status, "diverged") == 0;
    if (completed) ft_document_next(document, "report", dir, NULL, failed);
    if ((!completed && !diverged) || json_is_true(json_object_get(json_object_get(document, "deadline"), "reached")))
        ft_document_next(document, "train", dir, NULL, failed);
}

// run.json, which a run has that ended badly, too.
static ft_status print_run(const char *dir, ft_arena *arena) {
    json_t *run, *document = json_object();
    bool failed = false;
    const char *path = ft_path_join(arena, dir, "run.json");
    if (path != NULL && !ft_path_exists(path)) return json_decref(document), FT_OK; // refused before it began
    ft_status status = path != NULL ? ft_json_load(path, &run) : FT_NO_MEMORY;
    if (status == FT_OK) {
        ft_json_put(document, "run", ft_json_text(dir), &failed);
        failed = failed || json_object_update(document, run) != 0;
        put_next(document, dir, &failed);
        json_decref(run);
        if (failed) status = ft_fail_memory(0, "the run as JSON");
        else ft_json_write(ft_results(), document);
    }
    json_decref(document);
    if (status == FT_OK && fflush(ft_results()) != 0) status = ft_fail_errno(FT_FAILED, errno, "standard output", "cannot write");
    return status;
}

static ft_status train(ft_config *config, bool json, ft_arena *arena) {
    ft_memory_refusal refusal = {.bytes = 0};
    listener l = {.watch = {.owner = &l, .told = listen}, .arena = arena};
    l.other = ft_run_set_watch(&l.watch);
    ft_status status = ft_train_all(config, &refusal);
    ft_run_set_watch(l.other);
    if (status == FT_NO_MEMORY && refusal.bytes > 0 && !refusal.planned && ft_ranks_present() == NULL) ft_advise(config, &refusal);
    if (!json || l.dir == NULL) return status;
    ft_error error;
    ft_error_save(&error);
    const ft_status printed = print_run(l.dir, arena);
    if (status == FT_OK) return printed;
    ft_error_restore(&error);
    return status;
}

// attempt: how often a launcher has started this process again, where it is the only one.
static ft_status train_command(const ft_section *const *sections, int attempt, int argc, char **argv) {
    ft_arena arena = {0};
    ft_words words;
    ft_config config = {0};
    bool json = false;
    const char *deadline = NULL, *devices = NULL;
    const ft_flag flags[] = {{"--json", NULL, &json}, {"--deadline", &deadline, NULL}, {"--devices", &devices, NULL}};
    ft_status status = ft_parse_words("train", argc, argv, sizeof flags / sizeof flags[0], flags, &arena, &words);
    if (status == FT_OK) status = ft_words_set(&words, &arena, "train.deadline", deadline);
    if (status == FT_OK) status = ft_words_set(&words, &arena, "device.name", devices);
    if (status == FT_OK && words.plain_count == 0 && words.override_count == 0) {
        status = ft_fail(FT_INVALID, "train", "no configuration given");
        ft_hint("ftengine train CONFIG.ini|RUN [section.key=value ...]; ftengine help train");
    }
    if (status == FT_OK) status = take_runs(&words, &arena);
    if (status == FT_OK) status = ft_config_load_with(sections, &config, words.plain_count, words.plain, words.override_count, words.overrides);
    if (status == FT_OK) find_resumed(&words, &config);
    if (status == FT_OK && ft_ranks_present() != NULL) status = ft_launched_devices(&config, ft_ranks_present()->ranks);
    if (status == FT_OK) ft_launched_again(&config, ft_ranks_present() != NULL ? ft_ranks_present()->attempt : attempt);
    if (status == FT_OK) status = ft_device_names_find(&config);
    if (status == FT_OK) status = ft_device_list_check(&config);
    const int ranks = status == FT_OK ? ft_device_list_count(config.device.name) : 1;
    if (status == FT_OK && ranks > 1 && ft_ranks_present() == NULL) status = ft_ranks_run(&config, argc, argv);
    else if (status == FT_OK) status = train(&config, json, &arena);
    ft_config_free(&config);
    ft_arena_free(&arena);
    return status;
}

ft_status ft_command_train(const ft_section *const *sections, int argc, char **argv) {
    ft_rank me = {.size = 1};
    if (ft_ranks_present() == NULL) FT_TRY(ft_rank_find_here(&me));
    return me.size > 1 ? ft_launched_train(&me, sections, argc, argv) : train_command(sections, me.attempt, argc, argv);
}
