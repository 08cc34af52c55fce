#include "engine/train/job/data_remarks.h"

#include "base/log.h"
#include "base/utf8.h"
#include "engine/data/tables/source.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// ---- columns ------------------------------------------------------------------------------------------------------

static void say_columns(const ft_split_data *d, const char *what) {
    const ft_table *t = &d->table;
    if (t->text_column[0] == '\0') return; // the form's own: CoNLL's, SQuAD's, a folder's
    const bool pair = t->pair_column != NULL, label = t->label_column != NULL;
    ft_info("columns    %s from \"%s\"%s%s%s%s%s%s  %s", what, t->text_column, pair ? " and \"" : "", pair ? t->pair_column : "", pair ? "\"" : "",
            label ? ", label from \"" : "", label ? t->label_column : "", label ? "\"" : "", ft_source_display(d->path));
}

static bool same_columns(const ft_table *a, const ft_table *b) {
    if ((a->label_column == NULL) != (b->label_column == NULL)) return false;
    return strcmp(a->text_column, b->text_column) == 0 && (a->label_column == NULL || strcmp(a->label_column, b->label_column) == 0);
}

// ---- texts --------------------------------------------------------------------------------------------------------

static bool is_broken(const char *text, size_t length) { return ft_utf8_valid_prefix(text, length) != length; }

static bool is_quoted(const char *text, size_t length) { return length > 1 && text[0] == '"' && text[length - 1] == '"'; }

// Of how many texts it holds, and of which first.
static int64_t count_texts(const ft_table *t, bool (*holds)(const char *text, size_t length), int64_t *first) {
    int64_t count = 0;
    for (int64_t i = 0; i < t->rows; i++) {
        if (!holds(t->text[i], t->text_length[i]) && (t->pair == NULL || !holds(t->pair[i], t->pair_length[i]))) continue;
        if (count++ == 0) *first = i;
    }
    return count;
}

static void remark_texts(const ft_split_data *d) {
    const ft_table *t = &d->table;
    const char *file = ft_source_display(d->path);
    char where[512];
    int64_t first = 0;
    const int64_t broken = count_texts(t, is_broken, &first);
    if (broken > 0)
        ft_warn("%lld texts of %s are not valid UTF-8: what is broken is read as U+FFFD (%s)", (long long)broken, file,
                ft_table_where(t, d->path, first, where));
    const int64_t quoted = t->format == FT_FORMAT_TSV ? count_texts(t, is_quoted, &first) : 0;
    if (quoted > 0 && 10 * quoted >= t->rows)
        ft_warn("%lld of %lld texts of %s are in quotes, which are a part of the text in TSV; data.format=csv reads quoted cells (%s)",
                (long long)quoted, (long long)t->rows, file, ft_table_where(t, d->path, first, where));
}

// ---- classes ------------------------------------------------------------------------------------------------------

typedef struct spelling {
    const char *name;
    char *plain; // without blanks around it, in small letters; of a number its value
} spelling;

static int by_plain(const void *a, const void *b) {
    const spelling *x = a, *y = b;
    const int order = strcmp(x->plain, y->plain);
    return order != 0 ? order : strcmp(x->name, y->name);
}

static char *plain_spelling(const char *name, ft_arena *arena) {
    name += strspn(name, " \t\r\n");
    size_t length = strlen(name);
    while (length > 0 && strchr(" \t\r\n", name[length - 1]) != NULL) length--;
    char *plain = ft_arena_strndup(arena, name, length);
    for (size_t i = 0; plain != NULL && i < length; i++) plain[i] = (char)tolower((unsigned char)plain[i]);
    char *end;
    const double value = plain != NULL ? strtod(plain, &end) : 0;
    if (plain == NULL || length == 0 || *end != '\0' || !isdigit((unsigned char)plain[length - 1])) return plain;
    return ft_arena_format(arena, "%.17g", value);
}

static void remark_spelling(const spelling *spellings, int count) {
    for (int k = 1; k < count; k++)
        if (strcmp(spellings[k - 1].plain, spellings[k].plain) == 0)
            ft_warn("the classes \"%s\" and \"%s\" are nearly the same: two classes all the same", spellings[k - 1].name, spellings[k].name);
    for (int k = 0; k < count; k++) {
        static const char *const missing[] = {"nan", "none", "null", "n/a", "na", ""};
        for (size_t i = 0; i < sizeof missing / sizeof *missing; i++)
            if (strcmp(spellings[k].plain, missing[i]) == 0)
                ft_warn("a class is called \"%s\", as rows without a label often are: it is a class like the others", spellings[k].name);
    }
}

static bool is_decimal(const char *name) {
    char *end;
    strtod(name, &end);
    return end != name && *end == '\0' && strchr(name, '.') != NULL;
}

static ft_status remark_classes(const ft_job *job) {
    const int count = job->labels.count;
    int decimals = 0;
    for (int k = 0; k < count; k++) decimals += is_decimal(job->label_names[k]);
    if (count >= 10 && 2 * decimals > count)
        ft_warn("%d of the %d classes are called by decimal numbers; train.task=regression learns numbers", decimals, count);
    ft_arena arena = {0};
    spelling *spellings = ft_arena_alloc(&arena, (size_t)count * sizeof *spellings);
    ft_status status = spellings != NULL ? FT_OK : FT_NO_MEMORY;
    for (int k = 0; k < count && status == FT_OK; k++) {
        spellings[k] = (spelling){job->label_names[k], plain_spelling(job->label_names[k], &arena)};
        if (spellings[k].plain == NULL) status = FT_NO_MEMORY;
    }
    if (status == FT_OK) {
        qsort(spellings, (size_t)count, sizeof *spellings, by_plain);
        remark_spelling(spellings, count);
    }
    ft_arena_free(&arena);
    return status;
}

ft_status ft_data_remarks(const ft_job *job) {
    const ft_split_data *train = &job->split[FT_SPLIT_TRAIN];
    const bool pictures = ft_model_config_reads_pictures(&job->model_config);
    for (int s = 0; s < FT_SPLITS; s++) {
        const ft_split_data *d = &job->split[s];
        if (!d->present) continue;
        if (d == train || (d->path != train->path && !same_columns(&d->table, &train->table))) say_columns(d, pictures ? "picture" : "text");
        remark_texts(d);
    }
    return ft_task_has_classes(job->task) ? remark_classes(job) : FT_OK;
}
