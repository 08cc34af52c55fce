// page_pictures.h - small pictures of a run's data, for its page: they are not in the run directory, and may be gone by now.
#ifndef FT_PAGE_PICTURES_H
#define FT_PAGE_PICTURES_H

#include "engine/images/thumbnail.h"
#include "engine/report/run_record.h"

enum { FT_PAGE_PICTURE_SIDE = 112 }; // pixels at most

typedef struct ft_page_picture {
    int64_t id;             // its row in the data, from 0; no two are the same
    const char *name;       // as predictions.jsonl has it (file_name)
    ft_thumbnail thumbnail; // bytes NULL: it was not found
} ft_page_picture;

// Fills in the thumbnails; free them (ft_page_free_pictures). *why: why some are missing, for people, or NULL. Pictures that are gone, or are none
// any more, are no error.
ft_status ft_page_find_pictures(const ft_run_record *run, const char *split, int count, ft_page_picture *pictures, const char **why);
void ft_page_free_pictures(int count, ft_page_picture *pictures);
// As an <img> that has all its bytes in it, and the name below it.
void ft_page_picture_write(FILE *out, const ft_page_picture *picture);

#endif
