// device_history.h - what is known of devices that a run has left: after a move in the middle of it (move.c), or when a run is
// resumed on another one. run.json's memory, planned and sites are those of the device that the run is on; what it had before
// is its "earlier_devices":
//
//     [{"device": "cuda:0", "device_description": "...", "first_step": 0, "last_step": 12,
//       "memory": {...}, "planned": {...}, "sites": [...]}, ...]
//
// in order, with optimizer steps done when the run came and left; planned and sites are missing where a resumed run took over.
#ifndef FT_DEVICE_HISTORY_H
#define FT_DEVICE_HISTORY_H

#include "engine/memory/memory.h"

#include <jansson.h>

struct ft_trainer;

// The run leaves its device: what there is to say of it goes to t->earlier_devices, and its peaks begin anew. FT_NO_MEMORY: of
// the host, and nothing has changed.
ft_status ft_device_history_leave(struct ft_trainer *t);
// It stays after all: `peaks` and `first_step` are t->earlier and t->device_step as they were.
void ft_device_history_stay(struct ft_trainer *t, const ft_memory_counters *peaks, int64_t first_step);
// For the checkpoint: {"device", "device_description", "first_step", "earlier"}.
json_t *ft_device_history_json(const struct ft_trainer *t, bool *failed);
// Of a checkpoint at `step`, whose peaks are in t->earlier already; NULL (one of before there was a history): the run was on
// the device that it is on now. Can be called again. Errors name `path`.
ft_status ft_device_history_read(struct ft_trainer *t, const json_t *history, int64_t step, const char *path);

#endif
