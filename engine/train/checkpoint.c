// checkpoint.c - checkpoints/step-NNNNNNNN/: state.safetensors (weights, moments) and state.json (everything else).
//
// Of a word table of which only the rows that the texts read are there (word_rows.h), a checkpoint holds those that are
// trained, and the weight decay of every step so far: all others are what that decay makes of the rows in the model's file,
// whose hash is part of the run's identity. That is the smallest form that can be continued, and it needs the file that a
// resumed run opens in any case.
//
// A checkpoint appears whole, by one rename (files.h), and older ones are removed only after it: a kill at any moment
// leaves a loadable one. A checkpoint belongs to a run: data, tokens, model shape and the options that decide about the
// bits are hashed into it, and a run that differs is refused rather than continued differently.
#include "engine/model/state/shards.h"
#include "engine/train/ladder.h"
#include "engine/train/trainer.h"

#include "base/files.h"
#include "base/json/json.h"
#include "base/log.h"
#include "engine/config/options.h"
#include "engine/files/safetensors.h"
#include "engine/model/state/staging.h"
#include "engine/train/device_history.h"
#include "engine/train/longer.h"
#include "engine/train/run_end.h"
#include "engine/train/step/update.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FORMAT_VERSION = 2, PARTS = 3, PEAKS = 4 }; // 2: the phase of the peak
static const char *const part_prefix[PARTS] = {"model.", "exp_avg.", "exp_avg_sq."};

static json_t *model_identity(const ft_trainer *t, bool *failed) {
    json_t *model = ft_model_identity(&t->room.model), *labels = json_array();
    for (int i = 0; i < t->job.labels.count; i++) ft_json_append(labels, ft_json_text(t->job.labels.names[i]), failed);
    ft_json_put(model, "labels", labels, failed);
    return model;
}

// What a checkpoint must agree with, as JSON: files by content, options by value.
static json_t *identity(const ft_trainer *t) {
    json_t *object = json_object();
    bool failed = false;
    for (int s = 0; s < FT_SPLITS; s++)
        if (t->job.split[s].present) ft_json_put(object, ft_split_name((ft_split)s), json_string(t->job.split[s].table.sha256), &failed);
    ft_json_put(object, "tokenizer", json_string(ft_input_digest(&t->job.input)), &failed);
    if (t->room.gemm_tuning[0] != '\0') ft_json_put(object, "gemm_tuning", json_string(t->room.gemm_tuning), &failed);
    if (t->job.base_sha256[0] != '\0') ft_json_put(object, "weights in model.path", json_string(t->job.base_sha256), &failed);
    ft_json_put(object, "max_length", json_integer(t->job.max_length), &failed);
    ft_json_put(object, "model", model_identity(t, &failed), &failed);
    if (t->room.model.absent.word_rows != NULL && t->room.model.absent.file != NULL)
        ft_json_put(object, "word embeddings in model.path", json_string(t->room.model.absent.sha256), &failed);
    ft_json_put(object, "total_steps", json_integer((json_int_t)t->room.plan.total_steps), &failed);
    for (int i = 0; i < ft_option_count(); i++) {
        char text[4096];
        if (ft_option_resumable(ft_option_at(i))) continue;
        if (ft_option_text(t->room.config, i, text, sizeof text) == FT_OK)
            ft_json_put(object, ft_option_name(i), ft_json_text(text), &failed);
        else failed = true;
    }
    if (!failed) return object;
    json_decref(object);
    return NULL;
}

// An option that is younger than the checkpoint had its default.
static bool is_default(const char *key, const json_t *value) {
    const int option = ft_option_find(key);
    return option >= 0 && json_is_string(value) && strcmp(json_string_value(value), ft_option_at(option)->initial) == 0;
}

static ft_status check_identity(const ft_trainer *t, const json_t *root, const char *path) {
    const json_t *saved = json_object_get(root, "run");
    json_t *now = identity(t);
    ft_status status = now != NULL ? FT_OK : ft_fail_memory(0, "the identity of a run");
    const char *key;
    json_t *value;
    json_object_foreach(now, key, value) {
        const json_t *old = json_object_get(saved, key);
        if (json_equal(old, value) || (old == NULL && is_default(key, value)) || ft_longer_looks_at(key)) continue;
        char *was = old != NULL ? ft_json_line(old) : NULL, *is = ft_json_line(value);
        status = ft_fail(FT_INVALID, path, "this run cannot be resumed with another %s: it was %s, now it is %s", key,
                         was != NULL ? was : "absent", is != NULL ? is : "?");
        ft_hint("start a new run (output.exists = new), or give the option its old value");
        free(was);
        free(is);
        break;
    }
    json_object_foreach((json_t *)saved, key, value) {
        if (status != FT_OK || json_object_get(now, key) != NULL) continue;
        status = ft_fail(FT_INVALID, path, "this run cannot be resumed without its %s", key);
    }
    json_decref(now);
    return status == FT_OK ? ft_longer_check(t, root, path) : status;
}

