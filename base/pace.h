// pace.h - pages of a large file go to the disk while it is written, so that few of them are ever on their way: a limit on the memory of a
// group of processes (a cgroup) counts pages that nobody has written yet, and no one can take those at once.
#ifndef FT_PACE_H
#define FT_PACE_H

#include <stdint.h>

enum { FT_PACE_WINDOW = 512 << 10 }; // two of them are on their way at most

typedef struct ft_pace {
    int64_t begun; // up to there pages were handed to the disk, all but the last window of them are there
} ft_pace; // {0}: a file that begins

// The file is written up to `end`, in order. Waits for the disk where it is behind. What fails is not reported: it only costs memory.
void ft_pace_written(ft_pace *pace, int file, int64_t end);

#endif
