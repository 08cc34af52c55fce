// study_create.c - `ftengine study create`: the study that `ftengine tune` would make, without a trial, so that some
// can be enqueued before the first one runs.
#include "hpo/commands/study.h"

#include "base/json/json.h"
#include "hpo/study/study.h"

#include <inttypes.h>

static ft_status print(const study_call *call, const ft_tuning *tuning) {
    const int64_t trials = tuning->study->trials.count;
    if (call->json) {
        bool failed = false;
        json_t *document = json_object();
        ft_json_put(document, "format_version", json_integer(1), &failed);
        ft_json_put(document, "study", ft_json_text(tuning->study->name), &failed);
        ft_json_put(document, "storage", ft_json_text(tuning->place.url), &failed);
        ft_json_put(document, "trials", json_integer(trials), &failed);
        return ft_study_print_json(document, failed);
    }
    printf("study '%s': %" PRId64 " trials, in %s\n", tuning->study->name, trials, tuning->place.path);
    return FT_OK;
}

ft_status ft_study_create(study_call *call) {
    ft_config config = {0};
    ft_tuning tuning = {0};
    const ft_tuning_call where = {.study = call->study, .storage = call->storage};
    ft_status status = ft_tune_config(call->study, call->storage, &call->words, &call->arena, &config);
    if (status == FT_OK) status = ft_tuning_open(&config, &where, &tuning);
    if (status == FT_OK) status = print(call, &tuning);
    ft_error error;
    ft_error_save(&error);
    ft_status closed = ft_tuning_close(&tuning);
    ft_config_free(&config);
    if (status == FT_OK) return closed;
    ft_error_restore(&error);
    return status;
}
