// config.json: what is accepted, what is refused with which words, and what is written back.
#include "base/files.h"
#include "base/json/json.h"
#include "engine/model/spec/model_config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OK(expression)                                                                                                 \
    do {                                                                                                               \
        if ((expression) != FT_OK) fail_msg("%s: %s (%s)", #expression, ft_error_message(), ft_error_where());         \
    } while (0)

// {"model_type": "bert", <keys>}
static ft_status parse(const char *keys, ft_model_config *config) {
    char text[1024];
    int n = snprintf(text, sizeof text, "{\"model_type\": \"bert\"%s%s}", keys[0] ? ", " : "", keys);
    assert_in_range(n, 1, sizeof text - 1);
    return ft_model_config_parse(text, (size_t)n, "config.json", config);
}

static ft_model_config accepted(const char *keys) {
    ft_model_config c;
    OK(parse(keys, &c));
    return c;
}

static void refused(const char *keys, const char *message) {
    ft_model_config c;
    assert_int_equal(parse(keys, &c), FT_INVALID);
    assert_null(c.json);
    assert_string_equal(ft_error_message(), message);
    assert_int_equal(strncmp(ft_error_where(), "config.json", 11), 0);
}

static void test_defaults(void **state) { // those of transformers' BertConfig
    ft_model_config c = accepted("");
    assert_string_equal(c.model_type, "bert");
    assert_int_equal(c.vocab_size, 30522);
    assert_int_equal(c.hidden_size, 768);
    assert_int_equal(c.num_hidden_layers, 12);
    assert_int_equal(c.num_attention_heads, 12);
    assert_int_equal(c.intermediate_size, 3072);
    assert_int_equal(c.max_position_embeddings, 512);
    assert_int_equal(c.type_vocab_size, 2);
    assert_int_equal(c.pad_token_id, 0);
    assert_int_equal(c.hidden_act, FT_ACT_GELU);
    assert_true(c.layer_norm_eps == 1e-12 && c.initializer_range == 0.02);
    assert_true(c.hidden_dropout_prob == 0.1 && c.attention_probs_dropout_prob == 0.1 && c.classifier_dropout == 0.1);
    assert_int_equal(c.num_labels, 2);
    assert_string_equal(c.label_names[1], "LABEL_1");
    assert_false(c.has_label_names);
    ft_model_config_free(&c);
    ft_model_config_free(&c); // {0} is fine
}

static void test_values(void **state) {
    ft_model_config c = accepted(
        "\"vocab_size\": 97, \"hidden_size\": 36, \"num_attention_heads\": 3, \"hidden_act\": \"gelu_pytorch_tanh\","
        "\"pad_token_id\": null, \"hidden_dropout_prob\": 0, \"classifier_dropout\": 0.25, \"layer_norm_eps\": 1e-5,"
        "\"position_embedding_type\": \"absolute\", \"is_decoder\": false, \"unknown\": {\"x\": [1]}");
    assert_int_equal(c.vocab_size, 97);
    assert_int_equal(c.hidden_size, 36);
    assert_int_equal(c.hidden_act, FT_ACT_GELU_TANH);
    assert_int_equal(c.pad_token_id, -1);
    assert_true(c.hidden_dropout_prob == 0 && c.classifier_dropout == 0.25 && c.layer_norm_eps == 1e-5);
    ft_model_config_free(&c);
    c = accepted("\"hidden_dropout_prob\": 0.3, \"classifier_dropout\": null");
    assert_true(c.classifier_dropout == 0.3);
    ft_model_config_free(&c);
}

static void test_family(void **state) {
    static const char *const bad[] = {"{}", "{\"model_type\": null}", "{\"model_type\": \"t5\"}",
                                      "{\"model_type\": \"Bert\"}"};
    char supported[320] = "supported:";
    static const char *const nearest[] = {"", "", "", "the nearest that is: bert; "};
    for (int i = 0; i < ft_family_count(); i++) {
        size_t length = strlen(supported);
        snprintf(supported + length, sizeof supported - length, "%s %s", i > 0 ? "," : "", ft_family_at(i)->model_type);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ft_model_config c;
        assert_int_equal(ft_model_config_parse(bad[i], strlen(bad[i]), "config.json", &c), FT_INVALID);
        assert_int_equal(ft_error_hint_count(), 1);
        char hint[400];
        snprintf(hint, sizeof hint, "%s%s", nearest[i], supported);
        assert_string_equal(ft_error_hint(0), hint);
        if (i >= 2) assert_non_null(strstr(ft_error_message(), "is not supported"));
    }
    ft_model_config c;
    assert_int_equal(ft_model_config_parse("[1]", 3, "config.json", &c), FT_INVALID);
    assert_string_equal(ft_error_message(), "a JSON object is needed here");
    assert_int_equal(ft_model_config_parse("{\"a\":}", 6, "config.json", &c), FT_INVALID);
    assert_string_equal(ft_error_where(), "config.json:1:6");
}

static ft_model_config of_family(const char *text) {
    ft_model_config c;
    OK(ft_model_config_parse(text, strlen(text), "config.json", &c));
    return c;
}

static void refused_family(const char *text, const char *message) {
    ft_model_config c;
    assert_int_equal(ft_model_config_parse(text, strlen(text), "config.json", &c), FT_INVALID);
    assert_string_equal(ft_error_message(), message);
}

static void test_families(void **state) { // defaults, keys and the rules of positions
    ft_model_config c = of_family("{\"model_type\": \"roberta\", \"max_position_embeddings\": 514}");
    assert_int_equal(c.vocab_size, 50265);
    assert_int_equal(c.pad_token_id, 1);
    assert_int_equal(c.position_rows, 514);
    assert_int_equal(c.max_position_embeddings, 512);
    ft_model_config_free(&c);
    c = of_family("{\"model_type\": \"distilbert\", \"dim\": 30, \"n_heads\": 5, \"n_layers\": 3, \"hidden_dim\": 41, "
                  "\"activation\": \"relu\", \"dropout\": 0.2, \"attention_dropout\": 0.3, \"hidden_size\": 99}");
    assert_int_equal(c.hidden_size, 30);
    assert_int_equal(c.num_hidden_layers, 3);
    assert_int_equal(c.intermediate_size, 41);
    assert_int_equal(c.type_vocab_size, 0);
    assert_int_equal(c.hidden_act, FT_ACT_RELU);
    assert_true(c.hidden_dropout_prob == 0.2 && c.attention_probs_dropout_prob == 0.3 && c.classifier_dropout == 0.2);
    assert_true(c.layer_norm_eps == 1e-12);
    ft_model_config_free(&c);
    c = of_family("{\"model_type\": \"electra\"}");
    assert_int_equal(c.hidden_size, 256);
    assert_int_equal(c.embedding_size, 128);
    ft_model_config_free(&c);
#define V2 "{\"model_type\": \"deberta-v2\", \"hidden_size\": 24, \"num_attention_heads\": 4"
    c = of_family(V2 ", \"relative_attention\": true, \"position_buckets\": 8, \"max_relative_positions\": -1, \"pos_att_type\": "
                     "\"P2C|c2p\", \"norm_rel_ebd\": \"layer_norm\", \"position_biased_input\": false}");
    assert_true(c.positions == FT_POSITIONS_RELATIVE && c.relative.c2p && c.relative.p2c && c.relative.norm && !c.relative.shared);
    assert_int_equal(c.relative.factor, 3);
    assert_int_equal(c.relative.rule.furthest, 512);
    assert_int_equal(c.relative.rule.buckets, 8);
    assert_int_equal(c.position_rows, 0);
    assert_int_equal(c.max_position_embeddings, 16384); // nothing but the engine bounds the length
    assert_int_equal(c.type_vocab_size, 0);
    assert_true(c.layer_norm_eps == 1e-7);
    ft_model_config_free(&c);
    c = of_family(V2 ", \"pos_att_type\": [\"c2p\"]}"); // listed and not used: it counts all the same
    assert_true(c.positions == FT_POSITIONS_TABLE && !c.relative.c2p);
    assert_int_equal(c.relative.factor, 2);
    assert_int_equal(c.max_position_embeddings, 512);
    ft_model_config_free(&c);
    c = of_family(V2 ", \"relative_attention\": true, \"pos_att_type\": \" C2P | p2c\"}");
    assert_true(c.relative.c2p && c.relative.p2c);
    ft_model_config_free(&c);
#define V1 "{\"model_type\": \"deberta\", \"hidden_size\": 24, \"num_attention_heads\": 4"
    // v1 has neither buckets nor shared projections nor a norm of the table, whatever the file says.
    c = of_family(V2 ", \"relative_attention\": true, \"position_buckets\": 16, \"max_relative_positions\": 5}"); // more than it needs
    assert_int_equal(c.relative.rule.buckets, 16);
    ft_model_config_free(&c);
    c = of_family("{\"model_type\": \"distilbert\", \"sinusoidal_pos_embds\": true}");
    assert_true(c.sinusoidal && c.position_rows == 512);
    ft_model_config_free(&c);
    c = of_family(V1 ", \"relative_attention\": true, \"position_buckets\": 8, \"share_att_key\": true, \"norm_rel_ebd\": \"layer_norm\", "
                     "\"attention_head_size\": 99, \"pos_att_type\": [\"p2c\"]}");
    assert_int_equal(c.positions, FT_POSITIONS_TABLE | FT_POSITIONS_RELATIVE);
    assert_true(!c.relative.c2p && c.relative.p2c && !c.relative.norm && !c.relative.shared);
    assert_int_equal(c.relative.rule.buckets, 0);
    assert_int_equal(c.relative.rule.furthest, 512);
    assert_int_equal(c.relative.factor, 2);
    assert_int_equal(c.vocab_size, 50265);
    assert_true(c.layer_norm_eps == 1e-7);
    ft_model_config_free(&c);
    c = of_family(V1 ", \"relative_attention\": true, \"pos_att_type\": [\"c2p\", \"c2p\"]}"); // it counts words
    assert_int_equal(c.relative.factor, 3);
    assert_false(c.relative.talking_heads);
    ft_model_config_free(&c);
    c = of_family(V1 ", \"talking_head\": true}");
    assert_true(c.relative.talking_heads);
    ft_model_config_free(&c);
    c = of_family(V2 ", \"talking_head\": true}"); // it has no such key
    assert_false(c.relative.talking_heads);
    ft_model_config_free(&c);
    refused_family(V1 ", \"pooler_hidden_size\": 8}", "\"pooler_hidden_size\" must be \"hidden_size\" 24, not 8");
    refused_family(V1 ", \"pos_att_type\": \"\"}", "\"pos_att_type\" may hold \"c2p\" and \"p2c\", not \"\"");
    refused_family(V1 ", \"position_embedding_type\": \"relative_key\"}",
                   "\"position_embedding_type\" must be \"absolute\", \"relative_key\" is not supported");
    refused_family(V2 ", \"pos_att_type\": [\"C2P\"]}", "\"pos_att_type\" may hold \"c2p\" and \"p2c\", not \"C2P\"");
    refused_family(V2 ", \"pos_att_type\": [1]}", "\"pos_att_type\" must be a list of strings");
    refused_family(V2 ", \"pos_att_type\": 3}", "\"pos_att_type\" must be a string or a list of strings");
    c = of_family(V2 ", \"conv_kernel_size\": 5, \"conv_groups\": 3}");
    assert_int_equal(c.convolution.taps, 5);
    assert_int_equal(c.convolution.groups, 3);
    assert_int_equal(c.convolution.activation, FT_ACT_TANH);
    ft_model_config_free(&c);
    refused_family(V2 ", \"conv_kernel_size\": 4}",
                   "\"conv_kernel_size\" must be odd, so that every token stays in its place, not 4");
    refused_family(V2 ", \"conv_kernel_size\": 3, \"conv_groups\": 5}", "\"hidden_size\" 24 is not a multiple of \"conv_groups\" 5");
    refused_family(V2 ", \"conv_kernel_size\": 3, \"conv_act\": \"relv\"}",
                   "unknown activation 'relv', the nearest known one is 'relu'");
    refused_family(V2 ", \"relative_attention\": true, \"position_buckets\": 1}",
                   "\"position_buckets\": 1 bucket cannot hold a distance: at least 2, or none (-1)");
    refused_family(V2 ", \"relative_attention\": true, \"position_buckets\": 16, \"max_relative_positions\": 9}",
                   "\"position_buckets\": 16 buckets give a distance each up to 8: with max_relative_positions 9 further ones have none; it must be another number");
    assert_string_equal(ft_error_where(), "config.json");
    refused_family(V2 ", \"attention_head_size\": 8}",
                   "\"attention_head_size\" must be \"hidden_size\" / \"num_attention_heads\" = 6, not 8");
    refused_family(V2 ", \"pooler_hidden_size\": 8}", "\"pooler_hidden_size\" must be \"hidden_size\" 24, not 8");
    refused_family(V2 ", \"pos_att_type\": \"c2p|p2p\"}", "\"pos_att_type\" may hold \"c2p\" and \"p2c\", not \"p2p\"");
    refused_family("{\"model_type\": \"modernbert\", \"vocab_size\": 30}",
                   "\"pad_token_id\" is missing, and that of modernbert, 50283, is beyond the 30 tokens of \"vocab_size\"");
    refused_family("{\"model_type\": \"roberta\", \"pad_token_id\": null}",
                   "\"pad_token_id\" must not be null: positions are counted from it");
    refused_family("{\"model_type\": \"roberta\", \"max_position_embeddings\": 2}",
                   "\"max_position_embeddings\" 2 leaves no position behind \"pad_token_id\" 1");
    refused_family("{\"model_type\": \"distilbert\", \"dim\": 36, \"n_heads\": 5}", "\"dim\" 36 is not a multiple of \"n_heads\" 5");
}

// ModernBERT's layers, in the words of published files and of transformers 5, its biases, and what of its kind is refused.
static void test_rotary_families(void **state) {
#define MODERN "{\"model_type\": \"modernbert\", \"hidden_size\": 24, \"num_attention_heads\": 2, \"num_hidden_layers\": 4"
    ft_model_config c = of_family("{\"model_type\": \"modernbert\"}");
    assert_int_equal(c.vocab_size, 50368);
    assert_int_equal(c.pad_token_id, 50283);
    assert_int_equal(c.num_hidden_layers, 22);
    assert_int_equal(c.max_position_embeddings, 8192);
    assert_int_equal(c.position_rows, 0);
    assert_true(c.positions == FT_POSITIONS_ROTARY && c.unbiased_norms && !c.mean_pooling && c.layer_norm_eps == 1e-5);
    assert_true(c.hidden_dropout_prob == 0 && c.attention_probs_dropout_prob == 0 && c.classifier_dropout == 0 && c.embedding_dropout == 0);
    for (int l = 0; l < 22; l++) {
        assert_int_equal(c.sights[l].window, l % 3 == 0 ? 0 : 64);
        assert_true(c.sights[l].theta == (l % 3 == 0 ? 160000 : 10000));
    }
    ft_model_config_free(&c);
    c = of_family(MODERN ", \"global_attn_every_n_layers\": 2, \"local_attention\": 9, \"global_rope_theta\": 500, \"local_rope_theta\": 70,"
                         " \"layer_norm_eps\": 1, \"position_embedding_type\": \"sans_pos\", \"classifier_pooling\": \"mean\","
                         " \"norm_bias\": true, \"attention_bias\": true, \"embedding_dropout\": 0.1, \"rope_scaling\": null}");
    assert_true(c.sights[0].window == 0 && c.sights[1].window == 4 && c.sights[2].window == 0 && c.sights[3].window == 4);
    assert_true(c.sights[0].theta == 500 && c.sights[1].theta == 70 && c.mean_pooling && !c.unbiased_norms && c.embedding_dropout == 0.1);
    assert_int_equal(c.unbiased, FT_LINEAR_UP | FT_LINEAR_DOWN | FT_LINEAR_POOLER);
    assert_true(c.layer_norm_eps == 1e-5);
    ft_model_config_free(&c);
    // The new words count more than the old.
    c = of_family(MODERN ", \"global_attn_every_n_layers\": 2, \"global_rope_theta\": 500, \"layer_types\": [\"sliding_attention\", "
                         "\"full_attention\", \"full_attention\", \"sliding_attention\"], \"rope_parameters\": {\"full_attention\": "
                         "{\"rope_type\": \"default\", \"rope_theta\": 900}}}");
    assert_true(c.sights[0].window == 64 && c.sights[1].window == 0 && c.sights[2].window == 0 && c.sights[3].window == 64);
    assert_true(c.sights[1].theta == 900 && c.sights[0].theta == 10000);
    ft_model_config_free(&c);
    refused_family(MODERN ", \"rope_parameters\": {\"full_attention\": {\"rope_type\": \"yarn\"}}}", "\"rope_type\" \"yarn\" is not supported");
    refused_family(MODERN ", \"rope_scaling\": {\"type\": \"yarn\"}}", "\"rope_scaling\" must be null: scaled rotary positions are not supported");
    refused_family(MODERN ", \"layer_types\": [\"full_attention\"]}",
                   "\"layer_types\" must be \"full_attention\" or \"sliding_attention\" for each of 4 layers: layer 1 is missing");
    refused_family(MODERN ", \"layer_types\": [\"linear_attention\"]}",
                   "\"layer_types\" must be \"full_attention\" or \"sliding_attention\" for each of 4 layers: layer 0 is linear_attention");
    refused_family(MODERN ", \"local_rope_theta\": 1}", "\"local_rope_theta\" must be above 1 and below 1e12, not 1");
    refused_family(MODERN ", \"classifier_pooling\": \"max\"}", "\"classifier_pooling\" must be \"cls\" or \"mean\", not \"max\"");
    refused_family(MODERN ", \"classifier_activation\": \"relv\"}", "unknown activation 'relv', the nearest known one is 'relu'");
    refused_family(MODERN ", \"embedding_dropout\": 1}", "\"embedding_dropout\" must be at least 0 and below 1, not 1");
    refused_family("{\"model_type\": \"modernbert\", \"hidden_size\": 9, \"num_attention_heads\": 3}",
                   "heads of \"hidden_size\" / \"num_attention_heads\" = 3 columns have no pairs to turn: an even number is needed");
}

// What is met and not supported is refused by its name, with the family that is nearest: of another name, or misspelt.
static void test_nearest(void **state) {
    static const struct {
        const char *type, *nearest;
    } cases[] = {{"neobert", "modernbert"}, {"new", "gte"},      {"longformer", "modernbert"}, {"luke", "roberta"}, {"xmod", "xlm-roberta"},
                 {"robreta", "roberta"},    {"debertav2", "deberta-v2"}, {"xlm_roberta", "xlm-roberta"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[96], message[96], hint[96];
        ft_model_config c;
        snprintf(text, sizeof text, "{\"model_type\": \"%s\"}", cases[i].type);
        snprintf(message, sizeof message, "\"model_type\" \"%s\" is not supported", cases[i].type);
        snprintf(hint, sizeof hint, "the nearest that is: %s; ", cases[i].nearest);
        assert_int_equal(ft_model_config_parse(text, strlen(text), "config.json", &c), FT_INVALID);
        assert_string_equal(ft_error_message(), message);
        assert_memory_equal(ft_error_hint(0), hint, strlen(hint));
        assert_non_null(ft_family_find(cases[i].nearest));
        assert_null(ft_family_find(cases[i].type));
    }
    for (int i = 0; i < ft_family_count(); i++) // none of the families is one of those
        assert_string_equal(ft_family_nearest(ft_family_at(i)->model_type), ft_family_at(i)->model_type);
    assert_null(ft_family_nearest("gpt2"));
}

// Which layers of ALBERT have whose weights: as transformers divides layers by groups, which need not come out even.
static void test_shared_layers(void **state) {
#define ALBERT "{\"model_type\": \"albert\", \"hidden_size\": 24, \"num_attention_heads\": 2, \"intermediate_size\": 9"
    static const struct {
        const char *keys;
        int64_t layers, weights[12];
    } cases[] = {
        {"\"num_hidden_layers\": 4", 4, {0, 0, 0, 0}},
        {"\"num_hidden_layers\": 4, \"num_hidden_groups\": 2", 4, {0, 0, 1, 1}},
        {"\"num_hidden_layers\": 3, \"num_hidden_groups\": 2", 3, {0, 0, 1}},
        {"\"num_hidden_layers\": 5, \"num_hidden_groups\": 3", 5, {0, 0, 1, 1, 2}},
        {"\"num_hidden_layers\": 3, \"num_hidden_groups\": 3", 3, {0, 1, 2}},
        {"\"num_hidden_layers\": 3, \"num_hidden_groups\": 2, \"inner_group_num\": 2", 6, {0, 1, 0, 1, 2, 3}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[256];
        snprintf(text, sizeof text, ALBERT ", %s}", cases[i].keys);
        ft_model_config c = of_family(text);
        assert_int_equal(c.num_hidden_layers, cases[i].layers);
        for (int64_t l = 0; l < c.num_hidden_layers; l++) assert_int_equal(ft_model_config_weights(&c, l), cases[i].weights[l]);
        assert_int_equal(c.embedding_size, 128);
        assert_int_equal(c.hidden_act, FT_ACT_GELU_TANH);
        assert_true(c.hidden_dropout_prob == 0 && c.attention_probs_dropout_prob == 0 && c.classifier_dropout == 0.1);
        ft_model_config_free(&c);
    }
    refused_family(ALBERT ", \"num_hidden_layers\": 2, \"num_hidden_groups\": 3}", "\"num_hidden_groups\" must be an integer of at most 2, not 3");
    refused_family(ALBERT ", \"inner_group_num\": 0}", "\"inner_group_num\" must be an integer from 1 to 341, not 0");
    refused_family("{\"model_type\": \"ernie\", \"use_task_id\": true}", "\"use_task_id\" must be false: what it asks for is not supported");
    ft_model_config c = of_family("{\"model_type\": \"bert\", \"num_hidden_groups\": 3}"); // of others it means nothing
    assert_int_equal(ft_model_config_weights(&c, 7), 7);
    ft_model_config_free(&c);
}

// One base for all layers (nomic_bert, gte), in the words of transformers, of files from before it had these models, and of nomic-ai's own code.
static void test_one_base(void **state) {
#define NOMIC "{\"model_type\": \"nomic_bert\""
    static const struct {
        const char *text;
        double theta;
    } cases[] = {
        {NOMIC "}", 1000},
        {NOMIC ", \"rope_theta\": 77}", 77},
        {NOMIC ", \"rotary_emb_base\": 99}", 99},
        {NOMIC ", \"rotary_emb_base\": 99, \"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 55}}", 55},
        {"{\"model_type\": \"gte\", \"position_embedding_type\": \"rope\"}", 160000},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ft_model_config c = of_family(cases[i].text);
        assert_int_equal(c.num_hidden_layers, 12);
        for (int l = 0; l < 12; l++) assert_true(c.sights[l].theta == cases[i].theta && c.sights[l].window == 0);
        assert_int_equal(c.position_rows, 0);
        assert_false(c.unbiased_norms || c.mean_pooling);
        ft_model_config_free(&c);
    }
    ft_model_config c = of_family(NOMIC ", \"n_embd\": 24, \"n_layer\": 3, \"n_head\": 2, \"n_inner\": 40, \"n_positions\": 99, \"layer_norm_epsilon\": 1e-5,"
                                  " \"resid_pdrop\": 0.2, \"attn_pdrop\": 0.3, \"activation_function\": \"swiglu\", \"prenorm\": false, \"moe_every_n_layers\": 0}");
    assert_true(c.hidden_size == 24 && c.num_hidden_layers == 3 && c.num_attention_heads == 2 && c.intermediate_size == 40 && c.max_position_embeddings == 99);
    assert_true(c.layer_norm_eps == 1e-5 && c.hidden_dropout_prob == 0.2 && c.attention_probs_dropout_prob == 0.3);
    assert_int_equal(json_integer_value(json_object_get(c.json, "hidden_size")), 24); // what is written back says it in transformers' words too
    ft_model_config_free(&c);
    static const char *const switches[] = {"prenorm", "rotary_emb_interleaved", "qkv_proj_bias", "moe_every_n_layers"};
    for (size_t i = 0; i < sizeof switches / sizeof switches[0]; i++) {
        char text[128], message[128];
        snprintf(text, sizeof text, NOMIC ", \"%s\": %s}", switches[i], i == 3 ? "2" : "true");
        snprintf(message, sizeof message, "\"%s\" must be false: what it asks for is not supported", switches[i]);
        refused_family(text, message);
    }
    refused_family(NOMIC ", \"rotary_emb_fraction\": 0.5}", "\"rotary_emb_fraction\" must be 1: heads that turn in part are not supported");
    refused_family(NOMIC ", \"rope_parameters\": {\"rope_type\": \"yarn\"}}", "\"rope_type\" \"yarn\" is not supported");
    refused_family("{\"model_type\": \"gte\", \"rope_scaling\": {\"type\": \"ntk\"}}", "\"rope_scaling\" must be null: scaled rotary positions are not supported");
}

// Decoders: angles in the words of transformers 5 and of files from before, windows, biases, and what is refused.
static void test_decoders(void **state) {
#define QWEN "{\"model_type\": \"qwen2\", \"num_hidden_layers\": 3"
#define LLAMA "{\"model_type\": \"llama\", \"num_hidden_layers\": 3"
#define LONGER "\"factor\": 8.0, \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 8192"
    const unsigned none = FT_LINEAR_QKV | FT_LINEAR_OUTPUT | FT_LINEAR_UP | FT_LINEAR_DOWN, but_qkv = none & ~(unsigned)FT_LINEAR_QKV;
    const struct {
        const char *text;
        double theta, factor;
        ft_rope_kind kind;
        int32_t windows[3];
        int64_t key_heads, width;
        unsigned unbiased;
    } cases[] = {
        {QWEN "}", 10000, 0, FT_ROPE_DEFAULT, {0}, 32, 128, but_qkv},
        {QWEN ", \"rope_theta\": 1e6, \"num_key_value_heads\": null, \"sliding_window\": 7}", 1e6, 0, FT_ROPE_DEFAULT, {0}, 32, 128, but_qkv},
        {QWEN ", \"use_sliding_window\": true, \"sliding_window\": 7, \"max_window_layers\": 2, \"num_key_value_heads\": 4}", 10000, 0, FT_ROPE_DEFAULT, {0, 0, 6}, 4,
         128, but_qkv},
        {QWEN ", \"use_sliding_window\": true, \"layer_types\": [\"sliding_attention\", \"full_attention\", \"sliding_attention\"]}", 10000, 0, FT_ROPE_DEFAULT,
         {4095, 0, 4095}, 32, 128, but_qkv},
        {LLAMA ", \"rope_theta\": 5e5, \"rope_scaling\": {\"rope_type\": \"llama3\", " LONGER "}, \"head_dim\": 64}", 5e5, 8, FT_ROPE_LLAMA3, {0}, 32, 64, none},
        {LLAMA ", \"rope_parameters\": {\"rope_type\": \"llama3\", \"rope_theta\": 77, " LONGER "}}", 77, 8, FT_ROPE_LLAMA3, {0}, 32, 128, none},
        {LLAMA ", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}, \"attention_bias\": true}", 10000, 2, FT_ROPE_LINEAR, {0}, 32, 128,
         FT_LINEAR_UP | FT_LINEAR_DOWN},
        {"{\"model_type\": \"qwen3\", \"num_hidden_layers\": 3, \"hidden_size\": 1024, \"num_attention_heads\": 64}", 10000, 0, FT_ROPE_DEFAULT, {0}, 32, 128, none},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ft_model_config c = of_family(cases[i].text);
        for (int l = 0; l < 3; l++)
            if (c.sights[l].theta != cases[i].theta || c.sights[l].scaling.kind != cases[i].kind || c.sights[l].scaling.factor != cases[i].factor ||
                c.sights[l].window != cases[i].windows[l])
                fail_msg("%s: layer %d has theta %g, scaling %d by %g, window %d", cases[i].text, l, c.sights[l].theta, (int)c.sights[l].scaling.kind,
                         c.sights[l].scaling.factor, c.sights[l].window);
        assert_true(c.key_value_heads == cases[i].key_heads && c.head_width == cases[i].width && c.unbiased == cases[i].unbiased);
        assert_true(c.family->causal && c.last_pooling && !c.tied && c.rms_norms && c.pad_token_id == -1);
        ft_model_config_free(&c);
    }
    ft_model_config c = of_family(LLAMA ", \"max_position_embeddings\": 131072, \"tie_word_embeddings\": true}");
    assert_true(c.max_position_embeddings == FT_MOST_POSITIONS && c.tied);
    ft_model_config_free(&c);
    refused_family(LLAMA ", \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4}}", "\"rope_type\" \"yarn\" is not supported");
    refused_family(LLAMA ", \"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 4}}", "\"rope_type\" \"dynamic\" is not supported");
    refused_family(LLAMA ", \"rope_scaling\": {\"rope_type\": \"linear\"}}", "\"factor\" must be at least 1 and below 1e12, not 0");
    refused_family(LLAMA ", \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 4, \"high_freq_factor\": 4, "
                         "\"original_max_position_embeddings\": 9}}", "\"high_freq_factor\" 4 must be above \"low_freq_factor\" 4");
    refused_family(QWEN ", \"partial_rotary_factor\": 0.5}", "\"partial_rotary_factor\" must be 1: heads that turn in part are not supported");
    refused_family(QWEN ", \"rope_parameters\": {\"full_attention\": {\"rope_theta\": 5}}}", "\"rope_parameters\" by type of layer is not supported for \"qwen2\"");
    refused_family(QWEN ", \"layer_types\": [\"sliding_attention\", \"full_attention\", \"full_attention\"]}",
                   "\"layer_types\" has \"sliding_attention\" and \"use_sliding_window\" is false");
    refused_family(QWEN ", \"num_key_value_heads\": 3}", "\"num_attention_heads\" 32 is not a multiple of \"num_key_value_heads\" 3");
}

// What no family computes, whichever it is.
static void test_refused_by_all(void **state) {
    static const struct {
        const char *keys, *message;
    } cases[] = {
        {"\"position_embedding_type\": \"relative_key\"", "\"position_embedding_type\" must be \"absolute\", \"relative_key\" is not supported"},
        {"\"position_embedding_type\": \"relative_key_query\"",
         "\"position_embedding_type\" must be \"absolute\", \"relative_key_query\" is not supported"},
        {"\"is_decoder\": true", "\"is_decoder\" must be false: only encoders are supported"},
    };
    for (int i = 0; i < ft_family_count(); i++)
        for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
            char text[256];
            snprintf(text, sizeof text, "{\"model_type\": \"%s\", %s}", ft_family_at(i)->model_type, cases[k].keys);
            refused_family(text, cases[k].message);
        }
}

static void test_refused(void **state) {
    refused("\"hidden_size\": 36, \"num_attention_heads\": 5",
            "\"hidden_size\" 36 is not a multiple of \"num_attention_heads\" 5");
    refused("\"hidden_size\": 0", "\"hidden_size\" must be an integer from 1 to 1048576, not 0");
    refused("\"hidden_size\": 768.0", "\"hidden_size\" must be an integer from 1 to 1048576, not 768.0");
    refused("\"num_hidden_layers\": -1", "\"num_hidden_layers\" must be an integer from 1 to 4096, not -1");
    refused("\"num_attention_heads\": 256", "\"num_attention_heads\" must be an integer of at most 255, not 256");
    refused("\"max_position_embeddings\": 16385",
            "\"max_position_embeddings\" must be an integer of at most 16384, not 16385");
    refused("\"vocab_size\": \"30522\"",
            "\"vocab_size\" must be an integer from 1 to 268435456, not the string \"30522\"");
    refused("\"vocab_size\": 10, \"pad_token_id\": 10", "\"pad_token_id\" must be an integer of at most 9, not 10");
    refused("\"pad_token_id\": -1", "\"pad_token_id\" must be an integer from 0 to 30521, not -1");
    refused("\"hidden_dropout_prob\": \"0.1\"", "\"hidden_dropout_prob\" must be a number, not the string \"0.1\"");
    refused("\"hidden_dropout_prob\": 1", "\"hidden_dropout_prob\" must be at least 0 and below 1, not 1");
    refused("\"classifier_dropout\": -0.1", "\"classifier_dropout\" must be at least 0 and below 1, not -0.1");
    refused("\"layer_norm_eps\": 0", "\"layer_norm_eps\" must be above 0 and below 1, not 0");
    refused("\"layer_norm_eps\": 1e-46", "\"layer_norm_eps\" must be above 0 and below 1, not 1e-46"); // which is 0 in fp32
    refused("\"hidden_act\": 3", "\"hidden_act\" must be a string, not 3");
    refused("\"hidden_act\": \"gelu_nwe\"", "unknown activation 'gelu_nwe', the nearest known one is 'gelu_new'");
    assert_string_equal(ft_error_where(), "config.json: \"hidden_act\"");
    refused("\"position_embedding_type\": \"relative_key\"",
            "\"position_embedding_type\" must be \"absolute\", \"relative_key\" is not supported");
    refused("\"is_decoder\": true", "\"is_decoder\" must be false: only encoders are supported");
}

static void test_labels(void **state) {
    ft_model_config c = accepted("\"id2label\": {\"1\": \"yes\", \"0\": \"no\", \"2\": 7}");
    assert_int_equal(c.num_labels, 3);
    assert_true(c.has_label_names);
    assert_string_equal(c.label_names[0], "no");
    assert_string_equal(c.label_names[1], "yes");
    assert_string_equal(c.label_names[2], "7");
    ft_model_config_free(&c);
    c = accepted("\"id2label\": {\"0\": \"LABEL_0\", \"1\": \"LABEL_1\", \"2\": \"LABEL_2\"}, \"num_labels\": 3");
    assert_int_equal(c.num_labels, 3);
    assert_false(c.has_label_names);
    ft_model_config_free(&c);
    c = accepted("\"num_labels\": 5, \"id2label\": null");
    assert_int_equal(c.num_labels, 5);
    assert_string_equal(c.label_names[4], "LABEL_4");
    ft_model_config_free(&c);
    c = accepted(
        "\"num_labels\": 2, \"id2label\": {\"0\": \"a\", \"1\": \"b\", \"2\": \"c\"}"); // as transformers 5.23 has it
    assert_int_equal(c.num_labels, 2);
    assert_string_equal(c.label_names[1], "LABEL_1");
    assert_false(c.has_label_names);
    ft_model_config_free(&c);
    c = accepted("\"label2id\": {\"x\": 0, \"y\": 1, \"z\": 2}"); // alone: ignored
    assert_int_equal(c.num_labels, 2);
    ft_model_config_free(&c);
    refused("\"id2label\": {\"0\": \"a\", \"2\": \"b\"}",
            "\"id2label\" has 2 names and none for \"1\"; its keys must be \"0\" to \"1\"");
    refused("\"id2label\": {\"0\": \"a\", \"1\": []}", "\"id2label\": the name of \"1\" must be a string");
    refused("\"id2label\": [\"a\", \"b\"]", "\"id2label\" must be an object from \"0\", \"1\", ... to names");
    refused("\"id2label\": {}", "\"id2label\" lists 0 labels");
    refused("\"num_labels\": 0", "\"num_labels\" must be an integer from 1 to 1048576, not 0");
}

static void test_load(void **state) {
    ft_model_config c;
    OK(ft_model_config_load(FT_TEST_VECTORS "/bert_gelu", &c));
    assert_int_equal(c.hidden_size, 36);
    assert_int_equal(c.num_labels, 3);
    assert_string_equal(c.label_names[1], "neutral");
    ft_model_config_free(&c);
    assert_int_equal(ft_model_config_load("/no/such/model", &c), FT_INVALID);
    assert_string_equal(ft_error_where(), "/no/such/model");
    assert_string_equal(ft_error_message(), "there is no such model directory");
    assert_int_equal(ft_model_config_load("/dev/null", &c), FT_INVALID);
    assert_int_equal(ft_model_config_load(FT_TEST_VECTORS, &c), FT_INVALID); // a directory without one
    assert_string_equal(ft_error_where(), FT_TEST_VECTORS "/config.json");
    assert_null(c.json);
}

// What a saved file says, as one text.
static char *saved(const ft_model_config *base, int count, const char *const *names, double hidden, double attention,
                   double classifier) {
    char path[] = "/tmp/test_config_XXXXXX";
    close(mkstemp(path));
    OK(ft_model_config_save(base, path, count, names, hidden, attention, classifier, NULL, "single_label_classification"));
    char *text;
    size_t length;
    OK(ft_read_file(path, 0, &text, &length));
    unlink(path);
    return text;
}

static void test_save(void **state) {
    ft_model_config base = accepted(
        "\"_name_or_path\": \"x\", \"hidden_dropout_prob\": 0.1, \"torch_dtype\": \"float16\", \"num_labels\": 7,"
        "\"layer_norm_eps\": 1e-12, \"extra\": {\"kept\": [1, 0.3]}, \"architectures\": [\"BertModel\"]");
    static const char *const names[] = {"no", "y\"es"};
    // The numbers of a training in fp32.
    char *text = saved(&base, 2, names, 0.2f, 0.1f, 0.05f);
    assert_string_equal(text, "{\n"
                              "  \"model_type\": \"bert\",\n"
                              "  \"hidden_dropout_prob\": 0.2,\n"
                              "  \"layer_norm_eps\": 1e-12,\n"
                              "  \"extra\": {\n"
                              "    \"kept\": [\n"
                              "      1,\n"
                              "      0.3\n"
                              "    ]\n"
                              "  },\n"
                              "  \"architectures\": [\n"
                              "    \"BertForSequenceClassification\"\n"
                              "  ],\n"
                              "  \"problem_type\": \"single_label_classification\",\n"
                              "  \"dtype\": \"float32\",\n"
                              "  \"id2label\": {\n"
                              "    \"0\": \"no\",\n"
                              "    \"1\": \"y\\\"es\"\n"
                              "  },\n"
                              "  \"label2id\": {\n"
                              "    \"no\": 0,\n"
                              "    \"y\\\"es\": 1\n"
                              "  },\n"
                              "  \"classifier_dropout\": 0.05,\n"
                              "  \"attention_probs_dropout_prob\": 0.1\n"
                              "}\n");
    ft_model_config again;
    OK(ft_model_config_parse(text, strlen(text), "again", &again));
    assert_int_equal(again.num_labels, 2);
    assert_string_equal(again.label_names[1], "y\"es");
    assert_true(again.hidden_dropout_prob == 0.2 && again.classifier_dropout == 0.05);
    ft_model_config_free(&again);
    free(text);
    assert_int_equal(ft_model_config_save(&base, "/no/such/config.json", 2, names, 0.1, 0.1, 0.1, NULL, "regression"), FT_FAILED);
    ft_model_config_free(&base);
}

static void test_save_in_the_keys_of_the_family(void **state) {
    static const char *const names[] = {"a", "b"};
    ft_model_config base = of_family("{\"model_type\": \"distilbert\", \"dropout\": 0.1, \"seq_classif_dropout\": 0.2}");
    char *text = saved(&base, 2, names, 0.1f, 0.3f, 0.4f);
    assert_non_null(strstr(text, "\"DistilBertForSequenceClassification\""));
    assert_non_null(strstr(text, "\"dropout\": 0.1,"));
    assert_non_null(strstr(text, "\"attention_dropout\": 0.3"));
    assert_non_null(strstr(text, "\"seq_classif_dropout\": 0.4,"));
    assert_null(strstr(text, "hidden_dropout_prob"));
    free(text);
    ft_model_config_free(&base);
}

static void test_save_keeps_what_it_may(void **state) {
    static const char *const names[] = {"a", "b"};
    ft_model_config base = accepted("\"hidden_dropout_prob\": 0, \"attention_probs_dropout_prob\": "
                                    "0.12345678901234567, \"classifier_dropout\": null");
    char *text = saved(&base, 2, names, 0.0f, (float)0.12345678901234567, 0.0f);
    assert_non_null(strstr(text, "\"hidden_dropout_prob\": 0,"));
    assert_non_null(strstr(text, "\"attention_probs_dropout_prob\": 0.12345678901234566,"));
    assert_non_null(strstr(text, "\"classifier_dropout\": null"));
    free(text);
    text = saved(&base, 2, names, 0.5f, 0.0f, 0.0f); // no longer as the hidden one
    assert_non_null(strstr(text, "\"hidden_dropout_prob\": 0.5,"));
    assert_non_null(strstr(text, "\"classifier_dropout\": 0.0"));
    free(text);
    ft_model_config_free(&base);
    base = accepted("\"hidden_dropout_prob\": 0.1, \"classifier_dropout\": 0.3");
    text = saved(&base, 2, names, 0.1f, 0.1f, 0.1f);
    assert_non_null(strstr(text, "\"classifier_dropout\": 0.1"));
    free(text);
    ft_model_config_free(&base);
}

// What is planned for the names of classes holds what they take (host_plan.c), and is no more than twice that.
static size_t live, most;
static void *counted_malloc(size_t bytes) {
    void *p = malloc(bytes);
    if (p != NULL) live += malloc_usable_size(p) + sizeof(size_t);
    if (live > most) most = live;
    return p;
}
static void counted_free(void *p) {
    if (p != NULL) live -= malloc_usable_size(p) + sizeof(size_t);
    free(p);
}

static void test_bytes_of_labels(void **state) {
    static const int counts[] = {100, 500, 2000, 8008, 20000};
    json_set_alloc_funcs(counted_malloc, counted_free);
    ft_model_config base = accepted("\"hidden_dropout_prob\": 0.1");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const int count = counts[i];
        char(*text)[24] = calloc((size_t)count, sizeof *text);
        const char **names = calloc((size_t)count, sizeof *names);
        for (int k = 0; k < count; k++) snprintf(text[k], sizeof text[k], "a class %d", k), names[k] = text[k];
        const size_t before = live;
        most = live;
        free(saved(&base, count, names, 0.1f, 0.1f, 0.1f));
        const size_t planned = ft_model_config_save_bytes(count), took = most - before;
        if (took > planned + 16384 || planned > 2 * took) fail_msg("%d classes: %zu bytes, planned %zu", count, took, planned);
        free(names);
        free(text);
    }
    ft_model_config_free(&base);
    json_set_alloc_funcs(malloc, free);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults), cmocka_unit_test(test_values),
        cmocka_unit_test(test_family),   cmocka_unit_test(test_families),
        cmocka_unit_test(test_rotary_families),
        cmocka_unit_test(test_save_in_the_keys_of_the_family), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_nearest), cmocka_unit_test(test_one_base), cmocka_unit_test(test_decoders), cmocka_unit_test(test_shared_layers), cmocka_unit_test(test_refused_by_all),
        cmocka_unit_test(test_labels),   cmocka_unit_test(test_load),
        cmocka_unit_test(test_save),     cmocka_unit_test(test_save_keeps_what_it_may), cmocka_unit_test(test_bytes_of_labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
