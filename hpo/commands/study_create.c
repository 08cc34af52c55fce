// study_create.c - `ftengine study create`: the study that `ftengine tune` would make, without a trial, so that some
// can be enqueued before the first one runs.
#include "hpo/commands/study.h"

#include "base/files.h"
#include "base/json/json.h"
#include "hpo/study/study.h"

#include <inttypes.h>
#include <string.h>

static ft_status print(const study_call *call, const ft_stored *study, const ft_study_place *place) {
    const int64_t trials = study->trials.count;
    if (call->json) {
        bool failed = false;
        json_t *document = json_object();
        ft_json_put(document, "format_version", json_integer(1), &failed);
        ft_json_put(document, "study", ft_json_text(study->name), &failed);
        ft_json_put(document, "storage", ft_json_text(place->shown), &failed);
        ft_json_put(document, "trials", json_integer(trials), &failed);
        return ft_study_print_json(document, failed);
    }
    printf("study '%s': %" PRId64 " trials, in %s\n", study->name, trials, place->path);
    return FT_OK;
}

// "minimize,maximize": a study for `ask` and `tell`, of a program with an objective of its own.
static ft_status read_directions(const char *text, int *count, bool maximize[static FT_OBJECTIVE_LIMIT]) {
    static const char *const names[] = {"minimize", "maximize"};
    *count = 0;
    for (const char *at = text;; at++) {
        const size_t length = strcspn(at, ",");
        int which = 0;
        while (which < 2 && (strlen(names[which]) != length || strncmp(names[which], at, length) != 0)) which++;
        if (which == 2 || *count == FT_OBJECTIVE_LIMIT) {
            ft_fail(FT_INVALID, "--direction", "takes minimize or maximize, up to %d of them with commas between; got '%.40s'",
                    FT_OBJECTIVE_LIMIT, text);
            return FT_INVALID;
        }
        maximize[(*count)++] = which == 1;
        at += length;
        if (*at == '\0') return FT_OK;
    }
}

static ft_status create_empty(study_call *call) {
    bool maximize[FT_OBJECTIVE_LIMIT];
    int count;
    FT_TRY(read_directions(call->direction, &count, maximize));
    if (call->words.plain_count + call->words.override_count > 0)
        return ft_fail(FT_INVALID, "study", "--direction is of a study without a configuration, got %s",
                       call->words.plain_count > 0 ? call->words.plain[0] : call->words.overrides[0]);
    if (call->study == NULL) return ft_fail(FT_INVALID, "study", "--direction wants --study NAME");
    FT_TRY(ft_study_locate(call->study, call->storage, &call->arena, &call->place));
    if (call->storage == NULL) FT_TRY(ft_make_directories(call->place.directory));
    FT_TRY(ft_storage_open(call->place.url, FT_STORAGE_CREATE, &call->file));
    FT_TRY(ft_stored_create(call->file, call->place.name, count, maximize, &call->opened));
    return print(call, call->opened, &call->place);
}

ft_status ft_study_create(study_call *call) {
    if (call->direction != NULL) return create_empty(call);
    ft_config config = {0};
    ft_tuning tuning = {0};
    const ft_tuning_call where = {.study = call->study, .storage = call->storage};
    ft_status status = ft_tune_config(call->study, call->storage, &call->words, &call->arena, &config);
    if (status == FT_OK) status = ft_tuning_open(&config, &where, &tuning);
    if (status == FT_OK) status = print(call, tuning.study, &tuning.place);
    ft_error error;
    ft_error_save(&error);
    ft_status closed = ft_tuning_close(&tuning);
    ft_config_free(&config);
    if (status == FT_OK) return closed;
    ft_error_restore(&error);
    return status;
}
