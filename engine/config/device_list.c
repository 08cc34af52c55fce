#include "engine/config/device_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int ft_device_list_count(const char *names) {
    int count = 1;
    for (const char *at = names; at != NULL && (at = strchr(at, ',')) != NULL; at++)
        count++;
    return count;
}

void ft_device_list_name(const char *names, int index, char name[FT_DEVICE_NAME]) {
    while (index-- > 0 && names[0] != '\0') {
        names += strcspn(names, ",");
        names += names[0] == ',';
    }
    names += strspn(names, " ");
    int length = (int)strcspn(names, ", ");
    if (length >= FT_DEVICE_NAME) length = FT_DEVICE_NAME - 1;
    snprintf(name, FT_DEVICE_NAME, "%.*s", length, names);
}

static bool is_gpu(const char *name) { return strncmp(name, "cuda", 4) == 0; }

bool ft_device_list_is_apart(const char *names) {
    return ft_device_list_count(names) > 1 && is_gpu(names + strspn(names, " "));
}

char *ft_device_list_of_gpus(ft_arena *arena, int ranks) {
    char *list = ft_arena_alloc(arena, (size_t)ranks * FT_DEVICE_NAME + 1);
    for (int r = 0, at = 0; list != NULL && r < ranks; r++)
        at += sprintf(list + at, "%scuda:%d", r > 0 ? "," : "", r);
    return list;
}

ft_status ft_device_list_spell_out(ft_config *c) {
    const int count = ft_device_list_count(c->device.name);
    if (!ft_device_list_is_apart(c->device.name)) return FT_OK;
    char *list = ft_arena_alloc(&c->arena, (size_t)count * (FT_DEVICE_NAME + 6) + 1), name[FT_DEVICE_NAME];
    if (list == NULL) return FT_NO_MEMORY;
    for (int i = 0, at = 0; i < count; i++) {
        ft_device_list_name(c->device.name, i, name);
        at += sprintf(list + at, "%s%s%s", i > 0 ? "," : "", name[strspn(name, "0123456789")] == '\0' ? "cuda:" : "",
                      name);
    }
    c->device.name = list;
    return FT_OK;
}

// One thing after the other that a run on several devices cannot have yet.
static ft_status check_options(const ft_config *c, bool gpus) {
    const struct {
        bool asked;
        const char *option, *what;
    } cannot[] = {
        {c->train.seeds.count > 0, "train.seeds", "a run of several seeds is on one device"},
        {c->data.shares.count > 0, "data.shares", "runs on shares of the texts are on one device"},
        {c->data.folds > 0 && c->data.fold == 0, "data.folds",
         "a run of all folds is on one device; data.fold=N trains one"},
        {c->train.deadline[0] != '\0', "train.deadline", "ranks have no common clock yet"},
        {gpus && c->distributed.shard != FT_SHARD_NONE && c->distributed.shard != FT_SHARD_AUTO && c->memory.offload != FT_OFFLOAD_NONE &&
             c->memory.offload != FT_OFFLOAD_AUTO,
         "distributed.shard", "what lies on the host (memory.offload) is not dealt out"},
        {!gpus && c->memory.offload != FT_OFFLOAD_NONE && c->memory.offload != FT_OFFLOAD_AUTO, "memory.offload",
         "ranks on the CPU have no other memory"},
        {strcmp(c->data.train, "-") == 0, "data.train", "standard input cannot be read once for every rank"},
        {strcmp(c->data.validation, "-") == 0, "data.validation", "standard input cannot be read once for every rank"},
        {strcmp(c->data.test, "-") == 0, "data.test", "standard input cannot be read once for every rank"},
    };
    for (size_t i = 0; i < sizeof cannot / sizeof *cannot; i++) {
        if (!cannot[i].asked) continue;
        ft_fail(FT_INVALID, cannot[i].option, "not with several devices (%s): %s", c->device.name, cannot[i].what);
        ft_hint("device.name=%s trains on one", gpus ? "cuda" : "cpu");
        return FT_INVALID;
    }
    return FT_OK;
}

// What ranks of a host have in common is there once; gradients of their own are whole.
static ft_status check_shard(const ft_config *c) {
    const bool deals = c->distributed.shard == FT_SHARD_OPTIMIZER || c->distributed.shard == FT_SHARD_GRADIENTS;
    if (!deals || c->distributed.reduction != FT_REDUCTION_RING) return FT_OK;
    ft_fail(FT_INVALID, "distributed.shard", "not with distributed.reduction = ring of ranks on the CPU: each has its gradients whole");
    ft_hint("distributed.shard=none: weights and moments are there once for all ranks of a host");
    return FT_INVALID;
}

static bool is_twice(const char *names, int index) {
    char name[FT_DEVICE_NAME], other[FT_DEVICE_NAME];
    ft_device_list_name(names, index, name);
    for (int i = 0; i < index; i++) {
        ft_device_list_name(names, i, other);
        if (strcmp(name, other) == 0) return true;
    }
    return false;
}

// Of the same kind, and of GPUs each once, by its number.
static ft_status check_names(const ft_config *c, int count, bool gpus) {
    char name[FT_DEVICE_NAME];
    for (int i = 0; i < count; i++) {
        ft_device_list_name(c->device.name, i, name);
        const char *what = is_gpu(name) != gpus                ? "ranks are on the CPU or on GPUs, not on both"
                           : gpus && strcmp(name, "cuda") == 0 ? "of several GPUs each has its number, cuda:0 the first"
                           : gpus && is_twice(c->device.name, i) ? "a GPU has one rank"
                                                                 : NULL;
        if (what == NULL) continue;
        ft_fail(FT_INVALID, "device.name", "%s: %s", c->device.name, what);
        ft_hint("cpu,cpu are two ranks on the CPU, cuda:0,cuda:1 one on each of two GPUs, cuda:all one on every GPU");
        return FT_INVALID;
    }
    return FT_OK;
}

ft_status ft_device_list_check(const ft_config *c) {
    const int count = ft_device_list_count(c->device.name);
    const bool gpus = ft_device_list_is_apart(c->device.name);
    if (strcmp(c->device.name, "cuda:all") == 0) {
        ft_fail(FT_INVALID, "device.name",
                "cuda:all: only ftengine train, plan and tune know what to do with several GPUs");
        ft_hint("device.name=cuda is the first one");
        return FT_INVALID;
    }
    if (count < 2) return FT_OK;
    FT_TRY(check_names(c, count, gpus));
    if (!gpus) FT_TRY(check_shard(c));
    return check_options(c, gpus);
}
