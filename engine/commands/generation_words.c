// generation_words.c - how a language model is to write: what the caller says, and for the rest the model's
// generation_config.json, as transformers' generate has it.
#include "engine/commands/completions.h"

#include "base/files.h"
#include "base/json/json.h"
#include "base/log.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- options ------------------------------------------------------------------------------------------------------

static ft_status parse_number(const char *flag, const char *word, double low, double high, const char *range,
                              double *out) {
    char *end;
    if (word == NULL) return FT_OK;
    errno = 0;
    *out = strtod(word, &end);
    if (end != word && *end == '\0' && errno == 0 && *out >= low && *out <= high) return FT_OK;
    return ft_fail(FT_INVALID, flag, "must be a number %s, got \"%.60s\"", range, word);
}

static ft_status parse_integer(const char *flag, const char *word, long long low, const char *range, long long *out) {
    char *end;
    if (word == NULL) return FT_OK;
    errno = 0;
    *out = strtoll(word, &end, 10);
    if (end != word && *end == '\0' && errno == 0 && *out >= low) return FT_OK;
    return ft_fail(FT_INVALID, flag, "must be a whole number, %s, got \"%.60s\"", range, word);
}

// What nobody said: ft_completion_settings asks the model.
enum { AS_THE_MODEL_SAYS = -1 };

ft_status ft_generation_parse(const ft_generation_words *w, ft_generator_options *o) {
    long long most = FT_USUAL_NEW_TOKENS, seed = 42, top_k = AS_THE_MODEL_SAYS;
    *o = (ft_generator_options){
        .sampling = {.temperature = w->samples ? AS_THE_MODEL_SAYS : 0, .top_p = AS_THE_MODEL_SAYS}};
    FT_TRY(parse_integer("--max-new-tokens", w->max_new_tokens, 1, "at least 1", &most));
    FT_TRY(parse_integer("--seed", w->seed, 0, "at least 0", &seed));
    FT_TRY(parse_number("--temperature", w->temperature, 0, 1e6, "from 0 (greedy)", &o->sampling.temperature));
    FT_TRY(parse_number("--top-p", w->top_p, 1e-9, 1, "above 0, at most 1", &o->sampling.top_p));
    FT_TRY(parse_integer("--top-k", w->top_k, 0, "0 (all tokens) or above", &top_k));
    if (w->samples && o->sampling.temperature == 0)
        return ft_fail(FT_INVALID, "--sample", "nothing is drawn at --temperature 0");
    if (w->temperature == NULL && !w->samples && (w->top_p != NULL || w->top_k != NULL || w->seed != NULL)) {
        ft_fail(FT_INVALID,
                w->top_p != NULL   ? "--top-p"
                : w->top_k != NULL ? "--top-k"
                                   : "--seed",
                "nothing is drawn without a temperature: the most probable token is taken");
        ft_hint("--sample draws as the model's generation_config.json says, --temperature 1 as its probabilities are");
        return FT_INVALID;
    }
    o->sampling.top_k = top_k;
    o->max_new_tokens = most;
    o->sampling.seed = (uint64_t)seed;
    return FT_OK;
}

int ft_generation_flags(ft_generation_words *w, ft_flag *flags) {
    const ft_flag all[FT_GENERATION_FLAGS] = {{"--max-new-tokens", &w->max_new_tokens, NULL},
                                              {"--temperature", &w->temperature, NULL},
                                              {"--top-p", &w->top_p, NULL},
                                              {"--top-k", &w->top_k, NULL},
                                              {"--seed", &w->seed, NULL},
                                              {"--sample", NULL, &w->samples}};
    memcpy(flags, all, sizeof all);
    return FT_GENERATION_FLAGS;
}

bool ft_generation_is_given(const ft_generation_words *w) {
    return w->max_new_tokens != NULL || w->temperature != NULL || w->top_p != NULL || w->top_k != NULL ||
           w->seed != NULL || w->samples;
}

// ---- tokens that end a text ---------------------------------------------------------------------------------------

enum { MOST_ENDS = 64 };

static ft_status add_end(const char *path, const json_t *value, int64_t vocabulary, int32_t *ends, int *count) {
    const json_int_t id = json_integer_value(value);
    if (!json_is_integer(value) || id < 0 || id >= vocabulary)
        return ft_fail(FT_INVALID, path, "\"eos_token_id\" must be ids of the vocabulary's %lld",
                       (long long)vocabulary);
    if (*count == MOST_ENDS) return ft_fail(FT_INVALID, path, "\"eos_token_id\" has more than %d ids", MOST_ENDS);
    ends[(*count)++] = (int32_t)id;
    return FT_OK;
}

// *count grows by what the object says, if it says anything.
static ft_status add_ends(const char *path, const json_t *object, int64_t vocabulary, int32_t *ends, int *count) {
    const json_t *value = json_object_get(object, "eos_token_id"), *member;
    size_t i;
    if (value == NULL || json_is_null(value)) return FT_OK;
    if (!json_is_array(value)) return add_end(path, value, vocabulary, ends, count);
    json_array_foreach(value, i, member) FT_TRY(add_end(path, member, vocabulary, ends, count));
    return FT_OK;
}

