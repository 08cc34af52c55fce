#include "engine/track/mlflow_model.h"

#include "base/arena.h"
#include "base/files.h"
#include "base/json/json.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// What a pipeline is made of, by the end of the architecture's name.
typedef struct kind {
    const char *ends, *task, *pipeline, *component, *type;
} kind;

static const kind kinds[] = {
    {"ForSequenceClassification", "text-classification", "TextClassificationPipeline", "tokenizer", "AutoTokenizer"},
    {"ForTokenClassification", "token-classification", "TokenClassificationPipeline", "tokenizer", "AutoTokenizer"},
    {"ForQuestionAnswering", "question-answering", "QuestionAnsweringPipeline", "tokenizer", "AutoTokenizer"},
    {"ForCausalLM", "text-generation", "TextGenerationPipeline", "tokenizer", "AutoTokenizer"},
    {"ForImageClassification", "image-classification", "ImageClassificationPipeline", "image_processor",
     "AutoImageProcessor"},
};

static const kind *kind_of(const char *architecture) {
    const size_t length = architecture != NULL ? strlen(architecture) : 0;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const size_t end = strlen(kinds[i].ends);
        if (length > end && strcmp(architecture + length - end, kinds[i].ends) == 0) return &kinds[i];
    }
    return NULL;
}

static const char *architecture_of(const json_t *config) {
    return json_string_value(json_array_get(json_object_get(config, "architectures"), 0));
}

// MLmodel is YAML, of which JSON is a part.
static char *description(const json_t *config, const json_t *record, const kind *k) {
    char type[32];
    snprintf(type, sizeof type, "%s_type", k->component);
    const char *run = json_string_value(json_object_get(record, "run_id"));
    json_t *flavor = json_pack("{s:s, s:s, s:s, s:s, s:[s], s:s, s:n}", "task", k->task, "instance_type", k->pipeline,
                               "pipeline_model_type", architecture_of(config), "model_binary", "model", "components",
                               k->component, type, k->type, "code");
    json_t *model = json_pack("{s:s, s:s, s:{s:o}}", "artifact_path", "model", "run_id", run != NULL ? run : "",
                              "flavors", "transformers", flavor);
    char *line = model != NULL ? ft_json_line(model) : NULL;
    json_decref(model);
    if (line == NULL) ft_fail_memory(0, "the description of a model");
    return line;
}

static bool is_weights(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot != NULL && (strcmp(dot, ".safetensors") == 0 || strcmp(dot, ".bin") == 0 || strcmp(dot, ".npz") == 0);
}

// Calls visit for every file of the directory, in no order.
static ft_status each_file(const char *directory, ft_arena *arena, void *context,
                           ft_status (*visit)(void *context, const char *path, const char *name,
                                              const struct stat *file)) {
    DIR *open = opendir(directory);
    if (open == NULL) return ft_fail_errno(FT_FAILED, errno, directory, "cannot read the directory of the model");
    ft_status status = FT_OK;
    for (const struct dirent *entry; status == FT_OK && (entry = readdir(open)) != NULL;) {
        struct stat file;
        const char *path = ft_path_join(arena, directory, entry->d_name);
        if (path == NULL)
            status = FT_NO_MEMORY;
        else if (stat(path, &file) == 0 && S_ISREG(file.st_mode))
            status = visit(context, path, entry->d_name, &file);
    }
    closedir(open);
    return status;
}

// ---- what there is --------------------------------------------------------------------------------------------------

// Names, sizes and times of the files, in no order.
static ft_status add_mark(void *context, const char *path, const char *name, const struct stat *file) {
    (void)path;
    uint64_t hash = 0xCBF29CE484222325u,
             numbers[3] = {(uint64_t)file->st_size, (uint64_t)file->st_mtim.tv_sec, (uint64_t)file->st_mtim.tv_nsec};
    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001B3u;
    for (int i = 0; i < 3; i++)
        hash = (hash ^ numbers[i]) * 0x100000001B3u;
    *(uint64_t *)context += hash;
    return FT_OK;
}

