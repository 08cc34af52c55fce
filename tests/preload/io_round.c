// io_round.c DIRECTORY MODEL - a round through engine/io: every kind of file is read and written. Run by sweep.sh with
// each allocation failing in turn; what is found afterwards must be whole. Ends with the status as code, like ftengine.
#include "base/files.h"
#include "base/json/json.h"
#include "engine/files/safetensors.h"
#include "engine/files/weights.h"
#include "engine/model/spec/model_config.h"

#include <stdio.h>
#include <stdlib.h>

static ft_status copy_tensors(const char *from, const char *to) {
    ft_safetensors *in;
    FT_TRY(ft_safetensors_open(from, &in));
    ft_atomic_file out;
    ft_status status = ft_atomic_open(&out, to);
    static const char *const metadata[] = {"format", "pt", NULL};
    if (status == FT_OK)
        status = ft_safetensors_write(out.stream, to, ft_safetensors_count(in), ft_safetensors_at(in, 0), metadata);
    if (status == FT_OK)
        status = ft_atomic_commit(&out);
    else
        ft_atomic_abort(&out);
    ft_safetensors_close(in);
    return status;
}

// Two sets of weights: one file of torch.save, and files with an index.
static ft_status read_weights(ft_arena *arena, const char *model, const char *name) {
    char *directory = ft_path_join(arena, model, name);
    if (directory == NULL) return FT_NO_MEMORY;
    ft_weights *weights;
    FT_TRY(ft_weights_open(directory, &weights));
    float first;
    ft_status status = FT_OK;
    for (int i = 0; status == FT_OK && i < ft_weights_count(weights); i++)
        status = ft_weights_part_to_f32(weights, i, 0, 1, &first);
    ft_weights_close(weights);
    return status;
}

static ft_status copy_config(const char *model, const char *to) {
    ft_model_config config;
    FT_TRY(ft_model_config_load(model, &config));
    ft_status status = ft_model_config_save(&config, to, (int)config.num_labels, config.label_names, 0.2, 0.1,
                                            config.classifier_dropout, NULL, "single_label_classification");
    ft_model_config_free(&config);
    return status;
}

static ft_status fill(ft_arena *arena, const char *model, const char *into) {
    char *from = ft_path_join(arena, model, "model.safetensors"), *to = ft_path_join(arena, into, "model.safetensors");
    char *config = ft_path_join(arena, into, "config.json"), *sub = ft_path_join(arena, into, "a/b");
    if (from == NULL || to == NULL || config == NULL || sub == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_make_directories(sub));
    FT_TRY(copy_tensors(from, to));
    FT_TRY(read_weights(arena, model, "torch"));
    FT_TRY(read_weights(arena, model, "indexed"));
    FT_TRY(copy_config(model, config));
    char *copy = ft_path_join(arena, sub, "copy"), first[65], second[65];
    if (copy == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_copy_file(config, copy));
    FT_TRY(ft_sha256_file(config, first));
    FT_TRY(ft_sha256_file(copy, second));
    json_t *root;
    FT_TRY(ft_json_load(copy, &root));
    ft_status status = ft_json_save(copy, root);
    json_decref(root);
    return status;
}

static ft_status round_trip(ft_arena *arena, const char *directory, const char *model) {
    char *target = ft_path_join(arena, directory, "model");
    char *absolute = target != NULL ? ft_path_absolute(arena, NULL, target) : NULL;
    if (absolute == NULL) return FT_NO_MEMORY;
    ft_atomic_dir dir;
    FT_TRY(ft_atomic_dir_open(&dir, absolute));
    ft_status status = fill(arena, model, dir.temporary);
    if (status == FT_OK) return ft_atomic_dir_commit(&dir);
    ft_atomic_dir_abort(&dir);
    return status;
}

int main(int argc, char **argv) {
    if (argc != 3) return FT_INVALID;
    ft_arena arena = {0};
    ft_status status = round_trip(&arena, argv[1], argv[2]);
    ft_arena_free(&arena);
    if (status != FT_OK) dprintf(2, "io_round: error: %s (%s)\n", ft_error_message(), ft_error_where());
    return (int)status;
}
