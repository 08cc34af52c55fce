// report.c - the plan of one configuration: verdict, where the bytes are, what would fit.
#include "engine/commands/plan/command.h"

#include "base/json/json.h"
#include "engine/commands/commands.h"
#include "engine/plan/advice.h"
#include "engine/plan/search.h"
#include "kernels/devices/devices.h"

#include <stdint.h>
#include <string.h>

enum { SITES_FOR_PEOPLE = 8, MOST_SEQUENCES = 1 << 20 };

typedef struct report {
    const ft_plan_task *task;
    ft_plan plan;
    int64_t largest;       // micro-batch that fits; -1: not asked for
    ft_plan_advice advice; // when the plan does not fit
    bool planned;          // false: the configuration itself is no run, for the space has what it lacks
    void *space;           // what becomes of a search space; NULL: there is none
} report;

static const char *checkpointing_text(int64_t k, char out[40]) {
    if (k == FT_AUTO || k <= 0) return "off";
    if (k == 1) return "on";
    snprintf(out, 40, "%lld", (long long)k); // every k-th layer
    return out;
}

// ---- for people ---------------------------------------------------------------------------------------------------

static void print_verdict(const report *r) {
    char need[24], failed[24], budget[160];
    const ft_plan *p = &r->plan;
    ft_bytes_text(p->memory.peak_reserved, need);
    ft_plan_budget_text(r->task, &r->task->config, p->budget_bytes, budget, sizeof budget);
    if (p->not_supported) {
        printf("not supported: compute capability %d.%d, and the kernels need %d.%d; were they to run, %s of %s\n", p->compute_capability / 10,
               p->compute_capability % 10, FT_GPU_MINIMUM_CAPABILITY / 10, FT_GPU_MINIMUM_CAPABILITY % 10, need, budget);
        return;
    }
    if (p->fits) {
        printf("fits: %s of %s, %d%% left\n", need, budget,
               (int)(100.0 * (double)(p->budget_bytes - p->memory.peak_reserved) / (double)p->budget_bytes));
        return;
    }
    if (p->host_short) {
        printf("does not fit: %s of pinned memory of the host needed, and %s are available; the device has room\n",
               ft_bytes_text(p->memory.peak_pinned, need), ft_bytes_text(p->host_bytes, failed));
        return;
    }
    if (p->process_short) {
        printf("does not fit: the process needs %s, and %s lets it have %s\n", ft_bytes_text(p->process_verdict.need, need),
               ft_host_limit_name(&p->process_verdict), ft_bytes_text(p->process_verdict.limit, failed));
        return;
    }
    ft_bytes_text(p->refusal.bytes, failed);
    printf("does not fit: %s needed of %s; the request that fails is %s for %s\n", need, budget, failed,
           p->refusal.site);
}

static void print_capacity(const char *name, ft_capacity c) {
    printf("%-13s %d sequence%s, %d tokens, longest %d\n", name, c.sequences, c.sequences == 1 ? "" : "s", c.tokens,
           c.longest);
}

// What it takes beyond a step of training, which nobody pays without asking for it - but for a text that is longer than any
// that is trained on.
static void print_evaluation(const ft_plan *p, const ft_config *c) {
    char bytes[24];
    print_capacity("evaluation", p->eval);
    if (p->eval_extra == 0) return;
    printf("              takes %s (%zu bytes) more than a step of training: %s\n", ft_bytes_text(p->eval_extra, bytes), p->eval_extra,
           c->eval.batch_size != FT_AUTO ? "eval.batch_size" : c->eval.batch_multiplier != FT_AUTO ? "eval.batch_multiplier" : "its longest text");
}

static void print_fitting(const ft_autofit *a) {
    char text[FT_FITTING_TEXT], bytes[24];
    printf("autofit       %s would need %s\n", ft_fitting_text(&a->ideal, text), ft_bytes_text(a->ideal.reserved, bytes));
    printf("              chosen %s, %.2f times the time of a step (predicted)\n", ft_fitting_text(&a->choice, text),
           a->choice.step_seconds / a->ideal.step_seconds);
    if (a->next.reserved > 0)
        printf("              next best %s, %.2f times\n", ft_fitting_text(&a->next, text), a->next.step_seconds / a->ideal.step_seconds);
}

