// run_json.c - run.json: what happened, for programs (INTERFACE: run directory).
#include "engine/train/room/device_graphs.h"
#include "engine/train/train.h"
#include "engine/train/trainer.h"

#include "engine/memory/process.h"

#include "base/files.h"
#include "base/json/json.h"
#include "engine/config/config_json.h"
#include "engine/config/device_list.h"
#include "engine/memory/json.h"
#include "engine/train/job/data_report.h"
#include "engine/train/step/attention_path.h"
#include "engine/train/step/update.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { FORMAT_VERSION = 1 };

const char *ft_run_status_name(ft_status outcome) {
    switch (outcome) {
    case FT_OK: return "completed";
    case FT_INTERRUPTED: case FT_TERMINATED: return "interrupted";
    case FT_NO_MEMORY: return "oom";
    case FT_DIVERGED: return "diverged";
    default: return "failed";
    }
}

// The peaks on the device that the run has: of this session and of those before it.
ft_memory_counters ft_run_peaks(const ft_trainer *t) {
    ft_memory_counters c = ft_memory_read(t->room.memory);
    const ft_memory_counters *e = &t->earlier;
    if (e->peak_allocated > c.peak_allocated) {
        memcpy(c.at_peak, e->at_peak, sizeof c.at_peak);
        c.peak_phase = e->peak_phase;
    }
    if (e->peak_requested > c.peak_requested) c.peak_requested = e->peak_requested;
    if (e->peak_allocated > c.peak_allocated) c.peak_allocated = e->peak_allocated;
    if (e->peak_reserved > c.peak_reserved) c.peak_reserved = e->peak_reserved;
    if (e->peak_pinned > c.peak_pinned) c.peak_pinned = e->peak_pinned;
    // What ranks have in common is this session's: another may have had another number of them.
    for (int k = 0; k < FT_PHASE_COUNT; k++)
        if (e->phase_peak[k] > c.phase_peak[k]) c.phase_peak[k] = e->phase_peak[k];
    return c;
}

// What the process holds beside the allocator: program, libraries, texts and tokens, and what the system rounds up.
static size_t outside_allocator(const ft_memory_counters *c) {
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
    size_t resident = (size_t)usage.ru_maxrss * 1024;
    return resident > c->peak_reserved ? resident - c->peak_reserved : 0;
}

void ft_run_note_rank(const ft_trainer *t) {
    ft_ranks *r = t->room.ranks;
    if (r == NULL) return;
    ft_rank_facts facts = *ft_ranks_facts(r, r->rank);
    facts.memory = ft_memory_read(t->room.memory);
    facts.communication = t->room.communication;
    ft_ranks_note(r, &facts);
}

static json_t *memory_json(const ft_trainer *t, bool *failed) {
    ft_memory_counters c = ft_run_peaks(t);
    return ft_memory_json(&c, outside_allocator(&c), failed);
}

static json_t *planned_json(const ft_trainer *t, bool *failed) {
    json_t *planned = ft_memory_json(&t->room.planned, 0, failed);
    json_object_del(planned, "outside_allocator_bytes"); // the plan is of the allocator
    return planned;
}

static json_t *sites_json(const ft_trainer *t, bool *failed) {
    ft_memory_use uses[24];
    return ft_sites_json(uses, ft_memory_holders_at_peak(t->room.memory, uses, 24), failed);
}

static json_t *retries_json(const ft_trainer *t, bool *failed) {
    json_t *array = json_array();
    for (int i = 0; i < t->ladder.count; i++) {
        const ft_ladder_event *e = &t->ladder.events[i];
        ft_json_append(array, json_pack("{s:I, s:s, s:I, s:I, s:s}", "step", (json_int_t)e->step, "site", e->site, "requested_bytes",
                                        (json_int_t)e->bytes, "reserved_bytes", (json_int_t)e->reserved, "action", e->action), failed);
    }
    return array;
}

static json_t *data_json(const ft_trainer *t, bool *failed) {
    json_t *object = json_object();
    for (int s = 0; s < FT_SPLITS; s++) {
        if (t->job.split[s].present)
            ft_json_put(object, ft_split_name((ft_split)s), ft_data_report_json(&t->job, (ft_split)s, failed), failed);
    }
    return object;
}

