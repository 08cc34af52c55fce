// disk.h - a full disk pauses a study: what it knows of the room on its disk.
#ifndef FT_HPO_STUDY_DISK_H
#define FT_HPO_STUDY_DISK_H

#include "hpo/study/study.h"

uint64_t ft_disk_bytes(const char *directory); // that the files below it have on the disk
void ft_disk_note(ft_tuning *tuning, const char *directory); // what a trial has left, before anything is removed
bool ft_disk_has_room(ft_tuning *tuning);                    // for one more; says so when there is none
void ft_disk_goes_on(ft_tuning *tuning);                     // a trial has begun: says so when there was a pause
// A trial found no room: none begins before there is clearly more, or a pause is over, which doubles until that trial has ended.
void ft_disk_was_full(ft_tuning *tuning, int64_t number, const char *error);
void ft_disk_ended(ft_tuning *tuning, int64_t number); // it has

#endif
