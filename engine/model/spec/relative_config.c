// relative_config.c - the keys of config.json that describe DeBERTa's relative positions, talking heads, its convolution and its head.
#include "base/json/json.h"
#include "engine/model/spec/model_config.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>
#include <strings.h>

// Whether `word` is in "a|b|c", in any case.
static bool has_word(const char *list, const char *word) {
    size_t length = strlen(word);
    for (const char *at = list; at != NULL; at = strchr(at, '|')) {
        if (*at == '|') at++;
        size_t here = strcspn(at, "|");
        if (here == length && strncasecmp(at, word, length) == 0) return true;
    }
    return false;
}

static ft_status add_term(ft_relative_config *r, const char *word, const char *path) {
    if (strcmp(word, "c2p") == 0) r->c2p = true;
    else if (strcmp(word, "p2c") == 0) r->p2c = true;
    else return ft_fail(FT_INVALID, path, "\"pos_att_type\" may hold \"c2p\" and \"p2c\", not \"%.40s\"", word);
    return FT_OK;
}

// One string of words: any case, '|' between, white space around.
static ft_status read_text(ft_relative_config *r, const char *text, int *words, const char *path) {
    for (const char *at = text, *end; at != NULL; at = *end == '|' ? end + 1 : NULL) {
        char word[48];
        size_t length = 0;
        at += strspn(at, " \t");
        end = at + strcspn(at, "|");
        for (const char *c = at; c < end && length + 1 < sizeof word; c++) word[length++] = (char)tolower((unsigned char)*c);
        while (length > 0 && strchr(" \t", word[length - 1]) != NULL) length--;
        word[length] = '\0';
        FT_TRY(add_term(r, word, path));
        ++*words;
    }
    return FT_OK;
}

// A list of words, or one string of them; null is none. The words of a list count as they are written.
static ft_status read_terms(ft_relative_config *r, const json_t *json, int *words, const char *path) {
    const json_t *value = json_object_get(json, "pos_att_type");
    *words = 0;
    if (value == NULL || json_is_null(value)) return FT_OK;
    if (json_is_array(value)) {
        for (; (size_t)*words < json_array_size(value); ++*words) {
            const char *word = json_string_value(json_array_get(value, (size_t)*words));
            if (word == NULL) return ft_fail(FT_INVALID, path, "\"pos_att_type\" must be a list of strings");
            FT_TRY(add_term(r, word, path));
        }
        return FT_OK;
    }
    const char *text = json_string_value(value);
    if (text == NULL) return ft_fail(FT_INVALID, path, "\"pos_att_type\" must be a string or a list of strings");
    return read_text(r, text, words, path);
}

static ft_status refuse_pooler_width(const ft_model_config *c, const char *path) {
    int64_t pooler;
    FT_TRY(ft_json_int(c->json, path, "pooler_hidden_size", c->hidden_size, 1, INT_MAX, &pooler));
    if (pooler == c->hidden_size) return FT_OK;
    return ft_fail(FT_INVALID, path, "\"pooler_hidden_size\" must be \"hidden_size\" %lld, not %lld", (long long)c->hidden_size,
                   (long long)pooler);
}

static ft_status refuse_head_width(const ft_model_config *c, const char *path) {
    int64_t width = c->head_width, asked;
    FT_TRY(ft_json_int(c->json, path, "attention_head_size", width, 1, INT_MAX, &asked));
    if (asked == width) return FT_OK;
    return ft_fail(FT_INVALID, path, "\"attention_head_size\" must be \"hidden_size\" / \"num_attention_heads\" = %lld, not %lld",
                   (long long)width, (long long)asked);
}