// ---- the tensors --------------------------------------------------------------------------------------------------------

// A moment whose parts ranks have: elements of a store from `first` on. store NULL: it is here.
typedef struct dealt {
    const ft_store *store;
    ft_store_state moment;
    int64_t first;
} dealt;

// Tensor k of a checkpoint: parameter and part. Frozen parameters have weights only.
typedef struct checkpoint_tensors {
    ft_trainer *trainer;
    int count;
    ft_safetensor *list;
    ft_staged *device; // where it lives; without data: `decay`, on the host
    dealt *dealt;      // of moments that are dealt out, where they are
    void *window;      // [FT_STAGING_FLOATS] device, for these; NULL: there are none
    float *decay;      // of the rows that are not there, a factor a step
    ft_staging staging;
    ft_progress_saving saving;
    int64_t done, total; // bytes written, and in all
} checkpoint_tensors;

static ft_status add_tensor(checkpoint_tensors *c, ft_arena *arena, const ft_parameter *q, int part, ft_staged at) {
    const bool vector = q->rows == 0;
    const int64_t rows = q->trainable ? q->trained : q->held;
    char *name = ft_arena_format(arena, "%s%s", part_prefix[part], q->name);
    if (name == NULL) return FT_NO_MEMORY;
    c->list[c->count] = (ft_safetensor){.name = name,
                                        .dtype = FT_F32,
                                        .rank = vector ? 1 : 2,
                                        .shape = {vector ? q->cols : rows, vector ? 0 : q->cols},
                                        .bytes = (size_t)((vector ? 1 : rows) * q->cols) * sizeof(float)};
    c->total += (int64_t)c->list[c->count].bytes;
    c->device[c->count++] = at;
    return FT_OK;
}

static ft_status list_tensors(ft_trainer *t, ft_arena *arena, checkpoint_tensors *c) {
    const ft_parameters *p = &t->room.model.parameters;
    const ft_absent_rows *absent = &t->room.model.absent;
    const bool beside = t->room.model.modules != NULL || ft_model_trunk_is_fixed(t->room.config);
    *c = (checkpoint_tensors){.trainer = t, .decay = absent->factors, .saving.what = "saving a checkpoint"};
    c->list = ft_arena_alloc(arena, ((size_t)p->count * PARTS + 1) * sizeof *c->list);
    c->device = ft_arena_alloc(arena, ((size_t)p->count * PARTS + 1) * sizeof *c->device);
    c->dealt = ft_arena_alloc(arena, ((size_t)p->count * PARTS + 1) * sizeof *c->dealt);
    if (c->list == NULL || c->device == NULL || c->dealt == NULL) return FT_NO_MEMORY;
    memset(c->dealt, 0, ((size_t)p->count * PARTS + 1) * sizeof *c->dealt);
    if (p->deals) FT_TRY(ft_memory_alloc(t->room.memory, (size_t)FT_STAGING_FLOATS * sizeof(float), FT_MEM_COMMUNICATION, "moments of other ranks", &c->window));
    for (int i = 0; i < p->count; i++) {
        const ft_parameter *q = &p->list[i];
        if (q->kept) continue; // as in the model's file
        if (i == p->table && absent->word_rows != NULL && !q->trainable) continue; // as in the model's file
        if (!q->trainable && beside) continue;                                       // so is all that an adapter or a head stands beside
        for (int part = 0; part < (q->trainable ? PARTS : 1); part++) {
            static const ft_store_state moment[PARTS] = {[1] = FT_STATE_M, [2] = FT_STATE_V};
            const ft_staged at = part == 0 ? ft_parameter_stored(p, i) : (ft_staged){.tensor = ft_parameter_moment(p, i, moment[part])};
            if (p->deals && part > 0) c->dealt[c->count] = (dealt){&p->stores[q->store], moment[part], q->offset};
            FT_TRY(add_tensor(c, arena, q, part, at));
        }
    }
    if (absent->count > 0) {
        c->list[c->count] = (ft_safetensor){.name = "word_embeddings.decay", .dtype = FT_F32, .rank = 1, .shape = {absent->count},
                                            .bytes = (size_t)absent->count * sizeof(float)};
        c->device[c->count++] = (ft_staged){.tensor = ft_absent()};
    }
    return ft_staging_open(t->room.memory, &c->staging);
}

