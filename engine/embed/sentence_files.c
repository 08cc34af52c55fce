#include "engine/embed/sentence_files.h"

#include "base/files.h"
#include "base/json/json.h"

#include <string.h>

#define COUNT(list) (int)(sizeof list / sizeof list[0])

static const struct {
    const char *name, *before; // before version 6: a key of its own
} poolings[FT_POOLINGS] = {[FT_POOL_CLS] = {"cls", "pooling_mode_cls_token"},
                           [FT_POOL_MAX] = {"max", "pooling_mode_max_tokens"},
                           [FT_POOL_MEAN] = {"mean", "pooling_mode_mean_tokens"},
                           [FT_POOL_MEAN_SQRT] = {"mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens"},
                           [FT_POOL_WEIGHTED] = {"weightedmean", "pooling_mode_weightedmean_tokens"},
                           [FT_POOL_LAST] = {"lasttoken", "pooling_mode_lasttoken"}};
#define KNOWN_POOLINGS "cls, max, mean, mean_sqrt_len_tokens, weightedmean, lasttoken"

static const struct {
    const char *name;
    ft_dense_activation activation;
} activations[] = {{"Identity", FT_DENSE_IDENTITY}, {"Tanh", FT_DENSE_TANH},       {"ReLU", FT_DENSE_RELU},
                   {"GELU", FT_DENSE_GELU},         {"Sigmoid", FT_DENSE_SIGMOID}, {"SiLU", FT_DENSE_SILU}};
#define KNOWN_ACTIVATIONS "Identity, Tanh, ReLU, GELU, Sigmoid, SiLU"

typedef struct reading {
    const char *directory;
    ft_arena *arena;
    ft_sentence_files *files;
} reading;

// ---- small things ---------------------------------------------------------------------------------------------------------

static const char *where(const reading *r, const char *path, const char *key) {
    const char *text = ft_arena_format(r->arena, "%s: %s", path, key);
    return text != NULL ? text : path;
}

static ft_status keep(const reading *r, const char *text, const char **out) {
    *out = ft_arena_strdup(r->arena, text);
    return *out != NULL ? FT_OK : FT_NO_MEMORY;
}

// The object in a file; NULL where there is no such file.
static ft_status load(const reading *r, const char *directory, const char *name, const char **path, json_t **root) {
    *root = NULL;
    *path = ft_path_join(r->arena, directory, name);
    if (*path == NULL) return FT_NO_MEMORY;
    if (!ft_path_exists(*path)) return FT_OK;
    FT_TRY(ft_json_load(*path, root));
    if (json_is_object(*root)) return FT_OK;
    json_decref(*root);
    *root = NULL;
    return ft_fail(FT_INVALID, *path, "a JSON object is expected");
}

// What stands behind the last dot: classes moved from package to package.
static const char *class_of(const char *type) {
    const char *dot = strrchr(type, '.');
    return dot != NULL ? dot + 1 : type;
}

// ---- pooling --------------------------------------------------------------------------------------------------------------

static int find_pooling(const char *name, size_t length) {
    for (int i = 0; i < FT_POOLINGS; i++)
        if (strlen(poolings[i].name) == length && memcmp(poolings[i].name, name, length) == 0) return i;
    return -1;
}

static ft_status add_pooling(ft_sentence_files *files, const char *name, size_t length, const char *where_it_is) {
    const int found = find_pooling(name, length);
    if (found < 0) {
        ft_fail(FT_INVALID, where_it_is, "unknown pooling %.*s", length < 64 ? (int)length : 64, name);
        ft_hint("%s", KNOWN_POOLINGS);
        return FT_INVALID;
    }
    if (files->poolings == FT_POOLINGS) return ft_fail(FT_INVALID, where_it_is, "more than %d poolings", FT_POOLINGS);
    files->pooling[files->poolings++] = (ft_pooling)found;
    return FT_OK;
}

ft_status ft_poolings_parse(const char *text, const char *option, ft_sentence_files *files) {
    files->poolings = 0;
    for (const char *at = text;;) {
        at += strspn(at, " ");
        const size_t length = strcspn(at, ",");
        size_t name = length;
        while (name > 0 && at[name - 1] == ' ') name--;
        FT_TRY(add_pooling(files, at, name, option));
        if (at[length] == '\0') return FT_OK;
        at += length + 1;
    }
}

