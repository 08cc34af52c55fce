// open.c - from a configuration to a trainer that can take its first step, with what it says on the way.
#include "engine/config/device_list.h"
#include "engine/train/fit/autofit.h"
#include "engine/train/job/alone.h"
#include "engine/train/job/data_report.h"
#include "engine/train/job/features.h"
#include "engine/train/fit/eval_budget.h"
#include "engine/train/fit/forecast.h"
#include "engine/train/room/company.h"
#include "engine/train/room/joining.h"
#include "engine/train/room/observer.h"
#include "engine/train/room/stages.h"
#include "engine/train/step/attention_path.h"
#include "engine/track/tensorboard.h"
#include "engine/train/job/task.h"
#include "engine/model/spec/adapter.h"
#include "engine/model/state/builder.h"
#include "engine/train/ladder.h"
#include "engine/train/trainer.h"

#include "base/log.h"
#include "kernels/devices/devices.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void list_names(const char *what, int count, const char *const *names) {
    if (count == 0) return;
    char line[400];
    size_t at = 0;
    line[0] = '\0';
    for (int i = 0; i < count && at < sizeof line - 64; i++)
        at += (size_t)snprintf(line + at, sizeof line - at, "%s%s", i ? ", " : "", names[i]);
    ft_info("           %s: %s%s", what, line, at >= sizeof line - 64 ? ", ..." : "");
}

static void announce_model(const ft_room *room) {
    const ft_parameters *p = &room->model.parameters;
    ft_info("model      %s, %d layers, hidden %lld, %.1fM parameters, %.1fM trained  %s",
            room->job->model_config.model_type, room->model.layers, (long long)room->model.hidden,
            (double)p->real_total / 1e6, (double)p->real_trainable / 1e6, room->job->model_dir);
    const int quiet = ft_model_quiet_parts(&room->model);
    if (quiet > 0) ft_info("           no dropout in what is frozen (%d of %d layers and embeddings); train.frozen_dropout = on has it", quiet, room->model.layers + 1);
    const char *unpacked = room->load_report.unpacked;
    if (unpacked != NULL && strcmp(unpacked, "fp4") != 0 && room->config->model.storage == FT_KEEP_AS_READ)
        ft_info("           the file has linear layers as %s: they become numbers of the precision; model.storage = %s keeps them", unpacked, unpacked);
    list_names("newly drawn", room->load_report.drawn_count, room->load_report.drawn);
    list_names("not used", room->load_report.ignored_count, room->load_report.ignored);
}

// What stands beside the model, and what of it is trained in full and saved too.
static ft_status announce_adapter(ft_trainer *t) {
    const ft_config *c = t->room.config;
    const ft_modules *m = t->room.model.modules;
    const char *saved[FT_MOST_SAVED];
    int adapted = 0;
    if (m == NULL) return FT_OK;
    for (int i = 0; i < m->count; i++) adapted += ft_adapter_of(c, &t->job.model_config, m->names[i]).rank > 0;
    const int count = ft_adapter_saved(c, &t->job.model_config, &t->arena, saved);
    for (int i = 0; i < count; i++)
        if (saved[i] == NULL) return FT_NO_MEMORY;
    ft_info("adapter    of %d of %d linear layers, r %lld, alpha %g, the model is frozen", adapted, m->count, (long long)c->adapter.r, c->adapter.alpha);
    list_names("trained in full, and saved", count, saved);
    if (t->job.model_config.pooler_is_drawn && t->room.load_report.drawn_count > 0)
        ft_info("           the model's file has no pooler: the one that is drawn is trained and saved too");
    if (c->model.init == FT_INIT_RANDOM) ft_warn("with model.init = random an adapter fits no model that is saved anywhere");
    return FT_OK;
}

static void announce_fitting(const ft_room *room) {
    char text[FT_FITTING_TEXT], needs[24], limit[24];
    const ft_autofit *a = &room->autofit;
    ft_info("autofit    %s would need %s, and %s may be taken", ft_fitting_text(&a->ideal, text), ft_bytes_text(a->ideal.reserved, needs),
            ft_bytes_text(a->limit, limit));
    ft_info("           chosen: %s, a step predicted to take %.2f times as long", ft_fitting_text(&a->choice, text),
            a->choice.step_seconds / a->ideal.step_seconds);
    if (a->next.reserved > 0)
        ft_info("           next best: %s, %.2f times", ft_fitting_text(&a->next, text), a->next.step_seconds / a->ideal.step_seconds);
}

