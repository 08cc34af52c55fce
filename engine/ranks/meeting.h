// meeting.h - processes that a launcher started become one run: they find each other, and agree that they are about to
// do the same.
//
//     FT_TRY(ft_meeting_open(&rank, 300, &meeting));
//     ... ft_meeting_agree, ft_meeting_spread, ft_meeting_hand_out: all ranks, in the same order ...
//     ft_meeting_close(meeting);
//
// They meet at rank 0, on one host: at a socket of the kernel's without a file or a port, whose name follows from what
// the launcher says of the job. Both ends ask the kernel whose process the other one is, so that no secret has to be
// passed around. Whoever dies before the others are done with it is noticed at once, by the end of its connection.
// Afterwards the collectives notice it (kernels/collectives).
#ifndef FT_MEETING_H
#define FT_MEETING_H

#include "engine/ranks/rank.h"

#include <stddef.h>

typedef struct ft_meeting ft_meeting;

// Waits until all are there, at most so many seconds. FT_INVALID: ranks on several hosts; FT_FAILED: not all came, or
// two say that they are the same one; the status of a stop (base/stop.h). *meeting is NULL then.
ft_status ft_meeting_open(const ft_rank *rank, double seconds, ft_meeting **meeting);
void ft_meeting_close(ft_meeting *meeting); // NULL is fine

// What is to be the same on every rank. FT_INVALID on all of them where it is not, with the first rank and fact that
// differ: "rank 1 (process 77) has another NAME than rank 0: VALUE, not VALUE".
typedef struct ft_fact {
    const char *name, *value;
} ft_fact;
ft_status ft_meeting_agree(ft_meeting *meeting, int count, const ft_fact *facts);

// Rank 0's text goes to all: at most `size` - 1 bytes and FT_MEETING_TEXT.
enum { FT_MEETING_TEXT = 32 << 10 };
ft_status ft_meeting_spread(ft_meeting *meeting, char *text, size_t size);

// Rank 0's descriptor goes to all, who get one of their own of the same file; close() it. -1 on failure.
ft_status ft_meeting_hand_out(ft_meeting *meeting, int *descriptor);

// All learn whether all are fine so far: status is this rank's. The first failure, by rank, is the error of every rank;
// of another one's it says whose it is.
ft_status ft_meeting_all(ft_meeting *meeting, ft_status status);

// Of a failure: rank 0 is about to say what there is to say, and returns at once; others wait for that, at most so many
// seconds. False: it is gone without.
bool ft_meeting_word(ft_meeting *meeting, double seconds);

#endif
