// log_copy.h - a file that has the lines of some work beside whoever sees them, each with its time: train.log of a run directory.
// It has them also where the level keeps them from the terminal (--quiet), but not those of work that is silent.
//
// Where the file will lie is known only in the middle of the work: lines from before are kept until then. Copies lie inside one
// another, as a run in a run of several: a line goes to all of the present context. What cannot be written is left out: such a
// file fails nobody.
#ifndef FT_LOG_COPY_H
#define FT_LOG_COPY_H

#include <stdbool.h>

typedef struct ft_log_copy ft_log_copy;

// NULL without memory, which all these take. Belongs to the present context, which frees it at the latest.
ft_log_copy *ft_log_copy_begin(void);
// Appends to the file of that name from now on, what was kept first.
void ft_log_copy_to(ft_log_copy *copy, const char *path);
// well: closed and freed. Else it stays for the error that whoever asked for the work has still to tell: until that was logged
// (ft_log_error), or the next copy begins.
void ft_log_copy_end(ft_log_copy *copy, bool well);

// ---- for log.c ----
bool ft_log_copies(void);                    // is there one?
void ft_log_copy_line(const char *text);     // to all
void ft_log_copy_told(void);                 // those go that waited for an error

#endif
