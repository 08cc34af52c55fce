// open.c - a study is opened: everything is looked at before anything is written.
#include "hpo/search/sampler.h"
#include "hpo/study/study.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/stop.h"
#include "engine/config/data_path.h"
#include "engine/config/options.h"
#include "engine/hub/cache.h"
#include "engine/hub/known_models.h"
#include "hpo/space/fidelity.h"
#include "hpo/study/pausing.h"
#include "hpo/study/slots.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

// ---- checks ---------------------------------------------------------------------------------------------------------

static bool in_space(const ft_tuning *t, const char *option) {
    for (int i = 0; i < t->space.count; i++)
        if (strcmp(ft_option_at(t->space.rules[i].option)->name, option) == 0) return true;
    return false;
}

static ft_status check_path(const ft_tuning *t, const char *option, const char *path) {
    if (path[0] == '\0') return ft_fail(FT_INVALID, option, "is not set: every trial needs it");
    if (strcmp(path, "-") == 0) return ft_fail(FT_INVALID, option, "many trials cannot read one standard input");
    if (ft_data_path_exists(path)) return FT_OK;
    ft_fail(FT_INVALID, option, "there is no %s", path);
    ft_hint("`make quickstart` fetches the model and the data that configs/tune.ini names");
    return FT_INVALID;
}

// A directory, a name whose snapshot is in the cache, or the numbers of a well-known model with random weights.
static ft_status check_model(const ft_tuning *t, const char *option, const char *path) {
    const ft_config *c = t->config;
    const char *found = NULL;
    if (path[0] == '\0') return check_path(t, option, path);
    ft_arena arena = {0};
    ft_status status = ft_hub_find(path, &arena, &found);
    ft_arena_free(&arena);
    FT_TRY(status);
    bool stand_in = c->model.init == FT_INIT_RANDOM && c->model.stand_in_tokenizer[0] != '\0';
    if (found != NULL || (stand_in && ft_known_model_find(path) != NULL)) return FT_OK;
    ft_hub_not_found(path);
    ft_hint("`make quickstart` fetches the model and the data that configs/tune.ini names");
    return FT_INVALID;
}

// What is searched is looked at value by value: a choice that is missing would fail in each trial that draws it.
static ft_status check_option(const ft_tuning *t, const char *option, const char *path,
                              ft_status (*check)(const ft_tuning *t, const char *option, const char *path)) {
    if (!in_space(t, option)) return check(t, option, path);
    for (int i = 0; i < t->space.count; i++) {
        const ft_space_rule *rule = &t->space.rules[i];
        if (strcmp(ft_option_at(rule->option)->name, option) != 0) continue;
        if (rule->fixed != NULL) FT_TRY(check(t, rule->where, rule->fixed));
        for (int k = 0; rule->fixed == NULL && k < rule->distribution.choice_count; k++) FT_TRY(check(t, rule->where, rule->choices[k]));
    }
    return FT_OK;
}

// Errors of a configuration should come before a study is made, not from its first trials.
static ft_status check_paths(const ft_tuning *t) {
    const ft_config *c = t->config;
    FT_TRY(check_option(t, "model.path", c->model.path, check_model));
    FT_TRY(check_option(t, "data.train", c->data.train, check_path));
    if (c->data.validation[0] != '\0') FT_TRY(check_option(t, "data.validation", c->data.validation, check_path));
    return c->data.test[0] != '\0' ? check_option(t, "data.test", c->data.test, check_path) : FT_OK;
}

static ft_status check_space(ft_tuning *t) {
    FT_TRY(ft_space_read(t->config, &t->space));
    for (int i = 0; i < t->space.count; i++)
        if (t->space.rules[i].name != NULL) return FT_OK;
    ft_fail(FT_INVALID, "[space]", "there is nothing to search");
    ft_hint("name options and their ranges, as train.learning_rate = float(1e-6, 1e-4, log); see configs/tune.ini");
    return FT_INVALID;
}

// What trials of several devices cannot be. What only some values of the space make so ends the trials that have them.
static ft_status check_devices(ft_tuning *t, const ft_tuning_need *need) {
    static const char option[] = "study.devices_per_trial";
    FT_TRY(ft_trial_devices_find(t->config, &t->arena, &t->devices));
    if (t->devices.count == 0) return FT_OK;
    if (in_space(t, "device.name")) return ft_fail(FT_INVALID, option, "not with device.name in [space]: the devices are dealt out to trials");
    if (t->options->devices_per_trial == 1 || need->alone[0] == '\0') return FT_OK;
    ft_fail(FT_INVALID, option, "not with several devices (%s): %s", t->devices.list[0], need->alone);
    ft_hint("%s=1", option);
    return FT_INVALID;
}