static void print_run(const report *r) {
    const ft_plan *p = &r->plan;
    const ft_config *c = &r->task->config;
    char every[40], saved[24];
    bool small = p->parameters < 1000000;
    double unit = small ? 1e3 : 1e6;
    printf("\nmodel         %s: %.1f%c parameters, %.1f%c trained\n", ft_plan_model_name(c),
           (double)p->parameters / unit, small ? 'K' : 'M', (double)p->trained_parameters / unit, small ? 'K' : 'M');
    if (p->rows_save > 0)
        printf("vocabulary    %lld of %lld rows of the word table are trained, %lld more are read: %s less (memory.active_vocabulary)\n",
               (long long)p->rows_trained, (long long)p->rows, (long long)(p->rows_held - p->rows_trained),
               ft_bytes_text((size_t)p->rows_save, saved));
    if (p->with_data)
        printf("texts         those of %s, in the order of %lld steps\n", c->data.train, (long long)p->total_steps);
    if (p->fold > 0)
        printf("fold          %lld of %lld, which takes most (data.folds)\n", (long long)p->fold, (long long)c->data.folds);
    if (p->share > 0) {
        printf("share         one text in %lld, which takes most of one in", (long long)p->share);
        for (int i = 0; i < c->data.shares.count; i++)
            printf("%s %lld", i > 0 ? "," : "", (long long)c->data.shares.values[i]);
        printf(" (data.shares)\n");
    }
    if (p->of_seeds) {
        printf("seed          %lld of", (long long)p->seed);
        for (int i = 0; i < c->train.seeds.count; i++)
            printf("%s %lld", i > 0 ? "," : "", (long long)c->train.seeds.values[i]);
        printf(", which takes most (train.seeds)\n");
    }
    const char *missing = r->task->missing;
    if (!p->with_data)
        printf("texts         all have %d tokens, the most that data.max_length allows: %s\n", p->max_length, missing[0] != '\0' ? missing : "none are given");
    if (p->trunk.tokens > 0) print_capacity("features", p->trunk);
    if (p->features)
        printf("%-13s %s\n", p->trunk.tokens > 0 ? "" : "features", p->trunk.tokens > 0 ? "at once, of every text once; then the head alone is trained (data.feature_cache)"
                                                                                    : "of all texts are in the cache: the head alone is trained (data.feature_cache)");
    print_capacity("micro-batch", p->train);
    if (p->eval.tokens == 0)
        printf("evaluation    none\n");
    else
        print_evaluation(p, c);
    if (r->largest >= 0)
        printf("largest       micro-batch that fits: %lld sequences of %d tokens%s\n", (long long)r->largest,
               p->max_length, r->largest == MOST_SEQUENCES ? " or more" : "");
    printf("recompute     %s (train.gradient_checkpointing)\n", checkpointing_text(p->checkpoint_every, every));
    printf("              activations %s (memory.recompute_activation), norms %s (memory.recompute_layernorm)\n",
           p->keeps_activation ? "kept" : "computed again", p->rebuilds_norms ? "made again" : "kept");
    if (p->storage != FT_KEEP_AS_READ) printf("storage       frozen weights of linear layers in %s (model.storage)\n", ft_keep_name(p->storage));
    if (p->offloads || p->offloads_inputs || p->offloads_trunk)
        printf("offload       %s of pinned memory of the host for %s and copies (memory.offload)\n",
               ft_bytes_text(p->memory.peak_pinned, saved), ft_offload_text(ft_offload_set_of(p->offloads, p->offloads_inputs, p->offloads_trunk)));
    if (p->autofit.chosen) print_fitting(&p->autofit);
}

static void print_part(const char *name, const char *detail, size_t bytes, size_t whole) {
    char text[24];
    if (bytes == 0) return;
    printf("  %-34s %-13s %10s", name, detail, ft_bytes_text(bytes, text));
    if (whole != 0) printf("  %5.1f%%", 100.0 * (double)bytes / (double)whole);
    printf("\n");
}

