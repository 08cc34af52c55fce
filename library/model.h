// model.h - inside libftengine: a model that stays in memory.
#ifndef FT_LIBRARY_MODEL_H
#define FT_LIBRARY_MODEL_H

#include "engine/commands/predictions.h"
#include "library/engine.h"

struct ftengine_model {
    ftengine *engine;
    const char *path, *base;
    const char **overrides; // the words, in the arena
    int override_count;
    ft_classifier classifier;
    ft_predictions predictions;
    bool writes;   // it is a language model
    int64_t piece; // rows that are answered at once
    ft_generator_sizes
        sizes;      // of a language model, what its memory was planned for; slots 0: its weights are not there yet
    ft_arena arena; // of the words
};

// By its words; close it in any case, its words stay.
ft_status ft_library_open_model(ftengine_model *model);
ft_status ft_library_close_model(ftengine_model *model);  // FT_FAILED on a leak
ft_status ft_library_ensure_model(ftengine_model *model); // opens it where opening it again had failed

#endif