// A piece of a moment that other ranks have, or a part of it: all of them bring it.
static ft_status bring(checkpoint_tensors *c, int index, size_t offset, size_t bytes, ft_staged *from) {
    const dealt *d = &c->dealt[index];
    const int64_t count = (int64_t)(bytes / sizeof(float));
    *from = (ft_staged){.tensor = ft_vector(c->window, count, FT_F32)};
    return ft_shards_bring(&c->trainer->room.model.parameters, d->store, d->moment, d->first + (int64_t)(offset / sizeof(float)), count, c->window);
}

static ft_status fetch(void *context, int index, size_t offset, size_t bytes, const void **data) {
    checkpoint_tensors *c = context;
    ft_progress_save(&c->saving, c->done, c->total);
    c->done += (int64_t)bytes;
    *data = c->device[index].tensor.data != NULL ? c->staging.data : c->decay + offset / sizeof(float);
    if (c->device[index].tensor.data == NULL) return FT_OK;
    ft_staged from = c->device[index];
    from.first = (int64_t)(offset / sizeof(float));
    if (c->dealt[index].store != NULL) FT_TRY(bring(c, index, offset, bytes, &from));
    return ft_staging_download(&c->staging, from, (int64_t)(bytes / sizeof(float)), 0);
}

static void close_tensors(checkpoint_tensors *c) {
    if (c->trainer != NULL) ft_memory_free(c->trainer->room.memory, c->window);
    ft_staging_close(&c->staging);
}

static ft_status write_tensors(ft_trainer *t, const char *path) {
    ft_arena arena = {0};
    checkpoint_tensors c = {0};
    ft_atomic_file file = {0};
    ft_status status = list_tensors(t, &arena, &c);
    if (status == FT_OK) status = ft_atomic_open(&file, path);
    if (status == FT_OK) status = ft_safetensors_write_from(file.stream, path, c.count, c.list, NULL, (size_t)FT_STAGING_FLOATS * sizeof(float), fetch, &c);
    if (status == FT_OK) status = ft_atomic_commit(&file);
    else ft_atomic_abort(&file);
    if (c.saving.shown > 0) ft_status_line("%s", "");
    close_tensors(&c);
    ft_arena_free(&arena);
    return status;
}

// What other ranks do while the first one writes.
static ft_status follow_tensors(ft_trainer *t) {
    ft_arena arena = {0};
    checkpoint_tensors c = {0};
    ft_status status = list_tensors(t, &arena, &c);
    const size_t most = (size_t)FT_STAGING_FLOATS * sizeof(float);
    for (int i = 0; status == FT_OK && i < c.count; i++) {
        ft_staged from;
        for (size_t at = 0; status == FT_OK && c.dealt[i].store != NULL && at < c.list[i].bytes; at += most)
            status = bring(&c, i, at, c.list[i].bytes - at < most ? c.list[i].bytes - at : most, &from);
    }
    if (status == FT_OK && c.window != NULL) status = ft_group_finish(t->room.group);
    close_tensors(&c);
    ft_arena_free(&arena);
    return status;
}

typedef struct reading {
    const ft_safetensors *file;
    const ft_safetensor *tensor;
    int64_t skipped; // elements
} reading;

static ft_status read_part(void *context, int64_t first, int64_t count, float *out) {
    const reading *r = context;
    return ft_safetensor_part_to_f32(r->file, r->tensor, r->skipped + first, count, out);
}

// Of a moment the elements that are this rank's.
static ft_status read_dealt(checkpoint_tensors *c, int index, reading *r) {
    const dealt *d = &c->dealt[index];
    const ft_shard *own = &d->store->own;
    const int64_t end = d->first + (int64_t)(c->list[index].bytes / sizeof(float)), from = d->first > own->first ? d->first : own->first,
                  to = end < own->first + own->count ? end : own->first + own->count;
    if (from >= to) return FT_OK;
    r->skipped = from - d->first;
    const ft_staged here = {.tensor = ft_vector((float *)d->store->state[d->moment] + (from - own->first), to - from, FT_F32)};
    return ft_staging_upload(&c->staging, here, to - from, read_part, r);
}

