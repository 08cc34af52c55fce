#include "engine/hub/pull.h"

#include "base/files.h"
#include "base/json/json.h"
#include "base/log.h"
#include "engine/hub/blob.h"
#include "engine/hub/cache.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_PAGES = 1000, MOST_FILES = 4096, MOST_MODULES = 32 };

typedef struct pulling {
    ft_hub_session session;
    const char *base, *snapshot; // directories: of the repository in the cache, of the commit
    ft_hub_file *files;          // what the repository has at its top, and in the directories of modules; of a directory no checksum
    int count, room;
    ft_arena *arena; // outlives the session
    ft_hub_pulled *pulled;
} pulling;

// What a tokenizer or a configuration may be in; what a repository lacks is not asked for.
static const char *const small_files[] = {"config.json",
                                          "tokenizer.json",
                                          "tokenizer_config.json",
                                          "preprocessor_config.json",
                                          "special_tokens_map.json",
                                          "added_tokens.json",
                                          "vocab.txt",
                                          "vocab.json",
                                          "merges.txt",
                                          "spm.model",
                                          "sentencepiece.bpe.model",
                                          "sentencepiece.model",
                                          "modules.json",
                                          "sentence_bert_config.json",
                                          "config_sentence_transformers.json"};
static const struct {
    const char *name;
    bool index;
} weights[] = {{"model.safetensors", false},
               {"model.safetensors.index.json", true},
               {"pytorch_model.bin", false},
               {"pytorch_model.bin.index.json", true}};
#define COUNT(list) (int)(sizeof list / sizeof list[0])

// ---- which files there are ------------------------------------------------------------------------------------------

static bool is_hex(const char *text, size_t digits) {
    return text != NULL && strlen(text) == digits && strspn(text, "0123456789abcdef") == digits;
}

static ft_status get_json(pulling *p, const char *url, const char *what, json_t **root, char *next, size_t next_size) {
    char *text;
    size_t length;
    FT_TRY(ft_hub_get_text(&p->session, url, what, &text, &length, next, next_size));
    ft_status status = ft_json_parse(text, length, what, root);
    free(text);
    if (status != FT_OK) ft_hint("this is no answer of a hub; is HF_ENDPOINT right, and is no login page in between?");
    return status == FT_INVALID ? FT_FAILED : status;
}

static ft_status find_commit(pulling *p) {
    ft_hub_session *s = &p->session;
    char *revision = ft_http_escape(s->revision);
    if (revision == NULL) return FT_NO_MEMORY;
    const char *url = ft_arena_format(p->arena, "%s/api/models/%s/revision/%s", s->endpoint, s->repo, revision);
    free(revision);
    json_t *root;
    if (url == NULL) return FT_NO_MEMORY;
    FT_TRY(get_json(p, url, s->repo, &root, NULL, 0));
    const char *sha = json_string_value(json_object_get(root, "sha"));
    ft_status status = FT_OK;
    if (!is_hex(sha, 40))
        status = ft_fail(FT_FAILED, s->repo, "the hub's answer names no commit");
    else if ((s->commit = ft_arena_strdup(p->arena, sha)) == NULL)
        status = FT_NO_MEMORY;
    json_decref(root);
    return status;
}

static ft_status add_file(pulling *p, const char *path, const char *checksum, int64_t size) {
    if (p->count == p->room) {
        int room = 2 * p->room + 64;
        ft_hub_file *grown = ft_realloc(p->files, (size_t)room, sizeof *grown, "a list of files");
        if (grown == NULL) return FT_NO_MEMORY;
        p->files = grown;
        p->room = room;
    }
    ft_hub_file f = {ft_arena_strdup(p->arena, path), checksum != NULL ? ft_arena_strdup(p->arena, checksum) : NULL, size};
    if (f.path == NULL || (checksum != NULL && f.checksum == NULL)) return FT_NO_MEMORY;
    p->files[p->count++] = f;
    return FT_OK;
}

// Of the directory that was asked for ("": the top): a name in it, whatever else the hub says.
static bool lies_in(const char *path, const char *directory) {
    const size_t length = strlen(directory);
    if (length > 0 && (strncmp(path, directory, length) != 0 || path[length] != '/')) return false;
    const char *name = length > 0 ? path + length + 1 : path;
    return name[0] != '\0' && name[0] != '.' && strchr(name, '/') == NULL;
}

// An entry of the list; what is not to be had is passed over.
static ft_status add_entry(pulling *p, const char *directory, const json_t *entry) {
    const json_t *lfs = json_object_get(entry, "lfs"),
                 *size = json_object_get(json_is_object(lfs) ? lfs : entry, "size");
    const char *type = json_string_value(json_object_get(entry, "type")),
               *path = json_string_value(json_object_get(entry, "path"));
    const char *checksum = json_string_value(json_object_get(json_is_object(lfs) ? lfs : entry, "oid"));
    if (type == NULL || path == NULL || !lies_in(path, directory)) return FT_OK;
    if (strcmp(type, "directory") == 0) return add_file(p, path, NULL, 0);
    if (strcmp(type, "file") != 0) return FT_OK;
    if (!is_hex(checksum, json_is_object(lfs) ? 64 : 40) || !json_is_integer(size) || json_integer_value(size) < 0)
        return ft_fail(FT_FAILED, p->session.repo, "the hub's list of files gives no size and checksum for %.200s",
                       path);
    return add_file(p, path, checksum, json_integer_value(size));
}

