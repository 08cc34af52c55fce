// tiny_run.h - small models and data sets on disk, made from random numbers, for tests that train many of them.
#ifndef FT_TINY_RUN_H
#define FT_TINY_RUN_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/config/config.h"
#include "engine/io/files.h"
#include "engine/train/train.h"
#include "kernels/philox.h"

enum { TINY_WORDS = 60, TINY_OVERRIDES = 48, TINY_TEXT = 160 };

typedef struct tiny_run {
    uint64_t state; // of the random numbers
    char dir[128];  // holds model/, train.tsv, dev.tsv, test.tsv
    char text[TINY_OVERRIDES][TINY_TEXT];
    int count;
} tiny_run;

static inline int64_t pick(tiny_run *t, int64_t low, int64_t high) {
    t->state += 0x9E3779B97F4A7C15u;
    return low + (int64_t)(ft_splitmix64(t->state) % (uint64_t)(high - low + 1));
}
static inline bool chance(tiny_run *t, int percent) { return pick(t, 1, 100) <= percent; }

static inline void set(tiny_run *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static inline void set(tiny_run *t, const char *format, ...) {
    assert_true(t->count < TINY_OVERRIDES);
    va_list args;
    va_start(args, format);
    vsnprintf(t->text[t->count++], TINY_TEXT, format, args);
    va_end(args);
}

static inline FILE *file_in(const tiny_run *t, const char *name) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", t->dir, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    return f;
}

static inline void write_words(tiny_run *t, FILE *f, int64_t longest) {
    for (int64_t n = pick(t, 1, longest), k = 0; k < n; k++) fprintf(f, "%sw%" PRId64, k ? " " : "", pick(t, 0, TINY_WORDS - 1));
}

static inline void write_texts(tiny_run *t, const char *name, int64_t rows, int64_t longest, int64_t labels) {
    FILE *f = file_in(t, name);
    fprintf(f, "text\tsecond\tlabel\tscore\ttags\n");
    for (int64_t i = 0; i < rows; i++) {
        write_words(t, f, longest);
        fputc('\t', f);
        write_words(t, f, longest);
        fprintf(f, "\t%" PRId64 "\t%" PRId64 ".5\t", i < labels ? i : pick(t, 0, labels - 1), pick(t, -3, 3)); // every class is there
        for (int64_t k = 0, any = 0; k < labels; k++) // and every tag
            if (i == 0 || chance(t, 30)) fprintf(f, "%st%" PRId64, any++ ? "," : "", k);
        fprintf(f, "\n");
    }
    fclose(f);
}

// config.json of a family. The tokenizer stays WordPiece: what is planned and taken depends on ids alone.
static inline void write_model(tiny_run *t, int family, int64_t layers, int64_t heads, int64_t hidden, int64_t positions) {
    static const char *const types[] = {"bert", "roberta", "xlm-roberta", "distilbert", "electra", "deberta-v2", "deberta"};
    const char *type = types[family];
    bool distil = strcmp(type, "distilbert") == 0, behind_padding = strstr(type, "roberta") != NULL;
    FILE *f = file_in(t, "model/config.json");
    fprintf(f, "{\"model_type\": \"%s\", \"vocab_size\": %d, \"pad_token_id\": 0, \"max_position_embeddings\": %" PRId64, type,
            TINY_WORDS + 5 + (int)pick(t, 0, 400), positions + (behind_padding ? 1 : 0));
    fprintf(f, ", \"%s\": %" PRId64 ", \"%s\": %" PRId64 ", \"%s\": %" PRId64 ", \"%s\": %" PRId64 ", \"%s\": \"%s\"",
            distil ? "dim" : "hidden_size", hidden, distil ? "n_layers" : "num_hidden_layers", layers,
            distil ? "n_heads" : "num_attention_heads", heads, distil ? "hidden_dim" : "intermediate_size", pick(t, 5, 150),
            distil ? "activation" : "hidden_act", chance(t, 50) ? "gelu" : "relu");
    if (strcmp(type, "electra") == 0) fprintf(f, ", \"embedding_size\": %" PRId64, layers == 1 ? hidden : hidden / 2 + 3);
    if (strcmp(type, "deberta-v2") == 0)
        fprintf(f, ", \"relative_attention\": true, \"position_buckets\": %d, \"max_relative_positions\": 40, \"pos_att_type\": \"%s\", "
                   "\"share_att_key\": %s, \"norm_rel_ebd\": \"%s\", \"embedding_size\": %" PRId64 ", \"pooler_dropout\": 0.1",
                layers % 2 ? 16 : -1, layers % 3 ? "c2p|p2c" : "p2c", heads % 2 ? "true" : "false", layers < 3 ? "layer_norm" : "none",
                heads == 1 ? hidden : hidden / 2 + 3);
    if (strcmp(type, "deberta-v2") == 0 && layers > 1 && chance(t, 50))
        fprintf(f, ", \"conv_kernel_size\": %d, \"conv_act\": \"gelu\", \"conv_groups\": %" PRId64, chance(t, 50) ? 3 : 5,
                chance(t, 50) ? 1 : heads);
    if (strcmp(type, "deberta") == 0)
        fprintf(f, ", \"relative_attention\": true, \"max_relative_positions\": %d, \"pos_att_type\": \"%s\", \"embedding_size\": %" PRId64,
                layers % 2 ? 9 : 90, layers % 3 == 0 ? "c2p|p2c" : layers % 3 == 1 ? "p2c" : "c2p", heads == 1 ? hidden : hidden / 2 + 3);
    fprintf(f, "}\n");
    fclose(f);
}