static ft_status read_one(checkpoint_tensors *c, const ft_safetensors *file, int index) {
    const ft_safetensor *want = &c->list[index], *have = ft_safetensors_find(file, want->name);
    if (have == NULL) return ft_fail(FT_INVALID, ft_safetensors_path(file), "tensor %s is missing", want->name);
    if (have->dtype != FT_F32 || have->rank != want->rank || have->bytes != want->bytes || have->shape[0] != want->shape[0])
        return ft_fail(FT_INVALID, ft_safetensors_path(file), "tensor %s has another type or shape than this model", want->name);
    reading r = {file, have, 0};
    if (c->dealt[index].store != NULL) return read_dealt(c, index, &r);
    if (c->device[index].tensor.data == NULL) return read_part(&r, 0, (int64_t)(want->bytes / sizeof(float)), c->decay);
    return ft_staging_upload(&c->staging, c->device[index], (int64_t)(want->bytes / sizeof(float)), read_part, &r);
}

static ft_status read_tensors(ft_trainer *t, const char *path) {
    ft_arena arena = {0};
    checkpoint_tensors c = {0};
    ft_safetensors *file = NULL;
    ft_status status = list_tensors(t, &arena, &c);
    if (status == FT_OK) status = ft_safetensors_open(path, &file);
    for (int i = 0; status == FT_OK && i < c.count; i++) status = read_one(&c, file, i);
    ft_safetensors_close(file);
    close_tensors(&c);
    ft_arena_free(&arena);
    return status;
}

// ---- state.json ---------------------------------------------------------------------------------------------------------

static json_t *real_or_null(double value) { return isfinite(value) ? json_real(value) : json_null(); }

static json_t *sizes_json(const size_t *values, int count, bool *failed) {
    json_t *array = json_array();
    for (int i = 0; i < count; i++) ft_json_append(array, json_integer((json_int_t)values[i]), failed);
    return array;
}

// The peaks so far on this device, so that run.json of a resumed run tells those of all sessions.
static json_t *peaks_json(const ft_trainer *t, bool *failed) {
    ft_memory_counters c = ft_run_peaks(t);
    const size_t peaks[PEAKS] = {c.peak_requested, c.peak_allocated, c.peak_reserved, c.peak_phase};
    return json_pack("{s:o, s:I, s:o, s:o}", "peaks", sizes_json(peaks, PEAKS, failed), "host_pinned", (json_int_t)c.peak_pinned, "at_peak", sizes_json(c.at_peak, FT_MEM_CATEGORIES, failed),
                     "phases", sizes_json(c.phase_peak, FT_PHASE_COUNT, failed));
}

// Of older checkpoints the last ones may be missing: `least` are there.
static ft_status read_sizes(const json_t *memory, const char *key, const char *path, size_t *values, int count, int least) {
    const json_t *array = json_object_get(memory, key);
    const int there = json_is_array(array) && json_array_size(array) <= (size_t)count ? (int)json_array_size(array) : 0;
    bool fits = there >= least;
    for (int i = there; i < count; i++) values[i] = 0;
    for (int i = 0; fits && i < there; i++) {
        const json_t *value = json_array_get(array, (size_t)i);
        fits = json_is_integer(value) && json_integer_value(value) >= 0;
        values[i] = fits ? (size_t)json_integer_value(value) : 0;
    }
    return fits ? FT_OK : ft_fail(FT_INVALID, path, "memory.%s is not a list of %d byte counts", key, count);
}

static ft_status read_peaks(const json_t *memory, const char *path, ft_memory_counters *c) {
    size_t peaks[PEAKS];
    FT_TRY(read_sizes(memory, "peaks", path, peaks, PEAKS, PEAKS));
    if (peaks[3] >= FT_PHASE_COUNT) return ft_fail(FT_INVALID, path, "memory.peaks names phase %zu", peaks[3]);
    c->peak_requested = peaks[0], c->peak_allocated = peaks[1], c->peak_reserved = peaks[2];
    c->peak_phase = (ft_memory_phase)peaks[3];
    int64_t pinned; // not in older checkpoints
    FT_TRY(ft_json_int(memory, path, "host_pinned", 0, 0, INT64_MAX, &pinned));
    c->peak_pinned = (size_t)pinned;
    FT_TRY(read_sizes(memory, "at_peak", path, c->at_peak, FT_MEM_CATEGORIES, FT_MEM_ADAPTERS));
    return read_sizes(memory, "phases", path, c->phase_peak, FT_PHASE_COUNT, FT_PHASE_COUNT);
}

