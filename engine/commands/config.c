#include "engine/commands/commands.h"

#include "base/context.h"
#include "base/json/json.h"
#include "engine/config/config_json.h"

#include <errno.h>

// config: what it comes to; NULL: all that there is.
static ft_status write_json(const ft_section *const *sections, const ft_config *config) {
    bool failed = false;
    json_t *root = config == NULL ? ft_config_reference_json(sections, &failed) : json_object();
    if (config != NULL) ft_json_put(root, "format_version", json_integer(1), &failed);
    if (config != NULL) ft_json_put(root, "options", ft_config_json(config, &failed), &failed);
    if (!failed) ft_json_write(ft_results(), root);
    json_decref(root);
    return failed ? ft_fail_memory(0, "the options as JSON") : FT_OK;
}

ft_status ft_command_config(const ft_section *const *sections, int argc, char **argv) {
    ft_arena arena = {0};
    ft_words words;
    ft_config config = {0};
    bool markdown = false, man = false, json = false;
    const ft_flag flags[] = {{"--markdown", NULL, &markdown}, {"--man", NULL, &man}, {"--json", NULL, &json}};
    ft_status status = ft_parse_words("config", argc, argv, sizeof flags / sizeof flags[0], flags, &arena, &words);
    const bool none = status == FT_OK && words.plain_count + words.override_count == 0;
    if (json && (markdown || man)) {
        status = ft_fail(FT_INVALID, "config", "--json, --markdown and --man exclude each other");
    } else if (none && json) {
        status = write_json(sections, NULL);
    } else if (none) {
        status = ft_config_write_reference(sections, markdown ? FT_REFERENCE_MARKDOWN : man ? FT_REFERENCE_MAN : FT_REFERENCE_INI, stdout);
    } else if (status == FT_OK && (markdown || man)) {
        status = ft_fail(FT_INVALID, "config", "%s is for the options' description, without a configuration", markdown ? "--markdown" : "--man");
    } else if (status == FT_OK) {
        status = ft_config_load_with(sections, &config, words.plain_count, words.plain, words.override_count, words.overrides);
        if (status == FT_OK) status = json ? write_json(sections, &config) : ft_config_write(&config, true, false, stdout);
    }
    if (status == FT_OK && fflush(stdout) != 0) status = ft_fail_errno(FT_FAILED, errno, "standard output", "cannot write");
    if (status == FT_FAILED) ft_error_where_default("standard output");
    ft_config_free(&config);
    ft_arena_free(&arena);
    return status;
}
