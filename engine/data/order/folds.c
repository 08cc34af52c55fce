#include "engine/data/order/folds.h"

#include "engine/data/order/order.h"

#include "base/spill.h"

#include <stdlib.h>
#include <string.h>

// ---- classes and groups: equal texts get equal numbers --------------------------------------------------------------------

typedef struct name_at {
    const char *name;
    int64_t row;
} name_at;

static int by_name(const void *a, const void *b) {
    const name_at *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order != 0 ? order : (x->row > y->row) - (x->row < y->row);
}

// number_of[i]: which of the different names row i has, in byte order; all 0 without names.
static ft_status number_names(const char *const *names, int64_t rows, int32_t *number_of, int32_t *count) {
    *count = 1;
    memset(number_of, 0, (size_t)rows * sizeof *number_of);
    if (names == NULL) return FT_OK;
    name_at *sorted = ft_calloc((size_t)rows, sizeof *sorted, "the names of rows");
    if (sorted == NULL) return FT_NO_MEMORY;
    for (int64_t i = 0; i < rows; i++)
        sorted[i] = (name_at){names[i], i};
    qsort(sorted, (size_t)rows, sizeof *sorted, by_name);
    for (int64_t i = 0; i < rows; i++) {
        if (i > 0 && strcmp(sorted[i].name, sorted[i - 1].name) != 0) ++*count;
        number_of[sorted[i].row] = *count - 1;
    }
    free(sorted);
    return FT_OK;
}

// ---- rows without groups ----------------------------------------------------------------------------------------------------

// Rows in the order of their classes, drawn within each, are dealt out in turns: a class is a stretch of that order.
static ft_status deal_rows(const int32_t *class_of, int32_t classes, const int32_t *drawn, int64_t rows, int folds,
                           int32_t *fold_of) {
    int64_t *next = ft_calloc((size_t)classes + 1, sizeof *next, "the classes of folds");
    if (next == NULL) return FT_NO_MEMORY;
    for (int64_t i = 0; i < rows; i++)
        next[class_of[i] + 1]++;
    for (int32_t c = 0; c < classes; c++)
        next[c + 1] += next[c];
    for (int64_t i = 0; i < rows; i++)
        fold_of[drawn[i]] = (int32_t)(next[class_of[drawn[i]]]++ % folds);
    free(next);
    return FT_OK;
}

// ---- groups -----------------------------------------------------------------------------------------------------------------

typedef struct dealing {
    const int32_t *class_of, *group_of;
    int32_t classes, groups;
    int folds;
    int64_t rows;
    int64_t *start;    // [groups + 1] into `member`
    int32_t *member;   // [rows] rows by group
    int32_t *sequence; // [groups] the largest first, drawn among equals
    int64_t *total;    // [classes] rows
    double *share;     // [folds * classes] of the class's rows
    double *size;      // [folds] share of all rows
} dealing;

static void free_dealing(dealing *d) {
    void *all[] = {d->start, d->member, d->sequence, d->total, d->share, d->size};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
}

static ft_status open_dealing(dealing *d) {
    d->start = ft_calloc((size_t)d->groups + 2, sizeof *d->start, "groups");
    d->member = ft_calloc((size_t)d->rows, sizeof *d->member, "the rows of groups");
    d->sequence = ft_calloc((size_t)d->groups, sizeof *d->sequence, "groups");
    d->total = ft_calloc((size_t)d->classes, sizeof *d->total, "classes");
    d->share = ft_calloc((size_t)d->classes * (size_t)d->folds, sizeof *d->share, "the classes of folds");
    d->size = ft_calloc((size_t)d->folds, sizeof *d->size, "folds");
    if (!d->start || !d->member || !d->sequence || !d->total || !d->share || !d->size) return FT_NO_MEMORY;
    for (int64_t i = 0; i < d->rows; i++) {
        d->start[d->group_of[i] + 2]++;
        d->total[d->class_of[i]]++;
    }
    for (int32_t g = 0; g < d->groups; g++)
        d->start[g + 2] += d->start[g + 1];
    for (int64_t i = 0; i < d->rows; i++)
        d->member[d->start[d->group_of[i] + 1]++] = (int32_t)i; // start[g + 1] ends at g's end
    return FT_OK;
}

