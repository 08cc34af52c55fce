#include "base/pace.h"

#include <fcntl.h>

#if defined(__linux__)
void ft_pace_written(ft_pace *pace, int file, int64_t end) {
    for (; end - pace->begun >= FT_PACE_WINDOW; pace->begun += FT_PACE_WINDOW) {
        (void)sync_file_range(file, pace->begun, FT_PACE_WINDOW, SYNC_FILE_RANGE_WRITE);
        if (pace->begun >= FT_PACE_WINDOW)
            (void)sync_file_range(file, pace->begun - FT_PACE_WINDOW, FT_PACE_WINDOW,
                                  SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
    }
}
#else // the system writes when it wants to
void ft_pace_written(ft_pace *pace, int file, int64_t end) { (void)pace, (void)file, (void)end; }
#endif
