// relative_config.c - the keys of config.json that describe DeBERTa's relative positions and its head.
#include "engine/io/json.h"
#include "engine/model/model_config.h"

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
    if (strcasecmp(word, "c2p") == 0) r->c2p = true;
    else if (strcasecmp(word, "p2c") == 0) r->p2c = true;
    else return ft_fail(FT_INVALID, path, "\"pos_att_type\" may hold \"c2p\" and \"p2c\", not \"%.40s\"", word);
    return FT_OK;
}

// A list of words, or one string of them with '|' between; null or "" is none.
static ft_status read_terms(ft_relative_config *r, const json_t *json, const char *path) {
    const json_t *value = json_object_get(json, "pos_att_type");
    if (value == NULL || json_is_null(value)) return FT_OK;
    if (json_is_array(value)) {
        for (size_t i = 0; i < json_array_size(value); i++) {
            const char *word = json_string_value(json_array_get(value, i));
            if (word == NULL) return ft_fail(FT_INVALID, path, "\"pos_att_type\" must be a list of strings");
            FT_TRY(add_term(r, word, path));
        }
        return FT_OK;
    }
    const char *text = json_string_value(value);
    if (text == NULL) return ft_fail(FT_INVALID, path, "\"pos_att_type\" must be a string or a list of strings");
    while (*text != '\0') {
        char word[48];
        size_t length = strcspn(text, "|"), kept = length < sizeof word ? length : sizeof word - 1;
        memcpy(word, text, kept);
        word[kept] = '\0';
        FT_TRY(add_term(r, word, path));
        text += length + (text[length] == '|');
    }
    return FT_OK;
}

// What changes shapes or mathematics and is not computed here.
static ft_status refuse_others(const ft_model_config *c, const char *path) {
    int64_t kernel, head, pooler, head_size = c->hidden_size / c->num_attention_heads;
    FT_TRY(ft_json_int(c->json, path, "conv_kernel_size", 0, 0, INT_MAX, &kernel));
    if (kernel > 0) return ft_fail(FT_INVALID, path, "\"conv_kernel_size\" must be 0: the convolution of deberta-v2-xlarge is not supported");
    FT_TRY(ft_json_int(c->json, path, "attention_head_size", head_size, 1, INT_MAX, &head));
    if (head != head_size)
        return ft_fail(FT_INVALID, path, "\"attention_head_size\" must be \"hidden_size\" / \"num_attention_heads\" = %lld, not %lld",
                       (long long)head_size, (long long)head);
    FT_TRY(ft_json_int(c->json, path, "pooler_hidden_size", c->hidden_size, 1, INT_MAX, &pooler));
    if (pooler != c->hidden_size)
        return ft_fail(FT_INVALID, path, "\"pooler_hidden_size\" must be \"hidden_size\" %lld, not %lld", (long long)c->hidden_size,
                       (long long)pooler);
    return FT_OK;
}

static ft_status read_rule(ft_relative_config *r, const ft_model_config *c, const char *path) {
    int64_t buckets, furthest;
    FT_TRY(ft_json_int(c->json, path, "position_buckets", -1, INT_MIN, 1 << 14, &buckets));
    FT_TRY(ft_json_int(c->json, path, "max_relative_positions", -1, INT_MIN, 1 << 14, &furthest));
    if (furthest < 1) furthest = c->position_rows;
    r->rule = (ft_relative_rule){.buckets = buckets > 0 ? (int32_t)buckets : 0, .furthest = (int32_t)furthest};
    ft_status status = ft_relative_rule_check(r->rule);
    if (status != FT_OK) ft_error_where_default("%s: \"position_buckets\", \"max_relative_positions\"", path);
    return status;
}

ft_status ft_relative_config_read(ft_model_config *c, const char *path) {
    ft_relative_config *r = &c->relative;
    bool on;
    const char *norm, *activation;
    FT_TRY(refuse_others(c, path));
    FT_TRY(read_terms(r, c->json, path));
    r->factor = 1 + (r->c2p ? 1 : 0) + (r->p2c ? 1 : 0); // counts what is listed, used or not
    FT_TRY(ft_json_bool(c->json, path, "relative_attention", false, &on));
    if (!on) r->c2p = r->p2c = false;
    if (on) FT_TRY(read_rule(r, c, path));
    r->table = on;
    FT_TRY(ft_json_bool(c->json, path, "share_att_key", false, &r->shared));
    FT_TRY(ft_json_string(c->json, path, "norm_rel_ebd", "none", &norm));
    r->norm = on && has_word(norm, "layer_norm");
    FT_TRY(ft_json_bool(c->json, path, "position_biased_input", true, &r->absolute));
    FT_TRY(ft_json_number(c->json, path, "pooler_dropout", 0, &r->pooler_dropout));
    if (!(r->pooler_dropout >= 0 && r->pooler_dropout < 1))
        return ft_fail(FT_INVALID, path, "\"pooler_dropout\" must be at least 0 and below 1, not %g", r->pooler_dropout);
    FT_TRY(ft_json_string(c->json, path, "pooler_hidden_act", "gelu", &activation));
    ft_status status = ft_activation_from_name(activation, &r->pooler_activation);
    if (status != FT_OK) ft_error_where_default("%s: \"pooler_hidden_act\"", path);
    return status;
}
