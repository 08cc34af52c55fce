#include "engine/data/report.h"

#include "base/spill.h"
#include "engine/data/input.h"
#include "kernels/philox.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS_AT_ONCE = 1 << 18 }; // 16 bytes each, and as many again while they are sorted

typedef struct entry {
    uint64_t hash;
    int64_t row;
} entry;

// FNV-1a, eight bytes a turn where there are as many: the texts of a large file are hashed at every start.
static uint64_t hash_bytes(uint64_t h, const char *text, size_t length) {
    const uint64_t prime = 0x100000001B3u;
    for (; length >= 8; text += 8, length -= 8) {
        uint64_t part;
        memcpy(&part, text, sizeof part);
        h = ft_splitmix64(h ^ part);
    }
    for (size_t i = 0; i < length; i++) h = (h ^ (unsigned char)text[i]) * prime;
    return h;
}

static uint64_t hash_row(const ft_table *t, int64_t row) {
    uint64_t h = hash_bytes(0xCBF29CE484222325u, t->text[row], t->text_length[row]);
    if (t->pair != NULL) h = hash_bytes(ft_splitmix64(h), t->pair[row], t->pair_length[row]);
    return ft_splitmix64(h ^ t->text_length[row]);
}

static bool same_text(const ft_table *a, int64_t i, const ft_table *b, int64_t j) {
    if (a->text_length[i] != b->text_length[j] || memcmp(a->text[i], b->text[j], a->text_length[i]) != 0) return false;
    if (a->pair == NULL || b->pair == NULL) return a->pair == b->pair;
    return a->pair_length[i] == b->pair_length[j] && memcmp(a->pair[i], b->pair[j], a->pair_length[i]) == 0;
}

static int compare(const void *a, const void *b) {
    const entry *x = a, *y = b;
    if (x->hash != y->hash) return x->hash < y->hash ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

ft_status ft_text_index_build(const ft_table *table, ft_text_index *index) {
    *index = (ft_text_index){.table = table};
    index->hash = ft_spill_calloc((size_t)table->rows, sizeof *index->hash, "an index of texts");
    if (index->hash == NULL) return FT_NO_MEMORY;
    for (int64_t i = 0; i < table->rows; i++) index->hash[i] = hash_row(table, i);
    return FT_OK;
}

void ft_text_index_free(ft_text_index *index) {
    ft_spill_free(index->hash);
    *index = (ft_text_index){0};
}

// The rows whose hashes are of one share of all, sorted: equal texts are in one share, and no more than one is in memory.
typedef struct share {
    const ft_text_index *index;
    entry *entries; // [count]
    int64_t count;
} share;

static bool is_in(uint64_t hash, int64_t which, int64_t shares) { return (int64_t)(hash >> 32) % shares == which; }

static ft_status take_share(const ft_text_index *index, int64_t which, int64_t shares, share *out) {
    *out = (share){.index = index};
    for (int64_t i = 0; i < index->table->rows; i++) out->count += is_in(index->hash[i], which, shares);
    out->entries = ft_calloc((size_t)out->count + 1, sizeof *out->entries, "an index of texts");
    if (out->entries == NULL) return FT_NO_MEMORY;
    for (int64_t i = 0, at = 0; i < index->table->rows; i++)
        if (is_in(index->hash[i], which, shares)) out->entries[at++] = (entry){index->hash[i], i};
    if (!ft_heap_expect((size_t)out->count * sizeof *out->entries, "sorting")) return FT_NO_MEMORY; // qsort has as many again
    qsort(out->entries, (size_t)out->count, sizeof *out->entries, compare);
    return FT_OK;
}

// The first row of the share with this hash and text; -1: none.
static int64_t find(const share *s, uint64_t hash, const ft_table *table, int64_t row) {
    int64_t low = 0, high = s->count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (s->entries[middle].hash < hash) low = middle + 1;
        else high = middle;
    }
    for (; low < s->count && s->entries[low].hash == hash; low++) {
        const int64_t there = s->entries[low].row; // itself at the latest: texts that occur once, which are most, are not read again
        if ((table == s->index->table && there == row) || same_text(s->index->table, there, table, row)) return there;
    }
    return -1;
}

static void count_share(const share *own, const share *train, ft_data_report *r) {
    const ft_table *t = own->index->table;
    for (int64_t i = 0; i < own->count; i++) {
        const entry *e = &own->entries[i];
        int64_t first = find(own, e->hash, t, e->row);
        if (first != e->row) {
            r->repeated++;
            bool other = t->label != NULL && strcmp(t->label[first], t->label[e->row]) != 0;
            if (other && (r->contradicting++ == 0 || e->row < r->contradicting_row))
                r->contradicting_row = e->row, r->contradicted_row = first;
        }
        int64_t known = train != NULL ? find(train, e->hash, t, e->row) : -1;
        if (known >= 0 && (r->known++ == 0 || e->row < r->known_row)) r->known_row = e->row, r->train_row = known;
    }
}

static ft_status count_repeated(const ft_text_index *own, const ft_text_index *train, ft_data_report *r) {
    const int64_t rows = own->table->rows, others = train != NULL ? train->table->rows : 0;
    const int64_t shares = (rows > others ? rows : others) / ROWS_AT_ONCE + 1;
    ft_status status = FT_OK;
    for (int64_t which = 0; which < shares && status == FT_OK; which++) {
        share ours = {0}, theirs = {0};
        status = take_share(own, which, shares, &ours);
        if (status == FT_OK && train != NULL) status = take_share(train, which, shares, &theirs);
        if (status == FT_OK) count_share(&ours, train != NULL ? &theirs : NULL, r);
        free(ours.entries);
        free(theirs.entries);
    }
    return status;
}

static bool is_blank(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (memchr(" \t\r\n", text[i], 4) == NULL) return false;
    return true;
}

// How many sequences have each length, and from that the quantiles.
static ft_status measure(const ft_dataset *data, ft_data_report *r) {
    static const int64_t hundredths[FT_QUANTILES] = {0, 50, 90, 99, 100};
    int64_t longest = 0, many = 0;
    for (int64_t i = 0; i < data->sequences; i++)
        if (ft_dataset_tokens(data, i) > longest) longest = ft_dataset_tokens(data, i);
    int64_t *count = ft_calloc((size_t)longest + 1, sizeof *count, "lengths of texts");
    if (count == NULL) return FT_NO_MEMORY;
    for (int64_t i = 0; i < data->sequences; i++) count[ft_dataset_tokens(data, i)]++;
    int q = 0;
    for (int64_t length = 0; length <= longest; length++) {
        many += count[length]; // are no longer than this
        for (; q < FT_QUANTILES; q++) {
            const int64_t least = (data->sequences * hundredths[q] + 99) / 100;
            if (many < (least > 0 ? least : 1)) break;
            r->length[q] = (int32_t)length;
        }
    }
    free(count);
    return FT_OK;
}

ft_status ft_data_report_make(const ft_text_index *own, const ft_dataset *data, const ft_text_index *train, ft_data_report *r) {
    const ft_table *t = own->table;
    *r = (ft_data_report){.examples = t->rows, .truncated = data->truncated};
    for (int64_t i = 0; i < t->rows; i++) r->empty += is_blank(t->text[i], t->text_length[i]);
    FT_TRY(count_repeated(own, train, r));
    return measure(data, r);
}
