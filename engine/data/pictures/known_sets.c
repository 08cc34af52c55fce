#include "engine/data/pictures/known_sets.h"

#include "base/files.h"
#include "base/heap.h"
#include "engine/data/pictures/listing.h"
#include "engine/data/pictures/mat.h"
#include "engine/data/tables/records.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_LIST = 1 << 28 }; // bytes

// ---- what is missing --------------------------------------------------------------------------------------------------------

static ft_status check_files(const ft_known_set *set, const char *directory) {
    char missing[300] = "";
    size_t used = 0;
    ft_arena arena = {0};
    for (const char *const *need = set->needs; *need != NULL; need++) {
        const char *path = ft_path_join(&arena, directory, *need);
        if (path != NULL && !ft_path_exists(path) && used < sizeof missing)
            used += (size_t)snprintf(missing + used, sizeof missing - used, "%s%s", used > 0 ? ", " : "", *need);
    }
    ft_arena_free(&arena);
    return used == 0 ? FT_OK : ft_fail(FT_INVALID, directory, "of %s there are missing: %s", set->name, missing);
}

static ft_status check_split(const ft_known_set *set, const char *directory, const char *split) {
    const bool known = split != NULL && (strcmp(split, "train") == 0 || strcmp(split, "test") == 0 || (set->validates && strcmp(split, "validation") == 0));
    if (known) return FT_OK;
    if (split == NULL) ft_fail(FT_INVALID, directory, "this is %s: which of its splits is meant?", set->name);
    else ft_fail(FT_INVALID, directory, "%s has no split \"%.40s\"", set->name, split);
    ft_hint("%s#train%s or %s#test", directory, set->validates ? ", #validation" : "", directory);
    return FT_INVALID;
}

// ---- flowers ----------------------------------------------------------------------------------------------------------------

enum { MOST_CLASSES = 999 }; // of three digits, in whose order they are

static int by_value(const void *a, const void *b) { return (*(const int64_t *)a > *(const int64_t *)b) - (*(const int64_t *)a < *(const int64_t *)b); }

static ft_status list_flowers(ft_listing *list, const char *where, ft_mat_vector *label, ft_mat_vector *chosen) {
    qsort(chosen->value, (size_t)chosen->count, sizeof *chosen->value, by_value);
    for (int64_t i = 0; i < chosen->count; i++) {
        const int64_t id = chosen->value[i];
        char name[40], class[8];
        if (id < 1 || id > label->count)
            return ft_fail(FT_INVALID, where, "\"%s\" names picture %lld, and imagelabels.mat has labels for %lld", chosen->name, (long long)id, (long long)label->count);
        if (i > 0 && id == chosen->value[i - 1]) return ft_fail(FT_INVALID, where, "\"%s\" names picture %lld twice", chosen->name, (long long)id);
        if (label->value[id - 1] < 1 || label->value[id - 1] > MOST_CLASSES)
            return ft_fail(FT_INVALID, where, "picture %lld is of class %lld: classes are 1 to %d", (long long)id, (long long)label->value[id - 1], MOST_CLASSES);
        snprintf(name, sizeof name, "jpg/image_%05lld.jpg", (long long)id);
        snprintf(class, sizeof class, "%03d", (int)label->value[id - 1]);
        FT_TRY(ft_listing_add(list, name, class));
    }
    return FT_OK;
}

static ft_status read_flowers(ft_listing *list, const char *directory, const char *split) {
    ft_arena arena = {0};
    const char *labels = ft_path_join(&arena, directory, "imagelabels.mat"), *splits = ft_path_join(&arena, directory, "setid.mat");
    ft_mat_vector label = {.name = "labels"};
    ft_mat_vector chosen = {.name = strcmp(split, "train") == 0 ? "trnid" : strcmp(split, "test") == 0 ? "tstid" : "valid"};
    ft_status status = labels != NULL && splits != NULL ? ft_mat_read(labels, 1, &label) : FT_NO_MEMORY;
    if (status == FT_OK) status = ft_mat_read(splits, 1, &chosen);
    if (status == FT_OK) status = list_flowers(list, splits, &label, &chosen);
    ft_mat_free(1, &label);
    ft_mat_free(1, &chosen);
    ft_arena_free(&arena);
    return status;
}

// ---- birds ------------------------------------------------------------------------------------------------------------------

// A file of lines "KEY VALUE".
typedef struct pairs {
    const char *path;
    char *data, *at;
    int64_t line;
    const char *key, *value; // of the line read last
} pairs;

static ft_status open_pairs(ft_arena *arena, const char *directory, const char *name, pairs *p) {
    size_t length;
    *p = (pairs){.path = ft_path_join(arena, directory, name)};
    if (p->path == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_read_file(p->path, LONGEST_LIST, &p->data, &length));
    if (strlen(p->data) != length) return ft_fail(FT_INVALID, p->path, "a NUL byte in it: this is no list");
    p->at = p->data;
    return FT_OK;
}