static ft_status read_modes(reading *r, const json_t *root, const char *path) {
    const json_t *mode = json_object_get(root, "pooling_mode");
    const char *place = where(r, path, "pooling_mode");
    r->files->poolings = 0;
    if (json_is_string(mode)) return add_pooling(r->files, json_string_value(mode), json_string_length(mode), place);
    for (size_t i = 0; i < json_array_size(mode); i++) {
        const json_t *one = json_array_get(mode, i);
        if (!json_is_string(one)) return ft_fail(FT_INVALID, place, "names of poolings are expected");
        FT_TRY(add_pooling(r->files, json_string_value(one), json_string_length(one), place));
    }
    if (r->files->poolings > 0) return FT_OK;
    if (mode != NULL && !json_is_null(mode)) return ft_fail(FT_INVALID, place, "the name of a pooling, or a list of them, is expected");
    for (int i = 0; i < FT_POOLINGS; i++) {
        bool on;
        FT_TRY(ft_json_bool(root, path, poolings[i].before, false, &on));
        if (on) r->files->pooling[r->files->poolings++] = (ft_pooling)i;
    }
    if (r->files->poolings == 0) r->files->pooling[r->files->poolings++] = FT_POOL_MEAN;
    return FT_OK;
}

static ft_status read_pooling(reading *r, const char *directory) {
    const char *path;
    json_t *root;
    FT_TRY(load(r, directory, "config.json", &path, &root));
    if (root == NULL) return ft_fail(FT_INVALID, path, "no such file, which modules.json asks for");
    bool includes = true;
    ft_status status = read_modes(r, root, path);
    if (status == FT_OK) status = ft_json_bool(root, path, "include_prompt", true, &includes);
    const char *width = json_object_get(root, "embedding_dimension") != NULL ? "embedding_dimension" : "word_embedding_dimension";
    if (status == FT_OK) status = ft_json_int(root, path, width, 0, 0, INT32_MAX, &r->files->width);
    r->files->without_prompt = !includes;
    json_decref(root);
    return status;
}

// ---- what is done with the vector -----------------------------------------------------------------------------------------

static ft_status add_step(reading *r, ft_vector_step step, const char *place) {
    if (r->files->steps == FT_MOST_VECTOR_STEPS) return ft_fail(FT_INVALID, place, "more than %d modules behind the pooling", FT_MOST_VECTOR_STEPS);
    r->files->step[r->files->steps++] = step;
    return FT_OK;
}

// A dense layer may read and write something else than the vector; nothing here does.
static ft_status check_vector_names(const reading *r, const json_t *root, const char *path) {
    static const char *const keys[] = {"module_input_name", "module_output_name"};
    for (int i = 0; i < COUNT(keys); i++) {
        const char *name;
        FT_TRY(ft_json_string(root, path, keys[i], "sentence_embedding", &name));
        if (strcmp(name, "sentence_embedding") != 0)
            return ft_fail(FT_INVALID, where(r, path, keys[i]), "%s: only sentence_embedding is supported", name);
    }
    return FT_OK;
}

static ft_status read_dense_config(reading *r, const json_t *root, const char *path, ft_vector_step *step) {
    const char *name;
    bool residual;
    FT_TRY(check_vector_names(r, root, path));
    FT_TRY(ft_json_bool(root, path, "use_residual", false, &residual));
    if (residual) return ft_fail(FT_INVALID, where(r, path, "use_residual"), "dense layers with a residual connection are not supported");
    FT_TRY(ft_json_int(root, path, "in_features", 0, 1, INT32_MAX, &step->inputs));
    FT_TRY(ft_json_int(root, path, "out_features", 0, 1, INT32_MAX, &step->outputs));
    if (step->inputs == 0 || step->outputs == 0) return ft_fail(FT_INVALID, path, "in_features and out_features are needed");
    FT_TRY(ft_json_bool(root, path, "bias", true, &step->bias));
    FT_TRY(ft_json_string(root, path, "activation_function", "torch.nn.modules.activation.Tanh", &name));
    for (int i = 0; i < COUNT(activations); i++)
        if (strcmp(activations[i].name, class_of(name)) == 0) {
            step->activation = activations[i].activation;
            return FT_OK;
        }
    ft_fail(FT_INVALID, where(r, path, "activation_function"), "%s is not supported", name);
    ft_hint("%s", KNOWN_ACTIVATIONS);
    return FT_INVALID;
}

static ft_status read_dense(reading *r, const char *directory) {
    const char *path;
    json_t *root;
    ft_vector_step step = {.dense = true, .directory = directory};
    FT_TRY(load(r, directory, "config.json", &path, &root));
    if (root == NULL) return ft_fail(FT_INVALID, path, "no such file, which modules.json asks for");
    ft_status status = read_dense_config(r, root, path, &step);
    json_decref(root);
    FT_TRY(status);
    return add_step(r, step, path);
}

// ---- modules --------------------------------------------------------------------------------------------------------------

