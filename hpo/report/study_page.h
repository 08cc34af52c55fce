// study_page.h - a study as one HTML file that needs nothing else, as engine/report/page.h makes one of a run.
#ifndef FT_HPO_STUDY_PAGE_H
#define FT_HPO_STUDY_PAGE_H

#include "hpo/report/pictures.h"

// `path`: of the study's file, as people would give it. For studies of no trial, of one and of thousands: what there is
// nothing of is left out, and of what there is too much a part is shown, which the page says.
ft_status ft_study_page_write(const ft_summary *summary, const ft_study_picture *pictures, int count, const char *path,
                              FILE *out);

#endif
