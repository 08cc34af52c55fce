// ledger_notes.h - what the owner of a reservation says of its run while it lasts, for people who look at a device (`ftengine
// devices --watch`). It stands in a file beside the ledger, DEVICE.notes, a record a slot. Its owner alone writes a slot's record,
// by one pwrite with a checksum and without a lock; a record that is torn, or of an earlier owner of the slot, is none. Nothing is
// decided by it, and what cannot be written is left out.
#ifndef FT_LEDGER_NOTES_H
#define FT_LEDGER_NOTES_H

#include "engine/memory/ledger.h"

typedef struct ft_ledger_note {
    char run[320];        // its directory, absolute; of a longer one the end
    char doing[16];       // a word: "trains"
    int64_t step, steps;  // done, and in all
    size_t allocated;     // bytes of what is alive in its memory on the device now
    size_t reserved;      // bytes that it has taken from the device now; the reservation is what it may take
    double left;          // seconds until it has trained; negative: not known
    int64_t at;           // seconds since 1970, when it said so
} ft_ledger_note;

// NULL, or a ledger without a reservation of this process: nothing.
void ft_ledger_note_write(const ft_ledger *ledger, const ft_ledger_note *note);
// reservation: one of those read from the ledger. false: its owner has said nothing.
bool ft_ledger_note_read(const ft_ledger *ledger, const ft_reservation *reservation, ft_ledger_note *note);

#endif