// Their makers know what goes together.
static ft_status check_sampler_and_pruner(ft_tuning *t) {
    bool maximize[FT_OBJECTIVE_LIMIT] = {false};
    ft_trials trials;
    ft_sampler *sampler = NULL;
    ft_pruner *pruner = NULL;
    FT_TRY(ft_trials_init(&trials, t->objectives.count, maximize));
    ft_status status = ft_tuning_sampler(t, &trials, &sampler);
    if (status == FT_OK) status = ft_tuning_pruner(t, "", &pruner);
    ft_sampler_free(sampler);
    ft_pruner_free(pruner);
    ft_trials_free(&trials);
    return status;
}

// ---- opening --------------------------------------------------------------------------------------------------------

static ft_status locate(ft_tuning *t, const ft_tuning_call *call) {
    const ft_study_options *o = t->options;
    const char *name = call->study != NULL ? call->study : o->name[0] != '\0' ? o->name : t->config->name;
    const char *storage = call->storage != NULL ? call->storage : o->storage[0] != '\0' ? o->storage : NULL;
    FT_TRY(ft_study_locate(name, storage, &t->arena, &t->place));
    t->storage_given = storage != NULL;
    t->directory = ft_path_absolute(&t->arena, NULL, t->place.directory);
    if (t->directory == NULL) return FT_NO_MEMORY;
    // The files of the study and of each trial tell these, and have to be read again.
    FT_TRY(ft_check_storable("study.name", t->place.name, FT_STRING_LIMIT, "--study"));
    if (storage != NULL) FT_TRY(ft_check_storable("study.storage", storage, FT_PATH_LIMIT, "--storage"));
    return ft_check_storable("the path of the study", t->directory, FT_PATH_LIMIT, "--study");
}

// The part of a path that exists, in bytes.
static size_t existing_part(ft_arena *arena, const char *path) {
    char *part = ft_arena_strdup(arena, path), *slash;
    if (part == NULL) return strlen(path);
    while (!ft_path_exists(part) && (slash = strrchr(part, '/')) != NULL)
        *slash = '\0';
    return strlen(part);
}

// A study that was refused leaves no directories behind. Those that hold something stay, whoever put it there.
static void remove_directories(ft_tuning *t) {
    if (t->lock < 0) return; // none were made
    for (char *slash; strlen(t->directory) > t->there && rmdir(t->directory) == 0; *slash = '\0')
        if ((slash = strrchr(t->directory, '/')) == NULL) return;
}

// Whether the file has the study. A study.db in a directory of its own may hold it under the name that the directory
// once had.
static ft_status find_study(ft_tuning *t, ft_storage *storage, bool *there) {
    ft_study_info *studies;
    int count;
    *there = false;
    FT_TRY(ft_storage_study_names(storage, &t->arena, &studies, &count));
    for (int i = 0; i < count; i++)
        *there = *there || strcmp(studies[i].name, t->place.name) == 0;
    if (*there || t->storage_given || count != 1) return FT_OK;
    t->place.name = studies[0].name;
    *there = true;
    return FT_OK;
}

// Before a file is made or changed: may the runs of this study go to its directory, and what does a new one learn from?
static ft_status check_owner(ft_tuning *t) {
    bool there = false, blank;
    FT_TRY(ft_storage_blank(t->place.url, &blank));
    if (!blank) {
        ft_storage *storage;
        FT_TRY(ft_storage_open(t->place.url, FT_STORAGE_READ, &storage));
        ft_status status = find_study(t, storage, &there);
        ft_error error;
        ft_error_save(&error);
        ft_storage_close(storage);
        if (status != FT_OK) {
            ft_error_restore(&error);
            return status;
        }
    }
    FT_TRY(ft_tuning_check_owner(t, there));
    return there ? FT_OK : ft_tuning_learn(t);
}