static void put_metrics(json_t *into, const char *prefix, const double *values, bool *failed) {
    for (int k = 0; k < FT_METRIC_COUNT; k++) {
        char key[64];
        snprintf(key, sizeof key, "%s%s", prefix, ft_metric_name((ft_metric)k));
        if (isfinite(values[k])) ft_json_put(into, key, json_real(values[k]), failed);
    }
}

static json_t *metrics_json(const ft_trainer *t, bool *failed) {
    json_t *object = json_object();
    if (t->step.state.best_step >= 0) put_metrics(object, "eval_", t->step.state.best_metrics, failed);
    if (t->have_test_metrics) {
        double values[FT_METRIC_COUNT];
        for (int k = 0; k < FT_METRIC_COUNT; k++) values[k] = ft_metric_value(&t->test_metrics, (ft_metric)k);
        put_metrics(object, "test_", values, failed);
    }
    if (t->step.state.step > 0 && isfinite(t->step.state.last_loss))
        ft_json_put(object, "train_loss", json_real(t->step.state.last_loss), failed);
    return object;
}

static json_t *resolved_json(const ft_trainer *t) {
    return json_pack(
        "{s:I, s:I, s:I, s:i, s:I, s:b, s:b, s:s, s:s, s:I, s:I, s:I, s:s, s:o}", "micro_batch_tokens",
        (json_int_t)t->room.plan.texts.tokens, "micro_batch", (json_int_t)t->room.plan.texts.sequences, "longest",
        (json_int_t)t->room.plan.texts.longest, "max_length", t->job.max_length, "gradient_checkpointing",
        (json_int_t)t->room.model.checkpoint_every, "recompute_activation", !t->room.model.keeps_activation,
        "recompute_layernorm", t->room.model.rebuilds_norms, "offload",
        ft_offload_name(ft_offload_set_of(ft_parameters_state_on_host(&t->room.model.parameters), t->room.model.inputs.count > 0, t->room.model.parameters.window.on)),
        "storage", ft_keep_name(t->room.config->model.storage),
        "total_steps", (json_int_t)t->room.plan.total_steps, "warmup_steps", (json_int_t)t->room.plan.warmup_steps,
        "threads", (json_int_t)t->room.device->target.threads, "tokenizer", ft_input_digest(&t->job.input),
        "model_directory", ft_json_text(t->job.model_dir));
}

// Of the parts of steps (step/graphs.h); device_bytes: the most by which the device's free memory fell for those held at once.
static json_t *graphs_json(const ft_trainer *t) {
    const ft_step_graphs *g = &t->step.graphs;
    return json_pack("{s:I, s:I, s:I, s:I, s:i, s:I, s:i, s:b}", "recorded", (json_int_t)g->recorded, "replayed", (json_int_t)g->replayed,
                     "call_by_call", (json_int_t)g->queued, "evicted", (json_int_t)g->evicted, "held", g->most_held, "device_bytes",
                     (json_int_t)g->most_bytes, "bucket_tokens", (int)t->room.plan.bucket, "failed", g->ended);
}

// Time of the host, where a device works on its own. share: of the training seconds since the last line of metrics.jsonl but one, so that
// what the first steps load and record can be left out. A launch that waits for room in the driver's queue counts: it is at most this.
static json_t *host_json(const ft_trainer *t, bool *failed) {
    const size_t held = ft_process_held(getpid());
    json_t *object = ft_host_json(&t->room.host, failed);
    ft_json_put(object, "held_bytes", json_integer((json_int_t)(held > t->held_most ? held : t->held_most)), failed);
    return object;
}

// Of a run whose head alone is trained: the rows that it reads, of all texts.
static json_t *features_json(const ft_trainer *t) {
    const ft_job_features *f = &t->job.features;
    int64_t rows = 0, bytes = 0;
    for (int i = 0; i < f->sets; i++) {
        rows += f->set[i].features.rows;
        bytes += f->set[i].features.rows * (int64_t)f->set[i].features.row_bytes;
    }
    return json_pack("{s:I, s:I, s:b, s:f}", "rows", (json_int_t)rows, "bytes", (json_int_t)bytes, "from_cache", f->from_cache, "seconds",
                     t->features_seconds);
}

