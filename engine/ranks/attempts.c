#include "engine/ranks/attempts.h"

#include "base/arena.h"
#include "base/files.h"

#include <stdio.h>
#include <string.h>

enum { FORMAT_VERSION = 1 };

static void leave_out(ft_attempts *a, int index, int rank, const char *why, ft_left_out *out) {
    snprintf(out->device[out->count].name, FT_ROLL_NAME, "%s", a->device[index].name);
    snprintf(out->device[out->count].why, FT_ROLL_WHY, "%s", why);
    out->device[out->count++].rank = rank;
    a->devices--;
    memmove(&a->device[index], &a->device[index + 1], (size_t)(a->devices - index) * sizeof *a->device);
}

// Those that are not there any more, and the names of the others as they are now.
static void call_roll(ft_attempts *a, const ft_roll *roll, ft_left_out *out) {
    for (int i = 0, rank = 0; i < a->devices; rank++) {
        const ft_roll_gpu *found = NULL;
        ft_attempt_device *d = &a->device[i];
        for (int k = 0; k < roll->count && d->uuid[0] != '\0'; k++)
            if (strcmp(roll->gpu[k].uuid, d->uuid) == 0) found = &roll->gpu[k];
        if (d->uuid[0] != '\0' && (found == NULL || !found->works)) {
            leave_out(a, i, rank, found == NULL ? "the driver does not see it any more" : found->why, out);
            continue;
        }
        if (found != NULL) memcpy(d->name, found->name, sizeof d->name);
        i++;
    }
}

// Is it once more the loss of before? Then how often it came.
static int count_loss(ft_attempts *a, const ft_lost_rank *loss) {
    if (a->times == 0 || a->lost != loss->rank || a->at != loss->checkpoint) a->times = 0;
    a->lost = loss->rank;
    a->at = loss->checkpoint;
    return ++a->times;
}

ft_attempt_next ft_attempts_after(ft_attempts *a, const ft_lost_rank *loss, const ft_roll *roll, ft_left_out *out) {
    char why[FT_ROLL_WHY];
    out->count = 0;
    if (roll != NULL) call_roll(a, roll, out);
    if (out->count > 0) {
        a->times = 0;
        return a->devices >= a->least ? FT_ATTEMPT_AGAIN : FT_ATTEMPT_TOO_FEW;
    }
    if (loss->reported && !loss->of_device) return FT_ATTEMPT_SAME_ERROR;
    if (count_loss(a, loss) < FT_ATTEMPTS_SAME || a->devices <= a->least) return FT_ATTEMPT_AGAIN;
    a->times = 0;
    snprintf(why, sizeof why, "its rank was lost %d times in a row %s", FT_ATTEMPTS_SAME,
             loss->checkpoint >= 0 ? "at the same checkpoint" : "before the first checkpoint");
    leave_out(a, loss->rank, loss->rank, why, out);
    return FT_ATTEMPT_AGAIN;
}

// ---- what happened

void ft_attempts_text(const ft_left_out *out, int before, int after, char text[FT_ATTEMPTS_TEXT]) {
    text[0] = '\0';
    if (out->count == 0) return;
    int at = snprintf(text, FT_ATTEMPTS_TEXT, ", with %d rank%s instead of %d:", after, after == 1 ? "" : "s", before);
    for (int i = 0; i < out->count && at < FT_ATTEMPTS_TEXT; i++)
        at += snprintf(text + at, (size_t)(FT_ATTEMPTS_TEXT - at), "%s %s is left out (%s)", i > 0 ? "," : "",
                       out->device[i].name, out->device[i].why);
}

json_t *ft_attempts_json(const ft_lost_rank *loss, const char *device, const char *why, const ft_left_out *out,
                         int before, int after, bool *failed) {
    json_t *event = json_object(), *list = json_array();
    ft_json_put(event, "rank", json_integer(loss->rank), failed);
    ft_json_put(event, "device", ft_json_text(device), failed);
    ft_json_put(event, "why", ft_json_text(why), failed);
    ft_json_put(event, "checkpoint", loss->checkpoint >= 0 ? json_integer(loss->checkpoint) : json_null(), failed);
    ft_json_put(event, "ranks_before", json_integer(before), failed);
    ft_json_put(event, "ranks", json_integer(after), failed);
    for (int i = 0; i < out->count; i++) {
        json_t *left = json_object();
        ft_json_put(left, "rank", json_integer(out->device[i].rank), failed);
        ft_json_put(left, "device", ft_json_text(out->device[i].name), failed);
        ft_json_put(left, "why", ft_json_text(out->device[i].why), failed);
        ft_json_append(list, left, failed);
    }
    ft_json_put(event, "left_out", list, failed);
    return event;
}

ft_status ft_attempts_save(const char *directory, const json_t *events) {
    ft_arena arena = {0};
    json_t *root = NULL;
    bool failed = false;
    const char *path = ft_path_join(&arena, directory, "restarts.json");
    ft_status status = path != NULL ? FT_OK : FT_NO_MEMORY;
    if (status == FT_OK && ft_path_exists(path)) status = ft_json_load(path, &root);
    if (status == FT_OK && !json_is_array(json_object_get(root, "restarts"))) {
        json_decref(root);
        root = json_object();
        ft_json_put(root, "format_version", json_integer(FORMAT_VERSION), &failed);
        ft_json_put(root, "restarts", json_array(), &failed);
    }
    json_t *list = json_object_get(root, "restarts"), *event;
    size_t i;
    json_array_foreach(events, i, event) ft_json_append(list, json_incref(event), &failed);
    if (status == FT_OK) status = failed ? ft_fail_memory(0, "restarts.json") : ft_json_save(path, root);
    json_decref(root);
    ft_arena_free(&arena);
    return status;
}
