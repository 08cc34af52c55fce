// ledger.h - who has reserved how much of a device: one small file a device, shared by all ftengine processes, so that
// a run that has started cannot be starved by one that comes later.
//
// Where. $FTENGINE_LEDGER_DIR, else /tmp/ftengine-UID (not $XDG_RUNTIME_DIR: a login shell, cron and a service see
// different ones, or none, and would each keep a ledger of their own; it also goes when the user logs out, while a run
// under nohup does not). Beside the ledgers lies `claims` (hpo/study/share.c). A ledger is thus a user's own, unless
// FTENGINE_LEDGER_DIR names a directory that several users may write. Programs that are not in the ledger - another
// user's, or not ours at all - are seen through ft_ledger_device.unused: what the device itself says is left.
//
// How. Bytes that are locked while somebody looks or writes (fcntl, of an open file description) lie far behind the
// file's end: one is the ledger's own lock, and one belongs to each reservation and is held by its owner as long as it
// lives. The kernel lets go of it however the process ends; a pid that is used again, or that means another process in
// another container, cannot be mistaken for the owner. A reservation without its lock is dead, and whoever looks next
// removes it. A record is written by one pwrite under the ledger's lock and carries a checksum; a torn one has a dead
// owner. The file ends behind the last living reservation: with none it is empty.
#ifndef FT_LEDGER_H
#define FT_LEDGER_H

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FT_LEDGER_ENTRIES = 256 }; // reservations of one device at once; there is no room for a further one

typedef struct ft_reservation {
    int slot;         // its place in the ledger, as long as it lives
    int64_t pid;      // as its owner knows it
    uint64_t started; // of that process (process.h); 0: unknown
    int64_t since;    // seconds since 1970
    size_t bytes;
} ft_reservation;

typedef struct ft_ledger_device {
    const char *name; // "cpu", or what is unique to the device; a file name, kept by reference
    size_t capacity;  // bytes that all reservations together may have
    // Bytes that the device can still give, those left out that were reserved and are not taken yet; SIZE_MAX: it
    // cannot say. Called with the ledger locked. NULL: as SIZE_MAX.
    size_t (*unused)(void *context, const ft_reservation *reservations, int count);
    void *context;
} ft_ledger_device;

typedef struct ft_ledger_state {
    size_t reserved; // by all living reservations
    size_t free;     // what one more could have: of the capacity, and as the device says
    int count;
    ft_reservation reservations[FT_LEDGER_ENTRIES]; // in no order
} ft_ledger_state;

// Where this machine's ledgers are; made if need be. *mode: what a new file there gets. Errors as ft_ledger_open's.
ft_status ft_ledger_directory(ft_arena *arena, const char **directory, unsigned *mode);

typedef struct ft_ledger ft_ledger; // an open ledger, and at most one reservation in it; of one thread at a time

// FT_INVALID, naming the directory, when somebody else owns it or FTENGINE_LEDGER_DIR cannot be used; FT_FAILED when no
// file can be made or locked there.
ft_status ft_ledger_open(const ft_ledger_device *device, ft_ledger **ledger);
// All living reservations.
ft_status ft_ledger_read(ft_ledger *ledger, ft_ledger_state *state);
// Reserves `bytes` if that much, and at least `min_free`, is free: all in one moment, so that of two that fit only one
// by one the later is not entered. *state is what was found, without the new reservation. Once until ft_ledger_leave.
ft_status ft_ledger_enter(ft_ledger *ledger, size_t bytes, size_t min_free, ft_ledger_state *state, bool *entered);
// The own reservation becomes so much, where that is less. No reservation: nothing.
ft_status ft_ledger_shrink(ft_ledger *ledger, size_t bytes);
void ft_ledger_leave(ft_ledger *ledger); // no reservation: nothing
void ft_ledger_close(ft_ledger *ledger); // leaves; NULL is fine
// The own reservation; false: there is none.
bool ft_ledger_mine(const ft_ledger *ledger, ft_reservation *reservation);
const char *ft_ledger_path(const ft_ledger *ledger); // of its file, absolute or as FTENGINE_LEDGER_DIR

#endif
