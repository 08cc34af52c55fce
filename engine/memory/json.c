#include "engine/memory/json.h"

#include "base/json/json.h"

json_t *ft_memory_json(const ft_memory_counters *c, size_t outside_bytes, bool *failed) {
    json_t *at_peak = json_object(), *phases = json_object();
    for (int k = 0; k < FT_MEM_CATEGORIES; k++)
        ft_json_put(at_peak, ft_memory_category_name((ft_memory_category)k), json_integer((json_int_t)c->at_peak[k]), failed);
    for (int k = 0; k < FT_PHASE_COUNT; k++)
        ft_json_put(phases, ft_memory_phase_name((ft_memory_phase)k), json_integer((json_int_t)c->phase_peak[k]), failed);
    json_t *memory = json_pack("{s:I, s:I, s:I, s:I, s:I, s:s, s:I, s:o, s:o}", "peak_requested_bytes", (json_int_t)c->peak_requested,
                     "peak_allocated_bytes", (json_int_t)c->peak_allocated, "peak_reserved_bytes", (json_int_t)c->peak_reserved,
                     "host_pinned_bytes", (json_int_t)c->peak_pinned, "outside_allocator_bytes", (json_int_t)outside_bytes, "peak_phase", ft_memory_phase_name(c->peak_phase),
                     "step_arena_bytes", (json_int_t)c->arena_bytes, "at_peak", at_peak, "phases", phases);
    if (c->peak_common == 0) return memory;
    json_t *parts = json_object(); // of several ranks: what they have in common
    for (int k = 0; k < FT_MEM_CATEGORIES; k++)
        if (c->common_by_category[k] > 0)
            ft_json_put(parts, ft_memory_category_name((ft_memory_category)k), json_integer((json_int_t)c->common_by_category[k]), failed);
    ft_json_put(memory, "shared_bytes", json_integer((json_int_t)c->peak_common), failed);
    ft_json_put(memory, "shared", parts, failed);
    return memory;
}

json_t *ft_sites_json(const ft_memory_use *uses, int count, bool *failed) {
    json_t *array = json_array();
    for (int i = 0; i < count; i++)
        ft_json_append(array,
                       json_pack("{s:s, s:s, s:I}", "site", uses[i].site, "category", ft_memory_category_name(uses[i].category), "bytes",
                                 (json_int_t)uses[i].bytes),
                       failed);
    return array;
}