// What the texts are given, and what of that is made small.
static inline void set_task(tiny_run *t) {
    int64_t task = pick(t, 0, 3); // 0, 1: a class a text
    if (task == 2) set(t, "train.task=multi_label"), set(t, "data.label_column=tags");
    if (task == 3) set(t, "train.task=regression"), set(t, "data.label_column=%s", chance(t, 50) ? "score" : "score, label");
    if (task < 3 && chance(t, 30)) set(t, "train.class_weights=balanced");
    if (task < 3 && chance(t, 20)) set(t, "train.loss=focal");
    else if (task < 2 && chance(t, 20)) set(t, "train.label_smoothing=0.1");
    if (chance(t, 20)) set(t, "train.layer_lr_decay=0.9");
    if (chance(t, 20)) set(t, "train.lr_scheduler=%s", chance(t, 50) ? "polynomial" : "cosine_with_restarts");
}

// A model of random shape, random data, and random options of training.
static inline void make_tiny_run(tiny_run *t, const char *scratch, uint64_t seed) {
    *t = (tiny_run){.state = seed};
    snprintf(t->dir, sizeof t->dir, "%s/%" PRIu64, scratch, seed);
    char model[160];
    snprintf(model, sizeof model, "%s/model", t->dir);
    assert_int_equal(mkdir(t->dir, 0700), 0);
    assert_int_equal(mkdir(model, 0700), 0);
    int64_t heads = pick(t, 1, 4), hidden = heads * pick(t, 4, 24), layers = pick(t, 1, 5), positions = pick(t, 12, 80);
    write_model(t, (int)(seed % 7), layers, heads, hidden, positions);
    FILE *f = file_in(t, "model/vocab.txt");
    fprintf(f, "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n");
    for (int i = 0; i < TINY_WORDS; i++) fprintf(f, "w%d\n", i);
    fclose(f);
    f = file_in(t, "model/tokenizer_config.json");
    fprintf(f, "{\"tokenizer_class\": \"BertTokenizer\"}\n");
    fclose(f);
    int64_t labels = pick(t, 2, 5), longest = pick(t, 1, positions + 5);
    write_texts(t, "train.tsv", pick(t, 10, 60), longest, labels);
    write_texts(t, "dev.tsv", pick(t, 5, 40), pick(t, 1, positions), labels);
    set(t, "model.path=%s/model", t->dir);
    set(t, "model.init=random");
    set(t, "data.train=%s/train.tsv", t->dir);
    set(t, "data.cache_dir=none");
    if (chance(t, 75)) set(t, "data.validation=%s/dev.tsv", t->dir);
    else if (chance(t, 50)) set(t, "data.validation_split=0.3");
    if (chance(t, 25)) {
        write_texts(t, "test.tsv", pick(t, 5, 30), pick(t, 1, positions), labels);
        set(t, "data.test=%s/test.tsv", t->dir);
    }
    if (chance(t, 30)) set(t, "data.text_pair=second");
    set_task(t);
    set(t, "data.max_length=%" PRId64, pick(t, 4, positions));
    set(t, "train.batch_size=%" PRId64, pick(t, 1, 16));
    set(t, "train.gradient_accumulation_steps=%" PRId64, pick(t, 1, 3));
    set(t, "train.max_steps=%" PRId64, pick(t, 1, 3));
    set(t, "train.seed=%" PRId64, pick(t, 0, 1000));
    set(t, "device.threads=%" PRId64, pick(t, 1, 3));
    set(t, "eval.batch_multiplier=%" PRId64, pick(t, 1, 4));
    set(t, "memory.timeline=%s", chance(t, 10) ? "true" : "false");
    if (chance(t, 40)) set(t, "train.micro_batch=%" PRId64, pick(t, 1, 8));
    if (chance(t, 40)) set(t, "train.micro_batch_tokens=%" PRId64, pick(t, 4, 200));
    if (chance(t, 60)) set(t, "train.gradient_checkpointing=%s", layers < 2 || chance(t, 50) ? "on" : layers < 3 || chance(t, 50) ? "2" : "3");
    if (chance(t, 20)) set(t, "model.freeze=%s", chance(t, 50) ? "embeddings" : "encoder");
    if (chance(t, 20)) set(t, "model.freeze_layers=%" PRId64, pick(t, 0, layers));
    if (chance(t, 30)) set(t, "model.head.hidden=%" PRId64 ", %" PRId64, pick(t, 1, 90), pick(t, 1, 40));
    if (chance(t, 20)) set(t, "eval.batch_size=%" PRId64, pick(t, 1, 64));
    if (chance(t, 20)) set(t, "eval.strategy=%s", chance(t, 50) ? "no" : "epoch");
    if (chance(t, 30)) set(t, "model.hidden_dropout=%s", chance(t, 50) ? "0" : "0.3");
    if (chance(t, 20)) set(t, "model.attention_dropout=0");
    if (chance(t, 60)) set(t, "memory.expandable_segments=%s", chance(t, 50) ? "true" : "false");
    else if (chance(t, 20)) set(t, "memory.max_split_size=%s", chance(t, 50) ? "2MiB" : "5MiB");
    if (chance(t, 20)) set(t, "memory.garbage_collection_threshold=0.%" PRId64, pick(t, 1, 9));
    if (chance(t, 30)) set(t, "output.save_steps=1");
    static const char *const precisions[] = {"fp32", "bf16", "fp16"};
    const int precision = t->count;
    set(t, "train.precision=%s", precisions[pick(t, 0, 2)]);
    if (chance(t, 20)) set(t, "data.truncation=%s", chance(t, 50) ? "windows" : "head_tail");
    if (chance(t, 15)) set(t, "memory.active_vocabulary=off");
    static const char *const again[] = {"true", "false", "auto"};
    const bool fp32 = strcmp(t->text[precision], "train.precision=fp32") == 0; // of 16 bits this is refused
    if (chance(t, 60)) set(t, "memory.recompute_activation=%s", fp32 ? again[pick(t, 0, 2)] : "auto");
    if (chance(t, 60)) set(t, "memory.recompute_layernorm=%s", fp32 ? again[pick(t, 0, 2)] : "auto");
}

