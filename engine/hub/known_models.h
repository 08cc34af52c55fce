// known_models.h - the config.json numbers of well-known models, built into the program from configs/models.
//
// They make plans possible on a machine that holds no model. Only the numbers are here: training needs the files.
#ifndef FT_KNOWN_MODELS_H
#define FT_KNOWN_MODELS_H

typedef struct ft_known_model {
    const char *name; // as on the hub: "bert-base-uncased", "microsoft/deberta-v3-base"
    const char *json; // the text of its file in configs/models
} ft_known_model;

int ft_known_model_count(void);
const ft_known_model *ft_known_model_at(int index); // in the order of their names

// The model that a path means: its last components are a name, or its last one is how a single name ends (options make
// model.path absolute, so "microsoft/deberta-v3-base" arrives as "/here/microsoft/deberta-v3-base"). NULL: none.
const ft_known_model *ft_known_model_find(const char *path);
// The name most like the end of `path`, or NULL when none is near.
const char *ft_known_model_nearest(const char *path);

#endif