// ---- telling --------------------------------------------------------------------------------------------------------

typedef struct telling {
    ft_mlflow *client;
    json_t *record;
    const char *part; // model or adapter
    const kind *kind; // NULL: of files alone
} telling;

// The weights once; the small files beside them in the component's place too, where MLflow looks for it.
static ft_status tell_file(void *context, const char *path, const char *name, const struct stat *file) {
    const telling *t = context;
    char to[400];
    (void)file;
    snprintf(to, sizeof to, "%s%s/%.300s", t->part, t->kind != NULL ? "/model" : "", name);
    FT_TRY(ft_mlflow_artifact(t->client, t->record, path, to));
    if (t->kind == NULL || is_weights(name)) return FT_OK;
    snprintf(to, sizeof to, "%s/components/%s/%.300s", t->part, t->kind->component, name);
    return ft_mlflow_artifact(t->client, t->record, path, to);
}

// Behind all files: what it names is there.
static ft_status tell_description(const telling *t, const json_t *config) {
    if (t->kind == NULL) return FT_OK;
    char *line = description(config, t->record, t->kind);
    if (line == NULL) return FT_NO_MEMORY;
    const ft_status status = ft_mlflow_artifact_text(t->client, t->record, line, "model/MLmodel");
    free(line);
    return status;
}

static ft_status tell(telling *t, const char *directory, const json_t *config, ft_arena *arena) {
    uint64_t mark = 0;
    char text[40];
    bool failed = false;
    FT_TRY(each_file(directory, arena, &mark, add_mark));
    snprintf(text, sizeof text, "%s %016llx", t->part, (unsigned long long)mark);
    const char *told = json_string_value(json_object_get(t->record, "model"));
    if (told != NULL && strcmp(told, text) == 0) return FT_OK;
    if (!ft_mlflow_takes_artifacts(t->record)) {
        ft_fail(FT_INVALID, "track.mlflow", "this server takes no files, so it was not given the model");
        ft_hint("mlflow server --artifacts-destination ./mlartifacts takes them; an experiment keeps the place that it "
                "was made with");
        return FT_INVALID;
    }
    FT_TRY(each_file(directory, arena, t, tell_file));
    FT_TRY(tell_description(t, config));
    ft_json_put(t->record, "model", ft_json_text(text), &failed);
    return failed ? ft_fail_memory(0, "a record") : FT_OK;
}

const char *ft_mlflow_model_of(const char *directory) {
    static const char *const parts[][2] = {{"model", "model/config.json"}, {"adapter", "adapter/adapter_config.json"}};
    const char *found = NULL;
    ft_arena arena = {0};
    for (size_t i = 0; found == NULL && i < sizeof parts / sizeof parts[0]; i++) {
        const char *path = ft_path_join(&arena, directory, parts[i][1]);
        if (path != NULL && ft_path_exists(path)) found = parts[i][0];
    }
    ft_arena_free(&arena);
    return found;
}

ft_status ft_mlflow_tell_model(ft_mlflow *client, json_t *record, const char *directory) {
    ft_arena arena = {0};
    json_t *config = NULL;
    telling t = {.client = client, .record = record, .part = ft_mlflow_model_of(directory)};
    if (t.part == NULL) return FT_OK;
    const char *path = ft_path_join(&arena, directory, t.part);
    ft_status status = path != NULL ? FT_OK : FT_NO_MEMORY;
    if (status == FT_OK && strcmp(t.part, "model") == 0) {
        const char *file = ft_path_join(&arena, path, "config.json");
        status = file != NULL ? ft_json_load(file, &config) : FT_NO_MEMORY;
        if (status == FT_OK) t.kind = kind_of(architecture_of(config));
    }
    if (status == FT_OK) status = tell(&t, path, config, &arena);
    json_decref(config);
    ft_arena_free(&arena);
    return status;
}
