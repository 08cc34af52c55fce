#include "engine/commands/commands.h"

#include "engine/plan/advice.h"
#include "engine/train/repeat/repeat.h"

ft_status ft_command_train(const ft_section *const *sections, int argc, char **argv) {
    ft_arena arena = {0};
    ft_words words;
    ft_config config = {0};
    ft_status status = ft_parse_words("train", argc, argv, 0, NULL, &arena, &words);
    if (status == FT_OK && words.plain_count == 0 && words.override_count == 0) {
        status = ft_fail(FT_INVALID, "train", "no configuration given");
        ft_hint("ftengine train CONFIG.ini [section.key=value ...]; ftengine help train");
    }
    if (status == FT_OK) status = ft_config_load_with(sections, &config, words.plain_count, words.plain, words.override_count, words.overrides);
    ft_memory_refusal refusal = {.bytes = 0};
    if (status == FT_OK) status = ft_train_all(&config, &refusal);
    if (status == FT_NO_MEMORY && refusal.bytes > 0 && !refusal.planned) ft_advise(&config, &refusal);
    ft_config_free(&config);
    ft_arena_free(&arena);
    return status;
}