static ft_status write_state(ft_trainer *t, const char *path) {
    const ft_train_state *s = &t->step.state;
    ft_update_state update;
    FT_TRY(t->room.device->functions->download(t->room.device, &update, t->step.update_state, sizeof update));
    FT_TRY(t->room.device->functions->sync(t->room.device));
    json_t *metrics = json_object();
    bool failed = false;
    for (int k = 0; k < FT_METRIC_COUNT; k++)
        ft_json_put(metrics, ft_metric_name((ft_metric)k), real_or_null(s->best_step >= 0 ? s->best_metrics[k] : NAN), &failed);
    json_t *root = json_pack(
        "{s:i, s:I, s:I, s:I, s:f, s:I, s:I, s:f, s:I, s:f, s:f, s:f, s:o, s:I, s:I, s:b, s:b, s:I, s:f, s:f, s:f, s:o, s:o, s:o}",
        "format_version", FORMAT_VERSION, "step", (json_int_t)s->step, "updates", (json_int_t)update.count, "skipped_steps",
        (json_int_t)s->skipped_steps, "loss_scale", (double)update.loss_scale, "finite_steps", (json_int_t)update.finite_steps,
        "tokens", (json_int_t)s->tokens, "loss_sum",
        s->loss_sum, "loss_steps", (json_int_t)s->loss_steps, "learning_rate", s->learning_rate, "gradient_norm", s->gradient_norm,
        "last_loss", s->last_loss, "best_value", real_or_null(s->best_step >= 0 ? s->best_value : NAN), "best_step",
        (json_int_t)s->best_step, "bad_evaluations", (json_int_t)s->bad_evaluations, "stopped_early", s->stopped_early,
        "evaluation_pending", s->evaluation_pending, "metrics_bytes", (json_int_t)s->metrics_bytes, "seconds_total",
        t->seconds_before + ft_now() - t->started, "seconds_train", s->seconds_train, "seconds_eval", s->seconds_eval, "best_metrics",
        metrics, "memory", peaks_json(t, &failed), "run", identity(t));
    if (root != NULL) ft_json_put(root, "devices", ft_device_history_json(t, &failed), &failed);
    if (root != NULL) ft_run_end_put(t, root, &failed);
    ft_status status = root == NULL || failed ? ft_fail_memory(0, "state.json") : ft_json_save(path, root);
    json_decref(root);
    return status;
}

