#include "engine/hub/known_models.h"

#include "base/nearest.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static const ft_known_model models[] = {
#include "known_models.inc" // made by CMake from configs/models
};
enum { MODELS = sizeof models / sizeof models[0] };

int ft_known_model_count(void) { return MODELS; }

const ft_known_model *ft_known_model_at(int index) { return &models[index]; }

static const char *last_component(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

// `name` stands at the end of `path`, as whole components.
static bool ends_with(const char *path, const char *name) {
    size_t length = strlen(path), tail = strlen(name);
    if (tail > length || strcmp(path + length - tail, name) != 0) return false;
    return tail == length || path[length - tail - 1] == '/';
}

const ft_known_model *ft_known_model_find(const char *path) {
    const ft_known_model *found = NULL;
    for (int i = 0; i < MODELS; i++)
        if (ends_with(path, models[i].name)) return &models[i];
    for (int i = 0; i < MODELS; i++) {
        if (strcmp(last_component(models[i].name), last_component(path)) != 0) continue;
        if (found != NULL) return NULL; // two owners: the path does not say which
        found = &models[i];
    }
    return found;
}

const char *ft_known_model_nearest(const char *path) {
    const char *ends[MODELS];
    for (int i = 0; i < MODELS; i++)
        ends[i] = last_component(models[i].name);
    const char *near = ft_nearest(last_component(path), MODELS, ends);
    for (int i = 0; i < MODELS && near != NULL; i++)
        if (near == ends[i]) return models[i].name;
    return NULL;
}
