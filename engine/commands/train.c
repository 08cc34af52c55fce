#include "engine/commands/commands.h"

#include "engine/plan/advice.h"
#include "engine/train/repeat/repeat.h"
#include "engine/train/run_dir.h"

#include <string.h>

// A run directory among the configurations stands for its own, and goes on there unless the command line says otherwise.
static ft_status take_runs(ft_words *words, ft_arena *arena) {
    for (int i = 0; i < words->plain_count; i++) {
        const char *run = words->plain[i], *file = ft_run_dir_config(run, arena);
        if (file == NULL) continue;
        const char **overrides = ft_arena_alloc(arena, (size_t)(words->override_count + 2) * sizeof *overrides);
        const char *dir = ft_arena_format(arena, "output.dir=%s", run);
        if (overrides == NULL || dir == NULL) return FT_NO_MEMORY;
        overrides[0] = dir;
        overrides[1] = "output.exists=resume";
        if (words->override_count > 0) memcpy(overrides + 2, words->overrides, (size_t)words->override_count * sizeof *overrides);
        words->overrides = overrides;
        words->override_count += 2;
        words->plain[i] = file;
    }
    return FT_OK;
}

// RUN/config.ini says not where it lies, so that it can begin another run; to go on can only mean RUN.
static void find_resumed(const ft_words *words, ft_config *config) {
    if (words->plain_count == 0 || config->output.dir[0] != '\0' || config->output.exists != FT_EXISTS_RESUME) return;
    const char *dir = ft_run_dir_of_config(words->plain[words->plain_count - 1], &config->arena);
    if (dir != NULL) config->output.dir = dir;
}

ft_status ft_command_train(const ft_section *const *sections, int argc, char **argv) {
    ft_arena arena = {0};
    ft_words words;
    ft_config config = {0};
    ft_status status = ft_parse_words("train", argc, argv, 0, NULL, &arena, &words);
    if (status == FT_OK && words.plain_count == 0 && words.override_count == 0) {
        status = ft_fail(FT_INVALID, "train", "no configuration given");
        ft_hint("ftengine train CONFIG.ini|RUN [section.key=value ...]; ftengine help train");
    }
    if (status == FT_OK) status = take_runs(&words, &arena);
    if (status == FT_OK) status = ft_config_load_with(sections, &config, words.plain_count, words.plain, words.override_count, words.overrides);
    if (status == FT_OK) find_resumed(&words, &config);
    ft_memory_refusal refusal = {.bytes = 0};
    if (status == FT_OK) status = ft_train_all(&config, &refusal);
    if (status == FT_NO_MEMORY && refusal.bytes > 0 && !refusal.planned) ft_advise(&config, &refusal);
    ft_config_free(&config);
    ft_arena_free(&arena);
    return status;
}
