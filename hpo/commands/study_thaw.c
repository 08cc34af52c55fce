// study_thaw.c - `ftengine study thaw`: trials that have ended go on from their last step, those that were pruned to their end, any to more.
#include "hpo/commands/study.h"

#include "base/json/json.h"
#include "hpo/study/thaw.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

static ft_status number_of(const char *word, int64_t *number) {
    char *end;
    errno = 0;
    *number = strtoll(word, &end, 10);
    if (*word != '\0' && *end == '\0' && errno == 0 && *number >= 0) return FT_OK;
    return ft_fail(FT_INVALID, "study", "a trial's number is a whole number from 0 on, got '%.40s'", word);
}

static ft_status wish_of(const study_call *call, ft_thaw_wish *wish) {
    char *end = "";
    *wish = (ft_thaw_wish){0};
    if (call->epochs != NULL && call->steps != NULL) return ft_fail(FT_INVALID, "study", "--epochs or --steps, not both");
    errno = 0;
    if (call->epochs != NULL) wish->epochs = strtod(call->epochs, &end);
    if (call->steps != NULL) wish->steps = strtoll(call->steps, &end, 10);
    const bool epochs = call->epochs == NULL || (*call->epochs != '\0' && wish->epochs > 0 && wish->epochs <= 1e6);
    const bool steps = call->steps == NULL || (*call->steps != '\0' && wish->steps > 0 && wish->steps <= INT32_MAX);
    if (*end == '\0' && errno == 0 && epochs && steps) return FT_OK;
    return ft_fail(FT_INVALID, "study", "%s is how many the trial is to have in all, above 0, got '%.40s'", call->epochs != NULL ? "--epochs" : "--steps",
                   call->epochs != NULL ? call->epochs : call->steps);
}

static void say(const study_call *call, int64_t number, int64_t of, const ft_thaw_wish *wish) {
    char end[64] = "";
    if (wish->epochs > 0) snprintf(end, sizeof end, ", to %g epochs", wish->epochs);
    if (wish->steps > 0) snprintf(end, sizeof end, ", to %" PRId64 " steps", wish->steps);
    printf("trial %" PRId64 " waits, and goes on where trial %" PRId64 " %s%s\n", number, of,
           call->opened->trials.trial[of].state == FT_PRUNED ? "was pruned" : "ended", end);
}

// All trials or none: who got one of several numbers wrong types the same command again.
static ft_status enqueue_all(const study_call *call, const ft_thaw_wish *wish, int64_t *of, int64_t *number) {
    const ft_words *w = &call->words;
    ft_error error;
    ft_status status = FT_OK;
    FT_TRY(ft_storage_begin(call->opened->storage));
    for (int i = 0; status == FT_OK && i < w->plain_count; i++) {
        status = number_of(w->plain[i], &of[i]);
        if (status == FT_OK) status = ft_thaw_enqueue(call->opened, call->place.directory, of[i], wish, &number[i]);
    }
    if (status == FT_OK) status = ft_storage_commit(call->opened->storage);
    if (status == FT_OK) return FT_OK;
    ft_error_save(&error);
    ft_storage_rollback(call->opened->storage);
    ft_error_restore(&error);
    return status;
}

ft_status ft_study_thaw(study_call *call) {
    const ft_words *w = &call->words;
    ft_thaw_wish wish;
    if (w->plain_count == 0) return ft_fail(FT_INVALID, "study", "which trials?");
    FT_TRY(wish_of(call, &wish));
    int64_t *of = ft_arena_alloc(&call->arena, 2 * (size_t)w->plain_count * sizeof *of);
    if (of == NULL) return FT_NO_MEMORY;
    int64_t *number = of + w->plain_count;
    FT_TRY(enqueue_all(call, &wish, of, number));
    if (!call->json) {
        for (int i = 0; i < w->plain_count; i++) say(call, number[i], of[i], &wish);
        printf("ftengine tune --study %s --add %d runs %s\n", call->study != NULL ? call->study : call->opened->name,
               w->plain_count, w->plain_count == 1 ? "it" : "them");
        return FT_OK;
    }
    bool failed = false;
    json_t *document = json_object(), *list = json_array();
    for (int i = 0; i < w->plain_count; i++) {
        json_t *one = json_object();
        ft_json_put(one, "thaws", json_integer(of[i]), &failed);
        ft_json_put(one, "number", json_integer(number[i]), &failed);
        if (wish.epochs > 0) ft_json_put(one, "epochs", json_real(wish.epochs), &failed);
        if (wish.steps > 0) ft_json_put(one, "steps", json_integer(wish.steps), &failed);
        ft_json_append(list, one, &failed);
    }
    ft_json_put(document, "format_version", json_integer(1), &failed);
    ft_json_put(document, "trials", list, &failed);
    return ft_study_print_json(document, failed);
}
