// verdict.h - what a check of a device has found, kept for later runs: a small file a subject, with one line. Where
// none can be kept - no home, a read-only disk - nothing is remembered, and that is no error.
#ifndef FT_DEVICES_VERDICT_H
#define FT_DEVICES_VERDICT_H

#include "base/status.h"

enum { FT_VERDICT_TEXT = 200 };
#define FT_VERDICT_BEGUN "begun" // by a process that is gone: it never came to an end
#define FT_VERDICT_NEVER_ENDED "its check has begun and never ended" // the same at the end of a text, which may have said something before

typedef struct ft_verdict {
    int fd;                     // locked; -1: nothing is kept
    char path[500];             // of the file; "": there is none
    char text[FT_VERDICT_TEXT]; // "": nothing is known yet
} ft_verdict;

// subject: all that the verdict depends on, in any words. Where another process is at it just now its outcome is not
// waited for.
void ft_verdict_open(ft_verdict *verdict, const char *name, const char *subject);
void ft_verdict_write(ft_verdict *verdict,
                      const char *text); // on the disk when it returns: the machine may be next to hang
void ft_verdict_close(ft_verdict *verdict);

#endif
