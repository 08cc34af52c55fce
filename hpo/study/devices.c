#include "hpo/study/devices.h"

#include "base/log.h"
#include "engine/config/device_list.h"
#include "engine/train/room/device_choice.h"
#include "hpo/space/options_study.h"

#include <stdio.h>
#include <string.h>

static const char option[] = "study.devices_per_trial";

// ---- lists of a pool
// ----------------------------------------------------------------------------------------------------

// `each` names from the first-th on; of a single name as often as that.
static const char *list_from(const char *names, int count, int first, int each, ft_arena *arena) {
    const size_t size = (size_t)each * (FT_DEVICE_NAME + 1);
    char *list = ft_arena_alloc(arena, size), name[FT_DEVICE_NAME];
    for (int i = 0, at = 0; list != NULL && i < each; i++) {
        ft_device_list_name(names, (first + i) % count, name);
        at += snprintf(list + at, size - (size_t)at, "%s%s", i > 0 ? "," : "", name);
    }
    return list;
}

static int count_cpus(const char *names, int count) {
    char name[FT_DEVICE_NAME];
    int cpus = 0;
    for (int i = 0; i < count; i++) {
        ft_device_list_name(names, i, name);
        cpus += strcmp(name, "cpu") == 0;
    }
    return cpus;
}

ft_status ft_trial_devices_deal(const char *names, int each, ft_arena *arena, ft_trial_devices *devices) {
    const int count = ft_device_list_count(names), cpus = count_cpus(names, count), lists = cpus > 0 ? 1 : count / each;
    *devices = (ft_trial_devices){.count = 0};
    if (cpus > 0 && cpus < count)
        return ft_fail(FT_INVALID, "device.name", "%s: trials are trained on GPUs or on the CPU, not on both", names);
    if (lists == 0) {
        ft_fail(FT_INVALID, option, "%d devices train a trial, and device.name has %d (%s)", each, count, names);
        ft_hint("%s=%d, or more devices; device.name=cpu is there as often as it is wanted", option, count);
        return FT_INVALID;
    }
    const char **list = ft_arena_alloc(arena, (size_t)lists * sizeof *list);
    if (list == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < lists; i++)
        if ((list[i] = list_from(names, count, i * each, each, arena)) == NULL) return FT_NO_MEMORY;
    *devices = (ft_trial_devices){.count = lists, .list = list};
    return FT_OK;
}

const char *ft_trial_devices_of(const ft_trial_devices *d, int slot) {
    return d->count > 0 ? d->list[slot % d->count] : NULL;
}

// ---- a study's
// ----------------------------------------------------------------------------------------------------------

// GPUs that can be trained on, as a list; "": there are none.
static ft_status find_gpus(ft_arena *arena, const char **names) {
    ft_offer offer = {.count = 0};
    const size_t size = FT_CANDIDATES * (FT_DEVICE_NAME + 1);
    char *list = ft_arena_alloc(arena, size);
    if (list == NULL) return FT_NO_MEMORY;
    list[0] = '\0';
    FT_TRY(ft_offer_add_cuda(&offer));
    for (int i = 0, at = 0; i < offer.count; i++)
        if (offer.candidates[i].trains)
            at += snprintf(list + at, size - (size_t)at, "%s%s", at > 0 ? "," : "", offer.candidates[i].name);
    *names = list;
    return FT_OK;
}

static ft_status find_pool(const char *asked, ft_arena *arena, const char **names) {
    const bool automatic = strcmp(asked, "auto") == 0;
    *names = asked;
    if (!automatic && strcmp(asked, "cuda:all") != 0) return FT_OK;
    FT_TRY(find_gpus(arena, names));
    if ((*names)[0] != '\0') return FT_OK;
    *names = "cpu";
    if (automatic) return FT_OK;
    ft_fail(FT_INVALID, "device.name", "cuda:all: there is no GPU here to train on");
    ft_hint("ftengine devices tells why; device.name=cpu");
    return FT_INVALID;
}

ft_status ft_trial_devices_check(const ft_trial_devices *devices, const ft_config *trial) {
    ft_config there = *trial; // strings are shared
    for (int i = 0; i < devices->count; i++) {
        there.device.name = devices->list[i];
        FT_TRY(ft_device_list_check(&there));
    }
    return FT_OK;
}

static ft_status check(const ft_config *config, const ft_trial_devices *devices) {
    const ft_study_options *o = ft_study_options_of(config);
    if (o->devices_per_trial > 1 && o->pack != FT_AUTO && o->pack > 1) {
        ft_fail(FT_INVALID, option, "not with study.pack: trials of one process share one device");
        ft_hint("study.pack=1, or %s=1", option);
        return FT_INVALID;
    }
    return ft_trial_devices_check(devices, config);
}

ft_status ft_trial_devices_find(const ft_config *config, ft_arena *arena, ft_trial_devices *devices) {
    const int each = (int)ft_study_options_of(config)->devices_per_trial;
    const char *asked = config->device.name, *names;
    *devices = (ft_trial_devices){.count = 0};
    if (each == 1 && ft_device_list_count(asked) == 1 && strcmp(asked, "cuda:all") != 0) return FT_OK;
    FT_TRY(find_pool(asked, arena, &names));
    FT_TRY(ft_trial_devices_deal(names, each, arena, devices));
    FT_TRY(check(config, devices));
    const int idle = ft_device_list_count(names) % each;
    if (idle > 0 && ft_device_list_is_apart(names))
        ft_warn("device.name has %d GPUs, and a trial takes %d: the last %s idle", ft_device_list_count(names), each,
                idle == 1 ? "one is" : "ones are");
    return FT_OK;
}
