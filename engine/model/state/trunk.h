// trunk.h - the frozen numbers of a model, in memory once, for several models that train beside them (pack.h). It is there while somebody
// holds it: the first who takes the numbers allocates and fills them, the last who lets go frees them.
//
// What is lent are the stores of frozen numbers (parameters.h). Everything that decides about them is in a key: whoever has another key
// has a trunk of its own.
#ifndef FT_TRUNK_H
#define FT_TRUNK_H

#include "engine/memory/ledger.h"
#include "engine/memory/memory.h"

typedef struct ft_trunk {
    char key[65];     // "": nobody holds it
    int holders;
    size_t bytes;     // of the numbers; 0: not known yet
    ft_device *device;
    ft_memory *memory; // NULL: not allocated yet
    void *block;
    bool filled;      // its numbers are there
    size_t program;   // that the process held before any of them, which the same reservation has
    size_t planned;   // bytes that its memory reserves; 0: not known yet
    ft_ledger *reservation;      // of those; on the CPU, which has no other memory, with the program; NULL: there is none
    ft_ledger *host_reservation; // of the program, beside a device with memory of its own; NULL: as above
    bool reserved;
} ft_trunk;

// false: others hold it with another key. Else it is held until ft_trunk_release. device: that it is, or will be, on, or a recorder of it.
bool ft_trunk_hold(ft_trunk *trunk, const char *key, ft_device *device);
void ft_trunk_release(ft_trunk *trunk);
// Memory for `bytes` numbers' bytes, of a model in `memory`: the trunk's own, zeroed when it is new. Of a plan it is planned, and what
// comes back leads nowhere. FT_FAILED: another size than others have.
ft_status ft_trunk_lend(ft_trunk *trunk, ft_memory *memory, size_t bytes, void **block);

#endif
