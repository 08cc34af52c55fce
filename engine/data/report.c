#include "engine/data/report.h"

#include "engine/data/input.h"
#include "kernels/philox.h"

#include <stdlib.h>
#include <string.h>

struct ft_text_entry {
    uint64_t hash;
    int64_t row;
};
typedef struct ft_text_entry entry;

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
    index->entries = ft_calloc((size_t)table->rows, sizeof *index->entries, "an index of texts");
    if (index->entries == NULL) return FT_NO_MEMORY;
    for (int64_t i = 0; i < table->rows; i++) index->entries[i] = (entry){hash_row(table, i), i};
    qsort(index->entries, (size_t)table->rows, sizeof *index->entries, compare);
    return FT_OK;
}

void ft_text_index_free(ft_text_index *index) {
    free(index->entries);
    *index = (ft_text_index){0};
}

// The first row of the index with this hash and text; -1: none.
static int64_t find(const ft_text_index *index, uint64_t hash, const ft_table *table, int64_t row) {
    int64_t low = 0, high = index->table->rows;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (index->entries[middle].hash < hash) low = middle + 1;
        else high = middle;
    }
    for (; low < index->table->rows && index->entries[low].hash == hash; low++)
        if (same_text(index->table, index->entries[low].row, table, row)) return index->entries[low].row;
    return -1;
}

static void count_repeated(const ft_text_index *own, const ft_text_index *train, ft_data_report *r) {
    const ft_table *t = own->table;
    for (int64_t i = 0; i < t->rows; i++) {
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

static bool is_blank(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (memchr(" \t\r\n", text[i], 4) == NULL) return false;
    return true;
}

static int compare_lengths(const void *a, const void *b) {
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return x < y ? -1 : x > y;
}

static ft_status measure(const ft_dataset *data, ft_data_report *r) {
    static const int64_t hundredths[FT_QUANTILES] = {0, 50, 90, 99, 100};
    int32_t *lengths = ft_calloc((size_t)data->sequences, sizeof *lengths, "lengths of texts");
    if (lengths == NULL) return FT_NO_MEMORY;
    for (int64_t i = 0; i < data->sequences; i++) lengths[i] = (int32_t)ft_dataset_length(data, i);
    qsort(lengths, (size_t)data->sequences, sizeof *lengths, compare_lengths);
    for (int q = 0; q < FT_QUANTILES; q++) {
        int64_t many = (data->sequences * hundredths[q] + 99) / 100; // at least so many are no longer
        r->length[q] = lengths[many > 0 ? many - 1 : 0];
    }
    free(lengths);
    return FT_OK;
}

ft_status ft_data_report_make(const ft_text_index *own, const ft_dataset *data, const ft_text_index *train, ft_data_report *r) {
    const ft_table *t = own->table;
    *r = (ft_data_report){.examples = t->rows, .truncated = data->truncated};
    for (int64_t i = 0; i < t->rows; i++) r->empty += is_blank(t->text[i], t->text_length[i]);
    count_repeated(own, train, r);
    return measure(data, r);
}
