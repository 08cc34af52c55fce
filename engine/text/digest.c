// digest.c - a fingerprint of everything that decides about ids: the token cache trusts it.
#include "engine/text/tokenizer_parts.h"

#include "base/sha256.h"

#include <string.h>

// What is hashed is a listing of everything below, each item with its length, so that no two tokenizers share one.
static void item(ft_sha256_state *hash, const void *data, size_t length) {
    uint64_t size = length;
    ft_sha256_add(hash, &size, sizeof size);
    if (length > 0) ft_sha256_add(hash, data, length);
}

static void add_rewrites(ft_sha256_state *hash, const ft_pipeline *p) {
    for (size_t i = 0; i < p->count; i++) {
        const ft_rewrite *r = &p->rewrites[i];
        int64_t numbers[] = {
            r->kind, r->bert.clean, r->bert.space_cjk, r->bert.strip_accents, r->bert.lower_case, r->form,
            r->left, r->right,      r->pattern};
        item(hash, numbers, sizeof numbers);
        item(hash, r->charsmap.data, r->charsmap.size);
        item(hash, r->from, r->from_length);
        item(hash, r->to, r->to_length);
    }
}

static void add_template(ft_sha256_state *hash, const ft_template *frame) {
    for (size_t i = 0; i < frame->count; i++) {
        int64_t numbers[] = {frame->items[i].id, frame->items[i].type};
        item(hash, numbers, sizeof numbers);
    }
    item(hash, NULL, 0); // the end
}

static void add_model(ft_sha256_state *hash, const ft_tokenizer *t) {
    const ft_byte_pairs *pairs = &t->byte_pairs;
    const ft_unigram *unigram = &t->unigram;
    int64_t numbers[] = {t->kind,        t->unknown,          t->longest_word,
                         pairs->unknown, pairs->fuse_unknown, pairs->ignore_merges};
    item(hash, numbers, sizeof numbers);
    item(hash, t->prefix, strlen(t->prefix));
    for (uint64_t i = 0; pairs->pairs != NULL && i <= pairs->mask; i++) {
        const ft_pair_entry *e = &pairs->pairs[i];
        if (e->key != UINT64_MAX) item(hash, e, sizeof *e);
    }
    item(hash, unigram->scores, (size_t)unigram->count * sizeof *unigram->scores);
}

void ft_tokenizer_make_digest(ft_tokenizer *t) {
    static const char VERSION[] = "ftengine tokenizers 2, tables of tokenizers 0.23.3";
    unsigned char bytes[32];
    ft_sha256_state hash;
    ft_sha256_begin(&hash);
    int64_t numbers[] = {t->padding, t->vocabulary.count, (int64_t)t->normalizer.count, (int64_t)t->split_count};
    item(&hash, VERSION, sizeof VERSION);
    item(&hash, numbers, sizeof numbers);
    add_model(&hash, t);
    add_rewrites(&hash, &t->normalizer);
    for (size_t i = 0; i < t->split_count; i++) {
        int64_t split[] = {t->splits[i].kind, t->splits[i].prefix, t->splits[i].divide};
        item(&hash, split, sizeof split);
        const ft_split *s = &t->splits[i]; // what others have not is not said of them: their caches stay good
        int64_t rest[] = {s->digits, s->behavior};
        if (s->kind == FT_SPLIT_LLAMA || s->kind == FT_SPLIT_TEXT) item(&hash, rest, sizeof rest);
        if (s->kind == FT_SPLIT_TEXT) item(&hash, s->text, strlen(s->text));
    }
    add_template(&hash, &t->single);
    add_template(&hash, &t->pair);
    for (int32_t id = 0; id < t->vocabulary.count; id++)
        item(&hash, t->vocabulary.token[id], t->vocabulary.length[id]);
    for (size_t i = 0; i < t->added_count; i++) {
        const ft_added_token *a = &t->added[i];
        int64_t flags[] = {a->id, a->single_word, a->lstrip, a->rstrip, a->normalized, a->special};
        item(&hash, a->content, a->length);
        item(&hash, flags, sizeof flags);
    }
    ft_sha256_end(&hash, bytes);
    ft_sha256_hex(bytes, t->digest);
}