static ft_status next_pair(pairs *p, bool *found) {
    *found = false;
    if (*p->at == '\0') return FT_OK;
    char *line = p->at, *end = strchr(line, '\n');
    p->line++;
    p->at = end != NULL ? end + 1 : line + strlen(line);
    if (end == NULL) end = p->at;
    if (end > line && end[-1] == '\r') end--;
    *end = '\0';
    char *blank = strchr(line, ' ');
    if (blank == NULL || blank == line || blank[1] == '\0') return ft_fail_at(p->path, p->line, 0, "a line has a number and what belongs to it, with a blank between them");
    *blank = '\0';
    p->key = line;
    p->value = blank + 1;
    *found = true;
    return FT_OK;
}

typedef struct birds {
    pairs images, labels, splits, classes;
    const char *class[MOST_CLASSES + 1]; // names by number; NULL: there is none
} birds;

static ft_status read_classes(birds *b) {
    for (bool found = true;;) {
        FT_TRY(next_pair(&b->classes, &found));
        if (!found) return FT_OK;
        char *end;
        const long number = strtol(b->classes.key, &end, 10);
        if (*end != '\0' || number < 1 || number > MOST_CLASSES)
            return ft_fail_at(b->classes.path, b->classes.line, 0, "\"%.40s\" is no number of a class: they are 1 to %d", b->classes.key, MOST_CLASSES);
        if (b->class[number] != NULL) return ft_fail_at(b->classes.path, b->classes.line, 0, "class %ld is there twice", number);
        b->class[number] = b->classes.value;
    }
}

// The lists go on in step: a line of each is about one picture.
static ft_status same_picture(const pairs *images, pairs *other, bool more) {
    bool found;
    FT_TRY(next_pair(other, &found));
    if (found && more && strcmp(other->key, images->key) == 0) return FT_OK;
    if (!found && !more) return FT_OK;
    if (!found) return ft_fail(FT_INVALID, other->path, "it ends before images.txt, at picture %.40s", images->key);
    if (!more) return ft_fail_at(other->path, other->line, 0, "picture %.40s is not in images.txt", other->key);
    return ft_fail_at(other->path, other->line, 0, "picture %.40s, and images.txt has %.40s there", other->key, images->key);
}

// A path that stays in images/.
static ft_status check_path(const pairs *images) {
    const char *v = images->value;
    if (v[0] != '/' && strcmp(v, "..") != 0 && strncmp(v, "../", 3) != 0 && strstr(v, "/../") == NULL) return FT_OK;
    return ft_fail_at(images->path, images->line, 0, "the path \"%.200s\" leaves the folder", v);
}

static ft_status list_birds(ft_listing *list, birds *b, bool train) {
    FT_TRY(read_classes(b));
    for (bool more = true;;) {
        FT_TRY(next_pair(&b->images, &more));
        FT_TRY(same_picture(&b->images, &b->labels, more));
        FT_TRY(same_picture(&b->images, &b->splits, more));
        if (!more) return FT_OK;
        char *end, name[512];
        const long number = strtol(b->labels.value, &end, 10);
        if (*end != '\0' || number < 1 || number > MOST_CLASSES || b->class[number] == NULL)
            return ft_fail_at(b->labels.path, b->labels.line, 0, "class %.40s is not in classes.txt", b->labels.value);
        const char *side = b->splits.value;
        if (strcmp(side, "0") != 0 && strcmp(side, "1") != 0)
            return ft_fail_at(b->splits.path, b->splits.line, 0, "\"%.40s\": 1 is for training, 0 for the test", side);
        FT_TRY(check_path(&b->images));
        if (snprintf(name, sizeof name, "images/%s", b->images.value) >= (int)sizeof name)
            return ft_fail_at(b->images.path, b->images.line, 0, "a path of more than %d bytes", (int)sizeof name - 8);
        if ((side[0] == '1') == train) FT_TRY(ft_listing_add(list, name, b->class[number]));
    }
}

static ft_status read_birds(ft_listing *list, const char *directory, const char *split) {
    ft_arena arena = {0};
    birds *b = ft_calloc(1, sizeof *b, "lists of pictures");
    if (b == NULL) return FT_NO_MEMORY;
    ft_status status = open_pairs(&arena, directory, "images.txt", &b->images);
    if (status == FT_OK) status = open_pairs(&arena, directory, "image_class_labels.txt", &b->labels);
    if (status == FT_OK) status = open_pairs(&arena, directory, "train_test_split.txt", &b->splits);
    if (status == FT_OK) status = open_pairs(&arena, directory, "classes.txt", &b->classes);
    if (status == FT_OK) status = list_birds(list, b, strcmp(split, "train") == 0);
    free(b->images.data);
    free(b->labels.data);
    free(b->splits.data);
    free(b->classes.data);
    free(b);
    ft_arena_free(&arena);
    return status;
}

// ---- interface ------------------------------------------------------------------------------------------------------

ft_status ft_known_set_read(const ft_known_set *set, const char *directory, const char *split, const ft_table_request *request, ft_table *table) {
    ft_listing list;
    FT_TRY(check_files(set, directory));
    FT_TRY(check_split(set, directory, split));
    FT_TRY(ft_listing_open(directory, &list));
    const ft_status status = set->kind == FT_KNOWN_FLOWERS ? read_flowers(&list, directory, split) : read_birds(&list, directory, split);
    return ft_listing_end(&list, status, request, false, table);
}