static json_t *queueing_json(const ft_trainer *t) {
    return json_pack("{s:f, s:f}", "seconds", t->step.queueing_seconds, "share", t->queueing_share);
}

// What was asked, whether the run ended for it, and how much time was left then.
static json_t *deadline_json(const ft_trainer *t) {
    return json_pack("{s:s, s:b, s:f, s:I, s:I}", "asked", t->room.config->train.deadline, "reached", t->deadline.reached, "seconds_left",
                     t->deadline.at - ft_now(), "step", (json_int_t)t->step.state.step, "planned_steps", (json_int_t)t->room.plan.total_steps);
}

// What each rank of the run took, as it last said; this one says it now.
static json_t *ranks_json(ft_trainer *t, bool *failed) {
    const ft_ranks *r = t->room.ranks;
    json_t *list = json_array();
    for (int i = 0; r != NULL && i < r->ranks; i++) {
        const ft_rank_facts *f = ft_ranks_facts(r, i);
        char name[FT_DEVICE_NAME];
        ft_device_list_name(t->room.config->device.name, i, name);
        json_t *rank = json_pack("{s:i, s:s, s:s, s:s, s:I}", "rank", i, "host", r->group->host[i], "device", name, "device_description", f->device,
                                 "threads", (json_int_t)f->threads);
        ft_json_put(rank, "memory", ft_memory_json(&f->memory, 0, failed), failed);
        json_object_del(json_object_get(rank, "memory"), "outside_allocator_bytes");
        if (f->communication > 0)
            ft_json_put(rank, "communication", json_pack("{s:I, s:I}", "planned_bytes", (json_int_t)t->room.budget.communication, "bytes",
                                                         (json_int_t)f->communication), failed);
        ft_json_append(list, rank, failed);
    }
    return list;
}

// What the process that starts the ranks has left in the run directory each time that it started them again; NULL: it
// never did. An unreadable file says nothing of this run.
static json_t *restarts_json(const ft_trainer *t, bool *failed) {
    ft_arena arena = {0};
    ft_error error;
    json_t *root = NULL;
    ft_error_save(&error);
    const char *path = ft_path_join(&arena, t->dir, "restarts.json");
    if (path == NULL) *failed = true;
    if (path != NULL && ft_path_exists(path) && ft_json_load(path, &root) != FT_OK) root = NULL;
    json_t *list = json_incref(json_object_get(root, "restarts"));
    json_decref(root);
    ft_arena_free(&arena);
    ft_error_restore(&error);
    return list;
}

