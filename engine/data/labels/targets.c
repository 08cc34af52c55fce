#include "engine/data/labels/targets.h"

#include "base/nearest.h"
#include "base/spill.h"
#include "engine/data/tables/name_set.h"
#include "engine/data/tables/records.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- a cell as a list ---------------------------------------------------------------------------------------------

// Calls visit for every member of a cell, without the blanks around it. They end with the list separator, or are separated by `separator`,
// which may be "": then a cell is one.
typedef ft_status (*visitor)(void *context, const char *member, size_t length, int index);

static bool is_list(const char *cell) {
    size_t length = strlen(cell);
    return length > 0 && cell[length - 1] == FT_LIST_SEPARATOR;
}

static ft_status each_member(const char *cell, const char *separator, visitor visit, void *context, int *count) {
    const bool list = is_list(cell);
    const char one[2] = {FT_LIST_SEPARATOR, '\0'}, *mark = list ? one : separator;
    int index = 0;
    for (const char *at = cell; *at != '\0';) {
        const char *stop = *mark != '\0' ? strstr(at, mark) : NULL, *end = stop != NULL ? stop : at + strlen(at),
                   *next = stop != NULL ? stop + strlen(mark) : end;
        while (!list && at < end && *at == ' ') at++;
        while (!list && end > at && end[-1] == ' ') end--;
        if (list || end > at) FT_TRY(visit(context, at, (size_t)(end - at), index++));
        at = next;
    }
    *count = index;
    return FT_OK;
}

// 0 or 1, or -1: neither.
static int truth(const char *member, size_t length) {
    static const char *const words[] = {"0", "1", "0.0", "1.0", "false", "true", "False", "True"};
    for (int i = 0; i < 8; i++)
        if (strlen(words[i]) == length && memcmp(words[i], member, length) == 0) return i % 2;
    return -1;
}

// ---- which form a table has ---------------------------------------------------------------------------------------

typedef struct looking {
    bool all_truths;
} looking;

static ft_status look(void *context, const char *member, size_t length, int index) {
    looking *l = context;
    if (truth(member, length) < 0) l->all_truths = false;
    return FT_OK;
}

// How many places the lists of a table have when they are lists of 0 and 1; 0: they are not.
static int places_of(const ft_table *table, const char *separator) {
    int places = 0;
    for (int64_t row = 0; row < table->rows; row++) {
        looking l = {.all_truths = true};
        int count = 0;
        if (!is_list(table->label[row])) return 0;
        (void)each_member(table->label[row], separator, look, &l, &count);
        if (!l.all_truths || count < 2 || (places > 0 && count != places)) return 0;
        places = count;
    }
    return places;
}

// ---- names --------------------------------------------------------------------------------------------------------

typedef struct collecting {
    ft_arena *arena;
    ft_name_set seen;
    const char **name; // each once
    size_t count, capacity;
    char *member; // room for one, with its NUL
    size_t room;
} collecting;

static ft_status collect(void *context, const char *member, size_t length, int index) {
    collecting *c = context;
    if (length + 1 > c->room) {
        char *larger = ft_realloc(c->member, 2 * length + 64, 1, "a label");
        if (larger == NULL) return FT_NO_MEMORY;
        c->member = larger;
        c->room = 2 * length + 64;
    }
    memcpy(c->member, member, length);
    c->member[length] = '\0';
    if (ft_name_set_find(&c->seen, c->member) != NULL) return FT_OK;
    if (c->count == c->capacity) {
        size_t capacity = c->capacity > 0 ? 2 * c->capacity : 64;
        const char **grown = ft_realloc(c->name, capacity, sizeof *grown, "class names");
        if (grown == NULL) return FT_NO_MEMORY;
        c->name = grown;
        c->capacity = capacity;
    }
    c->name[c->count] = ft_arena_strndup(c->arena, member, length);
    if (c->name[c->count] == NULL) return FT_NO_MEMORY;
    return ft_name_set_add(&c->seen, c->name[c->count++]);
}

