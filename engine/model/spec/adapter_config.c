#include "engine/model/spec/adapter_config.h"

#include "base/files.h"
#include "base/json/json.h"
#include "engine/config/options.h"

#include <math.h>
#include <string.h>

enum { LONGEST = 320 }; // a name, with its end

bool ft_adapter_lies_in(const char *directory) {
    ft_arena arena = {0};
    char *path = ft_path_join(&arena, directory, FT_ADAPTER_CONFIG);
    const bool there = path != NULL && ft_path_exists(path);
    ft_arena_free(&arena);
    return there;
}

// ---- reading ------------------------------------------------------------------------------------------------------------

// Parts of adapters that a file may have and that are not known here: absent, null, false, 0 and empty are fine.
static ft_status refuse_unknown(const json_t *root, const char *path) {
    static const char *const unknown[] = {"lora_bias", "fan_in_fan_out", "use_qalora", "use_bdlora", "alora_invocation_tokens",
                                          "arrow_config", "layer_replication", "megatron_config", "target_parameters",
                                          "trainable_token_indices", "velora_config", "ensure_weight_tying"};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        const json_t *value = json_object_get(root, unknown[i]);
        if (value == NULL || json_is_null(value) || json_is_false(value)) continue;
        if ((json_is_array(value) && json_array_size(value) == 0) || (json_is_object(value) && json_object_size(value) == 0)) continue;
        return ft_fail(FT_INVALID, path, "adapters with %s are not known here", unknown[i]);
    }
    const char *type;
    FT_TRY(ft_json_string(root, path, "peft_type", "", &type));
    if (strcmp(type, "LORA") == 0) return FT_OK;
    return ft_fail(FT_INVALID, path, "peft_type is %s, and only LORA is known here", type[0] != '\0' ? type : "absent");
}

// A list of names as words; a string, which is an expression even where it looks like a name, in brackets.
static ft_status words_of(const json_t *root, const char *path, const char *key, ft_arena *arena, const char **out) {
    const json_t *value = json_object_get(root, key);
    *out = "";
    if (value == NULL || json_is_null(value)) return FT_OK;
    if (json_is_string(value)) {
        const char *text = json_string_value(value);
        *out = strcmp(text, "all-linear") == 0 ? ft_arena_strdup(arena, text) : ft_arena_format(arena, "(%s)", text);
        return *out != NULL ? FT_OK : FT_NO_MEMORY;
    }
    if (!json_is_array(value)) return ft_fail(FT_INVALID, path, "\"%s\" is neither a list nor a string", key);
    for (size_t i = 0; i < json_array_size(value); i++) {
        const char *name = json_string_value(json_array_get(value, i));
        if (name == NULL) return ft_fail(FT_INVALID, path, "\"%s\" is a list of names, element %zu is none", key, i);
        *out = ft_arena_format(arena, "%s%s%s", *out, i > 0 ? ", " : "", name);
        if (*out == NULL) return FT_NO_MEMORY;
    }
    return FT_OK;
}

static ft_status layers_of(const json_t *root, const char *path, ft_arena *arena, ft_int_list *out) {
    const json_t *value = json_object_get(root, "layers_to_transform");
    *out = (ft_int_list){0};
    if (value == NULL || json_is_null(value)) return FT_OK;
    const size_t count = json_is_array(value) ? json_array_size(value) : 1;
    int64_t *layers = ft_arena_alloc(arena, (count + 1) * sizeof *layers);
    if (layers == NULL) return FT_NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        const json_t *number = json_is_array(value) ? json_array_get(value, i) : value;
        if (!json_is_integer(number)) return ft_fail(FT_INVALID, path, "\"layers_to_transform\" is no list of whole numbers");
        layers[i] = json_integer_value(number);
    }
    *out = (ft_int_list){(int32_t)count, layers};
    return FT_OK;
}

static ft_status patterns_of(const json_t *root, const char *path, const char *key, ft_arena *arena, const char **out) {
    const json_t *object = json_object_get(root, key);
    const char *name;
    json_t *value;
    *out = "";
    json_object_foreach((json_t *)object, name, value) {
        if (!json_is_number(value)) return ft_fail(FT_INVALID, path, "\"%s\": %s has no number", key, name);
        if (strpbrk(name, ",=") != NULL) return ft_fail(FT_INVALID, path, "\"%s\": %s, with a comma or =, is not known here", key, name);
        *out = ft_arena_format(arena, "%s%s%s=%.17g", *out, (*out)[0] != '\0' ? ", " : "", name, json_number_value(value));
        if (*out == NULL) return FT_NO_MEMORY;
    }
    return FT_OK;
}

