// full_disk.h - that a disk is full, as a trial has found it.
#ifndef FT_HPO_STUDY_FULL_DISK_H
#define FT_HPO_STUDY_FULL_DISK_H

#include <stdbool.h>
#include <stdint.h>

// What a trial has found out that no look at the study's directory tells: how much it needs, or that another disk is full.
typedef struct ft_full_disk {
    int64_t trial; // whose it was
    double since;  // ft_now(); 0: no trial has found it so, or that trial has ended since
    double pause;  // seconds from then on
    uint64_t room; // bytes that were free just after
    bool tried;    // trials have begun since
} ft_full_disk;

#endif
