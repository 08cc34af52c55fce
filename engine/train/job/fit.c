#include "engine/train/job/fit.h"

#include "engine/config/config.h"

ft_status ft_fit_vocabulary(const ft_input *input, const ft_model_config *config, const char *path) {
    const long long tokens = ft_input_sizes_of(input).vocabulary;
    if (tokens <= config->vocab_size) return FT_OK;
    ft_fail(FT_INVALID, path, "the tokenizer has %lld tokens, the model's embedding table %lld rows", tokens,
            (long long)config->vocab_size);
    ft_hint("config.json and the vocabulary file belong to different models");
    return FT_INVALID;
}

ft_status ft_fit_types(const ft_dataset *data, const ft_model_config *config, const char *path) {
    int64_t most = 0;
    for (int64_t i = 0; data->types != NULL && config->type_vocab_size > 0 && i < data->tokens; i++)
        if (data->types[i] > most) most = data->types[i];
    if (most == 0 || most < config->type_vocab_size) return FT_OK;
    ft_fail(FT_INVALID, path, "pairs of texts have token type %lld, the model knows %lld", (long long)most, (long long)config->type_vocab_size);
    ft_hint("config.json (type_vocab_size) and the tokenizer's files belong to different models");
    return FT_INVALID;
}

ft_status ft_fit_max_length(const ft_input *input, const ft_model_config *config, int64_t asked, int64_t trained, int *length) {
    int64_t positions = config->max_position_embeddings, said = ft_input_sizes_of(input).longest;
    if (asked != FT_AUTO && asked > positions)
        return ft_fail(FT_INVALID, "data.max_length", "%lld tokens, but the model has %lld positions", (long long)asked, (long long)positions);
    int64_t most = asked != FT_AUTO ? asked : trained != FT_AUTO ? trained : said > 0 && said < 512 ? said : 512;
    *length = (int)(most < positions ? most : positions);
    return FT_OK;
}
