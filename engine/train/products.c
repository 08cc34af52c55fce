// products.c - device.gemm_tuning = auto: before its first step a run takes up measured algorithms for the matrix
// products of the sizes in which most of its micro-batches come, and measures those that nobody has measured on such a
// GPU (room/gemm_cache.h).
//
// What a run takes up is a file in its directory, which a resumed run takes instead: the cache may have been lost or
// made anew meanwhile. It is all that its sizes need or nothing: where something cannot be measured or kept, cuBLASLt
// proposes as without, for what only this run has measured nobody could repeat. Memory is the plan's in any case: the
// workspace of products has one size, and no algorithm that wants more is taken.
#include "base/files.h"
#include "base/log.h"
#include "base/sha256.h"
#include "base/stop.h"
#include "engine/train/room/gemm_cache.h"
#include "engine/train/room/observer.h"
#include "engine/train/run_dir.h"
#include "engine/train/step/sizes.h"
#include "engine/train/trainer.h"
#include "kernels/devices/devices.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// LEAST_USES: to measure a size must take no longer than its own micro-batches do in this run; later runs have it for
// nothing. MOST_SIZES: lengths that scatter give hundreds of sizes, of which each further one brings less.
enum { LEAST_USES = FT_GEMM_RUNS, MOST_SIZES = 16 };

typedef struct wanted {
    ft_batch_size *sizes; // of the first epoch, the most frequent in front
    size_t count, all;    // wanted of these, and all
    int64_t most_uses;    // of one of them, in the run
    int64_t pair[MOST_SIZES][2];
} wanted;

static int by_times(const void *a, const void *b) {
    const ft_batch_size *x = a, *y = b;
    if (x->times != y->times) return x->times > y->times ? -1 : 1;
    if (x->tokens != y->tokens) return x->tokens > y->tokens ? -1 : 1;
    return x->sequences > y->sequences ? -1 : x->sequences < y->sequences;
}

static ft_status choose_sizes(ft_trainer *t, wanted *w) {
    const ft_run_plan *plan = &t->room.plan;
    const int64_t looked_at = plan->steps_per_epoch < plan->total_steps ? plan->steps_per_epoch : plan->total_steps;
    FT_TRY(ft_sizes_find(&t->step, &w->sizes, &w->all));
    if (w->all == 0) return FT_OK;
    qsort(w->sizes, w->all, sizeof *w->sizes, by_times);
    w->most_uses = w->sizes[0].times * plan->total_steps / looked_at;
    for (; w->count < w->all && w->count < MOST_SIZES; w->count++) {
        const ft_batch_size *s = &w->sizes[w->count];
        if (s->times * plan->total_steps / looked_at < LEAST_USES) break;
        w->pair[w->count][0] = s->tokens;
        w->pair[w->count][1] = s->sequences;
    }
    return FT_OK;
}

static void add_numbers(ft_sha256_state *hash, const int64_t *numbers, size_t count) {
    ft_sha256_add(hash, numbers, count * sizeof *numbers);
}

// What decides about shapes beside the size of a micro-batch: the model's matrices, how they are kept and computed, and what comes behind them: an
// activation, a sum of one type or the other, with dropout or without.
// One that is forgotten here would cost speed, never a bit: a product that the list lacks is cuBLASLt's.
// So are products with an activation: what may be measured (ft_gemms_check was asked) has shapes of its own.
static void model_of(const ft_room *room, char hex[65]) {
    const ft_model *m = &room->model;
    const ft_parameters *p = &m->parameters;
    const ft_config *c = room->config;
    const int64_t facts[] = {
        m->dtype, m->heads.count, m->layers, p->storage.kind, p->storage.dtype, p->storage.format, p->storage.multiplied, c->train.gradient_checkpointing,
        room->job->task->id, m->activation, m->row_dtype, m->attention_output_dropout > 0, m->feed_forward_dropout > 0, ft_model_quiet_parts(m)};
    const char *products = ft_device_products(room->device);
    ft_sha256_state hash;
    unsigned char digest[32];
    ft_sha256_begin(&hash);
    ft_sha256_add(&hash, m->family->model_type, strlen(m->family->model_type) + 1);
    add_numbers(&hash, facts, sizeof facts / sizeof *facts);
    ft_sha256_add(&hash, products, strlen(products) + 1);
    for (int i = 0; i < p->count; i++) {
        const ft_parameter *q = &p->list[i];
        const int64_t shape[] = {q->rows, q->cols, q->trainable, q->kept};
        add_numbers(&hash, shape, sizeof shape / sizeof *shape);
    }
    ft_sha256_end(&hash, digest);
    ft_sha256_hex(digest, hex);
}