// device.name = auto: a CUDA device that the run does not fit is left for the CPU. *reserved: there, at once.
static ft_status forecast(ft_trainer *t, bool *reserved) {
    char needs[24], there[24];
    ft_error error;
    *reserved = false;
    ft_status status = ft_room_forecast(&t->room);
    const bool leaves = status == FT_NO_MEMORY && t->room.device->place[0] != '\0' && strcmp(t->job.config->device.name, "auto") == 0;
    if (!leaves || ft_run_observer_of() != NULL) return status;
    ft_error_save(&error);
    size_t limit = ft_memory_limit(t->room.memory), refused = t->room.refusal.reserved + t->room.refusal.bytes;
    *reserved = ft_trainer_move(t, "cpu") == FT_OK;
    ft_error_restore(&error);
    if (!*reserved) return status;
    ft_error_clear();
    ft_info("device     device.name=auto is the CPU: %s and more are needed, and %s may be taken on the CUDA device",
            ft_bytes_text(refused, needs), ft_bytes_text(limit, there));
    return FT_OK;
}

static bool offloads(const ft_room *room) { return ft_offload_set(room->config, room->device) != FT_OFFLOAD_NONE; }

// What was asked to be pinned; what autofit puts there fits.
static ft_status check_pinned(ft_room *room) {
    char needs[24], there[24];
    const size_t available = room->budget.host;
    if (!offloads(room) || available == 0 || room->planned.peak_pinned <= available) return FT_OK;
    if (room->config->device.wait && ft_run_observer_of() == NULL)
        return FT_OK; // what others hold comes back: admission knows what never can be
    ft_fail(FT_NO_MEMORY, "memory.offload", "%s of pinned memory of the host are needed, and %s are available",
            ft_bytes_text(room->planned.peak_pinned, needs), ft_bytes_text(available, there));
    room->refusal = (ft_memory_refusal){.bytes = room->planned.peak_pinned, .limit = available, .planned = true};
    ft_hint("memory.offload=none keeps everything on %s, auto puts on the host only what fits there%s", room->device->name,
            ft_offloads_inputs(room->config, room->device) ? "; a smaller train.micro_batch sends less of activations there" : "");
    return FT_NO_MEMORY;
}

// The whole process fits into what it may have: known before anything is taken.
static ft_status check_process(ft_room *room) {
    ft_host_limits limits;
    ft_run_limits(&limits);
    const ft_host_verdict v = ft_host_judge(room->config, &room->host, &limits);
    if (v.fits) return FT_OK;
    room->refusal = (ft_memory_refusal){.bytes = v.need, .limit = v.limit, .planned = true};
    return ft_host_refuse(&v);
}

ft_status ft_room_check_host(ft_room *room) {
    FT_TRY(check_pinned(room));
    return check_process(room);
}

// What runs on several devices cannot have yet and is known with the job.
static ft_status check_ranks(const ft_trainer *t) {
    const ft_ranks *r = t->room.ranks;
    if (r == NULL) return FT_OK;
    const char *what = ft_job_alone(&t->job);
    if (what != NULL) {
        ft_fail(FT_INVALID, "device.name", "not with several devices (%s): %s", t->room.config->device.name, what);
        ft_hint("device.name=%s trains it on one", ft_device_list_is_apart(t->room.config->device.name) ? "cuda" : "cpu");
        return FT_INVALID;
    }
    char host[24];
    snprintf(host, sizeof host, "%d hosts", r->group->hosts);
    if (ft_device_list_is_apart(t->room.config->device.name))
        ft_info("ranks      %d on %s, %s: gradients are summed by NCCL, %lld channels", r->ranks, r->group->host[0], t->room.config->device.name,
                (long long)t->room.config->distributed.channels);
    else
        ft_info("ranks      %d on %s, %d thread%s each: %s", r->ranks, r->group->hosts > 1 ? host : r->group->host[0],
                t->room.device->target.threads, t->room.device->target.threads == 1 ? "" : "s",
                t->room.config->distributed.reduction == FT_REDUCTION_RING ? "each adds up its own gradients, and then they are summed" : "the bits of one");
    return FT_OK;
}

