// track.c - `ftengine track RUN|STUDY`: tells MLflow what it has not been told of a run or study. With --live it is the
// process beside one that goes on (engine/track/tracker.h), which ends soon behind the end of its standard input.
#include "hpo/commands/commands.h"

#include "base/files.h"
#include "engine/commands/commands.h"
#include "engine/track/mlflow_model.h"
#include "engine/track/mlflow_run.h"
#include "engine/train/repeat/repeat.h"
#include "hpo/space/options_study.h"
#include "hpo/track/mlflow_study.h"

#include <signal.h>
#include <stdio.h>

typedef struct asked {
    const char *storage;
    bool live, model, json;
} asked;

// What of the configuration counts are [track] and who overrides it.
static ft_status open_config(const char *directory, const ft_words *words, ft_arena *arena, ft_config *config) {
    const char *path = ft_path_join(arena, directory, "config.ini");
    if (path == NULL) return FT_NO_MEMORY;
    return ft_study_config_load(config, ft_path_exists(path) ? 1 : 0, &path, words->override_count, words->overrides);
}

static ft_status where_to(const ft_config *config, const asked *of, ft_follow *follow) {
    FT_TRY(ft_follow_check(config));
    *follow = (ft_follow){.live = of->live,
                          .model = of->model || config->track.log_model,
                          .experiment = ft_follow_experiment(config),
                          .uri = ft_follow_uri(config)};
    if (follow->uri != NULL) return FT_OK;
    ft_fail(FT_INVALID, "track.mlflow", "nobody is to be told");
    ft_hint("ftengine track RUN|STUDY track.mlflow=http://127.0.0.1:5000, or set MLFLOW_TRACKING_URI");
    return FT_INVALID;
}

static ft_status track_run(const ft_follow *follow, bool model, const char *directory) {
    if (!model || ft_mlflow_model_of(directory) != NULL) return ft_mlflow_track_run(follow, directory);
    return ft_fail(FT_INVALID, directory, "--model: there is neither model/ nor adapter/ in it");
}

// Of several seeds or folds each is a run.
static ft_status track_runs(const ft_follow *follow, bool model, const char *directory, ft_arena *arena) {
    const char **members;
    int count;
    FT_TRY(ft_repeat_members(directory, arena, &members, &count));
    for (int i = 0; i < count; i++)
        FT_TRY(track_run(follow, model, members[i]));
    return count > 0 ? FT_OK : track_run(follow, model, directory);
}

static ft_status track_study(const ft_words *words, const asked *of, ft_arena *arena, ft_config *config) {
    ft_study_place place;
    ft_storage *file;
    ft_stored *study;
    ft_follow follow;
    if (of->model) {
        ft_fail(FT_INVALID, "--model", "of a study there is no model, but of its runs");
        ft_hint("ftengine track studies/NAME/trials/NUMBER --model");
        return FT_INVALID;
    }
    FT_TRY(ft_study_open(words->plain[0], of->storage, FT_STORAGE_READ, arena, &place, &file, &study));
    ft_stored_close(study);
    FT_TRY(ft_storage_close(file));
    FT_TRY(open_config(place.directory, words, arena, config));
    FT_TRY(where_to(config, of, &follow));
    return ft_mlflow_track_study(&follow, &place);
}

static ft_status track(const ft_words *words, const asked *of, ft_arena *arena, ft_config *config) {
    const char *name = words->plain[0], *ini = ft_path_join(arena, name, "config.ini"),
               *database = ft_path_join(arena, name, "study.db");
    ft_follow follow;
    if (ini == NULL || database == NULL) return FT_NO_MEMORY;
    if (of->storage != NULL || ft_path_exists(database) || !ft_path_exists(ini))
        return track_study(words, of, arena, config);
    FT_TRY(open_config(name, words, arena, config));
    FT_TRY(where_to(config, of, &follow));
    return track_runs(&follow, of->model, name, arena);
}

// Whoever stops the run means the run: what it leaves is told all the same.
static void stay(void) {
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
}

static ft_status print_told(const char *name) {
    bool failed = false;
    json_t *document = json_pack("{s:i}", "format_version", 1);
    ft_json_put(document, "told", ft_json_text(name), &failed);
    return ft_print_document(document, failed);
}

ft_status ft_command_track(const ft_section *const *sections, int argc, char **argv) {
    ft_arena arena = {0};
    ft_config config = {0};
    ft_words words;
    asked of = {.storage = NULL};
    const ft_flag flags[] = {{"--live", NULL, &of.live},
                             {"--model", NULL, &of.model},
                             {"--storage", &of.storage, NULL},
                             {"--json", NULL, &of.json}};
    ft_status status = ft_parse_words("track", argc, argv, 4, flags, &arena, &words);
    if (status == FT_OK && words.plain_count != 1) {
        status = ft_fail(FT_INVALID, "track", "takes one run directory or study");
        ft_hint("ftengine track RUN|STUDY [track.mlflow=http://127.0.0.1:5000]");
    }
    if (of.live) stay();
    if (status == FT_OK) status = track(&words, &of, &arena, &config);
    if (status == FT_OK && of.json) status = print_told(words.plain[0]);
    ft_config_free(&config);
    ft_arena_free(&arena);
    return status;
}
