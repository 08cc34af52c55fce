#include "engine/train/lengthen.h"

#include "base/files.h"
#include "base/json/json.h"
#include "base/log.h"
#include "engine/train/longer.h"
#include "engine/train/run_dir.h"

#include <errno.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

// Steps of an epoch and of the whole run, as run.json tells them; 0: it does not.
static ft_status read_run(const char *dir, int64_t *epoch, int64_t *planned) {
    json_t *run = NULL;
    int64_t steps = 0;
    double epochs = 0;
    ft_arena arena = {0};
    const char *file = ft_path_join(&arena, dir, "run.json");
    ft_status status = file == NULL ? FT_NO_MEMORY : ft_path_exists(file) ? ft_json_load(file, &run) : FT_OK;
    if (status == FT_OK) status = ft_json_int(run, file, "steps", 0, 0, INT64_MAX, &steps);
    if (status == FT_OK) status = ft_json_number(run, file, "epochs", 0, &epochs);
    if (status == FT_OK) status = ft_json_int(json_object_get(run, "resolved"), file, "total_steps", 0, 0, INT64_MAX, planned);
    *epoch = steps > 0 && epochs > 0 ? llround((double)steps / epochs) : 0;
    json_decref(run);
    ft_arena_free(&arena);
    return status;
}

ft_status ft_lengthen_check(const ft_config *c, const char *dir, double epochs, int64_t steps) {
    int64_t epoch, planned;
    FT_TRY(read_run(dir, &epoch, &planned));
    const int64_t total = steps > 0 ? steps : (int64_t)ceil(epochs * (double)epoch), made = ft_run_dir_checkpoint(dir);
    if (planned == 0) planned = c->train.max_steps > 0 ? c->train.max_steps : (int64_t)ceil(c->train.epochs * (double)epoch);
    if (total == 0 || planned == 0) return FT_OK;
    if (total > planned) return made > 0 ? ft_longer_check_rates(c, planned, total, made, dir, dir) : FT_OK;
    ft_fail(FT_INVALID, dir, "it has %lld steps, and %lld are no more", (long long)planned, (long long)total);
    if (epoch > 0) ft_hint("an epoch has %lld", (long long)epoch);
    return FT_INVALID;
}

// Of the newest checkpoint: lines that it counts on, or, behind its end, a longer run; -1: there is none.
static ft_status bytes_of(const char *dir, int64_t *bytes) {
    const int64_t step = ft_run_dir_checkpoint(dir);
    json_t *root = NULL;
    ft_arena arena = {0};
    *bytes = -1;
    if (step < 0) return FT_OK;
    const char *path = ft_arena_format(&arena, "%s/checkpoints/step-%08lld/state.json", dir, (long long)step);
    ft_status status = path != NULL ? ft_json_load(path, &root) : FT_NO_MEMORY;
    const json_t *before = json_object_get(root, "before_end");
    if (status == FT_OK) status = ft_json_int(before != NULL ? before : root, path, "metrics_bytes", -1, 0, INT64_MAX, bytes);
    json_decref(root);
    ft_arena_free(&arena);
    return status;
}

ft_status ft_lengthen_cut(const char *dir) {
    int64_t bytes;
    struct stat file;
    ft_arena arena = {0};
    const char *lines = ft_path_join(&arena, dir, "metrics.jsonl"), *run = ft_path_join(&arena, dir, "run.json");
    ft_status status = lines != NULL && run != NULL ? bytes_of(dir, &bytes) : FT_NO_MEMORY;
    if (status == FT_OK && bytes >= 0 && stat(lines, &file) == 0 && file.st_size > bytes && truncate(lines, bytes) != 0)
        status = ft_fail_errno(FT_FAILED, errno, lines, "cannot cut at the checkpoint's step");
    if (status == FT_OK && unlink(run) != 0 && errno != ENOENT) status = ft_fail_errno(FT_FAILED, errno, run, "cannot remove");
    ft_arena_free(&arena);
    return status;
}