// The process as a whole. Of a GPU's run the device's memory is no part of it.
static void print_host(const ft_plan *p) {
    char text[24], limit[24];
    printf("host          %s for the whole process%s", ft_bytes_text(p->host.peak, text), p->with_data ? "" : ", without texts");
    const ft_host_verdict *v = &p->process_verdict;
    if (v->limit != SIZE_MAX) { // of which another of the three figures may be the one that counts
        if (v->need != p->host.peak) printf("; by addresses %s of", ft_bytes_text(v->need, text));
        else printf(", of");
        printf(" %s (%s)", ft_bytes_text(v->limit, limit), ft_host_limit_name(v));
    }
    printf("\n");
    for (int i = 0; i < FT_PART_COUNT; i++) print_part(ft_host_part_name((ft_host_part)i), "", p->host.part[i], p->host.peak);
    print_part("the most while reading texts", "", p->host.loading, 0);
    print_part("mapped weights, not counted", "reclaimable", p->host.mapped, 0);
    print_part("of which every step reads there", "shared", p->host.mapped_weights, 0);
}

static void print_memory(const report *r) {
    const ft_memory_counters *m = &r->plan.memory;
    char a[24], b[24];
    // A plan of one step, evaluation or save is the plan of all of them (plan/README.md).
    static const char *const when[FT_PHASE_COUNT] = {[FT_PHASE_LOAD] = "while loading",
                                                     [FT_PHASE_FORWARD] = "in the forward pass of every step",
                                                     [FT_PHASE_BACKWARD] = "in the backward pass of every step",
                                                     [FT_PHASE_OPTIMIZER] = "in the update of every step",
                                                     [FT_PHASE_EVAL] = "in every evaluation",
                                                     [FT_PHASE_SAVE] = "while saving"};
    printf("\npeak, reached %s\n", when[m->peak_phase]);
    print_part("requested", "", m->peak_requested, 0);
    print_part("allocated", "", m->peak_allocated, 0);
    print_part("reserved", "", m->peak_reserved, 0);
    print_part("shared by all ranks, there once", "", m->peak_common, 0);
    if (r->task->config.distributed.reduction == FT_REDUCTION_RING) // there are none where nothing is shared
        print_part("of which gradients, a set a rank", "", m->common_by_category[FT_MEM_GRADIENTS], 0);
    print_part("pinned, of the host", "", m->peak_pinned, 0);
    printf("at the peak of allocated\n");
    for (int i = 0; i < FT_MEM_CATEGORIES; i++)
        print_part(ft_memory_category_name((ft_memory_category)i), "", m->at_peak[i], m->peak_allocated);
    printf("largest holders then\n");
    for (int i = 0; i < r->plan.site_count && i < SITES_FOR_PEOPLE; i++) {
        const ft_memory_use *use = &r->plan.sites[i];
        print_part(use->site, ft_memory_category_name(use->category), use->bytes, m->peak_allocated);
    }
    printf("peaks by phase\n");
    for (int i = 0; i < FT_PHASE_COUNT; i++)
        print_part(ft_memory_phase_name((ft_memory_phase)i), "", m->phase_peak[i], 0);
    if (m->arena_live_bytes > 0)
        printf("step arena    %s for %s alive at once, %.3f times\n", ft_bytes_text(m->arena_bytes, a),
               ft_bytes_text(m->arena_live_bytes, b), (double)m->arena_bytes / (double)m->arena_live_bytes);
    if (r->plan.graph_bytes > 0)
        printf("graphs        %s of the device are left to its driver (device.graphs): no part of what may be taken\n", ft_bytes_text(r->plan.graph_bytes, a));
    if (r->plan.communication_bytes > 0)
        printf("communication %s of the device are left to NCCL (distributed.channels): no part of what may be taken\n",
               ft_bytes_text(r->plan.communication_bytes, a));
    print_host(&r->plan);
    printf("outside       %s, %s: not in the figures above\n", ft_bytes_text(r->plan.outside_bytes, a),
           r->plan.outside_measured ? "measured on this machine" : "assumed for context and modules");
}

static void print_text(const report *r) {
    if (r->planned) {
        print_verdict(r);
        print_run(r);
        print_memory(r);
        if (r->plan.scaling.devices > 0) ft_plan_print_ranks(r->task, &r->plan);
        ft_plan_print_notes(&r->plan, "");
    }
    if (r->space != NULL) r->task->space->print(r->task, r->space);
}

