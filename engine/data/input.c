#include "engine/data/input.h"

ft_status ft_input_open(const ft_input_kind *kind, const ft_input_request *request, ft_input *input) {
    *input = (ft_input){.kind = kind};
    return kind->open(request, &input->own);
}

void ft_input_close(ft_input *input) {
    if (input->kind != NULL) input->kind->close(input->own);
    *input = (ft_input){.kind = NULL};
}

ft_input_sizes ft_input_sizes_of(const ft_input *input) {
    return input->kind != NULL ? input->kind->sizes(input->own) : (ft_input_sizes){.vocabulary = 0};
}

const char *ft_input_digest(const ft_input *input) { return input->kind->digest(input->own); }
const char *const *ft_input_files(const ft_input *input) { return input->kind->files(input->own); }

ft_status ft_input_build(const ft_input *input, const ft_input_wanted *wanted, ft_dataset *dataset, bool *from_cache) {
    FT_TRY(input->kind->build(input->own, wanted, dataset, from_cache));
    dataset->input = input->kind;
    return FT_OK;
}