static int64_t size_of(const dealing *d, int32_t g) { return d->start[g + 1] - d->start[g]; }

// By counting: groups of one size stay in the drawn order.
static ft_status order_groups(dealing *d, uint64_t seed) {
    int64_t largest = 0;
    for (int32_t g = 0; g < d->groups; g++)
        largest = size_of(d, g) > largest ? size_of(d, g) : largest;
    int64_t *next = ft_calloc((size_t)largest + 2, sizeof *next, "the sizes of groups");
    int32_t *drawn = ft_calloc((size_t)d->groups, sizeof *drawn, "groups");
    ft_status status = next && drawn ? ft_epoch_order(seed, 0, d->groups, drawn) : FT_NO_MEMORY;
    for (int32_t g = 0; status == FT_OK && g < d->groups; g++)
        next[largest - size_of(d, g) + 1]++;
    for (int64_t s = 0; status == FT_OK && s < largest; s++)
        next[s + 1] += next[s];
    for (int32_t g = 0; status == FT_OK && g < d->groups; g++)
        d->sequence[next[largest - size_of(d, drawn[g])]++] = drawn[g];
    free(next);
    free(drawn);
    return status;
}

// By how much the squares of the shares grow when the group with these classes goes to the fold: sum of (s+g)^2 - s^2.
static double growth(const dealing *d, int fold, int32_t g, const int64_t *in_group) {
    const double *share = d->share + (int64_t)fold * d->classes;
    double part = (double)size_of(d, g) / (double)d->rows, sum = part * (part + 2 * d->size[fold]);
    for (int64_t i = d->start[g]; i < d->start[g + 1]; i++) {
        int32_t c = d->class_of[d->member[i]];
        double p = (double)in_group[c] / (double)d->total[c]; // once a row: a row's part of its class
        sum += p * (p + 2 * share[c]) / (double)in_group[c] / d->classes;
    }
    return sum;
}

static void place_group(dealing *d, int32_t g, int64_t *in_group, int32_t *fold_of) {
    for (int64_t i = d->start[g]; i < d->start[g + 1]; i++)
        in_group[d->class_of[d->member[i]]]++;
    int best = 0;
    double least = growth(d, 0, g, in_group);
    for (int f = 1; f < d->folds; f++) {
        double grows = growth(d, f, g, in_group);
        if (grows < least) least = grows, best = f;
    }
    d->size[best] += (double)size_of(d, g) / (double)d->rows;
    for (int64_t i = d->start[g]; i < d->start[g + 1]; i++) {
        int32_t row = d->member[i], c = d->class_of[row];
        d->share[(int64_t)best * d->classes + c] += 1.0 / (double)d->total[c];
        fold_of[row] = best;
        in_group[c] = 0;
    }
}

static ft_status deal_groups(dealing *d, uint64_t seed, int32_t *fold_of) {
    FT_TRY(open_dealing(d));
    FT_TRY(order_groups(d, seed));
    int64_t *in_group = ft_calloc((size_t)d->classes, sizeof *in_group, "the classes of a group");
    if (in_group == NULL) return FT_NO_MEMORY;
    for (int32_t k = 0; k < d->groups; k++)
        place_group(d, d->sequence[k], in_group, fold_of);
    free(in_group);
    return FT_OK;
}

