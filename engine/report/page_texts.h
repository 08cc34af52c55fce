// page_texts.h - texts of a run's data, for its page: they are not in the run directory, and may be gone or others by now.
#ifndef FT_PAGE_TEXTS_H
#define FT_PAGE_TEXTS_H

#include "engine/report/run_record.h"

enum { FT_PAGE_TEXT_BYTES = 240 }; // of a text at most; "..." behind what is longer

typedef struct ft_page_text {
    int64_t id;       // its row in the file, from 0
    const char *text; // with the second text of a pair behind it; NULL: not found
} ft_page_text;

// Fills in the texts, in `arena`. *why: why there are none, for people, or NULL. A file that is gone or was changed since is no error.
ft_status ft_page_find_texts(const ft_run_record *run, const char *split, int count, ft_page_text *texts, ft_arena *arena,
                             const char **why);

#endif