// The members of all cells as if each stood in a row of its own: what is a class then follows labels.h.
static ft_status names_of_members(const ft_table *train, const ft_table *other, const char *separator, ft_arena *arena,
                                  ft_labels *labels) {
    collecting c = {.arena = arena};
    ft_status status = FT_OK;
    int count;
    for (int64_t row = 0; row < train->rows && status == FT_OK; row++)
        status = each_member(train->label[row], separator, collect, &c, &count);
    for (int64_t row = 0; other != NULL && row < other->rows && status == FT_OK; row++)
        status = each_member(other->label[row], separator, collect, &c, &count);
    const ft_label_kind kind = labels->kind;
    ft_table members = {.rows = (int64_t)c.count, .label = c.name};
    if (status == FT_OK && c.count == 0) status = ft_fail(FT_INVALID, NULL, "no row has a label");
    if (status == FT_OK) status = ft_labels_from_table(&members, arena, labels);
    labels->kind = kind;
    labels->separator = separator;
    free(c.name);
    free(c.member);
    ft_name_set_free(&c.seen);
    return status;
}

static ft_status numbered_names(int count, ft_arena *arena, ft_labels *labels) {
    labels->count = count;
    labels->names = ft_arena_alloc(arena, (size_t)count * sizeof *labels->names);
    if (labels->names == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < count; i++)
        if ((labels->names[i] = ft_arena_format(arena, "%d", i)) == NULL) return FT_NO_MEMORY;
    return FT_OK;
}

static ft_status names_of_columns(const ft_table *table, ft_arena *arena, ft_labels *labels) {
    labels->count = table->label_columns;
    labels->names = ft_arena_alloc(arena, (size_t)labels->count * sizeof *labels->names);
    if (labels->names == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < labels->count; i++)
        if ((labels->names[i] = ft_arena_strdup(arena, table->label_column_name[i])) == NULL) return FT_NO_MEMORY;
    return FT_OK;
}

static ft_status count_member(void *context, const char *member, size_t length, int index) { return FT_OK; }

ft_status ft_targets_labels(const ft_table *train, const ft_table *other, ft_arena *arena, ft_labels *labels) {
    if (train->label == NULL) return ft_fail(FT_INVALID, NULL, "a table without labels has no targets");
    if (train->label_columns > 1) return names_of_columns(train, arena, labels);
    if (labels->kind == FT_LABELS_NUMBERS) {
        int count = 1;
        if (!is_list(train->label[0])) return names_of_columns(train, arena, labels);
        (void)each_member(train->label[0], labels->separator, count_member, NULL, &count);
        return numbered_names(count, arena, labels);
    }
    int places = places_of(train, labels->separator);
    if (places > 0) return numbered_names(places, arena, labels);
    return names_of_members(train, other, labels->separator, arena, labels);
}

// ---- targets of rows ----------------------------------------------------------------------------------------------

typedef struct filling {
    const ft_labels *labels;
    float *row;           // numbers, else NULL
    ft_label_index index; // classes by name
    ft_label_sets *sets;  // those of the rows so far
    size_t used, capacity;
    char *member; // room for one, with its NUL
    size_t room;
    const char *where;
    bool decimal_comma; // numbers may be written 3,5
} filling;

static ft_status copy_member(filling *f, const char *member, size_t length) {
    if (length + 1 > f->room) {
        char *larger = ft_realloc(f->member, 2 * length + 64, 1, "a label");
        if (larger == NULL) return FT_NO_MEMORY;
        f->member = larger;
        f->room = 2 * length + 64;
    }
    memcpy(f->member, member, length);
    f->member[length] = '\0';
    return FT_OK;
}

// 3,5 becomes 3.5; what has two commas, or a point as well, stays as it is and is no number.
static void point_for_comma(char *number) {
    char *comma = strchr(number, ',');
    if (comma != NULL && strchr(comma + 1, ',') == NULL && strchr(number, '.') == NULL) *comma = '.';
}

static ft_status set_number(void *context, const char *member, size_t length, int index) {
    filling *f = context;
    FT_TRY(copy_member(f, member, length));
    if (index >= f->labels->count) return FT_OK; // counted by the caller
    if (f->decimal_comma) point_for_comma(f->member);
    char *end;
    double value = strtod(f->member, &end);
    if (end == f->member || *end != '\0' || !isfinite(value) || fabs(value) > 1e30) {
        ft_fail(FT_INVALID, f->where, "\"%.60s\" is no number", f->member);
        if (strchr(f->member, ',') != NULL)
            ft_hint("numbers are written with a point, as 3.5; a decimal comma is for files whose columns are separated by ;");
        return FT_INVALID;
    }
    f->row[index] = (float)value;
    return FT_OK;
}

