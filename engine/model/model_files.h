// model_files.h - weights in and out of Hugging Face checkpoints.
#ifndef FT_MODEL_FILES_H
#define FT_MODEL_FILES_H

#include "engine/model/model.h"

// What a checkpoint had and lacked, for people: names live in the arena given to ft_model_load.
typedef struct ft_load_report {
    const char **drawn;   // head (and pooler) tensors that the file lacks
    int drawn_count;
    const char **ignored; // tensors of the file that a classifier does not use
    int ignored_count;
    const char *unpacked; // the form of frozen matrices that were made numbers: "nf4", "nf4_double", "fp4", "int8"; NULL: none was
} ft_load_report;

// Fills the weights from the files in model_dir that engine/files/weights.h knows. The base prefix (as "bert.") may be missing in the file and
// LayerNorm.gamma / beta are read as weight / bias. Head tensors that are absent are drawn as by ft_model_draw; any other
// absent tensor, a wrong shape, or a head made for another number of labels is FT_INVALID.
ft_status ft_model_load(ft_model *model, const char *model_dir, double initializer_range, uint64_t seed, ft_arena *arena,
                        ft_load_report *report);

// The tensor that is parameter `name`, under one of the names that files have for it; -1: there is none.
int ft_model_files_find(const ft_weights *weights, const ft_family *family, const char *name);

// Looks into the files which of them have the pooler: config->pooler_is_drawn. Nothing where there are no files.
ft_status ft_model_find_pooler(const char *model_dir, ft_model_config *config);

// Random initial weights, as the reference initialises: normal(0, initializer_range) for matrices (the padding row of the
// word table 0), biases 0, LayerNorm 1 and 0. A function of (seed, parameter name) only.
ft_status ft_model_draw(ft_model *model, double initializer_range, uint64_t seed);

// Writes <directory>/model.safetensors (fp32 in every precision, the names of the registry). The directory exists. Frozen
// weights of 16 bits are written as they were computed with, rounded. `watch` (NULL: nobody) is told before every piece how
// many bytes of how many are done: a large table whose rows training does not touch may take its time (absent_rows.h).
typedef void ft_save_watch(void *context, int64_t done, int64_t total);
ft_status ft_model_save_weights(ft_model *model, const char *directory, ft_save_watch *watch, void *context);

#endif