static ft_status config_text(const ft_config *config, char **text) {
    size_t size;
    FILE *stream = open_memstream(text, &size);
    if (stream == NULL) return ft_fail_memory(0, "a configuration");
    const ft_status status = ft_config_write(config, true, true, stream);
    fclose(stream);
    return status;
}

// Ranks that disagree would train something that is nobody's.
static ft_status compare_ranks(ft_trainer *t) {
    ft_ranks *r = t->room.ranks;
    const ft_run_plan *p = &t->room.plan;
    char text[512], *config = NULL;
    if (r == NULL) return FT_OK;
    FT_TRY(ft_ranks_same(r, "version of ftengine", FT_VERSION));
    ft_status status = config_text(t->job.config, &config);
    if (status == FT_OK) status = ft_ranks_same(r, "configuration", config);
    free(config);
    FT_TRY(status);
    for (int s = 0; s < FT_SPLITS; s++) {
        snprintf(text, sizeof text, "%s file", ft_split_name((ft_split)s));
        FT_TRY(ft_ranks_same(r, text, t->job.split[s].present ? t->job.split[s].table.sha256 : ""));
    }
    FT_TRY(ft_ranks_same(r, "tokenizer", ft_input_digest(&t->job.input)));
    FT_TRY(ft_ranks_same(r, "model", t->job.base_sha256));
    snprintf(text, sizeof text, "%lld %lld %lld %lld %d %d %d %lld %lld %d %d %d %d", (long long)p->total_steps, (long long)p->limits.max_tokens,
             (long long)p->limits.max_sequences, (long long)p->step_rows, p->capacity.tokens, p->capacity.longest, p->capacity.reads,
             (long long)t->room.eval_limits.max_tokens, (long long)t->room.eval_limits.max_sequences, t->room.eval_capacity.tokens,
             t->room.eval_capacity.longest, t->room.eval_capacity.reads, (int)t->room.config->train.gradient_checkpointing);
    return ft_ranks_same(r, "plan (is memory as free there? memory.limit names it)", text);
}

static const char *unit_of_bf16(const ft_room *room) {
    const unsigned units = ft_cpu_units_read().usable;
    if (!ft_device_only_rounds(room->device)) return "";
    return ft_has_unit(units, FT_UNIT_AMX_BF16)      ? "; this processor has amx_bf16 for it"
           : ft_has_unit(units, FT_UNIT_AVX512_BF16) ? "; this processor has avx512_bf16 for it"
                                                     : "; this processor has no unit for it, and is no faster with it";
}

// train.precision = auto keeps the results that people know, and says what the other choice would be.
static ft_status announce_precision(const ft_room *room) {
    ft_config other = *room->config;
    ft_memory_counters planned;
    ft_host_memory host;
    char fp32[24], bf16[24];
    if (room->config->train.precision != FT_PRECISION_AUTO) return FT_OK;
    other.train.precision = FT_PRECISION_BF16;
    const ft_status status = ft_room_forecast_as(room, &other, &planned, &host);
    if (status == FT_INVALID) return ft_error_clear(), FT_OK; // other settings are of fp32 alone: there is no choice to tell of
    FT_TRY(status);
    ft_info("precision  fp32 (train.precision = auto): bf16 would reserve %s instead of %s%s", ft_bytes_text(planned.peak_reserved, bf16),
            ft_bytes_text(room->planned.peak_reserved, fp32), unit_of_bf16(room));
    return FT_OK;
}

// What GPUs deal out, where that was left to us or is not what it says.
static void announce_shard(const ft_room *room) {
    const ft_shard_kind shard = room->config->distributed.shard;
    const char *dealt = shard == FT_SHARD_OPTIMIZER ? "moments and exact weights are dealt out" : "moments, exact weights and gradients are dealt out";
    if (!room->plan.apart && room->plan.ranks > 1 && (shard == FT_SHARD_OPTIMIZER || shard == FT_SHARD_GRADIENTS))
        ft_info("           distributed.shard is of GPUs: ranks on the CPU have weights, gradients and moments once for all of a host");
    if (!room->plan.apart) return;
    if (shard == FT_SHARD_GRADIENTS && !room->plan.whole_steps)
        ft_info("           dealt out are moments and exact weights, not gradients: a step is several micro-batches a rank");
    else if (room->job->config->distributed.shard == FT_SHARD_AUTO)
        ft_info("           distributed.shard = auto: %s", shard == FT_SHARD_AUTO || shard == FT_SHARD_NONE ? "nothing is dealt out, for all fits" : dealt);
}

