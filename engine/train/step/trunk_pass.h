// trunk_pass.h - the features of a job (job/features.h) made on the device of a room, before its steps: one pass of the trunk over every
// sequence that lacks them. It has a layout of its own, which goes before that of the steps comes: of memory a run takes what the larger
// of the two does.
#ifndef FT_TRUNK_PASS_H
#define FT_TRUNK_PASS_H

#include "engine/train/room/room.h"
#include "engine/train/step/pass.h"

// Into ft_features.own of every set without rows. The state of the room is built, no layout is there, before and after. progress is optional.
ft_status ft_trunk_pass(ft_room *room, ft_predict_progress progress, void *context);
// One micro-batch of it, whatever the device computes.
ft_status ft_trunk_pass_rehearse(ft_room *room);

#endif
