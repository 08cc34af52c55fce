// Any bytes as JSON and as a config.json. Jansson must agree about what is JSON and what it says; that must come back
// the same from the text we write of it; what is accepted as a configuration must have sizes that hang together.
#include "base/json/json.h"
#include "engine/model/spec/model_config.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static void check(bool holds) {
    if (!holds) abort();
}

static void write_and_read(const json_t *root) {
    char *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    check(stream != NULL);
    ft_json_write(stream, root);
    check(ferror(stream) == 0 && fclose(stream) == 0);
    json_t *again;
    check(ft_json_parse(text, length, "again", &again) == FT_OK);
    check(json_equal((json_t *)root, again));
    json_decref(again);
    free(text);
    text = ft_json_line(root);
    check(text != NULL && strchr(text, '\n') == NULL && ft_json_parse(text, strlen(text), "line", &again) == FT_OK);
    check(json_equal((json_t *)root, again));
    json_decref(again);
    free(text);
}

// The differences that are meant: longer integers and a byte order mark are accepted, deep nesting is not, and a NUL,
// which Jansson overlooks behind a number, is not either.
static void compare_with_jansson(const uint8_t *input, size_t size, const json_t *ours) {
    json_error_t error = {0};
    json_t *theirs = json_loadb((const char *)input, size, JSON_REJECT_DUPLICATES, &error);
    if (theirs != NULL && ours != NULL) check(json_equal((json_t *)ours, theirs));
    if (theirs != NULL && ours == NULL)
        check(strstr(ft_error_message(), "nested too deeply") != NULL || memchr(input, '\0', size) != NULL);
    if (theirs == NULL && ours != NULL)
        check(json_error_code(&error) == json_error_numeric_overflow || input[0] == 0xEF);
    json_decref(theirs);
}

static void check_config(const ft_model_config *c) {
    check(ft_family_find(c->model_type) == c->family);
    check(c->vocab_size >= 1 && c->hidden_size >= 1 && c->num_hidden_layers >= 1 && c->num_attention_heads >= 1);
    check(c->hidden_size % c->num_attention_heads == 0 && c->intermediate_size >= 1 && c->type_vocab_size >= 0);
    check(c->max_position_embeddings >= 1 && c->pad_token_id >= -1 && c->pad_token_id < c->vocab_size);
    check(c->hidden_act >= 0 && c->hidden_act < FT_ACT_COUNT && c->layer_norm_eps > 0);
    check(c->hidden_dropout_prob >= 0 && c->hidden_dropout_prob < 1 && c->classifier_dropout >= 0 &&
          c->classifier_dropout < 1);
    check(c->num_labels >= 1);
    for (int64_t i = 0; i < c->num_labels; i++)
        check(c->label_names[i] != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    json_t *root;
    ft_status status = ft_json_parse((const char *)input, size, "fuzz", &root);
    check(status == FT_OK || (status == FT_INVALID && root == NULL && strncmp(ft_error_where(), "fuzz:", 5) == 0));
    compare_with_jansson(input, size, root);
    if (root != NULL) write_and_read(root);
    json_decref(root);

    ft_model_config config;
    status = ft_model_config_parse((const char *)input, size, "fuzz", &config);
    if (status == FT_OK)
        check_config(&config);
    else
        check(status == FT_INVALID && config.json == NULL && config.label_names == NULL &&
              ft_error_message()[0] != '\0');
    ft_model_config_free(&config);
    return 0;
}
