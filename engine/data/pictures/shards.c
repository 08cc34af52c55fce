#include "engine/data/pictures/shards.h"

#include "base/files.h"
#include "base/json/json.h"
#include "engine/config/data_path.h"
#include "engine/data/pictures/folder.h"
#include "engine/data/pictures/listing.h"
#include "engine/data/pictures/tar.h"
#include "engine/data/tables/columns.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { LONGEST_PICTURE = 1 << 30, LONGEST_CLASS = 4096, LONGEST_JSON = 1 << 20, WHERE = 600 };

static const char CLASS[] = "cls"; // suffix, and name of the column

bool ft_shards_are(const char *source) {
    const size_t length = strlen(source);
    return length > 4 && strcasecmp(source + length - 4, ".tar") == 0;
}

// A file whose name has braces in it is one file.
size_t ft_shards_folder(const char *source) {
    size_t length = ft_path_exists(source) ? strlen(source) : strcspn(source, "{");
    while (length > 0 && source[length - 1] != '/') length--;
    return length;
}

ft_status ft_shards_path(const char *source, int64_t shard, ft_arena *arena, const char **path) {
    *path = source;
    return ft_path_exists(source) ? FT_OK : ft_shard_path(source, shard, arena, path);
}

// ---- a walk -----------------------------------------------------------------------------------------------------------------

typedef struct part {
    bool there;
    int64_t offset, size;
} part;

typedef struct walk {
    ft_tar tar;
    ft_arena arena;    // of the sample
    const char *shard; // name of the archive, in front of those in it
    ft_sample sample;  // key NULL: none is begun
    part picture, label, json;
    bool labels;
    ft_visit_sample visit;
    void *context;
} walk;

static ft_status fail_sample(const walk *w, const char *what) {
    char where[WHERE];
    snprintf(where, sizeof where, "%.300s: %.250s", w->tar.path, w->sample.key);
    return ft_fail(FT_INVALID, where, "%s", what);
}

static ft_status read_part(walk *w, const part *p, int64_t most, const char **text) {
    if (p->size > most) return fail_sample(w, "a label of more bytes than a label has");
    char *room = ft_arena_alloc(&w->arena, (size_t)p->size + 1);
    if (room == NULL) return FT_NO_MEMORY;
    *text = room;
    return ft_tar_bytes(w->tar.file, w->tar.path, p->offset, p->size, room);
}

static ft_status read_class(walk *w) {
    static const char blanks[] = " \t\r\n";
    const char *text;
    FT_TRY(read_part(w, &w->label, LONGEST_CLASS, &text));
    if (strlen(text) != (size_t)w->label.size) return fail_sample(w, "a NUL byte in its label (.cls)");
    text += strspn(text, blanks);
    size_t length = strlen(text);
    while (length > 0 && strchr(blanks, text[length - 1]) != NULL) length--;
    if (length == 0) return fail_sample(w, "its label (.cls) is empty");
    w->sample.label = ft_arena_strndup(&w->arena, text, length);
    return w->sample.label != NULL ? FT_OK : FT_NO_MEMORY;
}

static ft_status end_sample(walk *w) {
    if (w->sample.key == NULL) return FT_OK;
    char where[WHERE];
    if (!w->picture.there && (w->label.there || w->json.there)) {
        ft_status status = fail_sample(w, "a sample without a picture");
        ft_hint("its picture has the same name and one of the suffixes .jpg, .jpeg, .png and .webp");
        return status;
    }
    if (w->picture.there) {
        snprintf(where, sizeof where, "%.300s: %.250s", w->tar.path, w->sample.key);
        w->sample.where = where;
        if (w->picture.size > LONGEST_PICTURE) return fail_sample(w, "a picture of more than 1 GiB");
        w->sample.offset = w->picture.offset;
        w->sample.size = w->picture.size;
        if (w->labels && w->label.there) FT_TRY(read_class(w));
        if (w->labels && w->json.there) FT_TRY(read_part(w, &w->json, LONGEST_JSON, &w->sample.json));
        w->sample.json_length = (size_t)w->json.size;
        FT_TRY(w->visit(w->context, &w->sample));
    }
    const int64_t shard = w->sample.shard;
    ft_arena_free(&w->arena);
    w->sample = (ft_sample){.shard = shard};
    w->picture = w->label = w->json = (part){.there = false};
    return FT_OK;
}

