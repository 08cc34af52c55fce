#include "engine/plan/plan.h"

#include "base/json/json.h"

#include <stdint.h>

static json_t *capacity_json(ft_capacity c) {
    return json_pack("{s:i, s:i, s:i}", "tokens", c.tokens, "sequences", c.sequences, "longest", c.longest);
}

static json_t *fitting_json(const ft_fitting *f) {
    if (f->reserved == 0) return json_null();
    return json_pack("{s:o, s:I, s:b, s:b, s:s, s:s, s:s, s:f, s:I}", "micro_batch_tokens",
                     f->micro_batch_tokens == FT_AUTO ? json_null() : json_integer((json_int_t)f->micro_batch_tokens),
                     "gradient_checkpointing", (json_int_t)f->gradient_checkpointing, "recompute_activation",
                     (f->savings & FT_SAVE_ACTIVATION) != 0, "recompute_layernorm", (f->savings & FT_SAVE_NORMS) != 0, "offload",
                     ft_offload_name(ft_fitting_offload(f)), "storage", ft_keep_name(f->storage), "shard", ft_shard_name(f->shard), "step_seconds", f->step_seconds,
                     "peak_reserved_bytes", (json_int_t)f->reserved);
}

json_t *ft_plan_autofit_json(const ft_autofit *a) {
    if (!a->chosen) return json_null();
    return json_pack("{s:o, s:o, s:o}", "ideal", fitting_json(&a->ideal), "choice", fitting_json(&a->choice), "next", fitting_json(&a->next));
}

json_t *ft_plan_json(const ft_plan *p) {
    bool failed = false;
    json_t *memory = ft_memory_json(&p->memory, p->outside_bytes, &failed);
    json_t *sites = ft_sites_json(p->sites, p->site_count, &failed);
    json_t *resolved = json_pack("{s:i, s:i, s:I, s:b, s:b, s:s, s:s, s:i, s:I, s:i, s:o, s:o}", "micro_batch_tokens", p->train.tokens, "micro_batch",
                                 p->train.sequences, "gradient_checkpointing", (json_int_t)p->checkpoint_every, "recompute_activation",
                                 !p->keeps_activation, "recompute_layernorm", p->rebuilds_norms, "offload",
                                 ft_offload_name(ft_offload_set_of(p->offloads, p->offloads_inputs, p->offloads_trunk)), "storage", ft_keep_name(p->storage), "max_length", p->max_length,
                                 "total_steps", (json_int_t)p->total_steps, "threads", p->threads, "train", capacity_json(p->train),
                                 "eval", capacity_json(p->eval));
    json_t *root = json_pack("{s:i, s:s, s:b, s:I, s:o, s:o, s:o, s:{s:I, s:I, s:I}, s:b, s:b, s:s, s:f, s:I, s:o}", "format_version", 1, "verdict",
                             ft_plan_verdict(p), "fits", p->fits,
                             "budget_bytes", (json_int_t)p->budget_bytes, "resolved", resolved, "memory", memory, "sites", sites, "model",
                             "parameters", (json_int_t)p->parameters, "trained", (json_int_t)p->trained_parameters, "trained_parameters",
                             (json_int_t)p->trained_parameters, "with_data", p->with_data, "calibrated", p->outside_measured, "target", p->threads > 0 ? "cpu" : "cuda", "predicted_step_seconds",
                             p->step_seconds, "evaluation_extra_bytes", (json_int_t)p->eval_extra, "autofit", ft_plan_autofit_json(&p->autofit));
    if (root != NULL && p->features)
        ft_json_put(root, "features", json_pack("{s:b, s:o}", "from_cache", p->trunk.tokens == 0, "trunk", capacity_json(p->trunk)), &failed);
    ft_json_put(root, "active_vocabulary",
                json_pack("{s:I, s:I, s:I, s:I}", "rows", (json_int_t)p->rows, "held_rows", (json_int_t)p->rows_held, "trained_rows",
                          (json_int_t)p->rows_trained, "saved_bytes", (json_int_t)p->rows_save), &failed);
    ft_json_put(root, "predicted_product_seconds", json_real(p->product_seconds), &failed);
    if (root != NULL && p->communication_bytes > 0) ft_json_put(root, "communication_bytes", json_integer((json_int_t)p->communication_bytes), &failed);
    if (root != NULL && p->graph_bytes > 0) ft_json_put(root, "graphs_bytes", json_integer((json_int_t)p->graph_bytes), &failed);
    if (root != NULL && p->host_short) ft_json_put(root, "host_available_bytes", json_integer((json_int_t)p->host_bytes), &failed);
    json_t *host = ft_host_json(&p->host, &failed);
    if (p->process_verdict.limit != SIZE_MAX) {
        ft_json_put(host, "limit_bytes", json_integer((json_int_t)p->process_verdict.limit), &failed);
        ft_json_put(host, "limit", json_string(ft_host_limit_name(&p->process_verdict)), &failed);
    }
    ft_json_put(host, "fits", json_boolean(p->process_verdict.fits), &failed);
    ft_json_put(root, "host", host, &failed);
    ft_json_put(root, "precision", json_string(ft_dtype_name(p->dtype)), &failed); // as in run.json
    if (root != NULL && p->scaling.devices > 0) ft_json_put(root, "ranks", ft_scaling_json(&p->scaling), &failed);
    if (root != NULL && p->fold > 0) ft_json_put(root, "fold", json_integer((json_int_t)p->fold), &failed);
    if (root != NULL && p->share > 0) ft_json_put(root, "share", json_integer((json_int_t)p->share), &failed);
    if (root != NULL && p->of_seeds) ft_json_put(root, "seed", json_integer((json_int_t)p->seed), &failed);
    if (failed || root == NULL) {
        json_decref(root);
        ft_fail_memory(0, "a plan as JSON");
        return NULL;
    }
    return root;
}