static ft_status create_study(ft_tuning *t) {
    bool maximize[FT_OBJECTIVE_LIMIT];
    for (int i = 0; i < t->objectives.count; i++)
        maximize[i] = t->objectives.list[i].maximize;
    FT_TRY(ft_storage_begin(t->storage));
    ft_status status = ft_stored_create(t->storage, t->place.name, t->objectives.count, maximize, &t->study);
    if (status == FT_OK) status = ft_tuning_store_identity(t);
    if (status == FT_OK) status = ft_tuning_store_lessons(t);
    if (status == FT_OK) return ft_storage_commit(t->storage);
    ft_error error;
    ft_error_save(&error);
    ft_storage_rollback(t->storage);
    ft_error_restore(&error);
    return status;
}

static ft_status open_study(ft_tuning *t) {
    bool there;
    FT_TRY(find_study(t, t->storage, &there));
    FT_TRY(ft_tuning_join(t));
    FT_TRY(find_study(t, t->storage, &there)); // whoever was faster may have made it
    if (!there) FT_TRY(create_study(t));
    ft_tuning_joined(t);
    if (!there) return FT_OK;
    FT_TRY(ft_stored_open(t->storage, t->place.name, &t->study));
    FT_TRY(ft_tuning_check_identity(t));
    FT_TRY(ft_tuning_keep_lessons(t));
    return ft_tuning_store_identity(t); // a study of another program has none yet
}

static ft_status open_all(ft_tuning *t, const ft_tuning_call *call) {
    FT_TRY(check_space(t));
    if (call->started == 0) ft_space_remarks(&t->space);
    FT_TRY(ft_fidelity_check(t->config, &t->space));
    FT_TRY(ft_objectives_read(t->config, &t->arena, &t->objectives));
    FT_TRY(ft_limits_read(t->config, &t->arena, &t->limits));
    FT_TRY(check_paths(t));
    FT_TRY(check_sampler_and_pruner(t));
    FT_TRY(check_devices(t, &call->need));
    FT_TRY(ft_tuning_fit_crew(t, &call->need));
    FT_TRY(locate(t, call));
    t->there = existing_part(&t->arena, t->directory);
    FT_TRY(ft_tuning_open_directory(t));
    FT_TRY(check_owner(t));
    FT_TRY(ft_storage_open(t->place.url, FT_STORAGE_CREATE, &t->storage));
    FT_TRY(open_study(t));
    FT_TRY(ft_tuning_write_owner(t));
    FT_TRY(ft_tuning_load_resource(t));
    FT_TRY(ft_tuning_count_ooms(t));
    FT_TRY(ft_tuning_sampler(t, &t->study->trials, &t->sampler));
    FT_TRY(ft_tuning_pruner(t, t->study->name, &t->pruner));
    FT_TRY(ft_tuning_check_beginning(t));
    FT_TRY(ft_tuning_write_config(t));
    t->goal = t->options->trials;
    t->add = call->add;
    t->untold = call->untold;
    ft_tuning_unlock_directory(t);
    return FT_OK;
}

ft_status ft_tuning_open(const ft_config *config, const ft_tuning_call *call, ft_tuning *t) {
    const bool again = call->started > 0;
    *t = (ft_tuning){.config = config,
                     .options = ft_study_options_of(config),
                     .lock = -1,
                     .started = again ? call->started : ft_now(),
                     .deadline = call->deadline,
                     .ran = call->ran,
                     .failures = call->failures,
                     .best_written = -1};
    if (!again) ft_stop_begin(); // a Ctrl-C from here on ends the loop before its first trial
    ft_status status = open_all(t, call);
    if (status == FT_OK) return FT_OK;
    ft_error error;
    ft_error_save(&error);
    remove_directories(t);
    ft_tuning_close(t);
    ft_error_restore(&error);
    return status;
}

ft_status ft_tuning_close(ft_tuning *t) {
    if (t->config == NULL) return FT_OK; // {0}: nothing was opened
    ft_slots_close(t);
    ft_sampler_free(t->sampler);
    ft_pruner_free(t->pruner);
    ft_tuning_free_pausing(t);
    ft_stored_close(t->study);
    ft_claim_file_close(t->machine);
    // The last one that closes the file changes its mode, which must not meet one that opens it.
    if (t->lock >= 0) (void)ft_tuning_lock_directory(t, false);
    ft_status status = ft_storage_close(t->storage);
    if (t->lock >= 0) close(t->lock);
    ft_space_free(&t->space);
    free(t->lean);
    free(t->looked);
    free(t->front);
    ft_arena_free(&t->arena);
    *t = (ft_tuning){.lock = -1};
    return status;
}