static ft_status list_files(pulling *p, const char *directory) {
    char url[2048], next[2048], *escaped = ft_http_escape(directory);
    if (escaped == NULL) return FT_NO_MEMORY;
    int n = snprintf(url, sizeof url, "%s/api/models/%s/tree/%s%s%s", p->session.endpoint, p->session.repo, p->session.commit,
                     escaped[0] != '\0' ? "/" : "", escaped);
    free(escaped);
    if (n >= (int)sizeof url) return ft_fail(FT_INVALID, "HF_ENDPOINT", "is too long");
    for (int page = 0; url[0] != '\0'; page++) {
        json_t *root;
        if (page == MOST_PAGES) return ft_fail(FT_FAILED, p->session.repo, "the hub's list of files has no end");
        FT_TRY(get_json(p, url, p->session.repo, &root, next, sizeof next));
        ft_status status =
            json_is_array(root) ? FT_OK : ft_fail(FT_FAILED, p->session.repo, "the hub's list of files is no list");
        for (size_t i = 0; status == FT_OK && i < json_array_size(root); i++)
            status = add_entry(p, directory, json_array_get(root, i));
        json_decref(root);
        FT_TRY(status);
        if (next[0] != '\0' && !ft_http_same_origin(p->session.http, next))
            return ft_fail(FT_FAILED, p->session.repo, "the hub's list of files goes on at another server");
        memcpy(url, next, sizeof url);
    }
    return FT_OK;
}

static const ft_hub_file *find_entry(const pulling *p, const char *path, bool directory) {
    for (int i = 0; i < p->count; i++)
        if (strcmp(p->files[i].path, path) == 0 && (p->files[i].checksum == NULL) == directory) return &p->files[i];
    return NULL;
}

static const ft_hub_file *find(const pulling *p, const char *path) { return find_entry(p, path, false); }

// ---- the snapshot -------------------------------------------------------------------------------------------------

// snapshots/COMMIT/FILE -> ../../blobs/CHECKSUM, in place of what stood there; a step further up from a directory in it.
static ft_status link_file(pulling *p, const ft_hub_file *f) {
    char target[128], present[128];
    const char *slash = strchr(f->path, '/'), *name = slash != NULL ? slash + 1 : f->path;
    snprintf(target, sizeof target, "%s../../blobs/%s", slash != NULL ? "../" : "", f->checksum);
    const char *path = ft_path_join(p->arena, p->snapshot, f->path);
    const char *directory = ft_arena_format(p->arena, "%s/%.*s", p->snapshot, (int)(name - f->path), f->path);
    const char *temporary = ft_arena_format(p->arena, "%s/.%s.%ld", directory != NULL ? directory : "", name, (long)getpid());
    if (path == NULL || directory == NULL || temporary == NULL) return FT_NO_MEMORY;
    if (slash != NULL) FT_TRY(ft_make_directories(directory));
    ssize_t length = readlink(path, present, sizeof present);
    if (length == (ssize_t)strlen(target) && memcmp(present, target, (size_t)length) == 0) return FT_OK;
    unlink(temporary);
    if (symlink(target, temporary) == 0 && rename(temporary, path) == 0) return FT_OK;
    int errnum = errno;
    unlink(temporary);
    ft_fail_errno(FT_FAILED, errnum, path, "cannot make a link");
    if (errnum == EPERM || errnum == EOPNOTSUPP)
        ft_hint("the cache needs a file system with symbolic links; HF_HOME puts it elsewhere");
    return FT_FAILED;
}

static ft_status take(pulling *p, const ft_hub_file *f) {
    bool fetched;
    FT_TRY(ft_hub_fetch_blob(&p->session, p->base, f, &fetched));
    p->pulled->files++;
    p->pulled->fetched += fetched;
    if (fetched) p->pulled->bytes += (double)f->size;
    return link_file(p, f);
}

static ft_status missing(const pulling *p, const char *what) {
    return ft_fail(FT_INVALID, p->session.repo, "the repository has no %s at revision %s", what, p->session.revision);
}

