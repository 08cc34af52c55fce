#include "base/files.h"
#include "base/json/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static ft_status take_text(const char *path, int64_t number, const char *text, size_t length, ft_take_line take, void *context) {
    char where[4200];
    json_t *value;
    snprintf(where, sizeof where, "%s:%lld", path, (long long)number);
    ft_status status = ft_json_parse(text, length, where, &value);
    if (status == FT_OK && !json_is_object(value)) status = ft_fail(FT_INVALID, where, "a line must be a JSON object");
    if (status == FT_OK) status = take(context, value);
    json_decref(value);
    return status;
}

ft_status ft_json_lines_read(const char *path, ft_take_line take, void *context) {
    if (!ft_path_exists(path)) return FT_OK;
    int fd;
    FT_TRY(ft_open_input(path, &fd));
    FILE *in = fdopen(fd, "r");
    if (in == NULL) {
        close(fd);
        return ft_fail_memory(0, path);
    }
    char *line = NULL; // the longest so far: no more is in memory
    size_t capacity = 0;
    ft_status status = FT_OK;
    for (int64_t number = 1; status == FT_OK; number++) {
        errno = 0;
        const ssize_t length = getline(&line, &capacity, in);
        if (length < 0 && errno == ENOMEM) status = ft_fail_memory(0, "a line of JSON");
        else if (length < 0 && ferror(in)) status = ft_fail_errno(FT_FAILED, errno, path, "cannot read the file");
        if (length < 0 || line[length - 1] != '\n') break; // the end; or it is still being written
        status = take_text(path, number, line, (size_t)length - 1, take, context);
    }
    free(line);
    fclose(in);
    return status;
}
