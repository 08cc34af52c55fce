#include "engine/data/tables/blocks.h"

#include "base/sha256.h"
#include "engine/data/tables/formats.h"
#include "engine/data/tables/records.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK = 1 << 16, LONGEST_ROW = 1 << 28 };

ft_status ft_blocks_open(const char *path, const ft_table_request *request, size_t bytes, ft_blocks *b) {
    *b = (ft_blocks){.path = path, .request = *request, .bytes = bytes, .file = strcmp(path, "-") == 0 ? STDIN_FILENO : -1};
    if (b->file < 0) b->file = open(path, O_RDONLY | O_CLOEXEC);
    if (b->file < 0) return ft_fail_errno(FT_INVALID, errno, path, "cannot open the file");
    struct stat info;
    if (fstat(b->file, &info) == 0 && S_ISDIR(info.st_mode)) return ft_fail(FT_INVALID, path, "this is a directory, not a file");
    if (fstat(b->file, &info) == 0 && S_ISREG(info.st_mode)) b->size = info.st_size;
    return FT_OK;
}

void ft_blocks_close(ft_blocks *b) {
    if (b->file > STDIN_FILENO) close(b->file);
    free(b->data);
    ft_table_layout_free(&b->layout);
    *b = (ft_blocks){.file = -1};
}

// Reads once. *waits: there is no more for the moment.
static ft_status read_more(ft_blocks *b, bool *waits) {
    const char *name = ft_source_display(b->path);
    if (b->capacity - b->length < CHUNK) {
        if (!b->whole && b->bytes != SIZE_MAX && b->capacity > LONGEST_ROW)
            return ft_fail(FT_INVALID, name, "a row of more than %d bytes", LONGEST_ROW);
        const size_t capacity = 2 * b->capacity + CHUNK;
        char *larger = ft_realloc(b->data, capacity + 1, 1, "a data file");
        if (larger == NULL) return FT_NO_MEMORY;
        b->data = larger;
        b->capacity = capacity;
    }
    const size_t room = b->capacity - b->length;
    ssize_t got;
    const size_t want = b->length > b->bytes ? b->length : b->bytes; // a long row is looked at again whole: few times
    do got = read(b->file, b->data + b->length, room < want ? room : want);
    while (got < 0 && errno == EINTR);
    if (got < 0) return ft_fail_errno(FT_FAILED, errno, name, "cannot read the file");
    b->ended = got == 0;
    if (b->hash != NULL) ft_sha256_add(b->hash, b->data + b->length, (size_t)got);
    b->length += (size_t)got;
    struct pollfd more = {.fd = b->file, .events = POLLIN};
    *waits = poll(&more, 1, 0) == 0;
    return FT_OK;
}

// Behind the last row that is there whole, *rows being how many ends of rows there are (0, 1 or more). In CSV a line end between quotes
// ends nothing.
static size_t end_of_rows(const char *data, size_t length, ft_format format, char delimiter, int *rows) {
    enum { CELL_BEGINS, PLAIN, QUOTED, CLOSED } state = CELL_BEGINS;
    size_t end = 0;
    *rows = 0;
    for (size_t i = 0; i < length; i++) {
        const char c = data[i];
        if (format == FT_FORMAT_CSV && state == QUOTED) {
            if (c == '"') state = CLOSED;
        } else if (c == '\n') {
            state = CELL_BEGINS;
            end = i + 1;
            if (*rows < 2) ++*rows;
        } else if (c == '"' && (state == CELL_BEGINS || state == CLOSED)) {
            state = QUOTED; // also the second of two quotes that stand for one
        } else {
            state = c == delimiter ? CELL_BEGINS : PLAIN;
        }
    }
    // Empty lines at the end of a table are no rows, between others they are: they stay with what follows.
    for (size_t line = end; format == FT_FORMAT_TSV && line > 0; end = line) {
        line--;
        if (line > 0 && data[line - 1] == '\r') line--;
        if (line > 0 && data[line - 1] != '\n') break;
    }
    return end;
}

// How many bytes are the next piece; 0: more must be read.
static ft_status piece_length(ft_blocks *b, bool waits, size_t *length) {
    *length = b->ended ? b->length : 0;
    if (b->ended || b->whole || b->conll || b->bytes == SIZE_MAX || (b->length < b->bytes && !waits)) return FT_OK;
    const bool first = b->layout.line == 0;
    ft_format format = b->layout.format;
    char delimiter = b->layout.delimiter;
    if (first) {
        if (memchr(b->data, '\n', b->length) == NULL) return FT_OK;
        FT_TRY(ft_table_format(&b->request, ft_source_display(b->path), b->data, b->length, &format));
        delimiter = ft_csv_delimiter(b->data, b->length);
        b->conll = format == FT_FORMAT_CONLL; // its sentences are read at once
        if (b->conll) return FT_OK;
    }
    int rows;
    const size_t end = end_of_rows(b->data, b->length, format, delimiter, &rows);
    if (rows >= (first && format != FT_FORMAT_TEXT ? 2 : 1)) *length = end; // a header is no row
    return FT_OK;
}

static ft_status parse(ft_blocks *b, size_t length, ft_table *table) {
    const char *name = ft_source_display(b->path);
    char *piece = b->data; // all of it: handed over
    if (length < b->length || piece == NULL) {
        piece = ft_calloc(length + 1, 1, "a data file");
        if (piece == NULL) return FT_NO_MEMORY;
        if (length > 0) memcpy(piece, b->data, length);
        if (b->length > length) memmove(b->data, b->data + length, b->length - length);
    } else {
        b->data = NULL;
        b->capacity = 0;
    }
    b->length -= length;
    b->done += (int64_t)length;
    ft_status status = FT_OK;
    if (b->whole) status = ft_source_unpack(name, SIZE_MAX / 4, &piece, &length);
    if (status == FT_OK) status = ft_source_to_utf8(name, &b->encoding, &piece, &length);
    if (status == FT_OK) return ft_table_parse_piece(piece, length, name, &b->request, &b->layout, table);
    free(piece);
    return status;
}

// Whether it is packed or UTF-16 is told by 16 bytes, or by a line of text.
static void look(ft_blocks *b) {
    const bool line = b->length >= 4 && memchr(b->data, '\n', b->length) != NULL && memchr(b->data, '\0', b->length) == NULL;
    if (b->known || !(b->ended || b->length >= 16 || line)) return;
    b->whole = ft_source_is_whole(b->data, b->length);
    b->known = true;
}

ft_status ft_blocks_next(ft_blocks *b, ft_table *table, bool *found) {
    *table = (ft_table){0};
    *found = false;
    for (bool waits = false;;) {
        const bool first = b->layout.line == 0;
        size_t length = 0;
        look(b);
        if (b->known) FT_TRY(piece_length(b, waits, &length));
        if (length == 0 && !b->ended) {
            FT_TRY(read_more(b, &waits));
            continue;
        }
        if (length == 0 && !first) return FT_OK;
        FT_TRY(parse(b, length, table));
        *found = table->rows > 0;
        if (*found) return FT_OK;
        ft_table_free(table);
        if (first) return ft_fail_at(ft_source_display(b->path), 2, 0, "no rows behind the header");
    }
}