static bool has_all(const ft_gemm_cache *c, const wanted *w) {
    for (size_t i = 0; i < w->count; i++)
        if (!ft_gemm_cache_has(c, w->pair[i][0], w->pair[i][1])) return false;
    return true;
}

// ---- measuring --------------------------------------------------------------------------------------------------

// *unkept: what failed is to keep it, not to measure it.
static ft_status measure_size(ft_trainer *t, ft_gemm_cache *c, const ft_batch_size *size, bool *unkept) {
    const int asked = ft_stop_signal();
    if (asked != 0) return ft_fail(ft_stop_status(asked), NULL, "stopped while matrix products are measured");
    ft_run_alive(NULL, 0, 0, false);
    FT_TRY(ft_gemm_cache_measure(c, t->room.device));
    FT_TRY(ft_sizes_run(&t->step, size));
    const ft_status kept = ft_gemm_cache_add(c, t->room.device, size->tokens, size->sequences);
    *unkept = kept != FT_OK;
    return kept;
}

static ft_status measure(ft_trainer *t, ft_gemm_cache *c, const wanted *w, bool *unkept) {
    const double before = ft_now();
    size_t measured = 0;
    ft_status status = ft_gemm_cache_lock(c);
    *unkept = status != FT_OK;
    const size_t known = c->count;
    for (size_t i = 0; i < w->count && status == FT_OK; i++) {
        if (ft_gemm_cache_has(c, w->pair[i][0], w->pair[i][1])) continue;
        ft_status_line("measuring matrix products: size %zu / %zu of micro-batches, %lld tokens", i + 1, w->count,
                       (long long)w->pair[i][0]);
        status = measure_size(t, c, &w->sizes[i], unkept);
        measured += status == FT_OK;
    }
    ft_status_line("%s", "");
    if (status == FT_OK && measured > 0)
        ft_info("gemm       %zu products of %zu size%s of micro-batches measured in %.1f s, once for such a GPU, "
                "driver and cuBLASLt",
                c->count - known, measured, measured == 1 ? "" : "s", ft_now() - before);
    return status;
}

// A run goes on without what cannot be kept; what stops it, or the device's own error, ends it.
static ft_status without(ft_trainer *t, ft_status status, bool unkept) {
    char message[300], where[300];
    if (!unkept || (status != FT_FAILED && status != FT_INVALID)) return status;
    ft_gemms_forget(t->room.device); // of what was measured nothing is used
    snprintf(message, sizeof message, "%s", ft_error_message());
    snprintf(where, sizeof where, "%s", ft_error_where());
    ft_error_clear();
    ft_warn("device.gemm_tuning = auto: measured matrix products cannot be kept, and cuBLASLt proposes them as "
            "without: %s (%s)",
            message, where);
    return FT_OK;
}

// ---- what the run takes -----------------------------------------------------------------------------------------

