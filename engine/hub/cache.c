#include "engine/hub/cache.h"

#include "base/files.h"
#include "engine/hub/known_models.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LONGEST_REPO = 96, LONGEST_REVISION = 250, COMMIT = 40 };

// ---- names --------------------------------------------------------------------------------------------------------

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

// One half of a name, by the hub's rules: letters, digits and -_. ; no - or . at its ends, and not two of them
// together.
static bool is_part(const char *text, size_t length) {
    if (length == 0) return false;
    for (size_t i = 0; i < length; i++) {
        bool separator = text[i] == '-' || text[i] == '.', edge = i == 0 || i + 1 == length;
        if (!is_letter(text[i]) && text[i] != '_' && !separator) return false;
        if (separator && (edge || text[i - 1] == text[i])) return false;
    }
    return true;
}

static bool is_repo(const char *text, size_t length) {
    const char *slash = memchr(text, '/', length);
    if (length > LONGEST_REPO) return false;
    if (slash == NULL) return is_part(text, length);
    size_t first = (size_t)(slash - text);
    return is_part(text, first) && is_part(slash + 1, length - first - 1);
}

// Letters, digits and what people use in branches; every component a name of a file, and none of them hidden or "..".
static bool is_revision(const char *text) {
    size_t length = strlen(text);
    if (length == 0 || length > LONGEST_REVISION) return false;
    for (size_t i = 0; i < length; i++) {
        bool starts = i == 0 || text[i - 1] == '/';
        if (!is_letter(text[i]) && strchr("-_.+/", text[i]) == NULL) return false;
        if (starts && (text[i] == '.' || text[i] == '/')) return false;
    }
    return text[length - 1] != '/';
}

ft_status ft_hub_name_parse(const char *text, ft_arena *arena, ft_hub_name *name) {
    const char *at = strchr(text, '@');
    size_t length = at != NULL ? (size_t)(at - text) : strlen(text);
    if (!is_repo(text, length)) {
        ft_fail(FT_INVALID, text, "not the name of a model on the hub");
        ft_hint("names look like bert-base-uncased or microsoft/deberta-v3-base, with a revision behind @ if need be");
        return FT_INVALID;
    }
    if (at != NULL && !is_revision(at + 1))
        return ft_fail(FT_INVALID, text, "behind @ must stand a branch, a tag or a commit");
    name->repo = ft_arena_strndup(arena, text, length);
    name->revision = ft_arena_strdup(arena, at != NULL ? at + 1 : "main");
    return name->repo != NULL && name->revision != NULL ? FT_OK : FT_NO_MEMORY;
}

// ---- places -------------------------------------------------------------------------------------------------------

