#include "engine/model/spec/custom_head.h"

#include "base/arena.h"
#include "base/files.h"
#include "base/json/json.h"

#include <string.h>

// modeling_ftengine.py as it stands in the source.
static const char loader[] =
#include "modeling_ftengine.inc"
    ;

bool ft_custom_head_is(const ft_custom_head *head) { return head->hidden.count > 0 || head->pooling == FT_HEAD_MEAN; }

// The class's own pooler is not there then.
static int put_mean(json_t *said, const ft_family *family, double classifier_dropout) {
    int failed = json_object_set_new(said, "pooling", json_string("mean"));
    failed |= json_object_set_new(said, "classifier_dropout", ft_json_rounded(classifier_dropout, 7));
    return family->pooler != NULL ? failed | json_object_set_new(said, "pooler", json_string(family->pooler)) : failed;
}

int ft_custom_head_put(json_t *config, const ft_family *family, double classifier_dropout, const ft_custom_head *head) {
    // Where the base model had classes of its own, they are not this classifier's.
    static const char *const others[] = {"auto_map", "ftengine_head"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        json_object_del(config, others[i]);
    if (head == NULL) return 0;
    const bool mean = head->pooling == FT_HEAD_MEAN;
    json_t *hidden = json_array();
    int failed = hidden == NULL;
    for (int i = 0; i < head->hidden.count; i++)
        failed |= json_array_append_new(hidden, json_integer(head->hidden.values[i]));
    failed |= json_object_set_new(config, "architectures", json_pack("[s]", mean ? "ClassifierOfMeans" : "ClassifierWithHead"));
    failed |= json_object_set_new(
        config, "auto_map", json_pack("{s:s}", "AutoModelForSequenceClassification",
                                      mean ? "modeling_ftengine.ClassifierOfMeans" : "modeling_ftengine.ClassifierWithHead"));
    failed |= json_object_set_new(config, "ftengine_head",
                                  json_pack("{s:o, s:s, s:o}", "hidden", hidden, "activation", head->activation, "dropout",
                                            ft_json_rounded(head->dropout, 7)));
    if (mean) failed |= put_mean(json_object_get(config, "ftengine_head"), family, classifier_dropout);
    return failed ? -1 : 0;
}

ft_status ft_custom_head_save_loader(const ft_family *family, const char *directory) {
    static const char family_class[] = "BertForSequenceClassification"; // the one place where families differ
    ft_arena arena = {0};
    const char *at = strstr(loader, family_class);
    char *path = ft_path_join(&arena, directory, "modeling_ftengine.py");
    char *text =
        ft_arena_format(&arena, "%.*s%s%s", (int)(at - loader), loader, family->classifier_class, at + sizeof family_class - 1);
    ft_status status = path != NULL && text != NULL ? ft_atomic_write(path, text, strlen(text)) : FT_NO_MEMORY;
    ft_arena_free(&arena);
    return status;
}
