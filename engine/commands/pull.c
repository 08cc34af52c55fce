#include "engine/commands/commands.h"

#include "base/log.h"
#include "base/stop.h"
#include "engine/hub/pull.h"

static bool stopped(void) { return ft_stop_signal() != 0; }

static ft_status pull(const char *name, bool json, ft_arena *arena) {
    ft_hub_pulled p;
    ft_stop_begin();
    ft_status status = ft_hub_pull(name, stopped, arena, &p);
    if (status == FT_INTERRUPTED)
        return ft_fail(ft_stop_status(ft_stop_signal()), NULL,
                       "stopped; the same command goes on where this one ended");
    FT_TRY(status);
    if (p.fetched == 0)
        ft_info("%s is in the cache already, at commit %.12s", name, p.commit);
    else
        ft_info("%s, commit %.12s: %d files, %d of them fetched, %.1f MB", name, p.commit, p.files, p.fetched,
                p.bytes / 1e6);
    if (!json) return printf("%s\n", p.directory), FT_OK;
    bool failed = false;
    json_t *document = json_pack("{s:i, s:s, s:s, s:i, s:i}", "format_version", 1, "name", name, "commit", p.commit,
                                 "files", p.files, "fetched_files", p.fetched);
    ft_json_put(document, "fetched_bytes", json_integer((json_int_t)p.bytes), &failed);
    ft_json_put(document, "directory", ft_json_text(p.directory), &failed);
    return ft_print_document(document, failed);
}

ft_status ft_command_pull(const ft_section *const *sections, int argc, char **argv) {
    ft_arena arena = {0};
    ft_words words;
    bool json = false;
    const ft_flag flags[] = {{"--json", NULL, &json}};
    ft_status status = ft_parse_words("pull", argc, argv, 1, flags, &arena, &words);
    if (status == FT_OK && (words.plain_count != 1 || words.override_count != 0)) {
        status = ft_fail(FT_INVALID, "pull", "takes one name of a model");
        ft_hint("ftengine pull microsoft/deberta-v3-base");
    }
    if (status == FT_OK) status = pull(words.plain[0], json, &arena);
    ft_arena_free(&arena);
    return status;
}
