#include "base/files.h"
#include "base/json/json.h"

#include <stdlib.h>
#include <string.h>

ft_status ft_json_lines_read(const char *path, ft_take_line take, void *context) {
    char *text;
    size_t length;
    if (!ft_path_exists(path)) return FT_OK;
    FT_TRY(ft_read_file(path, 0, &text, &length));
    ft_status status = FT_OK;
    int64_t number = 1;
    for (char *line = text, *end; status == FT_OK && line < text + length; line = end + 1, number++) {
        end = memchr(line, '\n', (size_t)(text + length - line));
        if (end == NULL) break; // still being written
        json_t *value;
        char where[4200];
        snprintf(where, sizeof where, "%s:%lld", path, (long long)number);
        status = ft_json_parse(line, (size_t)(end - line), where, &value);
        if (status == FT_OK && !json_is_object(value)) status = ft_fail(FT_INVALID, where, "a line must be a JSON object");
        if (status == FT_OK) status = take(context, value);
        json_decref(value);
    }
    free(text);
    return status;
}