ft_status ft_folds_assign(const char *const *label, const char *const *group, int64_t rows, int folds, uint64_t seed,
                          const char *where, int32_t *fold_of) {
    if (rows < folds) return ft_fail(FT_INVALID, where, "%lld examples cannot make %d folds", (long long)rows, folds);
    int32_t *class_of = ft_calloc((size_t)rows, sizeof *class_of, "the classes of rows");
    int32_t *group_of = ft_calloc((size_t)rows, sizeof *group_of, "the groups of rows");
    int32_t *drawn = ft_calloc((size_t)rows, sizeof *drawn, "an order of rows");
    int32_t classes, groups;
    dealing d = {0};
    ft_status status = class_of && group_of && drawn ? FT_OK : FT_NO_MEMORY;
    if (status != FT_OK) goto done;
    FT_TRY_GOTO(number_names(label, rows, class_of, &classes), done);
    if (classes > FT_FOLD_CLASSES) FT_TRY_GOTO(number_names(NULL, rows, class_of, &classes), done);
    FT_TRY_GOTO(number_names(group, rows, group_of, &groups), done);
    if (group == NULL) {
        FT_TRY_GOTO(ft_epoch_order(seed, 0, rows, drawn), done);
        status = deal_rows(class_of, classes, drawn, rows, folds, fold_of);
        goto done;
    }
    if (groups < folds) {
        status = ft_fail(FT_INVALID, where, "%d groups cannot make %d folds", groups, folds);
        goto done;
    }
    d = (dealing){.class_of = class_of, .group_of = group_of, .classes = classes, .groups = groups, .folds = folds, .rows = rows};
    status = deal_groups(&d, seed, fold_of);
done:
    free_dealing(&d);
    free(class_of);
    free(group_of);
    free(drawn);
    return status;
}

// ---- two tables of one --------------------------------------------------------------------------------------------------------

static void move_row(const ft_table *from, int64_t i, ft_table *to, int64_t k) {
    to->text[k] = from->text[i];
    to->text_length[k] = from->text_length[i];
    to->line[k] = from->line[i];
    if (from->pair != NULL) to->pair[k] = from->pair[i], to->pair_length[k] = from->pair_length[i];
    if (from->label != NULL) to->label[k] = from->label[i];
    if (from->id != NULL) to->id[k] = from->id[i];
}

ft_status ft_table_split(ft_table *table, const int32_t *fold_of, int fold, ft_table *out, int64_t *kept_row,
                         int64_t *moved_row) {
    size_t n = 1; // none at all is a block too
    for (int64_t i = 0; i < table->rows; i++)
        n += fold_of[i] == fold;
    *out = *table;
    out->data = NULL; // all that is shared stays with `table`
    out->chunks = NULL;
    out->arena = (ft_arena){0};
    out->rows = 0;
    out->capacity = (int64_t)n;
    out->text = ft_spill_calloc(n, sizeof *out->text, "the rows of a fold");
    out->text_length = ft_spill_calloc(n, sizeof *out->text_length, "the rows of a fold");
    out->line = ft_spill_calloc(n, sizeof *out->line, "the rows of a fold");
    out->pair = table->pair != NULL ? ft_spill_calloc(n, sizeof *out->pair, "the rows of a fold") : NULL;
    out->pair_length = table->pair != NULL ? ft_spill_calloc(n, sizeof *out->pair_length, "the rows of a fold") : NULL;
    out->label = table->label != NULL ? ft_spill_calloc(n, sizeof *out->label, "the rows of a fold") : NULL;
    out->id = table->id != NULL ? ft_spill_calloc(n, sizeof *out->id, "the rows of a fold") : NULL;
    bool pairs = table->pair == NULL || (out->pair != NULL && out->pair_length != NULL);
    if (!out->text || !out->text_length || !out->line || !pairs || (table->label && !out->label) || (table->id && !out->id)) {
        ft_table_free(out);
        return FT_NO_MEMORY;
    }
    int64_t kept = 0;
    for (int64_t i = 0; i < table->rows; i++) {
        if (fold_of[i] == fold) {
            moved_row[out->rows] = i;
            move_row(table, i, out, out->rows++);
        } else {
            kept_row[kept] = i;
            move_row(table, i, table, kept++);
        }
    }
    table->rows = kept;
    return FT_OK;
}

void ft_table_leave_out(ft_table *table, const bool *marked) {
    int64_t kept = 0;
    for (int64_t i = 0; i < table->rows; i++)
        if (!marked[i]) move_row(table, i, table, kept++);
    table->rows = kept;
}
