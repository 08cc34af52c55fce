// study_thaw.c - `ftengine study thaw`: trials that were pruned go on from their last step.
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

ft_status ft_study_thaw(study_call *call) {
    const ft_words *w = &call->words;
    if (w->plain_count == 0) return ft_fail(FT_INVALID, "study", "which trials?");
    bool failed = false;
    json_t *list = json_array();
    ft_status status = FT_OK;
    for (int i = 0; status == FT_OK && i < w->plain_count; i++) {
        int64_t of, number = -1;
        status = number_of(w->plain[i], &of);
        if (status == FT_OK) status = ft_thaw_enqueue(call->opened, call->place.directory, of, &number);
        if (status != FT_OK) break;
        json_t *one = json_object();
        ft_json_put(one, "thaws", json_integer(of), &failed);
        ft_json_put(one, "number", json_integer(number), &failed);
        ft_json_append(list, one, &failed);
        if (!call->json)
            printf("trial %" PRId64 " waits, and goes on where trial %" PRId64 " was pruned\n", number, of);
    }
    if (status == FT_OK && !call->json)
        printf("ftengine tune --study %s --add %d runs %s\n", call->study != NULL ? call->study : call->opened->name,
               w->plain_count, w->plain_count == 1 ? "it" : "them");
    if (status != FT_OK || !call->json) {
        json_decref(list);
        return status;
    }
    json_t *document = json_object();
    ft_json_put(document, "format_version", json_integer(1), &failed);
    ft_json_put(document, "trials", list, &failed);
    return ft_study_print_json(document, failed);
}
