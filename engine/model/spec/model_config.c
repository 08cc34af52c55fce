#include "engine/model/spec/model_config.h"

#include "base/files.h"
#include "base/json/json.h"
#include "engine/hub/known_models.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Wider than any real model, narrow enough that products of sizes stay far from overflow. Heads are bounded by the counter of the dropout
// generator (kernels/philox.h).
enum { MOST_WIDTH = 1 << 20, MOST_LAYERS = 1 << 12, MOST_HEADS = 255, MOST_LABELS = 1 << 20 };

// ---- reading ------------------------------------------------------------------------------------------------------

static ft_status read_family(ft_model_config *c, const char *path) {
    const char *type;
    FT_TRY(ft_json_string(c->json, path, "model_type", NULL, &type));
    c->family = type != NULL ? ft_family_find(type) : NULL;
    if (c->family != NULL) {
        c->model_type = c->family->model_type;
        c->pooler_is_drawn = c->family->pooler != NULL && strncmp(c->family->pooler, c->family->prefix, strlen(c->family->prefix)) != 0;
        return FT_OK;
    }
    if (type == NULL)
        ft_fail(FT_INVALID, path, "\"model_type\" is missing: is this the config.json of a transformer?");
    else
        ft_fail(FT_INVALID, path, "\"model_type\" \"%.100s\" is not supported", type);
    const char *nearest = type != NULL ? ft_family_nearest(type) : NULL;
    char list[400];
    size_t at = 0;
    for (int i = 0; i < ft_family_count() && at < sizeof list; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", i != 0 ? ", " : "", ft_family_at(i)->model_type);
    if (nearest != NULL) ft_hint("the nearest that is: %s; supported: %s", nearest, list);
    else ft_hint("supported: %s", list);
    return FT_INVALID;
}

// Row pad_id + 1 of the position table is token 0's where the family counts positions behind the padding.
static ft_status read_padding(ft_model_config *c, const char *path) {
    bool none = json_is_null(json_object_get(c->json, "pad_token_id")); // absent is the default, null is none
    int64_t fallback = none ? -1 : c->family->defaults.padding;
    FT_TRY(ft_json_int(c->json, path, "pad_token_id", fallback, 0, c->vocab_size - 1, &c->pad_token_id));
    if (c->pad_token_id >= c->vocab_size)
        return ft_fail(FT_INVALID, path, "\"pad_token_id\" is missing, and that of %s, %lld, is beyond the %lld tokens of \"vocab_size\"",
                       c->model_type, (long long)c->pad_token_id, (long long)c->vocab_size);
    c->max_position_embeddings = c->position_rows;
    if (c->family->position_rule != FT_POSITIONS_BEHIND_PADDING) return FT_OK;
    if (none) return ft_fail(FT_INVALID, path, "\"pad_token_id\" must not be null: positions are counted from it");
    c->max_position_embeddings = c->position_rows - c->pad_token_id - 1;
    if (c->max_position_embeddings > 0) return FT_OK;
    return ft_fail(FT_INVALID, path, "\"max_position_embeddings\" %lld leaves no position behind \"pad_token_id\" %lld",
                   (long long)c->position_rows, (long long)c->pad_token_id);
}

// Every head of the queries has keys and values, and together they are as wide as the rows, unless the family has keys for these.
static ft_status find_heads(ft_model_config *c, const char *path) {
    const ft_family_keys *k = &c->family->keys;
    if (c->hidden_size % c->num_attention_heads != 0)
        return ft_fail(FT_INVALID, path, "\"%s\" %lld is not a multiple of \"%s\" %lld", k->hidden, (long long)c->hidden_size,
                       k->heads, (long long)c->num_attention_heads);
    const ft_family_defaults *d = &c->family->defaults;
    const bool said = k->key_heads != NULL && json_object_get(c->json, k->key_heads) != NULL; // null: as many as heads
    c->key_value_heads = d->key_heads > 0 && !said ? d->key_heads : c->num_attention_heads;
    c->head_width = d->head_width > 0 ? d->head_width : c->hidden_size / c->num_attention_heads;
    if (k->head_width != NULL) FT_TRY(ft_json_int(c->json, path, k->head_width, c->head_width, 1, MOST_WIDTH / c->num_attention_heads, &c->head_width));
    if (k->key_heads == NULL) return FT_OK;
    FT_TRY(ft_json_int(c->json, path, k->key_heads, c->key_value_heads, 1, c->num_attention_heads, &c->key_value_heads));
    if (c->num_attention_heads % c->key_value_heads == 0) return FT_OK;
    return ft_fail(FT_INVALID, path, "\"%s\" %lld is not a multiple of \"%s\" %lld", k->heads, (long long)c->num_attention_heads, k->key_heads,
                   (long long)c->key_value_heads);
}

// The layers that config.json counts run through all layers of their group, one after the other.
static ft_status read_groups(ft_model_config *c, const char *path) {
    const ft_family_keys *k = &c->family->keys;
    if (k->groups == NULL) return FT_OK;
    FT_TRY(ft_json_int(c->json, path, k->groups, 1, 1, c->num_hidden_layers, &c->layer_groups));
    FT_TRY(ft_json_int(c->json, path, k->inner, 1, 1, MOST_LAYERS / c->num_hidden_layers, &c->inner_layers));
    c->num_hidden_layers *= c->inner_layers;
    return FT_OK;
}

int64_t ft_model_config_weights(const ft_model_config *c, int64_t layer) {
    if (c->layer_groups == 0) return layer;
    const double of_group = (double)(c->num_hidden_layers / c->inner_layers) / (double)c->layer_groups; // and as transformers divides
    return (int64_t)((double)(layer / c->inner_layers) / of_group) * c->inner_layers + layer % c->inner_layers;
}

static ft_status read_sizes(ft_model_config *c, const char *path) {
    const ft_family_keys *k = &c->family->keys;
    const ft_family_defaults *d = &c->family->defaults;
    const struct {
        const char *key; // NULL: the family has no such number
        int64_t *out, fallback, low, high;
    } sizes[] = {
        {"vocab_size", &c->vocab_size, d->vocabulary, 1, 1 << 28},
        {k->hidden, &c->hidden_size, d->hidden, 1, MOST_WIDTH},
        {k->layers, &c->num_hidden_layers, d->layers, 1, MOST_LAYERS},
        {k->heads, &c->num_attention_heads, d->heads, 1, MOST_HEADS},
        {k->intermediate, &c->intermediate_size, d->intermediate, 1, MOST_WIDTH},
        {"max_position_embeddings", &c->position_rows, d->positions > 0 ? d->positions : 512, 1, c->family->causal ? 1 << 28 : FT_MOST_POSITIONS},
        {c->family->token_types ? "type_vocab_size" : NULL, &c->type_vocab_size, d->types, c->family->types_optional ? 0 : 1,
         MOST_WIDTH},
        {k->embedding, &c->embedding_size, d->embedding, 1, MOST_WIDTH},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (sizes[i].key != NULL)
            FT_TRY(ft_json_int(c->json, path, sizes[i].key, sizes[i].fallback, sizes[i].low, sizes[i].high, sizes[i].out));
    if (c->embedding_size == 0) c->embedding_size = c->hidden_size;
    if (c->position_rows > FT_MOST_POSITIONS) c->position_rows = FT_MOST_POSITIONS; // longer texts than one can train on
    FT_TRY(read_groups(c, path));
    FT_TRY(find_heads(c, path));
    return read_padding(c, path);
}

static ft_status read_numbers(ft_model_config *c, const char *path) {
    const ft_family_keys *k = &c->family->keys;
    const ft_family_defaults *d = &c->family->defaults;
    const double dropout = d->undropped ? 0 : 0.1;
    const struct {
        const char *key;
        double *out, fallback;
        bool positive;
    } numbers[] = {
        {k->epsilon, &c->layer_norm_eps, d->epsilon, true},
        {"initializer_range", &c->initializer_range, 0.02, false},
        {k->hidden_dropout, &c->hidden_dropout_prob, dropout, false},
        {k->attention_dropout, &c->attention_probs_dropout_prob, d->attention_undropped ? 0 : dropout, false},
        {k->classifier_dropout, &c->classifier_dropout, d->classifier_dropout < 0 ? NAN : d->classifier_dropout,
         false}, // NAN: by now the hidden one is not known
    };
    c->layer_norm_eps = d->epsilon;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (numbers[i].key == NULL) continue;
        FT_TRY(ft_json_number(c->json, path, numbers[i].key, numbers[i].fallback, numbers[i].out));
        double value = *numbers[i].out;
        if (value < 0 || value >= 1 || (numbers[i].positive && (float)value == 0)) // as it is computed with
            return ft_fail(FT_INVALID, path, "\"%s\" must be %s and below 1, not %g", numbers[i].key,
                           numbers[i].positive ? "above 0" : "at least 0", value);
    }
    if (isnan(c->classifier_dropout)) c->classifier_dropout = c->hidden_dropout_prob;
    c->embedding_dropout = c->hidden_dropout_prob;
    return FT_OK;
}

static bool is_off(const json_t *value) {
    return value == NULL || json_is_null(value) || json_is_false(value) || (json_is_number(value) && json_number_value(value) == 0);
}

static ft_status refuse_switches(const ft_model_config *c, const char *path) {
    const char *const *off = c->family->keys.off;
    const int most = sizeof c->family->keys.off / sizeof *off;
    for (int i = 0; i < most && off[i] != NULL; i++)
        if (!is_off(json_object_get(c->json, off[i]))) return ft_fail(FT_INVALID, path, "\"%s\" must be false: what it asks for is not supported", off[i]);
    return FT_OK;
}

// Keys under the names of the code that a model was published with, where those of the family are absent: written back, transformers reads them too.
static ft_status rename_keys(ft_model_config *c) {
    for (const ft_key_alias *a = c->family->aliases; a != NULL && a->alias != NULL; a++) {
        json_t *value = json_object_get(c->json, a->alias);
        if (value != NULL && json_object_get(c->json, a->key) == NULL && json_object_set(c->json, a->key, value) != 0) return ft_fail_memory(64, "config.json");
    }
    return FT_OK;
}

// What changes the mathematics and what we do not compute: to ignore it would give wrong numbers in silence.
static ft_status read_kinds(ft_model_config *c, const char *path) {
    const char *activation, *positions;
    const ft_family_defaults *d = &c->family->defaults;
    const char *key = c->family->keys.activation;
    FT_TRY(ft_json_string(c->json, path, key, d->activation != NULL ? d->activation : "gelu", &activation));
    ft_status status = ft_activation_from_name(activation, &c->hidden_act);
    if (status != FT_OK) {
        ft_error_where_default("%s: \"%s\"", path, key);
        return status;
    }
    FT_TRY(ft_json_string(c->json, path, "position_embedding_type", "absolute", &positions));
    // Files of rotary positions say "absolute", "sans_pos" or "rope" and mean nothing by it.
    const bool idle = (c->family->positions & FT_POSITIONS_ROTARY) != 0 && (strcmp(positions, "sans_pos") == 0 || strcmp(positions, "rope") == 0);
    if (!idle && strcmp(positions, "absolute") != 0)
        return ft_fail(FT_INVALID, path,
                       "\"position_embedding_type\" must be \"absolute\", \"%.100s\" is not supported", positions);
    bool decoder;
    FT_TRY(refuse_switches(c, path));
    FT_TRY(ft_json_bool(c->json, path, "sinusoidal_pos_embds", false, &c->sinusoidal));
    FT_TRY(ft_json_bool(c->json, path, "is_decoder", false, &decoder));
    if (decoder) return ft_fail(FT_INVALID, path, "\"is_decoder\" must be false: only encoders are supported");
    return FT_OK;
}

static ft_status label_name(ft_model_config *c, const json_t *map, int64_t id, const char *path) {
    char key[24], plain[32];
    snprintf(key, sizeof key, "%lld", (long long)id);
    snprintf(plain, sizeof plain, "LABEL_%lld", (long long)id);
    const json_t *value = json_object_get(map, key);
    if (map == NULL)
        c->label_names[id] = ft_arena_strdup(&c->arena, plain);
    else if (json_is_string(value))
        c->label_names[id] = ft_arena_strdup(&c->arena, json_string_value(value));
    else if (json_is_integer(value))
        c->label_names[id] = ft_arena_format(&c->arena, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (value == NULL)
        return ft_fail(FT_INVALID, path,
                       "\"id2label\" has %zu names and none for \"%s\"; its keys must be \"0\" to \"%zu\"",
                       json_object_size(map), key, json_object_size(map) - 1);
    else
        return ft_fail(FT_INVALID, path, "\"id2label\": the name of \"%s\" must be a string", key);
    if (c->label_names[id] == NULL) return FT_NO_MEMORY;
    if (strcmp(c->label_names[id], plain) != 0) c->has_label_names = true;
    return FT_OK;
}

// As transformers has it: id2label decides, unless num_labels is there too and says another count; then its names are
// thrown away.
static ft_status read_labels(ft_model_config *c, const char *path) {
    const json_t *map = json_object_get(c->json, "id2label");
    if (json_is_null(map)) map = NULL;
    if (map != NULL && !json_is_object(map))
        return ft_fail(FT_INVALID, path, "\"id2label\" must be an object from \"0\", \"1\", ... to names");
    int64_t named = map != NULL ? (int64_t)json_object_size(map) : 2;
    if (named < 1 || named > MOST_LABELS)
        return ft_fail(FT_INVALID, path, "\"id2label\" lists %lld labels", (long long)named);
    FT_TRY(ft_json_int(c->json, path, "num_labels", named, 1, MOST_LABELS, &c->num_labels));
    if (c->num_labels != named) map = NULL;
    c->label_names = ft_arena_alloc(&c->arena, (size_t)c->num_labels * sizeof *c->label_names);
    if (c->label_names == NULL) return FT_NO_MEMORY;
    for (int64_t i = 0; i < c->num_labels; i++)
        FT_TRY(label_name(c, map, i, path));
    return FT_OK;
}

// Weights of other kinds have names and bytes that nobody here knows.
static ft_status read_quantisation(ft_model_config *c, const char *path) {
    const json_t *given = json_object_get(c->json, "quantization_config");
    const char *method;
    if (given == NULL || json_is_null(given)) return FT_OK;
    FT_TRY(ft_json_string(given, path, "quant_method", "bitsandbytes", &method));
    if (strcmp(method, "bitsandbytes") == 0) return FT_OK;
    ft_fail(FT_INVALID, path, "\"quantization_config\": weights of quant_method \"%.40s\" cannot be read", method);
    ft_hint("those of bitsandbytes can (nf4, fp4, int8), and ones that are not quantised: model.storage keeps them in fewer bits");
    return FT_INVALID;
}

// MPNet's, as transformers has it: 32 rows are read whatever the table has, and positions and words have their padding in row 1.
static ft_status read_bias(ft_model_config *c, const char *path) {
    FT_TRY(ft_json_int(c->json, path, "relative_attention_num_buckets", FT_BIAS_BUCKETS, FT_BIAS_BUCKETS, MOST_WIDTH, &c->bias_rows));
    if (c->pad_token_id == c->family->defaults.padding) return FT_OK;
    return ft_fail(FT_INVALID, path, "\"pad_token_id\" must be %lld for a model of this type, not %lld", (long long)c->family->defaults.padding,
                   (long long)c->pad_token_id);
}

static ft_status read_all(ft_model_config *c, const char *path) {
    if (!json_is_object(c->json)) return ft_fail(FT_INVALID, path, "a JSON object is needed here");
    FT_TRY(read_family(c, path));
    FT_TRY(rename_keys(c));
    FT_TRY(read_sizes(c, path));
    FT_TRY(read_numbers(c, path));
    FT_TRY(read_kinds(c, path));
    FT_TRY(read_quantisation(c, path));
    c->relative = (ft_relative_config){.factor = 1, .pooler_activation = c->family->pooler_activation};
    c->positions = c->family->positions;
    c->unbiased = c->family->names.unbiased;
    c->rms_norms = c->family->rms_norms;
    if (c->family->relative) FT_TRY(ft_relative_config_read(c, path));
    if (ft_model_config_reads_pictures(c)) FT_TRY(ft_picture_config_read(c, path));
    if (c->positions & FT_POSITIONS_ROTARY) FT_TRY(ft_rotary_config_read(c, path));
    if (c->positions & FT_POSITIONS_BIAS) FT_TRY(read_bias(c, path));
    if ((c->positions & FT_POSITIONS_TABLE) == 0) c->position_rows = 0;
    return read_labels(c, path);
}

ft_status ft_model_config_parse(const char *text, size_t length, const char *path, ft_model_config *config) {
    *config = (ft_model_config){0};
    ft_status status = ft_json_parse(text, length, path, &config->json);
    if (status == FT_OK) status = read_all(config, path);
    if (status != FT_OK) ft_model_config_free(config);
    return status;
}

static ft_status load(const char *path, ft_model_config *config) {
    enum { LARGEST_FILE = 64 << 20 };
    char *text;
    size_t length;
    FT_TRY(ft_read_file(path, LARGEST_FILE, &text, &length));
    ft_status status = ft_model_config_parse(text, length, path, config);
    free(text);
    return status;
}

static ft_status load_known(const ft_known_model *known, ft_model_config *config) {
    char where[128];
    snprintf(where, sizeof where, "%s, built in", known->name);
    return ft_model_config_parse(known->json, strlen(known->json), where, config);
}

static ft_status no_directory(const char *path) {
    if (ft_path_exists(path)) {
        ft_fail(FT_INVALID, path, "a model directory is needed, this is a file");
    } else {
        ft_fail(FT_INVALID, path, "there is no such model directory");
        const char *near = ft_known_model_nearest(path);
        if (near != NULL) ft_hint("did you mean %s?", near);
    }
    ft_hint("a model directory holds config.json, model.safetensors, and vocab.txt or tokenizer.json");
    return FT_INVALID;
}

ft_status ft_model_config_load(const char *model_dir, ft_model_config *config) {
    *config = (ft_model_config){0};
    if (!ft_path_is_directory(model_dir)) {
        const ft_known_model *known = ft_path_exists(model_dir) ? NULL : ft_known_model_find(model_dir);
        return known != NULL ? load_known(known, config) : no_directory(model_dir);
    }
    ft_arena arena = {0};
    const char *path = ft_path_join(&arena, model_dir, "config.json");
    ft_status status = path != NULL ? load(path, config) : FT_NO_MEMORY;
    ft_arena_free(&arena);
    return status;
}

static bool is_for(const ft_model_config *c, const char *what) {
    const char *name = json_string_value(json_array_get(json_object_get(c->json, "architectures"), 0));
    const char *at = name != NULL ? strstr(name, what) : NULL;
    return at != NULL && at[strlen(what)] == '\0';
}

bool ft_model_config_is_of_tokens(const ft_model_config *c) { return is_for(c, "ForTokenClassification"); }
bool ft_model_config_is_of_spans(const ft_model_config *c) { return is_for(c, "ForQuestionAnswering"); }
bool ft_model_config_is_of_language(const ft_model_config *c) { return c->family->causal && is_for(c, "ForCausalLM"); }

void ft_model_config_set_language(ft_model_config *c) {
    static const char *const outputs[] = {"loss"};
    c->language_head = true;
    c->last_pooling = false;
    c->num_labels = 1;
    c->label_names = (const char **)outputs;
    c->has_label_names = false;
}

void ft_model_config_set_tokens(ft_model_config *c) {
    c->token_head = true;
    c->mean_pooling = c->late_pooling = false;
    c->pooler_is_drawn = c->pooler_is_drawn && c->family->token_pooler;
    c->relative.pooler_dropout = 0;
    if (c->family->token_hidden_dropout) c->classifier_dropout = c->hidden_dropout_prob;
}

ft_status ft_model_config_set_quantised(ft_model_config *c, int bits, bool twice, int count, const char *const *skipped) {
    json_t *skip = json_array();
    int failed = skip == NULL;
    for (int i = 0; i < count; i++) failed |= json_array_append_new(skip, json_string(skipped[i]));
    json_decref(c->saved_quantisation);
    c->saved_quantisation = json_pack("{s:s, s:b, s:b, s:s, s:s, s:s, s:b, s:o}", "quant_method", "bitsandbytes", "load_in_8bit", bits == 8, "load_in_4bit",
                                      bits == 4, "bnb_4bit_compute_dtype", "float32", "bnb_4bit_quant_storage", "uint8", "bnb_4bit_quant_type", "nf4",
                                      "bnb_4bit_use_double_quant", twice, "llm_int8_skip_modules", skip);
    return c->saved_quantisation == NULL || failed ? ft_fail_memory(0, "config.json") : FT_OK;
}

void ft_model_config_set_spans(ft_model_config *c) {
    static const char *const names[FT_SPAN_OUTPUTS] = {"LABEL_0", "LABEL_1"};
    const double classifier = c->classifier_dropout;
    ft_model_config_set_tokens(c);
    const json_t *own = c->family->span_dropout != NULL ? json_object_get(c->json, c->family->span_dropout) : NULL;
    c->span_head = true;
    c->num_labels = FT_SPAN_OUTPUTS;
    c->label_names = (const char **)names; // nobody writes to them
    c->has_label_names = false;
    if (c->family->token_pooler) c->classifier_dropout = classifier;
    else c->classifier_dropout = c->family->span_dropout == NULL ? 0 : json_is_number(own) ? json_number_value(own) : 0.1;
}

ft_status ft_model_config_set_mean(ft_model_config *c, const char *where) {
    if (ft_model_config_reads_pictures(c)) return ft_fail(FT_INVALID, where, "this model reads pictures: the mean is of a text's rows");
    if (c->token_head || c->language_head) return ft_fail(FT_INVALID, where, "this head reads every row of a text, so there is no mean to read");
    if (c->last_pooling) return ft_fail(FT_INVALID, where, "the head of a decoder reads the last token, which has seen the others");
    if (c->sights != NULL && (c->family->rotary == FT_ROTARY_BY_LAYER || c->family->rotary == FT_ROTARY_BIASES)) {
        ft_fail(FT_INVALID, where, "what the head of a %s model reads stands in its config.json", c->model_type);
        ft_hint("\"classifier_pooling\": \"mean\" there is the same for ftengine and transformers");
        return FT_INVALID;
    }
    c->mean_head = c->mean_pooling = true;
    c->pooler_is_drawn = false;
    c->relative.pooler_dropout = 0;
    return FT_OK;
}

const char *ft_model_config_classifier(const ft_model_config *c) {
    if (c->language_head) return FT_LANGUAGE_HEAD;
    if (c->span_head && !c->family->token_pooler) return FT_SPAN_CLASSIFIER;
    return c->token_head ? FT_TOKEN_CLASSIFIER : c->family->classifier;
}

void ft_model_config_free(ft_model_config *config) {
    json_decref(config->saved_quantisation);
    json_decref(config->json);
    ft_arena_free(&config->arena);
    *config = (ft_model_config){0};
}

// ---- writing ------------------------------------------------------------------------------------------------------

// The shortest decimal that is the same fp32 number: training keeps 0.1f, and 0.1 is what it was told and what the file
// should say, not 0.10000000149.
static double shortest_like(double value) {
    char text[FT_REAL_TEXT];
    for (int digits = 1; digits < 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtof(text, NULL) == (float)value) return strtod(text, NULL);
    }
    return value;
}

// A value that the file has already stays as it is written there: 0 instead of 0.0, and null for "as the hidden one".
static int set_dropout(json_t *root, const char *key, double used, double read) {
    if (key == NULL) return 0; // config.json has no such thing
    if ((float)used == (float)read && (json_object_get(root, key) != NULL)) return 0;
    return json_object_set_new(root, key, json_real(shortest_like(used)));
}

static int set_labels(json_t *root, int count, const char *const *names) {
    json_t *id2label = json_object(), *label2id = json_object();
    int failed = 0;
    for (int i = 0; i < count; i++) {
        char key[16];
        snprintf(key, sizeof key, "%d", i);
        failed |= json_object_set_new(id2label, key, json_string(names[i]));
        failed |= json_object_set_new(label2id, names[i], json_integer(i));
    }
    failed |= json_object_set_new(root, "id2label", id2label);
    return failed | json_object_set_new(root, "label2id", label2id);
}

// An entry of each of the two: what Jansson keeps by it, the key's text and the name's, and its share of the places of a table half full.
size_t ft_model_config_save_bytes(int label_count) {
    enum { BY_NUMBER = 176, BY_NAME = 144, SHARE = 64 };
    return (size_t)label_count * (BY_NUMBER + BY_NAME + SHARE);
}

static const char sequence_class[] = "SequenceClassification", token_class[] = "TokenClassification", span_class[] = "QuestionAnswering",
                  language_class[] = "CausalLM";

// The class that transformers opens it with.
static json_t *class_of(const ft_model_config *c) {
    const char *name = c->family->classifier_class;
    if (!c->token_head && !c->language_head) return json_string(name);
    const char *own = c->language_head ? language_class : c->span_head ? span_class : token_class;
    return json_sprintf("%.*s%s", (int)(strlen(name) - strlen(sequence_class)), name, own);
}

static int fill(json_t *root, const ft_model_config *base, const char *problem_type) {
    // num_labels beside id2label can only contradict it; torch_dtype is the old name of dtype; weights are saved
    // as they are, unless it is said how else.
    static const char *const dropped[] = {"num_labels", "torch_dtype", "_name_or_path", "quantization_config"};
    for (size_t i = 0; i < sizeof dropped / sizeof dropped[0]; i++)
        json_object_del(root, dropped[i]);
    int failed = json_object_set_new(root, "model_type", json_string(base->model_type));
    failed |= json_object_set_new(root, "architectures", json_pack("[o]", class_of(base)));
    if (base->token_head || base->language_head) json_object_del(root, "problem_type");
    else failed |= json_object_set_new(root, "problem_type", json_string(problem_type));
    return failed | json_object_set_new(root, "dtype", json_string("float32"));
}

ft_status ft_model_config_save(const ft_model_config *base, const char *path, int label_count,
                               const char *const *label_names, double hidden_dropout, double attention_dropout,
                               double classifier_dropout, const ft_custom_head *head, const char *problem_type) {
    json_t *root = ft_json_copy_object(base->json); // values are replaced, never changed
    int failed = fill(root, base, problem_type);
    failed |= ft_custom_head_put(root, base->family, classifier_dropout, head);
    if (!base->language_head) failed |= set_labels(root, label_count, label_names);
    if (base->saved_quantisation != NULL) failed |= json_object_set(root, "quantization_config", base->saved_quantisation);
    // Where the file leaves the classifier's to the hidden one and training did so too, it may stay null.
    const ft_family_keys *k = &base->family->keys;
    const char *dropout_key = !base->span_head || base->family->token_pooler ? k->classifier_dropout : base->family->span_dropout;
    bool null = dropout_key == NULL || json_is_null(json_object_get(root, dropout_key));
    if (dropout_key == NULL) failed |= 0; // there is none, and nothing to say
    else if (!null || (float)classifier_dropout != (float)hidden_dropout)
        failed |= set_dropout(root, dropout_key, classifier_dropout, null ? -1 : base->classifier_dropout);
    failed |= set_dropout(root, k->hidden_dropout, hidden_dropout, base->hidden_dropout_prob);
    // One option of ours is both of ModernBERT's.
    if (base->sights != NULL && base->family->rotary == FT_ROTARY_BY_LAYER && (float)hidden_dropout != (float)base->hidden_dropout_prob)
        failed |= set_dropout(root, "embedding_dropout", hidden_dropout, base->embedding_dropout);
    failed |= set_dropout(root, k->attention_dropout, attention_dropout, base->attention_probs_dropout_prob);
    ft_status status = root == NULL || failed ? ft_fail_memory(0, "config.json") : ft_json_save(path, root);
    json_decref(root);
    return status;
}
