// attempts.h - a run on several devices that goes on by itself when a rank is lost: with which devices, and when not.
//
//     ft_attempts a = {.devices = 2, .least = 1, .device = {{"cuda:0", uuid}, {"cuda:1", uuid}}};
//     ... an attempt ends ...
//     ft_attempts_after(&a, &loss, &roll, &out)    and the next one has a.device[0 .. a.devices - 1]
//
// A process that was killed says nothing of its device: all begin again. A GPU is left out that is not there any more,
// or cannot be opened; so is any device whose rank was lost FT_ATTEMPTS_SAME times in a row without a checkpoint in
// between, as long as enough are left.
#ifndef FT_ATTEMPTS_H
#define FT_ATTEMPTS_H

#include "engine/ranks/roll.h"

#include <stdint.h>

enum { FT_ATTEMPTS_DEVICES = 64, FT_ATTEMPTS_SAME = 3 };

typedef struct ft_attempt_device {
    char name[FT_ROLL_NAME]; // "cuda:1"; a driver that lost another GPU counts anew
    char uuid[FT_ROLL_UUID]; // "": nobody looks for it
} ft_attempt_device;

typedef struct ft_attempts {
    int devices; // a rank on each, in this order
    int least;   // ranks of an attempt, at least 1
    ft_attempt_device device[FT_ATTEMPTS_DEVICES];
    // The same loss, again and again.
    int lost, times;
    int64_t at;
} ft_attempts;

// By what an attempt ended.
typedef struct ft_lost_rank {
    int rank;           // whose loss it was
    bool reported;      // it said so itself; else its process is gone
    bool of_device;     // and that it is its device (ft_error_of_device)
    int64_t checkpoint; // the newest one, a step; -1: there is none
} ft_lost_rank;

typedef struct ft_left_out {
    int count;
    struct {
        int rank; // of the attempt that ended
        char name[FT_ROLL_NAME], why[FT_ROLL_WHY];
    } device[FT_ATTEMPTS_DEVICES];
} ft_left_out;

typedef enum ft_attempt_next {
    FT_ATTEMPT_AGAIN,
    FT_ATTEMPT_SAME_ERROR, // what was reported would come again
    FT_ATTEMPT_TOO_FEW,    // devices are left
} ft_attempt_next;

// roll: the GPUs that there are now; NULL: nobody knows. *out: who is left out from now on, and why.
ft_attempt_next ft_attempts_after(ft_attempts *attempts, const ft_lost_rank *loss, const ft_roll *roll,
                                  ft_left_out *out);

// What happened, for people behind "restart 1 of at most 3, from the last checkpoint": "", or who is left out.
enum { FT_ATTEMPTS_TEXT = 1024 };
void ft_attempts_text(const ft_left_out *out, int before, int after, char text[FT_ATTEMPTS_TEXT]);
// The same for programs: a member of restarts.json. *failed: no memory.
json_t *ft_attempts_json(const ft_lost_rank *loss, const char *device, const char *why, const ft_left_out *out,
                         int before, int after, bool *failed);
// Adds `events` to restarts.json of a run, in which nobody works meanwhile.
ft_status ft_attempts_save(const char *directory, const json_t *events);

#endif