static ft_status take(ft_trainer *t, const ft_gemm_cache *c, const wanted *w, const char *own) {
    ft_device *device = t->room.device;
    size_t count;
    double best = 0, first = 0;
    FT_TRY(ft_gemm_cache_use(c, device, w->pair, w->count));
    FT_TRY(ft_gemm_tuning_save(device, own, &count));
    FT_TRY(ft_sha256_file(own, t->room.gemm_tuning));
    const ft_gemm_choice *choices = ft_gemms_choices(device, &count);
    size_t plain = 0, ours = 0;
    for (size_t i = 0; i < count; i++) {
        if (choices[i].shape.epilogue != FT_GEMM_NO_EPILOGUE) { // whose product is among the others
            ours += choices[i].algorithm.data[0] == FT_GEMM_OWN;
            continue;
        }
        plain++;
        best += (double)choices[i].microseconds, first += (double)choices[i].first_microseconds;
    }
    if (ft_device_product_remark(device)[0] != '\0') ft_warn("%s", ft_device_product_remark(device));
    if (plain < count) ft_info("gemm       %zu of %zu products with an activation, its slope or a norm are one kernel of our own, which was faster", ours, count - plain);
    ft_info("gemm       %zu tuned products of %zu size%s of micro-batches: %.1f us in all, %.1f with cuBLASLt's first "
            "choices  %s",
            plain, w->count, w->count == 1 ? "" : "s", best, first, c->path);
    return FT_OK;
}

static ft_status choose(ft_trainer *t, const wanted *w, const char *own, bool measures) {
    ft_gemm_cache cache;
    char model[65];
    bool unkept = false;
    FT_TRY(ft_gemms_check(t->room.device));
    model_of(&t->room, model);
    ft_status status = ft_gemm_cache_open(t->room.device, model, &cache), measured = FT_OK;
    if (status == FT_OK && !has_all(&cache, w) && measures) {
        measured = measure(t, &cache, w, &unkept);
        if (measured != FT_OK) status = without(t, measured, unkept);
    }
    if (status == FT_OK && measured == FT_OK && has_all(&cache, w))
        status = take(t, &cache, w, own);
    else if (status == FT_OK && !measures)
        ft_info("gemm       device.gemm_tuning = auto: not yet measured for these sizes; ftengine train measures them");
    ft_gemm_cache_close(&cache);
    return status;
}

// Why nothing is measured for such a run; NULL: something is.
static const char *left_alone(const ft_trainer *t) {
    if (t->room.ranks != NULL) return "not with several devices; a file of ftengine tune-gemm serves all of them";
    if (t->job.features.on) return "its head alone is trained";
    return NULL;
}

ft_status ft_trainer_choose_products(ft_trainer *t, bool measures) {
    if (!ft_gemm_tuning_is_auto(t->room.config)) return FT_OK;
    const char *own = ft_trainer_own_products(t);
    if (own == NULL) return FT_NO_MEMORY;
    const bool resumes = t->room.config->output.exists == FT_EXISTS_RESUME && ft_run_dir_checkpoint(t->dir) >= 0;
    if (resumes) return ft_gemm_tuning_own(own, t->room.device, t->room.gemm_tuning);
    // Of a run that began here and left no checkpoint.
    if (ft_trainer_leads(t) && unlink(own) != 0 && errno != ENOENT)
        return ft_fail_errno(FT_FAILED, errno, own, "cannot remove the file");
    if (!ft_gemms_have(t->room.device)) return FT_OK;
    const char *alone = left_alone(t);
    if (alone != NULL)
        return ft_info("gemm       device.gemm_tuning = auto measures nothing for this run: %s", alone), FT_OK;
    wanted w = {.sizes = NULL};
    ft_status status = choose_sizes(t, &w);
    if (status == FT_OK && w.count == 0)
        ft_info("gemm       device.gemm_tuning = auto measures nothing for this run: none of its %zu sizes of "
                "micro-batches comes %d times, but %lld at most",
                w.all, LEAST_USES, (long long)w.most_uses);
    else if (status == FT_OK)
        status = choose(t, &w, own, measures);
    free(w.sizes);
    return status;
}

const char *ft_trainer_own_products(ft_trainer *t) { return ft_path_join(&t->arena, t->dir, "gemm_tuning.json"); }