// ---- for programs -------------------------------------------------------------------------------------------------

static void csv_line(const char *group, const char *name, size_t value) {
    printf("%s,", group);
    ft_plan_csv_field(name);
    printf(",%zu\n", value);
}

static void print_csv(const report *r) {
    const ft_plan *p = &r->plan;
    const ft_memory_counters *m = &p->memory;
    printf("group,name,bytes\n");
    if (r->space != NULL) csv_line("space", "worst", r->task->space->most(r->space));
    if (!r->planned) return;
    csv_line("budget", p->not_supported ? "not supported" : p->fits ? "fits" : "does not fit", p->budget_bytes);
    csv_line("peak", "requested", m->peak_requested);
    csv_line("peak", "allocated", m->peak_allocated);
    csv_line("peak", "reserved", m->peak_reserved);
    csv_line("peak", "pinned", m->peak_pinned);
    for (int i = 0; i < FT_MEM_CATEGORIES; i++)
        csv_line("at_peak", ft_memory_category_name((ft_memory_category)i), m->at_peak[i]);
    for (int i = 0; i < FT_PHASE_COUNT; i++)
        csv_line("phase", ft_memory_phase_name((ft_memory_phase)i), m->phase_peak[i]);
    for (int i = 0; i < p->site_count; i++)
        csv_line("site", p->sites[i].site, p->sites[i].bytes);
    csv_line("arena", "bytes", m->arena_bytes);
    csv_line("arena", "alive at once", m->arena_live_bytes);
    csv_line("evaluation", "more than training", p->eval_extra);
    csv_line("host", "peak", p->host.peak);
    for (int i = 0; i < FT_PART_COUNT; i++) csv_line("host", ft_host_part_name((ft_host_part)i), p->host.part[i]);
    if (p->scaling.devices > 0) csv_line("communication", "assumed", p->scaling.communication);
    for (int i = 0; p->scaling.devices > 0 && i < FT_SHARDS; i++) csv_line("state", ft_shard_name(i), p->scaling.state[i]);
    csv_line("outside", p->outside_measured ? "measured" : "assumed", p->outside_bytes);
}

static ft_status print_json(const report *r) {
    bool failed = false;
    json_t *root = r->planned ? ft_plan_json(&r->plan) : json_pack("{s:i}", "format_version", 1);
    if (root == NULL) return FT_NO_MEMORY;
    if (r->space != NULL) ft_json_put(root, "space", r->task->space->json(r->task, r->space), &failed);
    if (r->largest >= 0) ft_json_put(root, "largest_micro_batch", json_integer(r->largest), &failed);
    if (r->task->card != NULL) ft_json_put(root, "gpu", ft_plan_card_json(r->task), &failed);
    if (r->task->missing[0] != '\0') ft_json_put(root, "texts_missing", ft_json_text(r->task->missing), &failed);
    if (!r->plan.fits && r->advice.micro_batch > 0) {
        char every[40];
        json_t *advice =
            json_pack("{s:I, s:s, s:b}", "micro_batch", (json_int_t)r->advice.micro_batch, "gradient_checkpointing",
                      checkpointing_text(r->advice.gradient_checkpointing, every), "small_evaluation",
                      r->advice.small_evaluation);
        ft_json_put(root, "advice", advice, &failed);
    }
    if (r->space != NULL || r->plan.fits)
        ft_document_next(root, r->space != NULL ? "tune" : "train", NULL, r->task->words, &failed);
    return ft_plan_write_json(root, failed);
}

// ---- the command --------------------------------------------------------------------------------------------------

ft_status ft_plan_refuse_host(const ft_plan *plan) {
    char need[24], there[24];
    ft_fail(FT_NO_MEMORY, "memory.offload", "%s of pinned memory of the host are needed, and %s are available",
            ft_bytes_text(plan->memory.peak_pinned, need), ft_bytes_text(plan->host_bytes, there));
    ft_hint("memory.offload=auto takes no more of the host than there is%s",
            plan->offloads_inputs ? "; a smaller train.micro_batch sends less of activations there" : "");
    return FT_NO_MEMORY;
}