// The layer of the v2-x models behind encoder layer 0.
static ft_status read_convolution(ft_model_config *c, const char *path) {
    enum { MOST_TAPS = 127 };
    int64_t taps, groups;
    const char *activation;
    FT_TRY(ft_json_int(c->json, path, "conv_kernel_size", 0, INT_MIN, MOST_TAPS, &taps));
    if (taps <= 0) return FT_OK;
    if (taps % 2 == 0)
        return ft_fail(FT_INVALID, path, "\"conv_kernel_size\" must be odd, so that every token stays in its place, not %lld",
                       (long long)taps);
    FT_TRY(ft_json_int(c->json, path, "conv_groups", 1, 1, c->hidden_size, &groups));
    if (c->hidden_size % groups != 0)
        return ft_fail(FT_INVALID, path, "\"hidden_size\" %lld is not a multiple of \"conv_groups\" %lld",
                       (long long)c->hidden_size, (long long)groups);
    c->convolution = (ft_convolution_config){.taps = (int)taps, .groups = (int)groups};
    FT_TRY(ft_json_string(c->json, path, "conv_act", "tanh", &activation));
    ft_status status = ft_activation_from_name(activation, &c->convolution.activation);
    if (status != FT_OK) ft_error_where_default("%s: \"conv_act\"", path);
    return status;
}

static ft_status read_rule(ft_relative_config *r, const ft_model_config *c, const char *path) {
    int64_t buckets = -1, furthest;
    if (c->family->relative == FT_RELATIVE_BUCKETS)
        FT_TRY(ft_json_int(c->json, path, "position_buckets", -1, INT_MIN, 1 << 14, &buckets));
    FT_TRY(ft_json_int(c->json, path, "max_relative_positions", -1, INT_MIN, 1 << 14, &furthest));
    if (furthest < 1) furthest = c->position_rows;
    r->rule = (ft_relative_rule){.buckets = buckets > 0 ? (int32_t)buckets : 0, .furthest = (int32_t)furthest};
    if (ft_relative_rule_check(r->rule) == FT_OK) return FT_OK;
    return ft_fail(FT_INVALID, path, "\"%s\": %s", ft_error_where(), ft_error_message()); // it knows keys, not files
}

// What v2 added; v1 ignores these keys.
static ft_status read_variants(ft_relative_config *r, ft_model_config *c, const char *path) {
    const char *norm;
    FT_TRY(refuse_head_width(c, path));
    FT_TRY(ft_json_bool(c->json, path, "share_att_key", false, &r->shared));
    FT_TRY(ft_json_string(c->json, path, "norm_rel_ebd", "none", &norm));
    r->norm = (c->positions & FT_POSITIONS_RELATIVE) != 0 && has_word(norm, "layer_norm");
    return read_convolution(c, path);
}

ft_status ft_relative_config_read(ft_model_config *c, const char *path) {
    ft_relative_config *r = &c->relative;
    bool first = c->family->relative == FT_RELATIVE_DISTANCES, table, absolute;
    const char *activation;
    int words;
    FT_TRY(refuse_pooler_width(c, path));
    if (c->family->names.mix_scores != NULL) FT_TRY(ft_json_bool(c->json, path, "talking_head", false, &r->talking_heads));
    FT_TRY(read_terms(r, c->json, &words, path));
    // Both count what is listed, used or not; v1 counts words, v2 terms.
    r->factor = 1 + (first ? words : (r->c2p ? 1 : 0) + (r->p2c ? 1 : 0));
    FT_TRY(ft_json_bool(c->json, path, "relative_attention", false, &table));
    if (table) c->positions |= FT_POSITIONS_RELATIVE;
    if (!table) r->c2p = r->p2c = false;
    else FT_TRY(read_rule(r, c, path));
    if (!first) FT_TRY(read_variants(r, c, path));
    FT_TRY(ft_json_bool(c->json, path, "position_biased_input", true, &absolute));
    if (!absolute) { // then nothing but the engine bounds the length of a text
        c->positions &= ~(unsigned)FT_POSITIONS_TABLE;
        c->max_position_embeddings = FT_MOST_POSITIONS;
    }
    FT_TRY(ft_json_number(c->json, path, "pooler_dropout", 0, &r->pooler_dropout));
    if (!(r->pooler_dropout >= 0 && r->pooler_dropout < 1))
        return ft_fail(FT_INVALID, path, "\"pooler_dropout\" must be at least 0 and below 1, not %g", r->pooler_dropout);
    FT_TRY(ft_json_string(c->json, path, "pooler_hidden_act", "gelu", &activation));
    ft_status status = ft_activation_from_name(activation, &r->pooler_activation);
    if (status != FT_OK) ft_error_where_default("%s: \"pooler_hidden_act\"", path);
    return status;
}
