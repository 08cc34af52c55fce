#include "engine/data/labels/labels.h"

#include "base/nearest.h"
#include "engine/data/tables/name_set.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NOT_A_NUMBER = -1 };

// The value of a label written as people write class numbers: no sign, no leading zero, at most nine digits.
static int32_t class_number(const char *label) {
    size_t digits = strspn(label, "0123456789");
    if (digits == 0 || digits > 9 || label[digits] != '\0' || (label[0] == '0' && digits > 1)) return NOT_A_NUMBER;
    return (int32_t)strtol(label, NULL, 10);
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// The length of a whole number, with or without ".0" behind it as data frames write it; 0: this is none.
static size_t whole_number(const char *label) {
    size_t sign = label[0] == '-', digits = strspn(label + sign, "0123456789"), length = sign + digits;
    if (digits == 0) return 0;
    if (label[length] == '\0') return length;
    size_t zeros = label[length] == '.' ? strspn(label + length + 1, "0") : 0;
    return zeros > 0 && label[length + 1 + zeros] == '\0' ? length : 0;
}

// ---- classes from a table -----------------------------------------------------------------------------------------

// The different labels of a table, added to those of the set: what is sorted grows with the classes, not with the rows.
static ft_status collect_labels(const ft_table *table, ft_name_set *set) {
    for (int64_t i = 0; i < table->rows; i++)
        if (ft_name_set_find(set, table->label[i]) == NULL) FT_TRY(ft_name_set_add(set, table->label[i]));
    return FT_OK;
}

static int64_t sort_distinct(const char **names, int64_t count) {
    qsort(names, (size_t)count, sizeof *names, compare_names);
    int64_t kept = 0;
    for (int64_t i = 0; i < count; i++)
        if (kept == 0 || strcmp(names[kept - 1], names[i]) != 0) names[kept++] = names[i];
    return kept;
}

// The distinct labels of a table, and of another one if there is one, sorted by bytes. Where all are whole numbers, "1.0"
// is "1".
static ft_status distinct_labels(const ft_table *table, const ft_table *other, ft_arena *arena, const char ***out, int64_t *count) {
    ft_name_set set = {0};
    ft_status status = collect_labels(table, &set);
    if (status == FT_OK && other != NULL) status = collect_labels(other, &set);
    const char **sorted = status == FT_OK ? ft_calloc(set.count + 1, sizeof *sorted, "labels") : NULL;
    int64_t kept = 0;
    for (size_t i = 0; sorted != NULL && i < set.slots; i++)
        if (set.slot[i] != NULL) sorted[kept++] = set.slot[i];
    ft_name_set_free(&set);
    if (sorted == NULL) return FT_NO_MEMORY;
    kept = sort_distinct(sorted, kept);
    *out = sorted;
    *count = kept;
    for (int64_t i = 0; i < kept; i++)
        if (whole_number(sorted[i]) == 0) return FT_OK;
    for (int64_t i = 0; i < kept; i++) {
        size_t length = whole_number(sorted[i]);
        if (sorted[i][length] == '\0') continue;
        sorted[i] = ft_arena_strndup(arena, sorted[i], length);
        if (sorted[i] == NULL) {
            free(sorted);
            return FT_NO_MEMORY;
        }
    }
    *count = sort_distinct(sorted, kept);
    return FT_OK;
}

// How many classes the labels number, or 0 when they are names. Numbers that start at 1, or of which fewer than half
// occur (0 and 4, as some sentiment sets have it), are names: their gaps would be classes nobody meant.
static int64_t numbered_classes(const char *const *distinct, int64_t count) {
    int64_t largest = 0;
    bool zero = false;
    for (int64_t i = 0; i < count; i++) {
        int32_t number = class_number(distinct[i]);
        if (number == NOT_A_NUMBER) return 0;
        if (number > largest) largest = number;
        zero = zero || number == 0;
    }
    return zero && largest + 1 <= 2 * count ? largest + 1 : 0;
}

static ft_status name_classes(const char *const *distinct, int64_t count, ft_arena *arena, ft_labels *labels) {
    int64_t numbered = numbered_classes(distinct, count);
    labels->count = (int)(numbered > 0 ? numbered : count);
    labels->missing = labels->count - (int)count;
    labels->names = ft_arena_alloc(arena, (size_t)labels->count * sizeof *labels->names);
    if (labels->names == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < labels->count; i++) {
        labels->names[i] = numbered > 0 ? ft_arena_format(arena, "%d", i) : ft_arena_strdup(arena, distinct[i]);
        if (labels->names[i] == NULL) return FT_NO_MEMORY;
    }
    return FT_OK;
}

ft_status ft_labels_from_table(const ft_table *table, ft_arena *arena, ft_labels *labels) {
    memset(labels, 0, sizeof *labels);
    if (table->label == NULL || table->rows == 0)
        return ft_fail(FT_INVALID, NULL, "a table without labels has no classes");
    const char **distinct;
    int64_t count;
    FT_TRY(distinct_labels(table, NULL, arena, &distinct, &count));
    ft_status status = name_classes(distinct, count, arena, labels);
    free(distinct);
    return status;
}

// A label in words that is nearly one of `known` is a slip of the pen, not a class of its own.
static const char *meant(const char *label, const char *const *known, int64_t count) {
    if (strpbrk(label, "0123456789") != NULL) return NULL;
    return ft_nearest(label, (int)count, known);
}

static ft_status check_meant(const ft_table *other, const char *path, const char *const *known, int64_t count, const char *const *all,
                             int64_t all_count) {
    for (int64_t i = 0; i < all_count; i++) {
        const char *label = all[i];
        if (bsearch(&label, known, (size_t)count, sizeof *known, compare_names) != NULL) continue;
        const char *near = meant(label, known, count);
        if (near == NULL) continue;
        int64_t row = 0;
        while (row + 1 < other->rows && strcmp(other->label[row], label) != 0) row++;
        char where[512];
        ft_fail(FT_INVALID, ft_table_where(other, path, row, where), "the label \"%.100s\" does not occur in the training data", label);
        ft_hint("did you mean \"%.100s\"?", near);
        return FT_INVALID;
    }
    return FT_OK;
}

ft_status ft_labels_from_tables(const ft_table *train, const ft_table *other, const char *path, ft_arena *arena, ft_labels *labels) {
    FT_TRY(ft_labels_from_table(train, arena, labels));
    if (other == NULL || other->label == NULL) return FT_OK;
    const char **known = NULL, **all = NULL;
    int64_t known_count, all_count;
    ft_status status;
    FT_TRY_GOTO(distinct_labels(train, NULL, arena, &known, &known_count), done);
    FT_TRY_GOTO(distinct_labels(train, other, arena, &all, &all_count), done);
    if (all_count == known_count) goto done;
    FT_TRY_GOTO(check_meant(other, path, known, known_count, all, all_count), done);
    FT_TRY_GOTO(name_classes(all, all_count, arena, labels), done);
    labels->missing = labels->count - (int)known_count;
done:
    free(known);
    free(all);
    return status;
}

// ---- ids of a table's labels --------------------------------------------------------------------------------------

typedef struct ft_label_entry {
    const char *name;
    size_t length;
    int32_t id;
} entry;

static int compare_entries(const void *a, const void *b) {
    const entry *x = a, *y = b;
    const int order = memcmp(x->name, y->name, x->length < y->length ? x->length : y->length);
    return order != 0 ? order : (x->length > y->length) - (x->length < y->length);
}

// Where a name stands twice, the first has it.
static int compare_twins(const void *a, const void *b) {
    const int order = compare_entries(a, b);
    return order != 0 ? order : ((const entry *)a)->id - ((const entry *)b)->id;
}

// Names as transformers writes them when a model has none.
static bool placeholders(const ft_labels *labels) {
    for (int i = 0; i < labels->count; i++) {
        char name[24];
        snprintf(name, sizeof name, "LABEL_%d", i);
        if (strcmp(labels->names[i], name) != 0) return false;
    }
    return true;
}

ft_status ft_label_index_make(const ft_labels *labels, ft_label_index *index) {
    *index = (ft_label_index){.labels = labels, .numbers = placeholders(labels)};
    index->entry = ft_calloc((size_t)labels->count, sizeof *index->entry, "labels");
    if (index->entry == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < labels->count; i++) index->entry[i] = (entry){labels->names[i], strlen(labels->names[i]), i};
    qsort(index->entry, (size_t)labels->count, sizeof *index->entry, compare_twins);
    for (int i = 0; i < labels->count; i++)
        if (i == 0 || compare_entries(&index->entry[index->count - 1], &index->entry[i]) != 0) index->entry[index->count++] = index->entry[i];
    return FT_OK;
}

static const entry *find_entry(const ft_label_index *index, const char *label, size_t length) {
    const entry key = {label, length, 0};
    return bsearch(&key, index->entry, (size_t)index->count, sizeof *index->entry, compare_entries);
}

// As it stands, else a whole number without its ".0", else a number that is an id.
int ft_label_index_find(const ft_label_index *index, const char *label) {
    const size_t length = strlen(label), whole = whole_number(label);
    const entry *found = find_entry(index, label, length);
    if (found == NULL && whole > 0 && whole < length) found = find_entry(index, label, whole);
    if (found != NULL) return found->id;
    const int32_t number = index->numbers ? class_number(label) : NOT_A_NUMBER;
    return number != NOT_A_NUMBER && number < index->labels->count ? number : -1;
}

void ft_label_index_free(ft_label_index *index) {
    free(index->entry);
    *index = (ft_label_index){0};
}

static ft_status fail_unknown(const ft_labels *labels, const ft_table *table, const char *label, const char *path, int64_t row) {
    char where[512], list[400] = "";
    ft_status status = ft_fail(FT_INVALID, ft_table_where(table, path, row, where), "unknown label \"%.100s\" in column \"%.100s\"", label,
                               table->label_column);
    const char *near = ft_nearest(label, labels->count, labels->names);
    if (near != NULL) ft_hint("did you mean \"%.100s\"?", near);
    size_t used = 0;
    for (int i = 0; i < labels->count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", labels->names[i]);
    ft_hint("the %d known label%s: %s%s", labels->count, labels->count == 1 ? "" : "s", list,
            used >= sizeof list ? "..." : "");
    return status;
}

ft_status ft_labels_assign(const ft_labels *labels, const ft_table *table, const char *path, int32_t *id) {
    ft_label_index index;
    FT_TRY(ft_label_index_make(labels, &index));
    ft_status status = FT_OK;
    for (int64_t row = 0; row < table->rows && status == FT_OK; row++) {
        id[row] = ft_label_index_find(&index, table->label[row]);
        if (id[row] < 0) status = fail_unknown(labels, table, table->label[row], path, row);
    }
    ft_label_index_free(&index);
    return status;
}
