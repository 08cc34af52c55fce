#include "base/files.h"
#include "base/json/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static ft_status parse(const char *path, int64_t number, const char *text, size_t length, json_t **value) {
    char where[4200];
    snprintf(where, sizeof where, "%s:%lld", path, (long long)number);
    FT_TRY(ft_json_parse(text, length, where, value));
    if (json_is_object(*value)) return FT_OK;
    json_decref(*value);
    *value = NULL;
    return ft_fail(FT_INVALID, where, "a line must be a JSON object");
}

static ft_status open_lines(ft_json_lines *l) {
    if (l->in != NULL || !ft_path_exists(l->path)) return FT_OK;
    int fd;
    FT_TRY(ft_open_input(l->path, &fd));
    l->in = fdopen(fd, "r");
    if (l->in == NULL) {
        close(fd);
        return ft_fail_memory(0, l->path);
    }
    if (l->at > 0 && fseeko(l->in, (off_t)l->at, SEEK_SET) != 0) return ft_fail_errno(FT_FAILED, errno, l->path, "cannot read the file");
    return FT_OK;
}

ft_status ft_json_lines_next(ft_json_lines *l, ft_json_line_room *room, json_t **value) {
    *value = NULL;
    FT_TRY(open_lines(l));
    if (l->in == NULL) return FT_OK; // an absent file has no lines
    errno = 0;
    const ssize_t length = getline(&room->text, &room->capacity, l->in);
    if (length < 0 && errno == ENOMEM) return ft_fail_memory(0, "a line of JSON");
    if (length < 0 && ferror(l->in)) return ft_fail_errno(FT_FAILED, errno, l->path, "cannot read the file");
    if (length < 0 || room->text[length - 1] != '\n') return FT_OK; // the end; or it is still being written
    l->at += length;
    l->number++;
    if (l->several) ft_json_lines_close(l);
    return parse(l->path, l->number, room->text, (size_t)length - 1, value);
}

void ft_json_lines_close(ft_json_lines *l) {
    if (l->in != NULL) fclose(l->in);
    l->in = NULL;
}

ft_status ft_json_lines_read(const char *path, ft_take_line take, void *context) {
    ft_json_lines lines = {.path = path};
    ft_json_line_room room = {.text = NULL}; // the longest so far: no more is in memory
    json_t *value;
    ft_status status;
    do {
        status = ft_json_lines_next(&lines, &room, &value);
        if (status == FT_OK && value != NULL) status = take(context, value);
        json_decref(value);
    } while (status == FT_OK && value != NULL);
    free(room.text);
    ft_json_lines_close(&lines);
    return status;
}
