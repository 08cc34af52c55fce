// custom_head.h - a head with hidden layers, or one that reads the mean of a text's rows, as transformers is told of it: it has no class for
// such a model, so the model brings one along (modeling_ftengine.py beside config.json, which names it in auto_map; opened with
// trust_remote_code).
#ifndef FT_CUSTOM_HEAD_H
#define FT_CUSTOM_HEAD_H

#include "engine/config/config.h"
#include "engine/model/spec/families.h"

#include <jansson.h>

typedef struct ft_custom_head {
    ft_int_list hidden;
    const char *activation;
    double dropout;
    ft_head_pooling pooling;
} ft_custom_head;

// Is it one that transformers has no class for?
bool ft_custom_head_is(const ft_custom_head *head);
// What a model's config.json says of its head: `head`, or the standard one (NULL), whatever stood there before. classifier_dropout: of the rows that
// are read, in front of the head. 0, or -1 when out of memory.
int ft_custom_head_put(json_t *config, const ft_family *family, double classifier_dropout, const ft_custom_head *head);
// directory/modeling_ftengine.py for models of this family.
ft_status ft_custom_head_save_loader(const ft_family *family, const char *directory);

#endif