static ft_status take_part(const walk *w, const ft_tar_member *member, const char *twice, part *p) {
    if (p->there) return fail_sample(w, twice);
    *p = (part){.there = true, .offset = member->offset, .size = member->size};
    return FT_OK;
}

static ft_status take_member(walk *w, const ft_tar_member *member) {
    const char *slash = strrchr(member->name, '/'), *base = slash != NULL ? slash + 1 : member->name, *dot = strchr(base, '.');
    if (dot == NULL || dot == base) return FT_OK;
    const size_t length = (size_t)(dot - member->name);
    const char *key = w->sample.key;
    if (key != NULL && (strncmp(key, member->name, length) != 0 || key[length] != '\0')) FT_TRY(end_sample(w));
    if (w->sample.key == NULL && (w->sample.key = ft_arena_strndup(&w->arena, member->name, length)) == NULL) return FT_NO_MEMORY;
    if (strcasecmp(dot + 1, CLASS) == 0) return take_part(w, member, "a sample with two labels (.cls)", &w->label);
    if (strcasecmp(dot + 1, "json") == 0) return take_part(w, member, "a sample with two .json", &w->json);
    if (!ft_is_picture_name(dot)) return FT_OK;
    FT_TRY(take_part(w, member, "a sample with two pictures", &w->picture));
    w->sample.name = ft_arena_format(&w->arena, "%s/%s", w->shard, member->name);
    return w->sample.name != NULL ? FT_OK : FT_NO_MEMORY;
}

static ft_status walk_shard(walk *w, const char *path) {
    ft_tar_member member;
    bool found = true;
    ft_status status = ft_tar_open(path, &w->tar);
    while (status == FT_OK && found) {
        status = ft_tar_next(&w->tar, &member, &found);
        if (status == FT_OK && found) status = take_member(w, &member);
    }
    if (status == FT_OK) status = end_sample(w);
    ft_tar_close(&w->tar);
    return status;
}

static ft_status walk_shards(walk *w, const char *source, ft_arena *arena) {
    int64_t count = 1;
    if (!ft_path_exists(source)) FT_TRY(ft_shard_count(source, &count));
    for (int64_t i = 0; i < count; i++) {
        const char *path;
        FT_TRY(ft_shards_path(source, i, arena, &path));
        w->shard = path + ft_shards_folder(source);
        w->sample.shard = i;
        FT_TRY(walk_shard(w, path));
    }
    return FT_OK;
}

ft_status ft_shards_walk(const char *source, bool labels, ft_visit_sample visit, void *context) {
    ft_arena arena = {0};
    walk w = {.tar = {.file = -1}, .labels = labels, .visit = visit, .context = context};
    const ft_status status = walk_shards(&w, source, &arena);
    ft_arena_free(&w.arena);
    ft_arena_free(&arena);
    return status;
}

// ---- a table ----------------------------------------------------------------------------------------------------------------

typedef struct reading {
    ft_listing list;
    ft_table_request request; // its label and id are names that the first sample has
    bool begun;
    int count;
    const char **column; // [count] what is taken beside the picture
    ft_arena arena;
} reading;

static ft_status parse_json(const ft_sample *sample, json_t **object) {
    *object = NULL;
    if (sample->json == NULL) return FT_OK;
    FT_TRY(ft_json_parse(sample->json, sample->json_length, sample->where, object));
    if (json_is_object(*object)) return FT_OK;
    json_decref(*object);
    *object = NULL;
    return ft_fail(FT_INVALID, sample->where, "its .json is no JSON object");
}