// The files that an index names, each once.
static ft_status take_shards(pulling *p, const char *index) {
    json_t *root;
    const char *path = ft_path_join(p->arena, p->snapshot, index), *name, *previous = "";
    if (path == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_json_load(path, &root));
    json_t *value, *map = json_object_get(root, "weight_map"), *seen = json_object();
    ft_status status = json_is_object(map) ? FT_OK : ft_fail(FT_INVALID, path, "\"weight_map\" must be an object");
    if (seen == NULL) status = ft_fail_memory(0, "a list of files");
    json_object_foreach(map, name, value) {
        const char *shard = json_string_value(value);
        if (status != FT_OK) break;
        if (shard == NULL) {
            status = ft_fail(FT_INVALID, path, "\"weight_map\": \"%.200s\" must be the name of a file", name);
        } else if (strcmp(shard, previous) != 0 && json_object_get(seen, shard) == NULL) {
            const ft_hub_file *f = find(p, shard);
            if (json_object_set_new(seen, shard, json_true()) != 0)
                status = ft_fail_memory(0, "a list of files");
            else if (json_object_size(seen) > MOST_FILES)
                status = ft_fail(FT_INVALID, path, "more than %d files", MOST_FILES);
            else
                status = f != NULL ? take(p, f) : missing(p, shard);
            previous = shard;
        }
    }
    json_decref(seen);
    json_decref(root);
    return status;
}

static ft_status take_weights(pulling *p) {
    for (int i = 0; i < COUNT(weights); i++) {
        const ft_hub_file *f = find(p, weights[i].name);
        if (f == NULL) continue;
        FT_TRY(take(p, f));
        return weights[i].index ? take_shards(p, f->path) : FT_OK;
    }
    return missing(p, "model.safetensors and no pytorch_model.bin");
}

// ---- what sentence-transformers does behind the model ----------------------------------------------------------------

static ft_status take_module(pulling *p, const char *directory) {
    static const char *const names[] = {"config.json", "model.safetensors", "pytorch_model.bin"};
    FT_TRY(list_files(p, directory));
    for (int i = 0; i < COUNT(names); i++) {
        const char *path = ft_arena_format(p->arena, "%s/%s", directory, names[i]);
        if (path == NULL) return FT_NO_MEMORY;
        const ft_hub_file *f = find(p, path);
        if (f == NULL) continue;
        FT_TRY(take(p, f));
        if (i > 0) return FT_OK; // one form of the weights is enough
    }
    return FT_OK;
}

// The directories that modules.json names and the repository has: those of modules without files are often missing.
static ft_status take_modules(pulling *p) {
    if (find(p, "modules.json") == NULL) return FT_OK;
    json_t *root;
    const char *path = ft_path_join(p->arena, p->snapshot, "modules.json");
    if (path == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_json_load(path, &root));
    ft_status status = json_array_size(root) > MOST_MODULES ? ft_fail(FT_INVALID, path, "more than %d modules", MOST_MODULES) : FT_OK;
    for (size_t i = 0; status == FT_OK && i < json_array_size(root); i++) {
        const char *directory = json_string_value(json_object_get(json_array_get(root, i), "path"));
        if (directory != NULL && find_entry(p, directory, true) != NULL) status = take_module(p, directory);
    }
    json_decref(root);
    return status;
}

// refs/REVISION holds the commit, without a line's end.
static ft_status note_revision(pulling *p) {
    if (strcmp(p->session.revision, p->session.commit) == 0) return FT_OK;
    char *path = ft_arena_format(p->arena, "%s/refs/%s", p->base, p->session.revision);
    if (path == NULL) return FT_NO_MEMORY;
    char *slash = strrchr(path, '/');
    *slash = '\0';
    FT_TRY(ft_make_directories(path));
    *slash = '/';
    return ft_atomic_write(path, p->session.commit, strlen(p->session.commit));
}

static ft_status pull_all(pulling *p) {
    FT_TRY(find_commit(p));
    FT_TRY(list_files(p, ""));
    if (find(p, "config.json") == NULL) return missing(p, "config.json");
    p->base = ft_hub_repo_directory(p->arena, p->session.repo);
    p->snapshot = p->base != NULL ? ft_arena_format(p->arena, "%s/snapshots/%s", p->base, p->session.commit) : NULL;
    if (p->snapshot == NULL) return ft_error_code();
    FT_TRY(ft_make_directories(p->snapshot));
    for (int i = 0; i < COUNT(small_files); i++) {
        const ft_hub_file *f = find(p, small_files[i]);
        if (f != NULL) FT_TRY(take(p, f));
    }
    FT_TRY(take_weights(p));
    FT_TRY(take_modules(p));
    p->pulled->directory = p->snapshot;
    p->pulled->commit = p->session.commit;
    return note_revision(p);
}

ft_status ft_hub_pull(const char *text, bool (*stopped)(void), ft_arena *arena, ft_hub_pulled *pulled) {
    ft_hub_name name;
    *pulled = (ft_hub_pulled){0};
    pulling p = {.arena = arena, .pulled = pulled};
    FT_TRY(ft_hub_name_parse(text, arena, &name));
    ft_status status = ft_hub_session_open(name.repo, name.revision, stopped, &p.session);
    if (status == FT_OK) status = pull_all(&p);
    free(p.files);
    ft_hub_session_close(&p.session);
    return status;
}