static ft_status read_module(reading *r, const json_t *module, int index, const char *path) {
    const char *type, *name;
    char key[32];
    snprintf(key, sizeof key, "[%d]", index);
    if (!json_is_object(module)) return ft_fail(FT_INVALID, where(r, path, key), "a JSON object is expected");
    FT_TRY(ft_json_string(module, path, "type", "", &type));
    FT_TRY(ft_json_string(module, path, "path", "", &name));
    const char *class = class_of(type), *directory = name[0] != '\0' ? ft_path_join(r->arena, r->directory, name) : r->directory;
    if (directory == NULL) return FT_NO_MEMORY;
    if (strcmp(class, "Transformer") == 0 && index == 0) return keep(r, directory, &r->files->transformer);
    if (strcmp(class, "Pooling") == 0 && index > 0 && r->files->poolings == 0) return read_pooling(r, directory);
    if (strcmp(class, "Dropout") == 0 && r->files->poolings > 0) return FT_OK; // drops nothing where nothing is trained
    if (strcmp(class, "Normalize") == 0 && r->files->poolings > 0) return add_step(r, (ft_vector_step){.dense = false}, path);
    if (strcmp(class, "Dense") == 0 && r->files->poolings > 0) return read_dense(r, directory);
    ft_fail(FT_INVALID, where(r, path, key), "the module %s is not supported there", type);
    ft_hint("a Transformer, then a Pooling, then any of Dense, Normalize and Dropout");
    return FT_INVALID;
}

static ft_status read_modules(reading *r, const json_t *root, const char *path) {
    r->files->found = true;
    if (!json_is_array(root)) return ft_fail(FT_INVALID, path, "a list of modules is expected");
    for (size_t i = 0; i < json_array_size(root); i++) FT_TRY(read_module(r, json_array_get(root, i), (int)i, path));
    if (r->files->transformer == NULL || r->files->poolings == 0) {
        ft_fail(FT_INVALID, path, "there is no %s among the modules", r->files->transformer == NULL ? "Transformer" : "Pooling");
        ft_hint("a Transformer, then a Pooling, then any of Dense, Normalize and Dropout");
        return FT_INVALID;
    }
    return FT_OK;
}

// ---- length and prompts ---------------------------------------------------------------------------------------------------

static ft_status read_transformer(reading *r) {
    const char *path;
    json_t *root;
    FT_TRY(load(r, r->files->transformer, "sentence_bert_config.json", &path, &root));
    if (root == NULL) return FT_OK;
    ft_status status = ft_json_int(root, path, "max_seq_length", 0, 1, INT32_MAX, &r->files->max_length);
    if (status == FT_OK) status = ft_json_bool(root, path, "do_lower_case", false, &r->files->lower_case);
    json_decref(root);
    return status;
}

static ft_status take_prompts(reading *r, const json_t *root, const char *path) {
    ft_sentence_files *f = r->files;
    json_t *list = json_object_get(root, "prompts"), *value;
    const char *name, *usual;
    if (list != NULL && !json_is_null(list) && !json_is_object(list)) return ft_fail(FT_INVALID, where(r, path, "prompts"), "names with texts are expected");
    f->prompt_name = ft_arena_alloc(r->arena, (json_object_size(list) + 1) * sizeof *f->prompt_name);
    f->prompt = ft_arena_alloc(r->arena, (json_object_size(list) + 1) * sizeof *f->prompt);
    if (f->prompt_name == NULL || f->prompt == NULL) return FT_NO_MEMORY;
    json_object_foreach(list, name, value) {
        if (!json_is_string(value) && !json_is_null(value)) return ft_fail(FT_INVALID, where(r, path, "prompts"), "%s: a text is expected", name);
        FT_TRY(keep(r, name, &f->prompt_name[f->prompts]));
        FT_TRY(keep(r, json_is_string(value) ? json_string_value(value) : "", &f->prompt[f->prompts++]));
    }
    FT_TRY(ft_json_string(root, path, "default_prompt_name", NULL, &usual));
    for (int i = 0; usual != NULL && i < f->prompts; i++)
        if (strcmp(f->prompt_name[i], usual) == 0) f->usual_prompt = f->prompt[i];
    if (usual != NULL && f->usual_prompt == NULL) return ft_fail(FT_INVALID, where(r, path, "default_prompt_name"), "%s is none of the prompts", usual);
    return FT_OK;
}

static ft_status read_prompts(reading *r) {
    const char *path;
    json_t *root;
    FT_TRY(load(r, r->directory, "config_sentence_transformers.json", &path, &root));
    if (root == NULL) return FT_OK;
    const ft_status status = take_prompts(r, root, path);
    json_decref(root);
    return status;
}

ft_status ft_sentence_files_load(const char *directory, ft_arena *arena, ft_sentence_files *files) {
    *files = (ft_sentence_files){.found = false};
    reading r = {.directory = directory, .arena = arena, .files = files};
    const char *path = ft_path_join(arena, directory, "modules.json");
    json_t *root;
    if (path == NULL) return FT_NO_MEMORY;
    if (!ft_path_exists(path)) {
        FT_TRY(keep(&r, directory, &files->transformer));
    } else {
        FT_TRY(ft_json_load(path, &root));
        const ft_status status = read_modules(&r, root, path);
        json_decref(root);
        FT_TRY(status);
    }
    FT_TRY(read_transformer(&r));
    return read_prompts(&r);
}