static ft_status set(ft_config *o, const char *path, const char *option, const char *text) {
    return ft_option_set(o, ft_option_at(ft_option_find(option)), text, NULL, path);
}

static ft_status set_number(ft_config *o, const json_t *root, const char *path, const char *key, const char *option, double otherwise) {
    double value;
    char text[FT_REAL_TEXT];
    FT_TRY(ft_json_number(root, path, key, otherwise, &value));
    snprintf(text, sizeof text, "%.17g", value);
    return set(o, path, option, text);
}

static ft_status read_all(const json_t *root, const char *path, ft_config *o, const char **base) {
    const char *name, *bias;
    bool rslora, dora;
    FT_TRY(refuse_unknown(root, path));
    FT_TRY(ft_json_bool(root, path, "use_dora", false, &dora));
    FT_TRY(set(o, path, "adapter.type", dora ? "dora" : "lora"));
    FT_TRY(set_number(o, root, path, "r", "adapter.r", 8));
    FT_TRY(set_number(o, root, path, "lora_alpha", "adapter.alpha", 8));
    FT_TRY(set_number(o, root, path, "lora_dropout", "adapter.dropout", 0));
    FT_TRY(ft_json_bool(root, path, "use_rslora", false, &rslora));
    FT_TRY(set(o, path, "adapter.rslora", rslora ? "true" : "false"));
    FT_TRY(ft_json_string(root, path, "bias", "none", &bias));
    FT_TRY(set(o, path, "adapter.bias", bias));
    FT_TRY(words_of(root, path, "target_modules", &o->arena, &o->adapter.targets));
    if (o->adapter.targets[0] == '\0') o->adapter.targets = "auto";
    FT_TRY(words_of(root, path, "exclude_modules", &o->arena, &o->adapter.exclude));
    FT_TRY(words_of(root, path, "modules_to_save", &o->arena, &o->adapter.modules_to_save));
    FT_TRY(layers_of(root, path, &o->arena, &o->adapter.layers));
    FT_TRY(patterns_of(root, path, "rank_pattern", &o->arena, &o->adapter.rank_pattern));
    FT_TRY(patterns_of(root, path, "alpha_pattern", &o->arena, &o->adapter.alpha_pattern));
    FT_TRY(ft_json_string(root, path, "base_model_name_or_path", "", &name));
    *base = ft_arena_strdup(&o->arena, name);
    return *base != NULL ? FT_OK : FT_NO_MEMORY;
}

// Told with the file, whose words they are.
static ft_status check_words(const ft_config *o, const char *path) {
    const ft_status status = ft_adapter_check(o);
    if (status != FT_INVALID) return status;
    ft_error error;
    ft_error_save(&error);
    return ft_fail(FT_INVALID, path, "%s: %s", error.where, error.message);
}

ft_status ft_adapter_config_load(const char *directory, ft_config *o, const char **base) {
    char *path = ft_path_join(&o->arena, directory, FT_ADAPTER_CONFIG);
    json_t *root;
    if (path == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_json_load(path, &root));
    ft_status status = json_is_object(root) ? read_all(root, path, o, base) : ft_fail(FT_INVALID, path, "no JSON object");
    if (status == FT_OK) status = check_words(o, path);
    json_decref(root);
    return status;
}

static ft_status compare(const char *directory, const ft_config *theirs, const ft_config *ours, const ft_model_config *m, const char *module) {
    const ft_adapter_shape a = ft_adapter_of(theirs, m, module), b = ft_adapter_of(ours, m, module);
    if (a.rank == b.rank && (a.rank == 0 || fabs(a.scale - b.scale) <= 1e-6 * fabs(a.scale))) return FT_OK;
    if (a.rank == 0 || b.rank == 0)
        ft_fail(FT_INVALID, "adapter.path", "%s has an adapter %s, and not %s", module, a.rank > 0 ? "there" : "by these options", a.rank > 0 ? "by these options" : "there");
    else
        ft_fail(FT_INVALID, "adapter.path", "the adapter of %s has rank %lld and scale %g there, by these options %lld and %g", module, (long long)a.rank, a.scale,
                (long long)b.rank, b.scale);
    ft_hint("%s was made with adapter.r=%lld adapter.alpha=%g%s", directory, (long long)theirs->adapter.r, theirs->adapter.alpha,
            theirs->adapter.rslora ? " adapter.rslora=true" : "");
    return FT_INVALID;
}