static ft_status refuse(const report *r) {
    char need[24], budget[24];
    if (r->plan.not_supported) return ft_plan_refuse_card(r->task, &r->plan);
    if (r->plan.host_short) return ft_plan_refuse_host(&r->plan);
    if (r->plan.process_short) return ft_host_refuse(&r->plan.process_verdict);
    ft_fail(FT_NO_MEMORY, NULL, "does not fit: %s needed of %s", ft_bytes_text(r->plan.memory.peak_reserved, need),
            ft_bytes_text(r->plan.budget_bytes, budget));
    const ft_plan_advice *a = &r->advice;
    bool recompute = a->gradient_checkpointing != r->task->config.train.gradient_checkpointing;
    if (a->micro_batch > 0)
        ft_hint("train.micro_batch=%lld%s%s%s fits and %s", (long long)a->micro_batch,
                r->task->config.train.micro_batch_tokens != FT_AUTO ? " train.micro_batch_tokens=auto" : "",
                recompute ? " train.gradient_checkpointing=on" : "",
                a->small_evaluation ? " eval.batch_size=auto eval.batch_multiplier=auto" : "",
                r->task->card != NULL ? "gives the same result to rounding" : ft_advice_promise(&r->task->config));
    else
        ft_hint("not even one sequence at a time with recomputation fits: shorter texts (data.max_length), a smaller model%s or more memory",
                r->plan.freezes_layers && !r->plan.offloads_trunk ? ", frozen layers on the host (memory.offload=trunk+all)" : "");
    return FT_NO_MEMORY;
}

// Without texts the answer is a property of model and memory, so it is given; with texts it would be that of a worst
// case that the run never meets.
static ft_status find_largest(report *r, const ft_plan_request *request) {
    r->largest = -1;
    if (r->plan.with_data || r->plan.not_supported) return FT_OK;
    if (r->plan.host_short && !r->plan.offloads_inputs) return FT_OK; // no micro-batch has less of AdamW's state or of frozen layers
    int64_t most = MOST_SEQUENCES / ft_plan_eval_multiplier(&r->task->config);
    if (most > INT32_MAX / r->plan.max_length) most = INT32_MAX / r->plan.max_length;
    ft_config config = r->task->config;
    config.model.storage = r->plan.storage; // what `auto` has become
    return ft_plan_largest(&config, request, FT_VARY_BATCH, most, &r->largest);
}

// The configuration itself, as `ftengine train` would run it.
static ft_status plan_run(report *r) {
    const ft_plan_task *task = r->task;
    ft_plan_request request = ft_plan_request_of(task);
    FT_TRY(ft_plan_run(&task->config, &request, &r->plan));
    if (task->card != NULL) r->plan.outside_bytes = FT_CARD_OUTSIDE_BYTES, r->plan.outside_measured = false;
    FT_TRY(find_largest(r, &request));
    if (!r->plan.fits && !r->plan.host_short && !r->plan.process_short && !r->plan.not_supported) FT_TRY(ft_plan_advise(&task->config, &request, &r->advice));
    r->planned = true;
    return FT_OK;
}

// A configuration that is no run may be one in every point of its space, which may have the model that it lacks. Where there is none
// there either, the first error is the news.
static ft_status plan_all(report *r) {
    const ft_plan_task *task = r->task;
    ft_error error;
    ft_status status = plan_run(r);
    if (task->space == NULL || (status != FT_OK && status != FT_INVALID)) return status;
    ft_error_save(&error);
    ft_error_clear();
    const ft_status all = task->space->make(task, &r->space);
    if (all == FT_INVALID && status != FT_OK) ft_error_restore(&error);
    return all;
}

static ft_status answer(report *r) {
    const ft_plan_task *task = r->task;
    FT_TRY(plan_all(r));
    if (task->format == FT_PLAN_JSON)
        FT_TRY(print_json(r));
    else if (task->format == FT_PLAN_CSV)
        print_csv(r);
    else
        print_text(r);
    if (r->space == NULL) return r->plan.fits ? FT_OK : refuse(r);
    if (task->svg != NULL) FT_TRY(task->space->draw(task, r->space, task->svg));
    return task->space->verdict(task, r->space);
}

ft_status ft_plan_report(const ft_plan_task *task) {
    report r = {.task = task};
    ft_status status = answer(&r);
    if (task->space != NULL) task->space->free(r.space);
    return status;
}