// A model whose activations are more than a segment or two, and texts to match.
static inline void enlarge_tiny_run(tiny_run *t) {
    FILE *f = file_in(t, "model/config.json");
    fprintf(f, "{\"model_type\": \"bert\", \"vocab_size\": %d, \"hidden_size\": 128, \"num_hidden_layers\": 4, "
               "\"num_attention_heads\": 4, \"intermediate_size\": 512, \"max_position_embeddings\": 128, \"type_vocab_size\": 2, "
               "\"hidden_act\": \"gelu\", \"pad_token_id\": 0}\n", TINY_WORDS + 5);
    fclose(f);
    write_texts(t, "train.tsv", 40, 60, 2);
    write_texts(t, "dev.tsv", 20, 60, 2);
    write_texts(t, "test.tsv", 20, 60, 2);
    set(t, "data.max_length=64");
    set(t, "train.batch_size=16");
    set(t, "train.micro_batch=auto");
    set(t, "train.micro_batch_tokens=auto");
    set(t, "train.gradient_checkpointing=auto");
    set(t, "model.freeze=none");
    set(t, "model.freeze_layers=0");
    set(t, "memory.expandable_segments=false");
}

static inline void load_tiny_run(const tiny_run *t, ft_config *config) {
    const char *overrides[TINY_OVERRIDES];
    for (int i = 0; i < t->count; i++) overrides[i] = t->text[i];
    if (ft_config_load(config, 0, NULL, t->count, overrides) != FT_OK) fail_msg("%s (%s)", ft_error_message(), ft_error_where());
}

#endif
