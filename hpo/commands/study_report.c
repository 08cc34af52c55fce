// study_report.c - `ftengine study report`: a study as one HTML page, and its pictures as files.
#include "hpo/commands/study.h"

#include "base/files.h"
#include "base/log.h"
#include "hpo/report/study_page.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

typedef struct report {
    ft_summary summary;
    ft_study_picture *pictures;
    int count;
} report;

static ft_status write_page(study_call *call, const report *r, const char *path) {
    ft_atomic_file file;
    if (strcmp(path, "-") == 0) {
        FT_TRY(ft_study_page_write(&r->summary, r->pictures, r->count, call->place.path, stdout));
        return fflush(stdout) == 0 ? FT_OK : ft_fail_errno(FT_FAILED, errno, "standard output", "cannot write");
    }
    FT_TRY(ft_atomic_open(&file, path));
    ft_status status = ft_study_page_write(&r->summary, r->pictures, r->count, call->place.path, file.stream);
    if (status != FT_OK) {
        ft_atomic_abort(&file);
        return status;
    }
    FT_TRY(ft_atomic_commit(&file));
    if (call->json) {
        bool failed = false;
        json_t *document = json_pack("{s:i}", "format_version", 1);
        ft_json_put(document, "study", ft_json_text(call->opened->name), &failed);
        ft_json_put(document, "report", ft_json_text(path), &failed);
        return ft_study_print_json(document, failed);
    }
    printf("%s\n", path);
    return fflush(stdout) == 0 ? FT_OK : ft_fail_errno(FT_FAILED, errno, "standard output", "cannot write");
}

static ft_status write_svg(study_call *call, const report *r) {
    FT_TRY(ft_make_directories(call->svg));
    for (int i = 0; i < r->count; i++) {
        const char *name = ft_arena_format(&call->arena, "%s.svg", r->pictures[i].file);
        const char *path = name != NULL ? ft_path_join(&call->arena, call->svg, name) : NULL;
        ft_atomic_file file;
        if (path == NULL) return FT_NO_MEMORY;
        FT_TRY(ft_atomic_open(&file, path));
        ft_status status = ft_study_picture_write(&r->summary, &r->pictures[i], true, file.stream);
        if (status != FT_OK) {
            ft_atomic_abort(&file);
            return status;
        }
        FT_TRY(ft_atomic_commit(&file));
    }
    ft_info("%d pictures in %s", r->count, call->svg);
    return FT_OK;
}

ft_status ft_study_report(study_call *call) {
    report r;
    FT_TRY(ft_summary_make(call->opened, call->place.directory, &call->arena, &r.summary));
    FT_TRY(ft_study_pictures(&r.summary, &call->arena, &r.pictures, &r.count));
    const char *output = call->output;
    // Beside a study's database elsewhere there may be no directory of its own.
    if (output == NULL && ft_path_is_directory(call->place.directory))
        output = ft_path_join(&call->arena, call->place.directory, "report.html");
    else if (output == NULL)
        output = "report.html";
    if (output == NULL) return FT_NO_MEMORY;
    if (call->json && strcmp(output, "-") == 0)
        return ft_fail(FT_INVALID, "--json", "standard output cannot be the page and the document about it");
    if (call->svg != NULL) FT_TRY(write_svg(call, &r));
    return write_page(call, &r, output);
}
