// report.c - `ftengine report`: a run as a page.
#include "engine/commands/commands.h"

#include "base/files.h"
#include "engine/report/page.h"

#include <errno.h>
#include <string.h>

static ft_status write_page(const ft_run_record *run, const ft_page_options *options, bool json, const char *path) {
    ft_atomic_file file;
    if (strcmp(path, "-") == 0) {
        FT_TRY(ft_page_write(run, options, stdout));
        return fflush(stdout) == 0 ? FT_OK : ft_fail_errno(FT_FAILED, errno, "standard output", "cannot write");
    }
    FT_TRY(ft_atomic_open(&file, path));
    ft_status status = ft_page_write(run, options, file.stream);
    if (status != FT_OK) {
        ft_atomic_abort(&file);
        return status;
    }
    FT_TRY(ft_atomic_commit(&file));
    if (json) {
        bool failed = false;
        json_t *document = json_pack("{s:i}", "format_version", 1);
        ft_json_put(document, "report", ft_json_text(path), &failed);
        return ft_print_document(document, failed);
    }
    printf("%s\n", path);
    return fflush(stdout) == 0 ? FT_OK : ft_fail_errno(FT_FAILED, errno, "standard output", "cannot write");
}

ft_status ft_command_report(const ft_section *const *sections, int argc, char **argv) {
    ft_arena arena = {0};
    ft_words words;
    ft_run_record run = {0};
    const char *output = NULL;
    bool no_texts = false, json = false;
    const ft_flag flags[] = {{"--output", &output, NULL}, {"--no-texts", NULL, &no_texts}, {"--json", NULL, &json}};
    ft_status status = ft_parse_words("report", argc, argv, sizeof flags / sizeof flags[0], flags, &arena, &words);
    if (status == FT_OK && (words.plain_count != 1 || words.override_count > 0)) {
        status = ft_fail(FT_INVALID, "report", "give one run directory");
        ft_hint("ftengine report RUN [--output FILE|-] [--no-texts]");
    }
    if (status == FT_OK && json && output != NULL && strcmp(output, "-") == 0)
        status = ft_fail(FT_INVALID, "--json", "standard output cannot be the page and the document about it");
    if (status == FT_OK) status = ft_run_record_open(sections, words.plain[0], &run);
    const ft_page_options options = {.texts = !no_texts, .beside = output == NULL};
    if (status == FT_OK && output == NULL) output = ft_path_join(&arena, words.plain[0], "report.html");
    if (status == FT_OK) status = output != NULL ? write_page(&run, &options, json, output) : FT_NO_MEMORY;
    ft_run_record_close(&run);
    ft_arena_free(&arena);
    return status;
}
