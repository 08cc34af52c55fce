// track.c - `ftengine track RUN|STUDY`: tells MLflow what it has not been told of a run or study. With --live it is the
// process beside one that goes on (engine/track/tracker.h), which ends soon behind the end of its standard input.
#include "hpo/commands/commands.h"

#include "base/files.h"
#include "engine/commands/commands.h"
#include "engine/track/mlflow_run.h"
#include "engine/train/repeat/repeat.h"
#include "hpo/space/options_study.h"
#include "hpo/track/mlflow_study.h"

#include <signal.h>
#include <stdio.h>

// What of the configuration counts are [track] and who overrides it.
static ft_status open_config(const char *directory, const ft_words *words, ft_arena *arena, ft_config *config) {
    const char *path = ft_path_join(arena, directory, "config.ini");
    if (path == NULL) return FT_NO_MEMORY;
    return ft_study_config_load(config, ft_path_exists(path) ? 1 : 0, &path, words->override_count, words->overrides);
}

static ft_status where_to(const ft_config *config, bool live, ft_follow *follow) {
    FT_TRY(ft_follow_check(config));
    *follow = (ft_follow){.live = live, .experiment = ft_follow_experiment(config), .uri = ft_follow_uri(config)};
    if (follow->uri != NULL) return FT_OK;
    ft_fail(FT_INVALID, "track.mlflow", "nobody is to be told");
    ft_hint("ftengine track RUN|STUDY track.mlflow=http://127.0.0.1:5000, or set MLFLOW_TRACKING_URI");
    return FT_INVALID;
}

// Of several seeds or folds each is a run.
static ft_status track_runs(const ft_follow *follow, const char *directory, ft_arena *arena) {
    const char **members;
    int count;
    FT_TRY(ft_repeat_members(directory, arena, &members, &count));
    for (int i = 0; i < count; i++)
        FT_TRY(ft_mlflow_track_run(follow, members[i]));
    return count > 0 ? FT_OK : ft_mlflow_track_run(follow, directory);
}

static ft_status track_study(const ft_words *words, const char *storage, bool live, ft_arena *arena,
                             ft_config *config) {
    ft_study_place place;
    ft_storage *file;
    ft_stored *study;
    ft_follow follow;
    FT_TRY(ft_study_open(words->plain[0], storage, FT_STORAGE_READ, arena, &place, &file, &study));
    ft_stored_close(study);
    FT_TRY(ft_storage_close(file));
    FT_TRY(open_config(place.directory, words, arena, config));
    FT_TRY(where_to(config, live, &follow));
    return ft_mlflow_track_study(&follow, &place);
}

static ft_status track(const ft_words *words, const char *storage, bool live, ft_arena *arena, ft_config *config) {
    const char *name = words->plain[0], *ini = ft_path_join(arena, name, "config.ini"),
               *database = ft_path_join(arena, name, "study.db");
    ft_follow follow;
    if (ini == NULL || database == NULL) return FT_NO_MEMORY;
    if (storage != NULL || ft_path_exists(database) || !ft_path_exists(ini))
        return track_study(words, storage, live, arena, config);
    FT_TRY(open_config(name, words, arena, config));
    FT_TRY(where_to(config, live, &follow));
    return track_runs(&follow, name, arena);
}

// Whoever stops the run means the run: what it leaves is told all the same.
static void stay(void) {
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
}

ft_status ft_command_track(const ft_section *const *sections, int argc, char **argv) {
    ft_arena arena = {0};
    ft_config config = {0};
    ft_words words;
    const char *storage = NULL;
    bool live = false;
    const ft_flag flags[] = {{"--live", NULL, &live}, {"--storage", &storage, NULL}};
    ft_status status = ft_parse_words("track", argc, argv, 2, flags, &arena, &words);
    if (status == FT_OK && words.plain_count != 1) {
        status = ft_fail(FT_INVALID, "track", "takes one run directory or study");
        ft_hint("ftengine track RUN|STUDY [track.mlflow=http://127.0.0.1:5000]");
    }
    if (live) stay();
    if (status == FT_OK) status = track(&words, storage, live, &arena, &config);
    ft_config_free(&config);
    ft_arena_free(&arena);
    return status;
}
