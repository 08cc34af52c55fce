// study_sharing.h - of `ftengine study show`: trials that had a device together, by how much they were predicted to
// slow each other down, and what was seen of it (hpo/sharing).
#ifndef FT_HPO_COMMANDS_STUDY_SHARING_H
#define FT_HPO_COMMANDS_STUDY_SHARING_H

#include "hpo/sharing/record.h"

#include <jansson.h>

typedef struct ft_study_sharing {
    ft_sharing_record *records; // [count]
    int64_t count;
    ft_sharing_means means;
} ft_study_sharing;

ft_status ft_study_sharing_load(ft_stored *study, ft_arena *arena, ft_study_sharing *sharing);
// A line or two; nothing where no trial shared a device or was held back.
void ft_study_sharing_print(const ft_study_sharing *sharing);
json_t *ft_study_sharing_value(const ft_study_sharing *sharing, bool *failed);

#endif