// ---- how tokens are drawn -----------------------------------------------------------------------------------------

// As transformers takes them where its file does not say; others' values are 0 and 1 there.
enum { USUAL_TOP_K = 50 };

typedef struct settings {
    double temperature, top_p, top_k; // NAN: nobody said
    int32_t *ends;
    int end_count;
    bool penalises; // something else decides about tokens in transformers
} settings;

// The member's number, unless an earlier file said one.
static ft_status take_number(const char *path, const json_t *root, const char *key, double low, double high,
                             const char *range, double *out) {
    const json_t *value = json_object_get(root, key);
    if (!isnan(*out) || value == NULL || json_is_null(value)) return FT_OK;
    const double number = json_is_number(value) ? json_number_value(value) : (double)NAN;
    if (!(number >= low && number <= high)) return ft_fail(FT_INVALID, path, "\"%s\" must be a number %s", key, range);
    *out = number;
    return FT_OK;
}

// Keys that change what transformers writes, and nothing here.
static bool has_others(const json_t *root, const char **which) {
    static const struct {
        const char *key;
        double nothing; // its value that does nothing
    } others[] = {{"repetition_penalty", 1},
                  {"min_p", 0},
                  {"typical_p", 1},
                  {"top_h", 0},
                  {"epsilon_cutoff", 0},
                  {"eta_cutoff", 0},
                  {"no_repeat_ngram_size", 0},
                  {"num_beams", 1},
                  {"penalty_alpha", 0},
                  {"min_new_tokens", 0},
                  {"min_length", 0},
                  {"guidance_scale", 1}};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        const json_t *value = json_object_get(root, *which = others[i].key);
        if (json_is_number(value) && json_number_value(value) != others[i].nothing) return true;
    }
    return false;
}

static ft_status take_file(const char *path, const json_t *root, int64_t vocabulary, settings *s) {
    const char *other;
    double top_k = NAN;
    if (s->end_count == 0) FT_TRY(add_ends(path, root, vocabulary, s->ends, &s->end_count));
    FT_TRY(take_number(path, root, "temperature", 0, 1e6, "from 0", &s->temperature));
    FT_TRY(take_number(path, root, "top_p", 1e-9, 1, "above 0, at most 1", &s->top_p));
    FT_TRY(take_number(path, root, "top_k", 0, 1e9, "from 0", &top_k));
    if (!isnan(top_k) && top_k != floor(top_k)) return ft_fail(FT_INVALID, path, "\"top_k\" must be a whole number");
    if (isnan(s->top_k)) s->top_k = top_k;
    if (!s->penalises && has_others(root, &other)) {
        s->penalises = true;
        ft_warn("%s: \"%s\" changes what transformers writes, and is not applied here", path, other);
    }
    return FT_OK;
}

static ft_status read_file(const ft_classifier *c, const char *directory, ft_arena *arena, settings *s) {
    char *path = ft_path_join(arena, directory, "generation_config.json");
    if (path == NULL) return FT_NO_MEMORY;
    if (!ft_path_exists(path)) return FT_OK;
    json_t *root;
    FT_TRY(ft_json_load(path, &root));
    const ft_status status = take_file(path, root, c->config.vocab_size, s);
    json_decref(root);
    return status;
}

static void choose(const settings *s, ft_sampling *out) {
    if (out->temperature < 0) out->temperature = isnan(s->temperature) ? 1 : s->temperature;
    if (out->top_p < 0) out->top_p = isnan(s->top_p) ? 1 : s->top_p;
    if (out->top_k < 0) out->top_k = isnan(s->top_k) ? USUAL_TOP_K : (int64_t)s->top_k;
    if (out->temperature > 0)
        ft_detail("drawn      at temperature %g, top-p %g, top-k %lld, seed %llu", out->temperature, out->top_p,
                  (long long)out->top_k, (unsigned long long)out->seed);
}

ft_status ft_completion_settings(const ft_classifier *c, const ft_prompts *prompts, ft_arena *arena,
                                 ft_generator_options *o) {
    settings s = {.temperature = (double)NAN, .top_p = (double)NAN, .top_k = (double)NAN};
    s.ends = ft_arena_alloc(arena, (MOST_ENDS + 2) * sizeof *s.ends);
    if (s.ends == NULL) return FT_NO_MEMORY;
    FT_TRY(read_file(c, c->path, arena, &s));
    if (c->weights != c->path) FT_TRY(read_file(c, c->weights, arena, &s));
    if (s.end_count == 0) FT_TRY(add_ends("config.json", c->config.json, c->config.vocab_size, s.ends, &s.end_count));
    const int32_t eos = ft_tokenizer_role_id(ft_language_tokenizer(&c->input), "eos_token");
    if (eos >= 0) s.ends[s.end_count++] = eos;
    if (prompts->turn_end >= 0) s.ends[s.end_count++] = prompts->turn_end;
    o->ends = s.ends;
    o->end_count = s.end_count;
    choose(&s, &o->sampling);
    return FT_OK;
}