ft_status ft_run_write_json(ft_trainer *t, ft_status outcome) {
    ft_run_note_rank(t);
    if (!ft_trainer_leads(t)) return FT_OK;
    char *path = ft_path_join(&t->arena, t->dir, "run.json");
    if (path == NULL) return FT_NO_MEMORY;
    t->step.state.seconds_total = t->seconds_before + ft_now() - t->started;
    double rate = t->step.state.seconds_train > 0 ? (double)t->step.state.tokens / t->step.state.seconds_train : 0;
    bool failed = false;
    json_t *best = json_null();
    if (t->step.state.best_step >= 0)
        best = json_pack("{s:s, s:f, s:I}", "metric", ft_metric_name(t->room.config->eval.metric), "value",
                         t->step.state.best_value, "step", (json_int_t)t->step.state.best_step);
    json_t *root = json_pack(
        "{s:i, s:s, s:I, s:f, s:o, s:o, s:I, s:{s:f, s:f, s:f}, s:f, s:s, s:s, s:s, s:I, s:b, s:o, s:{s:s}, s:o, s:o, "
        "s:o, s:o, s:o, s:o}",
        "format_version", FORMAT_VERSION, "status", ft_run_status_name(outcome), "steps",
        (json_int_t)t->step.state.step, "epochs", (double)t->step.state.step / (double)t->room.plan.steps_per_epoch,
        "best", best, "metrics", metrics_json(t, &failed), "tokens", (json_int_t)t->step.state.tokens, "seconds",
        "total", t->step.state.seconds_total, "train", t->step.state.seconds_train, "eval", t->step.state.seconds_eval,
        "tokens_per_second", rate, "device", t->room.device->name, "device_description", t->room.device->description,
        "precision", ft_dtype_name(t->room.model.dtype), "seed", (json_int_t)t->room.config->train.seed,
        "stopped_early", t->step.state.stopped_early, "data", data_json(t, &failed), "versions", "ftengine", FT_VERSION,
        "config", ft_config_json(t->job.config, &failed), "resolved", resolved_json(t), "memory",
        memory_json(t, &failed), "planned", planned_json(t, &failed), "sites", sites_json(t, &failed), "memory_retries",
        retries_json(t, &failed));
    if (root != NULL && json_array_size(t->earlier_devices) > 0) ft_json_put(root, "earlier_devices", json_incref(t->earlier_devices), &failed);
    if (root != NULL && json_array_size(t->end.earlier) > 0) ft_json_put(root, "earlier_total_steps", json_incref(t->end.earlier), &failed);
    const ft_parameters *p = &t->room.model.parameters;
    if (root != NULL && p->real_total > 0) // the model was made
        ft_json_put(root, "model", json_pack("{s:I, s:I}", "parameters", (json_int_t)p->real_total, "trained", (json_int_t)p->real_trainable), &failed);
    ft_json_put(root, "host", host_json(t, &failed), &failed);
    if (root != NULL && t->room.ranks != NULL) ft_json_put(root, "devices", ranks_json(t, &failed), &failed);
    json_t *restarts = restarts_json(t, &failed);
    if (root != NULL && restarts != NULL) ft_json_put(root, "restarts", json_incref(restarts), &failed);
    json_decref(restarts);
    if (root != NULL && t->room.gemm_tuning[0] != '\0') ft_json_put(root, "gemm_tuning", json_string(t->room.gemm_tuning), &failed);
    const char *attention = ft_attention_name(t->room.device, &t->job.model_config, t->room.config->train.precision);
    if (root != NULL && attention[0] != '\0') ft_json_put(root, "attention", json_string(attention), &failed); // another path has other bits
    if (root != NULL && ft_device_products(t->room.device)[0] != '\0') ft_json_put(root, "products", json_string(ft_device_products(t->room.device)), &failed);
    if (root != NULL && ft_update_scales_loss(t->room.config)) {
        ft_json_put(root, "skipped_steps", json_integer((json_int_t)t->step.state.skipped_steps), &failed);
        ft_json_put(root, "loss_scale", json_real(t->step.state.loss_scale), &failed);
    }
    if (root != NULL && t->device_used > 0) // by all programs, so that who knows what was used before has what is outside the allocator
        ft_json_put(root, "device_used", json_pack("{s:I, s:I}", "bytes", (json_int_t)t->device_used, "reserved_bytes",
                                                   (json_int_t)t->device_used_reserved), &failed);
    if (root != NULL && t->job.features.on) ft_json_put(root, "features", features_json(t), &failed);
    if (root != NULL && ft_device_queues(t->room.device)) ft_json_put(root, "queueing", queueing_json(t), &failed);
    if (root != NULL && ft_step_graphs_wanted(t->room.config, t->room.device)) ft_json_put(root, "graphs", graphs_json(t), &failed);
    if (root != NULL && t->deadline.at > 0) ft_json_put(root, "deadline", deadline_json(t), &failed);
    ft_error error; // writing must not replace the error that it reports
    ft_error_save(&error);
    if (root != NULL && outcome != FT_OK && outcome != FT_INTERRUPTED && outcome != FT_TERMINATED)
        ft_json_put(root, "error", ft_json_text(error.message), &failed);
    ft_status status = root == NULL || failed ? ft_fail_memory(0, "run.json") : ft_json_save(path, root);
    if (status == FT_OK) ft_error_restore(&error);
    json_decref(root);
    return status;
}
