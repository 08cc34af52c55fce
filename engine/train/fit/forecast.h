// forecast.h - the memory of a run, known before it starts: the run is rehearsed, and fitted where it must be and may.
#ifndef FT_FORECAST_H
#define FT_FORECAST_H

#include "engine/train/room/room.h"

// room->planned: the memory of a run in this room, whose settings at `auto` are fitted first if they must. FT_NO_MEMORY, and
// room->refusal, when it would not fit.
ft_status ft_room_forecast(ft_room *room);
// What it takes from here on, where that is less: of a run whose features are there, before its steps are built. Nothing of the room changes.
ft_status ft_room_forecast_rest(const ft_room *room, ft_memory_counters *planned, ft_host_memory *host);
// What the run would take with another configuration, which differs from the job's in memory's settings or in the precision alone.
ft_status ft_room_forecast_as(const ft_room *room, const ft_config *config, ft_memory_counters *planned, ft_host_memory *host);
// With memory.limit = auto the room's budget on the CPU is no more than the process may have beside its other parts.
void ft_room_leave_host(ft_room *room, const ft_host_memory *others);

#endif
