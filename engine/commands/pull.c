#include "engine/commands/commands.h"

#include "base/log.h"
#include "base/stop.h"
#include "engine/hub/pull.h"

static bool stopped(void) { return ft_stop_signal() != 0; }

static ft_status pull(const char *name, ft_arena *arena) {
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
    printf("%s\n", p.directory);
    return FT_OK;
}

ft_status ft_command_pull(const ft_section *const *sections, int argc, char **argv) {
    ft_arena arena = {0};
    ft_words words;
    ft_status status = ft_parse_words("pull", argc, argv, 0, NULL, &arena, &words);
    if (status == FT_OK && (words.plain_count != 1 || words.override_count != 0)) {
        status = ft_fail(FT_INVALID, "pull", "takes one name of a model");
        ft_hint("ftengine pull microsoft/deberta-v3-base");
    }
    if (status == FT_OK) status = pull(words.plain[0], &arena);
    ft_arena_free(&arena);
    return status;
}
