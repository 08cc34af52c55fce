#include "engine/plan/texts.h"

#include "base/files.h"
#include "engine/config/data_path.h"
#include "engine/hub/cache.h"
#include "engine/hub/known_models.h"
#include "engine/text/tokenizer.h"

#include <stdio.h>
#include <string.h>

enum { FILES = 3 };

ft_status ft_plan_find_files(const ft_config *c, char missing[FT_PLAN_MISSING]) {
    const char *const options[FILES] = {"data.train", "data.validation", "data.test"};
    const char *const files[FILES] = {c->data.train, c->data.validation, c->data.test};
    missing[0] = '\0';
    for (int i = 0; i < FILES; i++)
        if (strcmp(files[i], "-") == 0)
            return ft_fail(FT_INVALID, options[i], "a plan may read the data more than once: give a file instead of -");
    for (int i = 0; i < FILES && missing[0] == '\0'; i++)
        if (files[i][0] != '\0' && !ft_data_path_exists(files[i]))
            snprintf(missing, FT_PLAN_MISSING, "there is no file %.400s (%s)", files[i], options[i]);
    return FT_OK;
}

// What makes tokens of texts, or numbers of pictures.
static bool reads_data(const char *directory) {
    ft_arena arena = {0};
    const char *pictures = ft_path_join(&arena, directory, "preprocessor_config.json");
    const bool reads = ft_tokenizer_is_in(directory) || (pictures != NULL && ft_path_exists(pictures));
    ft_arena_free(&arena);
    return reads;
}

// A path that is neither there nor a known model is an error, which opening the model has the words for.
static ft_status find_vocabulary(const ft_config *c, char missing[FT_PLAN_MISSING]) {
    ft_arena arena = {0};
    const char *directory = NULL;
    ft_status status = ft_hub_find(c->model.path, &arena, &directory);
    const bool here = directory != NULL || ft_path_exists(c->model.path);
    const ft_known_model *known = here ? NULL : ft_known_model_find(c->model.path);
    if (known != NULL && c->model.init == FT_INIT_RANDOM && c->model.stand_in_tokenizer[0] != '\0') {
        directory = c->model.stand_in_tokenizer;
        if (!ft_tokenizer_is_in(directory)) snprintf(missing, FT_PLAN_MISSING, "there is no vocabulary in %.400s", directory);
    } else if (known != NULL) {
        snprintf(missing, FT_PLAN_MISSING, "of %.100s only the numbers are here, not the vocabulary (ftengine pull %.100s)", known->name, known->name);
    } else if (status == FT_OK && directory != NULL && !reads_data(directory)) {
        snprintf(missing, FT_PLAN_MISSING, "there is no vocabulary in %.400s", directory);
    }
    ft_arena_free(&arena);
    return status;
}

ft_status ft_plan_find_texts(ft_config *config, char missing[FT_PLAN_MISSING]) {
    FT_TRY(ft_plan_find_files(config, missing));
    if (missing[0] == '\0' && config->data.train[0] != '\0') FT_TRY(find_vocabulary(config, missing));
    if (config->data.train[0] == '\0') missing[0] = '\0';
    if (missing[0] != '\0' || config->data.train[0] == '\0') config->data.train = config->data.validation = config->data.test = "";
    return FT_OK;
}
