// devices.h - which devices each trial is trained on, where it has several (study.devices_per_trial) or a list of them
// is dealt out.
#ifndef FT_HPO_STUDY_DEVICES_H
#define FT_HPO_STUDY_DEVICES_H

#include "base/arena.h"
#include "engine/config/config.h"

// Trials that run at the same time have lists by turns, as many different ones as the devices suffice for.
typedef struct ft_trial_devices {
    int count;               // 0: a trial's are what its configuration says
    const char *const *list; // [count], each as device.name: "cpu,cpu", "cuda:2,cuda:3"
} ft_trial_devices;

// `each` of the devices for every trial. `names`: a list as device.name, of devices of one kind; "cpu" is there as
// often as it is wanted. FT_INVALID: there are fewer. What is in `devices` is the arena's.
ft_status ft_trial_devices_deal(const char *names, int each, ft_arena *arena, ft_trial_devices *devices);
// The same for a study's configuration. Of GPUs, cuda:all, and auto where there are some, are those that can be trained
// on. count 0: a trial has one device, and none are listed. FT_INVALID also for what such a list cannot have beside it
// (engine/config/device_list.h), or this program cannot train on it.
ft_status ft_trial_devices_find(const ft_config *config, ft_arena *arena, ft_trial_devices *devices);
// Whether a trial of this configuration can be trained on such devices; FT_INVALID: not.
ft_status ft_trial_devices_check(const ft_trial_devices *devices, const ft_config *trial);
// Of the trial in that slot; NULL: as its configuration says.
const char *ft_trial_devices_of(const ft_trial_devices *devices, int slot);

#endif
