// company.h - what the room of a run shares with others of its process (engine/model/state/pack.h): the device, and the frozen numbers of the
// model, where theirs are the same. Nothing else: texts, batches, activations, adapters and moments are each run's own.
#ifndef FT_COMPANY_H
#define FT_COMPANY_H

#include "engine/model/state/pack.h"
#include "engine/train/room/room.h"

// The device of that name (ft_device_open): the pack's own where the present context is in a pack whose device was asked for in the same way.
ft_status ft_company_device(const ft_config *config, const char *name, ft_room *room, char why[]);
// Of an open job: the trunk is held where its files, form and frozen parts are those of the others; else, or with nobody there, nothing
// happens. Before the run is planned.
ft_status ft_company_join(ft_room *room);
void ft_company_leave(ft_room *room); // its model is gone
// Bytes of the device that are still to be reserved for the trunk, on the CPU with the program that all share; of the host, for that program
// beside a device with memory of its own; 0: none. Then: they were.
size_t ft_company_owes(const ft_room *room);
size_t ft_company_owes_host(const ft_room *room);
void ft_company_reserved(ft_room *room, ft_ledger *reservation, ft_ledger *host);

#endif