static ft_status add_class(filling *f, int32_t id) {
    if (f->used == f->capacity) {
        f->capacity += f->capacity / 2 + 64;
        FT_SPILL_GROW(f->sets->label, f->capacity, "labels");
    }
    f->sets->label[f->used++] = id;
    return FT_OK;
}

static ft_status set_truth(void *context, const char *member, size_t length, int index) {
    filling *f = context;
    int value = truth(member, length);
    if (value < 0) return ft_fail(FT_INVALID, f->where, "\"%.*s\" is neither 0 nor 1", (int)(length < 60 ? length : 60), member);
    return value == 1 && index < f->labels->count ? add_class(f, index) : FT_OK;
}

static ft_status set_class(void *context, const char *member, size_t length, int index) {
    filling *f = context;
    FT_TRY(copy_member(f, member, length));
    const int id = ft_label_index_find(&f->index, f->member);
    if (id >= 0) return add_class(f, id);
    ft_fail(FT_INVALID, f->where, "unknown label \"%.100s\"", f->member);
    const char *near = ft_nearest(f->member, f->labels->count, f->labels->names);
    if (near != NULL) ft_hint("did you mean \"%.100s\"?", near);
    return FT_INVALID;
}

static ft_status assign_row(filling *f, const ft_table *table, int64_t row, bool places) {
    const char *cell = table->label[row];
    const bool numbers = f->labels->kind == FT_LABELS_NUMBERS;
    int count = 0;
    if (!numbers && !places) return each_member(cell, f->labels->separator, set_class, f, &count);
    if (is_list(cell)) {
        FT_TRY(each_member(cell, f->labels->separator, numbers ? set_number : set_truth, f, &count));
    } else {
        count = 1;
        FT_TRY((numbers ? set_number : set_truth)(f, cell, strlen(cell), 0)); // a comma separates nothing in one number
    }
    if (count != f->labels->count)
        return ft_fail(FT_INVALID, f->where, "this row has %d target%s, there are %d", count, count == 1 ? "" : "s",
                       f->labels->count);
    return FT_OK;
}

static filling filling_of(const ft_labels *labels, const ft_table *table) {
    return (filling){.labels = labels, .decimal_comma = table->delimiter == ';'};
}

static bool in_places(const ft_labels *labels, const ft_table *table) {
    return table->label_columns > 1 || places_of(table, labels->separator) == labels->count;
}

ft_status ft_targets_assign(const ft_labels *labels, const ft_table *table, const char *path, float *target) {
    filling f = filling_of(labels, table);
    ft_status status = FT_OK;
    char where[512];
    for (int64_t row = 0; row < table->rows && status == FT_OK; row++) {
        f.where = ft_table_where(table, path, row, where);
        f.row = target + row * labels->count;
        status = assign_row(&f, table, row, false);
    }
    free(f.member);
    return status;
}

static int compare_ids(const void *a, const void *b) {
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

// The classes of a row, which are the last: ascending, each once. Most rows have few, and in order.
static void settle_row(filling *f, size_t first) {
    int32_t *label = f->sets->label;
    size_t kept = first;
    bool ascending = true;
    for (size_t i = first + 1; i < f->used; i++) ascending = ascending && label[i] > label[i - 1];
    if (ascending) return;
    qsort(label + first, f->used - first, sizeof *label, compare_ids);
    for (size_t i = first; i < f->used; i++)
        if (i == first || label[i] != label[kept - 1]) label[kept++] = label[i];
    f->used = kept;
}

static ft_status assign_sets(filling *f, const ft_table *table, const char *path) {
    const bool places = in_places(f->labels, table);
    char where[512];
    if (!places) FT_TRY(ft_label_index_make(f->labels, &f->index));
    for (int64_t row = 0; row < table->rows; row++) {
        const size_t first = f->used;
        f->where = ft_table_where(table, path, row, where);
        FT_TRY(assign_row(f, table, row, places));
        settle_row(f, first);
        f->sets->first[row + 1] = (int64_t)f->used;
    }
    return FT_OK;
}

ft_status ft_targets_assign_sets(const ft_labels *labels, const ft_table *table, const char *path, ft_label_sets *sets) {
    filling f = filling_of(labels, table);
    *sets = (ft_label_sets){.first = ft_spill_calloc((size_t)table->rows + 1, sizeof *sets->first, "labels")};
    if (sets->first == NULL) return FT_NO_MEMORY;
    f.sets = sets;
    ft_status status = assign_sets(&f, table, path);
    ft_label_index_free(&f.index);
    free(f.member);
    return status;
}
