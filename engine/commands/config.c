#include "engine/commands/commands.h"

#include <errno.h>

ft_status ft_command_config(const ft_section *const *sections, int argc, char **argv) {
    ft_arena arena = {0};
    ft_words words;
    ft_config config = {0};
    bool markdown = false, man = false;
    const ft_flag flags[] = {{"--markdown", NULL, &markdown}, {"--man", NULL, &man}};
    ft_status status = ft_parse_words("config", argc, argv, sizeof flags / sizeof flags[0], flags, &arena, &words);
    const bool none = status == FT_OK && words.plain_count + words.override_count == 0;
    if (none) {
        status = ft_config_write_reference(sections, markdown ? FT_REFERENCE_MARKDOWN : man ? FT_REFERENCE_MAN : FT_REFERENCE_INI, stdout);
    } else if (status == FT_OK && (markdown || man)) {
        status = ft_fail(FT_INVALID, "config", "%s is for the options' description, without a configuration", markdown ? "--markdown" : "--man");
    } else if (status == FT_OK) {
        status = ft_config_load_with(sections, &config, words.plain_count, words.plain, words.override_count, words.overrides);
        if (status == FT_OK) status = ft_config_write(&config, true, false, stdout);
    }
    if (status == FT_OK && fflush(stdout) != 0) status = ft_fail_errno(FT_FAILED, errno, "standard output", "cannot write");
    ft_config_free(&config);
    ft_arena_free(&arena);
    return status;
}