// All that the first sample has.
static ft_status list_columns(reading *r, const ft_sample *sample, json_t *object, ft_columns *columns) {
    const char *key, **name = ft_arena_alloc(&r->arena, (json_object_size(object) + 2) * sizeof *name);
    json_t *value;
    if (name == NULL) return FT_NO_MEMORY;
    *columns = (ft_columns){.name = name, .file = r->list.source};
    name[columns->count++] = FT_LISTING_NAME;
    if (sample->label != NULL) name[columns->count++] = CLASS;
    json_object_foreach(object, key, value) {
        if (strcmp(key, FT_LISTING_NAME) == 0 || (sample->label != NULL && strcmp(key, CLASS) == 0)) continue;
        if ((name[columns->count++] = ft_arena_strdup(&r->arena, key)) == NULL) return FT_NO_MEMORY;
    }
    return FT_OK;
}

static ft_status choose_columns(reading *r, const ft_sample *sample, json_t *object) {
    ft_columns columns;
    ft_selection chosen;
    const char *labels = "";
    FT_TRY(list_columns(r, sample, object, &columns));
    if (columns.count == 1 && r->request.need == FT_LABEL_REQUIRED) {
        ft_status status = ft_fail(FT_INVALID, sample->where, "a sample without a label: there is neither .cls nor .json with it");
        ft_hint("archives of samples are read as WebDataset writes them");
        return status;
    }
    if (r->request.label == NULL || r->request.label[0] == '\0') r->request.label = sample->label != NULL ? CLASS : "";
    if (r->request.id != NULL && r->request.id[0] == '\0') r->request.id = NULL;
    FT_TRY(ft_columns_select(&columns, &r->request, &r->arena, &chosen));
    r->column = ft_arena_alloc(&r->arena, ((size_t)chosen.label_count + 1) * sizeof *r->column);
    if (r->column == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < chosen.label_count; i++) {
        const char *name = r->column[r->count++] = columns.name[chosen.label[i]];
        labels = i == 0 ? name : ft_arena_format(&r->arena, "%s, %s", labels, name);
        if (labels == NULL) return FT_NO_MEMORY;
    }
    r->request.label = labels;
    if (chosen.id != FT_NO_COLUMN) r->column[r->count++] = r->request.id;
    return FT_OK;
}

static ft_status add_sample(reading *r, const ft_sample *sample, json_t *object) {
    bool failed = false;
    json_t *line = json_object(), *name = json_string(sample->name);
    if (line != NULL && name == NULL) {
        json_decref(line);
        return ft_fail(FT_INVALID, sample->where, "the name of its picture is no UTF-8");
    }
    ft_json_put(line, FT_LISTING_NAME, name, &failed);
    for (int i = 0; i < r->count && !failed; i++) {
        const bool class = sample->label != NULL && strcmp(r->column[i], CLASS) == 0;
        json_t *value = class ? json_string(sample->label) : json_incref(json_object_get(object, r->column[i]));
        if (value == NULL) {
            json_decref(line);
            return class ? ft_fail(FT_INVALID, sample->where, "its label (.cls) is no UTF-8")
                         : ft_fail(FT_INVALID, sample->where, "there is no \"%.100s\" with this sample, and with the first there is", r->column[i]);
        }
        ft_json_put(line, r->column[i], value, &failed);
    }
    if (!failed) return ft_listing_put(&r->list, line);
    json_decref(line);
    return ft_fail_memory(0, "a list of pictures");
}

static ft_status take_sample(void *context, const ft_sample *sample) {
    reading *r = context;
    json_t *object;
    FT_TRY(parse_json(sample, &object));
    ft_status status = r->begun ? FT_OK : choose_columns(r, sample, object);
    r->begun = true;
    if (status == FT_OK) status = add_sample(r, sample, object);
    json_decref(object);
    return status;
}

ft_status ft_shards_read(const char *source, const ft_table_request *request, ft_table *table) {
    reading r = {.request = *request};
    const bool usual = request->label == NULL || request->label[0] == '\0';
    r.request.text = FT_LISTING_NAME;
    r.request.pair = NULL;
    FT_TRY(ft_listing_open(source, &r.list));
    ft_status status = ft_shards_walk(source, request->need != FT_LABEL_IGNORED || request->id != NULL, take_sample, &r);
    status = ft_listing_end(&r.list, status, &r.request, true, table);
    if (status == FT_OK && usual && table->label_column != NULL) table->label_column = ""; // other sources call it otherwise
    ft_arena_free(&r.arena);
    return status;
}
