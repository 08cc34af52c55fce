// document.c - what --json prints: one document on standard output.
#include "engine/commands/commands.h"

#include "base/context.h"

#include <errno.h>

ft_status ft_print_document(json_t *document, bool failed) {
    if (document != NULL && !failed) ft_json_write(ft_results(), document);
    json_decref(document);
    if (document == NULL || failed) return ft_fail_memory(0, "a document");
    return fflush(ft_results()) == 0 ? FT_OK
                                     : ft_fail_errno(FT_FAILED, errno, "standard output", "cannot write");
}

void ft_document_next(json_t *document, const char *command, const char *of, const ft_words *words, bool *failed) {
    json_t *list = json_object_get(document, "next_commands"), *line = json_pack("[s, s]", "ftengine", command);
    if (of != NULL) ft_json_append(line, ft_json_text(of), failed);
    for (int i = 0; words != NULL && i < words->plain_count; i++)
        ft_json_append(line, ft_json_text(words->plain[i]), failed);
    for (int i = 0; words != NULL && i < words->override_count; i++)
        ft_json_append(line, ft_json_text(words->overrides[i]), failed);
    if (list == NULL) ft_json_put(document, "next_commands", list = json_array(), failed);
    ft_json_append(list, line, failed);
}
