// study_disk.h - a full disk pauses a study: what it knows of the room on its disk.
#ifndef FT_HPO_STUDY_DISK_H
#define FT_HPO_STUDY_DISK_H

#include <stdbool.h>
#include <stdint.h>

struct ft_tuning;

// What a trial has found out that no look at the study's directory tells: how much it needs, or that another disk is full.
typedef struct ft_full_disk {
    int64_t trial; // whose it was
    double since;  // ft_now(); 0: no trial has found it so, or that trial has ended since
    double pause;  // seconds from then on
    uint64_t room; // bytes that were free just after
    bool tried;    // trials have begun since
} ft_full_disk;

void ft_disk_note(struct ft_tuning *tuning, const char *directory); // what a trial has left, before anything is removed
bool ft_disk_has_room(struct ft_tuning *tuning);                    // for one more; says so when there is none
void ft_disk_goes_on(struct ft_tuning *tuning);                     // a trial has begun: says so when there was a pause
// A trial found no room: none begins before there is clearly more, or a pause is over, which doubles until that trial has ended.
void ft_disk_was_full(struct ft_tuning *tuning, int64_t number, const char *error);
void ft_disk_ended(struct ft_tuning *tuning, int64_t number); // it has

#endif
