#include "engine/data/labels.h"

#include "engine/config/config.h"

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

// ---- classes from a table -----------------------------------------------------------------------------------------

// The distinct labels, sorted by bytes.
static ft_status distinct_labels(const ft_table *table, const char ***out, int64_t *count) {
    const char **sorted = ft_calloc((size_t)table->rows, sizeof *sorted, "labels");
    if (sorted == NULL) return FT_NO_MEMORY;
    memcpy(sorted, table->label, (size_t)table->rows * sizeof *sorted);
    qsort(sorted, (size_t)table->rows, sizeof *sorted, compare_names);
    int64_t kept = 0;
    for (int64_t i = 0; i < table->rows; i++)
        if (kept == 0 || strcmp(sorted[kept - 1], sorted[i]) != 0) sorted[kept++] = sorted[i];
    *out = sorted;
    *count = kept;
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
    FT_TRY(distinct_labels(table, &distinct, &count));
    ft_status status = name_classes(distinct, count, arena, labels);
    free(distinct);
    return status;
}

// ---- ids of a table's labels --------------------------------------------------------------------------------------

typedef struct entry {
    const char *name; // first: compare_names reads it
    int32_t id;
} entry;

// Names as transformers writes them when a model has none.
static bool placeholders(const ft_labels *labels) {
    for (int i = 0; i < labels->count; i++) {
        char name[24];
        snprintf(name, sizeof name, "LABEL_%d", i);
        if (strcmp(labels->names[i], name) != 0) return false;
    }
    return true;
}

static ft_status fail_unknown(const ft_labels *labels, const char *label, const char *path, int64_t row) {
    char where[512], list[400] = "";
    snprintf(where, sizeof where, "%s:%lld", ft_table_display(path), (long long)row + 2);
    ft_status status = ft_fail(FT_INVALID, where, "unknown label \"%.100s\"", label);
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
    entry *index = ft_calloc((size_t)labels->count, sizeof *index, "labels");
    if (index == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < labels->count; i++)
        index[i] = (entry){labels->names[i], i};
    qsort(index, (size_t)labels->count, sizeof *index, compare_names);
    bool numbers = placeholders(labels);
    ft_status status = FT_OK;
    for (int64_t row = 0; row < table->rows && status == FT_OK; row++) {
        const entry key = {table->label[row], 0};
        const entry *found = bsearch(&key, index, (size_t)labels->count, sizeof *index, compare_names);
        int32_t number = found == NULL && numbers ? class_number(key.name) : NOT_A_NUMBER;
        if (found != NULL)
            id[row] = found->id;
        else if (number != NOT_A_NUMBER && number < labels->count)
            id[row] = number;
        else
            status = fail_unknown(labels, key.name, path, row);
    }
    free(index);
    return status;
}
