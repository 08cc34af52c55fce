// shared_memory.h - a group of processes of one host (collectives.h) over a file without a name that all of them map.
//
// Who starts them makes the file, hands its descriptor on (it is not close-on-exec), and watches:
//
//     FT_TRY(ft_shared_group_create(ranks, &file));                in the one that starts them
//     FT_TRY(ft_shared_group_join(file, rank, ranks, &group));     in each; it returns when all have joined
//
// A process that dies is noticed by those that wait for anything (a lock of the system's that goes with it), within a
// second.
#ifndef FT_SHARED_MEMORY_H
#define FT_SHARED_MEMORY_H

#include "kernels/collectives/collectives.h"

ft_status ft_shared_group_create(int ranks, int *file);
// The descriptor is the group's from now on, also when this fails. FT_INVALID: it is no such file, or of so many ranks.
ft_status ft_shared_group_join(int file, int rank, int ranks, ft_group **group);
// A text for who watches, of one rank; what was there before is gone. FT_FAILED: longer than FT_SHARED_NOTE - 1 bytes.
enum { FT_SHARED_NOTE = 4096 };
ft_status ft_shared_group_note(ft_group *group, const char *text);

// ---- for who is no rank of it: starts them, and waits for their ends
typedef struct ft_shared_watch ft_shared_watch;
ft_status ft_shared_watch_open(int file, ft_shared_watch **watch); // the descriptor stays the caller's
void ft_shared_watch_close(ft_shared_watch *watch);                // NULL is fine
// The first failure, if there is one; *rank: whose.
bool ft_shared_watch_failure(const ft_shared_watch *watch, int *rank, ft_error *error);
// What a rank has left as a note, "" where none has. When all have ended: nobody else may be writing it.
const char *ft_shared_watch_note(const ft_shared_watch *watch);
// That rank has ended so: the group does, unless it has already.
void ft_shared_watch_abort(ft_shared_watch *watch, int rank, const ft_error *error);

#endif
