#include "engine/data/picture_set.h"

#include "base/spill.h"
#include "engine/data/input.h"
#include "engine/data/pictures/picture_files.h"

#include <stdlib.h>

void ft_picture_set_free(ft_picture_set *set) {
    if (set == NULL) return;
    ft_spill_free(set->pixels);
    ft_spill_free(set->key);
    ft_picture_files_close(set->files);
    free(set);
}

ft_status ft_picture_set_own(ft_picture_set *pictures, int64_t examples, ft_dataset *data) {
    const int32_t rows = ft_picture_set_rows(pictures);
    data->pictures = pictures;
    data->input = &ft_picture_input;
    data->examples = data->sequences = examples;
    data->tokens = examples * rows;
    data->longest = rows;
    data->offset = ft_spill_calloc((size_t)examples + 1, sizeof *data->offset, "the rows of pictures");
    if (data->offset == NULL) return FT_NO_MEMORY;
    for (int64_t i = 0; i <= examples; i++) data->offset[i] = i * rows;
    return FT_OK;
}

size_t ft_picture_set_host_bytes(const ft_picture_set *set) {
    return set != NULL ? ft_spill_host_bytes(set->pixels) + ft_spill_host_bytes(set->key) + ft_picture_files_host_bytes(set->files) : 0;
}

const char *ft_picture_set_name(const ft_picture_set *set, int64_t example) { return ft_picture_files_name(set->files, example); }