static ft_status announce(ft_trainer *t, bool *reserved) {
    ft_room *room = &t->room;
    char allocated[24], reserved_text[24], limit[24];
    FT_TRY(ft_data_report_splits(&t->job));
    ft_status status = forecast(t, reserved);
    if (status == FT_OK) status = ft_room_check_host(room);
    if (status == FT_NO_MEMORY) ft_hint("this was found by planning the run: no step of it was made");
    FT_TRY(status);
    if (room->autofit.chosen) announce_fitting(room);
    ft_info("memory     peak of %s allocated, %s reserved planned, %s may be taken",
            ft_bytes_text(room->planned.peak_allocated, allocated),
            ft_bytes_text(room->planned.peak_reserved, reserved_text),
            ft_bytes_text(room->autofit.chosen ? room->autofit.limit : ft_memory_limit(room->memory), limit));
    if (offloads(room))
        ft_info("           and %s of pinned memory of the host, for %s and copies", ft_bytes_text(room->planned.peak_pinned, allocated),
                ft_offload_text(ft_offload_set(room->config, room->device)));
    ft_info("           %s for %s", ft_bytes_text(room->host.peak, allocated), room->trunk != NULL ? "its part of the process" : "the whole process");
    announce_shard(room);
    if (room->eval_extra > 0) ft_info("           %s of them for evaluation alone", ft_bytes_text(room->eval_extra, allocated));
    FT_TRY(announce_precision(room));
    ft_stage_begin(room);
    return FT_OK;
}

// Texts become tokens. What is taken for it is watched until the run is judged.
static ft_status read_job(ft_trainer *t, const ft_config *config) {
    ft_host_limits limits;
    ft_run_limits(&limits);
    ft_host_watch(config, &limits);
    FT_TRY(ft_job_open(config, &(ft_job_source){.labels = 0}, &t->job));
    ft_info("device     %s", t->room.device->description);
    ft_attention_tell(t->room.device, &t->job.model_config, config->train.precision);
    FT_TRY(ft_job_tokenise(&t->job));
    FT_TRY(ft_job_find_features(&t->job, &t->room.device->target, t->room.gemm_tuning));
    return ft_job_measure(&t->job);
}

ft_status ft_trainer_open(const ft_config *config, ft_trainer *t) {
    ft_room *room = &t->room;
    memset(t, 0, sizeof *t);
    t->dir_lock = -1;
    t->temperature = 1;
    ft_step_init(&t->step, room, config);
    FT_TRY(ft_room_open(&t->job, config, room));
    FT_TRY(read_job(t, config));
    FT_TRY(ft_task_thresholds(&t->job, &t->arena, &t->threshold));
    FT_TRY(check_ranks(t));
    FT_TRY(ft_company_join(room));
    FT_TRY(ft_room_plan_steps(room));
    bool reserved; // before anything is taken
    FT_TRY(announce(t, &reserved));
    if (config->memory.timeline) FT_TRY(ft_memory_trace(room->memory)); // which is planned
    ft_heap_watch_end();
    ft_job_forget_texts(&t->job);
    FT_TRY(compare_ranks(t));
    if (!reserved) FT_TRY(ft_room_reserve(room, true));
    FT_TRY(ft_room_join(room));
    FT_TRY(ft_trainer_make_features(t));
    FT_TRY(ft_ladder_climb(t, FT_LADDER_LAYOUT, NULL, NULL));
    announce_model(room);
    return announce_adapter(t);
}

ft_status ft_trainer_close(ft_trainer *t) {
    ft_heap_watch_end();
    ft_step_close(&t->step);
    json_decref(t->earlier_devices);
    json_decref(t->end.earlier);
    ft_status status = ft_room_close(&t->room);
    ft_job_close(&t->job);
    ft_metrics_free(&t->test_metrics);
    if (t->metrics_file != NULL) fclose(t->metrics_file);
    (void)ft_tensorboard_close(t->board); // what it had to say was flushed
    if (t->dir_lock >= 0) close(t->dir_lock);
    ft_arena_free(&t->arena);
    memset(t, 0, sizeof *t);
    return status;
}