static ft_status read_state(ft_trainer *t, const char *path) {
    json_t *root;
    FT_TRY(ft_json_load(path, &root));
    ft_train_state s = {0};
    ft_update_state update = ft_update_first(t->room.config);
    int64_t version, updates, finite_steps;
    ft_status status;
    FT_TRY_GOTO(ft_json_int(root, path, "format_version", 0, 0, INT32_MAX, &version), done);
    if (version != FORMAT_VERSION) {
        status = ft_fail(FT_INVALID, path, "format_version %lld, this program reads %d", (long long)version, FORMAT_VERSION);
        goto done;
    }
    if (ft_trainer_loads(t)) FT_TRY_GOTO(check_identity(t, root, path), done); // who reads the model for all
    const struct {
        const char *key;
        int64_t *out;
        int64_t low, high;
    } ints[] = {{"step", &s.step, 0, t->room.plan.total_steps}, {"updates", &updates, 0, t->room.plan.total_steps},
                {"skipped_steps", &s.skipped_steps, 0, t->room.plan.total_steps}, {"finite_steps", &finite_steps, 0, UINT32_MAX},
                {"tokens", &s.tokens, 0, INT64_MAX},       {"loss_steps", &s.loss_steps, 0, INT64_MAX},
                {"best_step", &s.best_step, -1, INT64_MAX}, {"bad_evaluations", &s.bad_evaluations, 0, INT64_MAX},
                {"metrics_bytes", &s.metrics_bytes, 0, INT64_MAX}};
    static const char *const always[] = {"step", "updates"}; // every version wrote them; without them the run would begin anew, with trained weights
    for (size_t i = 0; i < sizeof always / sizeof always[0]; i++) {
        const json_t *value = json_object_get(root, always[i]);
        if (value != NULL && !json_is_null(value)) continue;
        status = ft_fail(FT_INVALID, path, "%s is missing", always[i]);
        goto done;
    }
    for (size_t i = 0; i < sizeof ints / sizeof ints[0]; i++)
        FT_TRY_GOTO(ft_json_int(root, path, ints[i].key, ints[i].low, ints[i].low, ints[i].high, ints[i].out), done);
    const struct {
        const char *key;
        double *out;
    } reals[] = {{"loss_sum", &s.loss_sum},           {"learning_rate", &s.learning_rate}, {"gradient_norm", &s.gradient_norm},
                 {"last_loss", &s.last_loss},         {"best_value", &s.best_value},       {"seconds_total", &s.seconds_total},
                 {"seconds_train", &s.seconds_train}, {"seconds_eval", &s.seconds_eval}};
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++)
        FT_TRY_GOTO(ft_json_number(root, path, reals[i].key, 0, reals[i].out), done);
    FT_TRY_GOTO(ft_json_bool(root, path, "stopped_early", false, &s.stopped_early), done);
    FT_TRY_GOTO(ft_json_bool(root, path, "evaluation_pending", false, &s.evaluation_pending), done);
    for (int k = 0; k < FT_METRIC_COUNT; k++)
        FT_TRY_GOTO(ft_json_number(json_object_get(root, "best_metrics"), path, ft_metric_name((ft_metric)k), NAN, &s.best_metrics[k]), done);
    update.count = (uint64_t)updates;
    update.skipped = (uint64_t)s.skipped_steps;
    update.finite_steps = (uint32_t)finite_steps;
    FT_TRY_GOTO(ft_json_number(root, path, "loss_scale", (double)update.loss_scale, &s.loss_scale), done);
    update.loss_scale = (float)s.loss_scale;
    int exponent;
    if (!(update.loss_scale > 0) || !isfinite(update.loss_scale) || frexp(s.loss_scale, &exponent) != 0.5) {
        status = ft_fail(FT_INVALID, path, "loss_scale is %g, not a power of two", s.loss_scale);
        goto done;
    }
    FT_TRY_GOTO(t->room.device->functions->upload(t->room.device, t->step.update_state, &update, sizeof update), done);
    FT_TRY_GOTO(t->room.device->functions->sync(t->room.device), done);
    if (t->room.model.absent.device_factors != NULL) FT_TRY_GOTO(ft_absent_rows_restore(&t->room.model.absent, updates), done);
    FT_TRY_GOTO(read_peaks(json_object_get(root, "memory"), path, &t->earlier), done);
    FT_TRY_GOTO(ft_device_history_read(t, json_object_get(root, "devices"), s.step, path), done);
    FT_TRY_GOTO(ft_run_end_read(t, root, path, &s), done);
    // Patience may be changed: whether the run has stopped is decided by the present value.
    s.stopped_early = t->room.config->train.patience > 0 && s.bad_evaluations >= t->room.config->train.patience;
    t->step.state = s;
    t->seconds_before = s.seconds_total;
done:
    json_decref(root);
    return status;
}

// ---- directories --------------------------------------------------------------------------------------------------------

// Steps of the checkpoints in `dir`, ascending; free() the list.
static ft_status list_checkpoints(const char *dir, int64_t **steps, int *count) {
    *steps = NULL;
    *count = 0;
    DIR *d = opendir(dir);
    if (d == NULL) return errno == ENOENT ? FT_OK : ft_fail_errno(FT_FAILED, errno, dir, "cannot read");
    ft_status status = FT_OK;
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        long long step;
        char rest;
        if (sscanf(e->d_name, "step-%lld%c", &step, &rest) != 1) continue; // also skips temporaries
        int64_t *grown = ft_realloc(*steps, (size_t)*count + 1, sizeof *grown, "the list of checkpoints");
        if (grown == NULL) {
            status = FT_NO_MEMORY;
            break;
        }
        *steps = grown;
        int at = (*count)++;
        for (; at > 0 && grown[at - 1] > step; at--) grown[at] = grown[at - 1];
        grown[at] = step;
    }
    closedir(d);
    return status;
}

static char *checkpoint_path(ft_arena *arena, const char *dir, int64_t step) {
    return ft_arena_format(arena, "%s/step-%08lld", dir, (long long)step);
}

