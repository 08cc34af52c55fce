#include "engine/config/device_list.h"

#include <stdio.h>
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

// One thing after the other that a run on several devices cannot have yet.
static ft_status check_options(const ft_config *c) {
    const struct {
        bool asked;
        const char *option, *what;
    } cannot[] = {
        {c->train.seeds.count > 0, "train.seeds", "a run of several seeds is on one device"},
        {c->data.folds > 0 && c->data.fold == 0, "data.folds",
         "a run of all folds is on one device; data.fold=N trains one"},
        {c->train.deadline[0] != '\0', "train.deadline", "ranks have no common clock yet"},
        {c->memory.offload != FT_OFFLOAD_NONE && c->memory.offload != FT_OFFLOAD_AUTO, "memory.offload",
         "ranks on the CPU have no other memory"},
        {strcmp(c->data.train, "-") == 0, "data.train", "standard input cannot be read once for every rank"},
        {strcmp(c->data.validation, "-") == 0, "data.validation", "standard input cannot be read once for every rank"},
        {strcmp(c->data.test, "-") == 0, "data.test", "standard input cannot be read once for every rank"},
    };
    for (size_t i = 0; i < sizeof cannot / sizeof *cannot; i++) {
        if (!cannot[i].asked) continue;
        ft_fail(FT_INVALID, cannot[i].option, "not with several devices (%s): %s", c->device.name, cannot[i].what);
        ft_hint("device.name=cpu trains on one");
        return FT_INVALID;
    }
    return FT_OK;
}

ft_status ft_device_list_check(const ft_config *c) {
    const int count = ft_device_list_count(c->device.name);
    char name[FT_DEVICE_NAME];
    bool all_cpu = true;
    for (int i = 0; i < count; i++) {
        ft_device_list_name(c->device.name, i, name);
        all_cpu = all_cpu && strcmp(name, "cpu") == 0;
    }
    if ((count > 1 && !all_cpu) || strcmp(c->device.name, "cuda:all") == 0) {
        ft_fail(FT_INVALID, "device.name", "%s: several GPUs train no run together yet", c->device.name);
        ft_hint("cpu,cpu are two ranks on the CPU; a study uses all GPUs, a trial each: ftengine tune");
        return FT_INVALID;
    }
    return count > 1 ? check_options(c) : FT_OK;
}