ft_status ft_adapter_config_agrees(const char *directory, const ft_config *o, const ft_model_config *m, int count, const char *const *modules) {
    ft_config theirs;
    const char *base;
    FT_TRY(ft_config_defaults(&theirs));
    ft_status status = ft_adapter_config_load(directory, &theirs, &base);
    if (status == FT_OK && theirs.adapter.type != o->adapter.type)
        status = ft_fail(FT_INVALID, "adapter.path", "%s was made with adapter.type=%s", directory, theirs.adapter.type == FT_ADAPTER_DORA ? "dora" : "lora");
    for (int i = 0; i < count && status == FT_OK; i++) status = compare(directory, &theirs, o, m, modules[i]);
    ft_config_free(&theirs);
    return status;
}

// ---- writing ------------------------------------------------------------------------------------------------------------

// Every adapted module by its whole name, so that whoever reads it needs no rule; and those of another rank or alpha.
static void put_modules(json_t *root, const ft_config *o, const ft_model_config *m, int count, const char *const *modules, bool *failed) {
    json_t *targets = json_array(), *ranks = json_object(), *alphas = json_object();
    for (int i = 0; i < count; i++) {
        const ft_adapter_shape shape = ft_adapter_of(o, m, modules[i]);
        if (shape.rank == 0) continue;
        char name[LONGEST];
        ft_family_module(m->family, modules[i], name, sizeof name);
        ft_json_append(targets, json_string(name), failed);
        if (shape.rank != o->adapter.r) ft_json_put(ranks, name, json_integer((json_int_t)shape.rank), failed);
        if (shape.alpha != o->adapter.alpha) ft_json_put(alphas, name, json_real(shape.alpha), failed);
    }
    ft_json_put(root, "target_modules", targets, failed);
    ft_json_put(root, "rank_pattern", ranks, failed);
    ft_json_put(root, "alpha_pattern", alphas, failed);
}

static json_t *init_of(const ft_config *o) {
    if (o->adapter.init == FT_ADAPTER_INIT_GAUSSIAN) return json_string("gaussian");
    return json_boolean(o->adapter.init == FT_ADAPTER_INIT_TRUE);
}

// PEFT has none for pictures.
static const char *task_type_of(const ft_model_config *m) {
    if (ft_model_config_reads_pictures(m)) return NULL;
    return m->language_head ? "CAUSAL_LM" : m->span_head ? "QUESTION_ANS" : m->token_head ? "TOKEN_CLS" : "SEQ_CLS";
}

ft_status ft_adapter_config_save(const char *path, const ft_config *o, const ft_model_config *m, const char *base, int count,
                                 const char *const *modules) {
    static const char *const biases[] = {
        [FT_ADAPTER_BIAS_NONE] = "none", [FT_ADAPTER_BIAS_ADAPTED] = "lora_only", [FT_ADAPTER_BIAS_ALL] = "all"};
    ft_arena arena = {0};
    bool failed = false;
    const char *saved[FT_MOST_SAVED];
    const int saves = ft_adapter_saved(o, m, &arena, saved);
    json_t *names = saves > 0 ? json_array() : json_null(); // as PEFT has it
    for (int i = 0; i < saves; i++) ft_json_append(names, saved[i] != NULL ? json_string(saved[i]) : NULL, &failed);
    const double alpha = o->adapter.alpha; // whole numbers as PEFT writes them
    json_t *alpha_json = alpha == floor(alpha) ? json_integer((json_int_t)alpha) : json_real(alpha);
    json_t *root = json_pack("{s:s, s:s?, s:o, s:b, s:I, s:o, s:f, s:b, s:b, s:s, s:b, s:o}", "peft_type", "LORA", "task_type", task_type_of(m),
                             "base_model_name_or_path", ft_json_text(base), "inference_mode", true, "r", (json_int_t)o->adapter.r, "lora_alpha",
                             alpha_json, "lora_dropout", o->adapter.dropout, "use_rslora", o->adapter.rslora, "use_dora", o->adapter.type == FT_ADAPTER_DORA, "bias",
                             biases[o->adapter.bias], "fan_in_fan_out", false, "modules_to_save", names);
    ft_json_put(root, "init_lora_weights", init_of(o), &failed);
    put_modules(root, o, m, count, modules, &failed);
    ft_status status = root == NULL || failed ? ft_fail_memory(0, FT_ADAPTER_CONFIG) : ft_json_save(path, root);
    json_decref(root);
    ft_arena_free(&arena);
    return status;
}
