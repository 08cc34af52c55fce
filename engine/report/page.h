// page.h - a run as one HTML file that needs nothing else: no script, no font, no picture from elsewhere. Light or dark as
// the reader's system is.
#ifndef FT_PAGE_H
#define FT_PAGE_H

#include "engine/report/run_record.h"

#include <stdio.h>

typedef struct ft_page_options {
    bool texts;  // of the mistakes too
    bool beside; // the page lies in the run directory: it links to what is there
} ft_page_options;

// Whatever the run directory lacks is left out. FT_INVALID: a file in it is damaged (file, line).
ft_status ft_page_write(const ft_run_record *run, const ft_page_options *options, FILE *out);

// ---- for pages of other things ------------------------------------------------------------------------------------------

// Everything in front of <body>: policy, title (escaped here), colours, looks. `more_style`: rules of the page's own, or "".
void ft_page_head(FILE *out, const char *title, const char *more_style);
// The rules with light colours in place of the pages' variables, for a picture in a file of its own.
void ft_page_light_style(FILE *out, const char *rules);
const char *ft_page_duration(double seconds, char text[24]); // "2h03m", "4m05s", "12.3 s"
// One of the .tiles: a figure with its name. `value` and `below` are HTML.
void ft_page_tile(FILE *out, const char *name, const char *value, const char *below);

// ---- its parts (internal) -----------------------------------------------------------------------------------------------
// page_predictions.c: classes, confusion, worst mistakes
ft_status ft_page_predictions(const ft_run_record *run, const ft_page_options *options, FILE *out);
// page_probabilities.c: how far probabilities of a split can be believed, and what each threshold would give
ft_status ft_page_probabilities(const ft_run_record *run, const char *split, FILE *out);
ft_status ft_page_values(const ft_run_record *run, FILE *out);        // page_values.c: numbers beside their targets
ft_status ft_page_has_timeline(const ft_run_record *run, bool *has);  // page_memory.c
ft_status ft_page_memory_course(const ft_run_record *run, FILE *out); // page_memory.c: a chart, when there is a timeline
void ft_page_memory(const ft_run_record *run, FILE *out);             // page_memory.c: peak, phases, largest holders

#endif