// Removes all but the newest output.save_total_limit checkpoints.
static ft_status remove_old(const ft_trainer *t, ft_arena *arena, const char *dir) {
    int64_t *steps;
    int count;
    ft_status status = list_checkpoints(dir, &steps, &count);
    int64_t keep = t->room.config->output.save_total_limit;
    for (int i = 0; status == FT_OK && keep > 0 && i < count - keep; i++) {
        char *old = checkpoint_path(arena, dir, steps[i]);
        status = old != NULL ? ft_remove_tree(old) : FT_NO_MEMORY;
    }
    free(steps);
    return status;
}

static ft_status save(ft_trainer *t, ft_arena *arena) {
    char *dir = ft_path_join(arena, t->dir, "checkpoints");
    char *path = dir != NULL ? checkpoint_path(arena, dir, t->step.state.step) : NULL;
    if (path == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_make_directories(dir));
    ft_atomic_dir target;
    FT_TRY(ft_atomic_dir_open(&target, path));
    char *tensors = ft_path_join(arena, target.temporary, "state.safetensors"), *state = ft_path_join(arena, target.temporary, "state.json");
    ft_status status = tensors && state ? write_tensors(t, tensors) : FT_NO_MEMORY;
    if (status == FT_OK) status = write_state(t, state);
    if (status != FT_OK) {
        ft_atomic_dir_abort(&target);
        return status;
    }
    FT_TRY(ft_atomic_dir_commit(&target));
    return remove_old(t, arena, dir);
}

static ft_status save_state(ft_trainer *t, void *context) {
    // The checkpoint counts on the lines logged so far.
    if (t->metrics_file != NULL && fsync(fileno(t->metrics_file)) != 0 && errno != EINVAL)
        return ft_fail_errno(FT_FAILED, errno, "metrics.jsonl", "cannot write in %s", t->dir);
    ft_memory_set_phase(t->room.memory, FT_PHASE_SAVE);
    ft_arena arena = {0};
    ft_status status = save(t, &arena);
    ft_arena_free(&arena);
    if (status == FT_OK) ft_detail("checkpoint at step %lld", (long long)t->step.state.step);
    return status;
}

// What the run goes on from is on the disk, and before it what it counts on: the best model so far, the lines that were logged.
ft_status ft_checkpoint_save(ft_trainer *t) {
    ft_run_note_rank(t);
    // The state of the others is the same, but for moments that are dealt out.
    ft_parameters *p = &t->room.model.parameters;
    const double before = ft_now();
    FT_TRY(ft_shards_collect(p));
    if (!ft_trainer_leads(t)) {
        const ft_status followed = p->deals ? follow_tensors(t) : FT_OK;
        ft_shards_release(p);
        return followed;
    }
    const bool waits = ft_atomic_wait_for_disk(true);
    ft_status status = waits ? FT_OK : ft_sync_tree(t->dir);
    if (status == FT_OK) status = ft_ladder_climb(t, FT_LADDER_STATE, save_state, NULL);
    ft_atomic_wait_for_disk(waits);
    ft_shards_release(p);
    ft_deadline_took(&t->deadline.checkpoint, before);
    return status;
}

static ft_status resume(ft_trainer *t, void *context) {
    bool *found = context;
    *found = false;
    char *dir = ft_path_join(&t->arena, t->dir, "checkpoints");
    if (dir == NULL) return FT_NO_MEMORY;
    int64_t *steps;
    int count;
    ft_status status = list_checkpoints(dir, &steps, &count);
    if (status == FT_OK && count > 0) {
        char *path = checkpoint_path(&t->arena, dir, steps[count - 1]);
        char *state = path ? ft_path_join(&t->arena, path, "state.json") : NULL;
        char *tensors = path ? ft_path_join(&t->arena, path, "state.safetensors") : NULL;
        status = state && tensors ? read_state(t, state) : FT_NO_MEMORY;
        ft_memory_set_phase(t->room.memory, FT_PHASE_SAVE); // needs what saving needs, and is planned as that
        if (status == FT_OK && ft_trainer_loads(t)) status = read_tensors(t, tensors);
        if (status == FT_OK && t->room.ranks != NULL) status = ft_ranks_agree(t->room.ranks); // they are there
        *found = status == FT_OK;
    }
    free(steps);
    return status;
}

ft_status ft_checkpoint_resume(ft_trainer *t, bool *found) { return ft_ladder_climb(t, FT_LADDER_STATE, resume, found); }