static const char *set(const char *variable) {
    const char *value = getenv(variable);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

char *ft_hub_home(ft_arena *arena) {
    if (set("HF_HOME") != NULL) return ft_path_absolute(arena, NULL, set("HF_HOME"));
    char *base = ft_path_absolute(arena, NULL, set("XDG_CACHE_HOME") != NULL ? set("XDG_CACHE_HOME") : "~/.cache");
    return base != NULL ? ft_path_join(arena, base, "huggingface") : NULL;
}

char *ft_hub_cache(ft_arena *arena) {
    const char *given = set("HF_HUB_CACHE") != NULL ? set("HF_HUB_CACHE") : set("HUGGINGFACE_HUB_CACHE");
    if (given != NULL) return ft_path_absolute(arena, NULL, given);
    char *home = ft_hub_home(arena);
    return home != NULL ? ft_path_join(arena, home, "hub") : NULL;
}

char *ft_hub_repo_directory(ft_arena *arena, const char *repo) {
    char *cache = ft_hub_cache(arena);
    const char *slash = strchr(repo, '/');
    if (cache == NULL) return NULL;
    if (slash == NULL) return ft_arena_format(arena, "%s/models--%s", cache, repo);
    return ft_arena_format(arena, "%s/models--%.*s--%s", cache, (int)(slash - repo), repo, slash + 1);
}

// ---- finding ------------------------------------------------------------------------------------------------------

static bool is_commit(const char *text, size_t length) {
    return length == COMMIT && strspn(text, "0123456789abcdef") >= COMMIT;
}

// The commit that a branch was at; NULL in *commit when it was never fetched, or the file holds something else.
static ft_status read_ref(const char *path, ft_arena *arena, const char **commit) {
    char *text;
    size_t length;
    *commit = NULL;
    if (access(path, R_OK) != 0 || ft_path_is_directory(path)) return FT_OK;
    FT_TRY(ft_read_file(path, 4096, &text, &length));
    while (length > 0 && (text[length - 1] == '\n' || text[length - 1] == ' '))
        length--;
    ft_status status = FT_OK;
    if (is_commit(text, length) && (*commit = ft_arena_strndup(arena, text, length)) == NULL) status = FT_NO_MEMORY;
    free(text);
    return status;
}

static ft_status find_snapshot(ft_hub_name name, ft_arena *arena, const char **directory) {
    const char *commit = name.revision, *base = ft_hub_repo_directory(arena, name.repo);
    if (base == NULL && ft_error_code() == FT_INVALID) { // nobody's home: then there is no cache either
        ft_error_clear();
        return FT_OK;
    }
    if (base == NULL) return ft_error_code();
    if (!ft_path_is_directory(base)) return FT_OK;
    if (!is_commit(commit, strlen(commit))) {
        const char *ref = ft_arena_format(arena, "%s/refs/%s", base, name.revision);
        if (ref == NULL) return FT_NO_MEMORY;
        FT_TRY(read_ref(ref, arena, &commit));
        if (commit == NULL) return FT_OK;
    }
    const char *snapshot = ft_arena_format(arena, "%s/snapshots/%s", base, commit);
    const char *config = snapshot != NULL ? ft_path_join(arena, snapshot, "config.json") : NULL;
    if (config == NULL) return FT_NO_MEMORY;
    if (ft_path_exists(config)) *directory = snapshot;
    return FT_OK;
}

ft_status ft_hub_find(const char *path, ft_arena *arena, const char **directory) {
    *directory = path[0] == '/' && ft_path_is_directory(path) ? path : NULL;
    if (path[0] == '/' || path[0] == '\0') return FT_OK;
    ft_hub_name name;
    if (ft_hub_name_parse(path, arena, &name) == FT_OK) return find_snapshot(name, arena, directory);
    if (ft_error_code() == FT_NO_MEMORY) return FT_NO_MEMORY;
    ft_error_clear();
    return FT_OK;
}

// ---- errors -------------------------------------------------------------------------------------------------------

// `path` without a revision, on the arena.
static const char *without_revision(const char *path, ft_arena *arena, const char **revision) {
    const char *at = strrchr(path, '@');
    bool has = at != NULL && is_revision(at + 1);
    *revision = has ? at : "";
    return ft_arena_strndup(arena, path, has ? (size_t)(at - path) : strlen(path));
}

// Whether a person wrote ORG/NAME or a path shows in whether there is a directory called ORG.
static void hint_pull(const char *bare, const char *revision, ft_arena *arena) {
    const ft_known_model *known = ft_known_model_find(bare);
    const char *slash = strrchr(bare, '/'), *start = slash;
    while (start != NULL && start > bare && start[-1] != '/')
        start--;
    const char *parent = slash != NULL ? ft_arena_strndup(arena, bare, (size_t)(slash - bare)) : NULL;
    if (known != NULL)
        ft_hint("ftengine pull %s%s", known->name, revision);
    else if (parent != NULL && is_repo(start, strlen(start)) && !ft_path_exists(parent))
        ft_hint("ftengine pull %s%s", start, revision);
    else
        ft_hint("ftengine pull NAME fetches a model from the hub, and model.path=NAME finds it then");
}

ft_status ft_hub_not_found(const char *path) {
    if (ft_path_exists(path)) {
        ft_fail(FT_INVALID, path, "a model directory is needed, this is a file");
    } else {
        ft_arena arena = {0};
        const char *revision, *bare = without_revision(path, &arena, &revision);
        if (bare == NULL) return FT_NO_MEMORY;
        ft_fail(FT_INVALID, path, "there is no such model directory, and no such model in the cache");
        const char *near = ft_known_model_find(bare) == NULL ? ft_known_model_nearest(bare) : NULL;
        if (near != NULL) ft_hint("did you mean %s?", near);
        hint_pull(bare, revision, &arena);
        ft_arena_free(&arena);
    }
    ft_hint(
        "a model directory holds config.json, model.safetensors or pytorch_model.bin, and vocab.txt or tokenizer.json");
    return FT_INVALID;
}

ft_status ft_hub_no_weights(const char *path, const char *directory) {
    ft_arena arena = {0};
    const char *revision, *bare = without_revision(path, &arena, &revision);
    if (bare == NULL) return FT_NO_MEMORY;
    ft_fail(FT_INVALID, directory, "there are no weights: neither model.safetensors nor pytorch_model.bin");
    if (directory != path) hint_pull(bare, revision, &arena);
    ft_arena_free(&arena);
    return FT_INVALID;
}
