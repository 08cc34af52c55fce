#include "engine/train/job/fit.h"

#include "base/log.h"
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

ft_status ft_fit_task(const ft_task_spec *task, const ft_model_config *config) {
    if (ft_task_has_language(task) && !config->family->causal) {
        ft_fail(FT_INVALID, "train.task", "%s is for decoders, and a %s model sees what is behind a token", ft_task_name(task->id), config->model_type);
        ft_hint("decoders here are qwen2, qwen3 and llama");
        return FT_INVALID;
    }
    if (!config->family->causal || !ft_task_reads_rows(task) || ft_task_has_language(task)) return FT_OK;
    ft_fail(FT_INVALID, "train.task", "%s on a %s model, a decoder, is not supported", ft_task_name(task->id), config->model_type);
    ft_hint("classes, numbers and rankings of whole texts are learned from its last token");
    return FT_INVALID;
}

ft_status ft_fit_last_tokens(const ft_dataset *data, const ft_model_config *config, const char *path) {
    for (int64_t i = 0; config->last_pooling && i < data->sequences; i++) {
        const int64_t tokens = ft_dataset_tokens(data, i), example = ft_dataset_example(data, i) + 1;
        if (tokens == 0)
            return ft_fail(FT_INVALID, path, "text %lld has no token: a %s model reads the last one", (long long)example, config->model_type);
        if (data->ids[data->offset[i + 1] - 1] != config->pad_token_id) continue;
        ft_fail(FT_INVALID, path, "text %lld ends in the padding token (%lld), which is passed over where the last token is looked for", (long long)example,
                (long long)config->pad_token_id);
        ft_hint("take it away from the end of the text, or set another pad_token_id in config.json");
        return FT_INVALID;
    }
    return FT_OK;
}

ft_status ft_fit_picture(const ft_input *input, ft_model_config *config, const char *path) {
    const ft_input_sizes sizes = ft_input_sizes_of(input);
    const long long height = config->picture.height, width = config->picture.width;
    if (sizes.height == 0 || (sizes.height == height && sizes.width == width)) return FT_OK;
    FT_TRY(ft_model_config_set_picture(config, sizes.height, sizes.width, path));
    ft_info("pictures   of %d x %d, and the model has positions for %lld x %lld: they are interpolated", sizes.height, sizes.width, height, width);
    return FT_OK;
}

ft_status ft_fit_max_length(const ft_input *input, const ft_model_config *config, int64_t asked, int64_t trained, int *length) {
    if (ft_model_config_reads_pictures(config)) {
        *length = (int)config->max_position_embeddings;
        if (asked == FT_AUTO || asked == *length) return FT_OK;
        return ft_fail(FT_INVALID, "data.max_length", "pictures are not cut: they have %d rows here", *length);
    }
    int64_t positions = config->max_position_embeddings, said = ft_input_sizes_of(input).longest;
    if (asked != FT_AUTO && asked > positions)
        return ft_fail(FT_INVALID, "data.max_length", "%lld tokens, but the model has %lld positions", (long long)asked, (long long)positions);
    int64_t most = asked != FT_AUTO ? asked : trained != FT_AUTO ? trained : said > 0 && said < 512 ? said : 512;
    *length = (int)(most < positions ? most : positions);
    return FT_OK;
}
