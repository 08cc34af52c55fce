#include "engine/data/tables/blocks.h"

#include "base/log.h"
#include "base/sha256.h"
#include "engine/data/tables/formats.h"
#include "engine/data/tables/kinds.h"
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
    if (b->file < 0) FT_TRY(ft_refuse_address(path));
    if (b->file < 0) b->file = open(path, O_RDONLY | O_CLOEXEC);
    if (b->file < 0) return ft_fail_errno(FT_INVALID, errno, path, "cannot open the file");
    struct stat info;
    if (fstat(b->file, &info) == 0 && S_ISDIR(info.st_mode)) return ft_fail(FT_INVALID, path, "this is a directory, not a file");
    if (fstat(b->file, &info) == 0 && S_ISREG(info.st_mode)) b->size = info.st_size;
    return FT_OK;
}

void ft_blocks_pace(ft_blocks *b, double seconds) {
    if (b->bytes < FT_LARGEST_PIECE && seconds < 0.5) b->bytes *= 2;
    else if (b->bytes > FT_FIRST_PIECE && seconds > 2) b->bytes /= 2;
}

void ft_blocks_close(ft_blocks *b) {
    ft_parquet_close(b->parquet);
    if (b->file > STDIN_FILENO) close(b->file);
    free(b->data);
    for (int i = 0; i < b->stages; i++) {
        ft_decoder_close(b->stage[i].decoder);
        free(b->stage[i].data);
    }
    ft_table_layout_free(&b->layout);
    *b = (ft_blocks){.file = -1};
}

// Reads once.
static ft_status read_file(ft_blocks *b, char *out, size_t room, size_t *got, bool *ended) {
    if (b->parquet != NULL) return ft_parquet_read(b->parquet, out, room, got, ended);
    ssize_t bytes;
    do bytes = read(b->file, out, room);
    while (bytes < 0 && errno == EINTR);
    if (bytes < 0) return ft_fail_errno(FT_FAILED, errno, ft_source_display(b->path), "cannot read the file");
    if (b->hash != NULL) ft_sha256_add(b->hash, out, (size_t)bytes);
    b->read += bytes;
    *got = (size_t)bytes;
    *ended = bytes == 0;
    return FT_OK;
}

static ft_status pull(ft_blocks *b, int stages, char *out, size_t room, size_t *got, bool *ended);

// More bytes from what is before a stage, behind those that it has not taken.
static ft_status fill(ft_blocks *b, int stage) {
    struct ft_block_stage *s = &b->stage[stage];
    size_t got;
    if (s->at > 0) memmove(s->data, s->data + s->at, s->length - s->at);
    s->length -= s->at;
    s->at = 0;
    if (s->capacity - s->length < CHUNK / 2) {
        char *larger = ft_realloc(s->data, s->capacity + CHUNK, 1, "a data file");
        if (larger == NULL) return FT_NO_MEMORY;
        s->data = larger;
        s->capacity += CHUNK;
    }
    FT_TRY(pull(b, stage, s->data + s->length, s->capacity - s->length, &got, &s->last));
    s->length += got;
    return FT_OK;
}

// What has come through so many stages: some bytes, or none where *ended.
static ft_status pull(ft_blocks *b, int stages, char *out, size_t room, size_t *got, bool *ended) {
    if (stages == 0) return read_file(b, out, room, got, ended);
    struct ft_block_stage *s = &b->stage[stages - 1];
    for (*got = 0;;) {
        size_t used;
        FT_TRY(ft_decoder_run(s->decoder, ft_source_display(b->path), s->data + s->at, s->length - s->at, s->last, &used, out, room, got, ended));
        s->at += used;
        if (*ended || *got > 0) return FT_OK;
        if (used == 0 && !s->last) FT_TRY(fill(b, stages - 1));
    }
}

// Is there no more for the moment?
static bool must_wait(const ft_blocks *b) {
    struct pollfd more = {.fd = b->file, .events = POLLIN};
    bool waits = poll(&more, 1, 0) == 0;
    for (int i = 0; i < b->stages; i++) waits = waits && b->stage[i].at == b->stage[i].length;
    return waits;
}

// Reads once. *waits: there is no more for the moment.
static ft_status read_more(ft_blocks *b, bool *waits) {
    if (b->capacity - b->length < CHUNK) {
        if (b->bytes != SIZE_MAX && b->capacity > LONGEST_ROW)
            return ft_fail(FT_INVALID, ft_source_display(b->path), b->conll ? "more than %d bytes in a format that is read whole; JSON lines, TSV and CSV may be larger" : "a row of more than %d bytes", LONGEST_ROW);
        const size_t capacity = 2 * b->capacity + CHUNK;
        char *larger = ft_realloc(b->data, capacity + 1, 1, "a data file");
        if (larger == NULL) return FT_NO_MEMORY;
        b->data = larger;
        b->capacity = capacity;
    }
    const size_t room = b->capacity - b->length;
    size_t got;
    const size_t want = b->length > b->bytes ? b->length : b->bytes; // a long row is looked at again whole: few times
    // A decoder needs some room for one character.
    FT_TRY(pull(b, b->stages, b->data + b->length, room < want || b->stages > 0 ? room : want, &got, &b->ended));
    b->length += got;
    *waits = must_wait(b);
    return FT_OK;
}

// Behind the last row that is there whole, or row number `most`, *rows being how many ends of rows there are. In CSV a line end between
// quotes ends nothing.
static size_t end_of_rows(const char *data, size_t length, ft_format format, char delimiter, int64_t most, int64_t *rows) {
    enum { CELL_BEGINS, PLAIN, QUOTED, CLOSED } state = CELL_BEGINS;
    size_t end = 0;
    *rows = 0;
    for (size_t i = 0; i < length && *rows < most; i++) {
        const char c = data[i];
        if (format == FT_FORMAT_CSV && state == QUOTED) {
            if (c == '"') state = CLOSED;
        } else if (c == '\n') {
            state = CELL_BEGINS;
            end = i + 1;
            ++*rows;
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
    const bool first = b->layout.line == 0, enough = waits || b->length >= b->bytes;
    *length = b->ended ? b->length : 0;
    if (b->length == 0 || b->conll || b->bytes == SIZE_MAX || (b->rows == 0 && (b->ended || !enough))) return FT_OK;
    ft_format format = b->layout.format;
    char delimiter = b->layout.delimiter;
    if (first) {
        if (memchr(b->data, '\n', b->length) == NULL) return FT_OK;
        FT_TRY(ft_table_format(&b->request, ft_source_display(b->path), b->data, b->length, &format));
        delimiter = ft_csv_delimiter(b->data, b->length);
        // its rows are read at once
        b->conll = format == FT_FORMAT_CONLL || format == FT_FORMAT_SQUAD || (format == FT_FORMAT_JSONL && !ft_json_is_line(b->data, b->length));
        if (b->conll) return FT_OK;
    }
    const int64_t header = first && format != FT_FORMAT_TEXT, most = b->rows > 0 ? b->rows + header : INT64_MAX; // a header is no row
    int64_t rows;
    const size_t end = end_of_rows(b->data, b->length, format, delimiter, most, &rows);
    if (rows > header && end > 0 && (rows == most || (enough && !b->ended))) *length = end;
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
    b->done = b->stages > 0 ? b->read : b->done + (int64_t)length;
    ft_status status = ft_source_to_utf8(name, &b->encoding, &piece, &length);
    if (status == FT_OK) return ft_table_parse_piece(piece, length, name, &b->request, &b->layout, table);
    free(piece);
    return status;
}

// What was read goes through a further stage.
static ft_status add_stage(ft_blocks *b, ft_coding coding) {
    struct ft_block_stage *s = &b->stage[b->stages];
    FT_TRY(ft_decoder_open(coding, &s->decoder));
    b->stages++;
    s->data = b->data;
    s->length = b->length;
    s->capacity = b->capacity;
    s->last = b->ended;
    b->data = NULL;
    b->length = b->capacity = 0;
    b->ended = false;
    return FT_OK;
}

// What follows are JSON lines of the rows. Its bytes are hashed all the same, and how far one is in them says nothing.
static ft_status begin_parquet(ft_blocks *b) {
    while (b->hash != NULL && !b->ended) {
        size_t got;
        FT_TRY(read_file(b, b->data, b->capacity, &got, &b->ended));
    }
    FT_TRY(ft_parquet_open(b->file, ft_source_display(b->path), &b->parquet));
    const char *bytes = ft_parquet_left_out(b->parquet);
    if (bytes != NULL) ft_info("%s: columns of bytes are left out: %s", ft_source_display(b->path), bytes);
    b->request.format = FT_FORMAT_JSONL;
    b->encoding = FT_ENCODING_UTF8;
    b->known = true;
    b->ended = false;
    b->length = 0;
    b->size = 0;
    return FT_OK;
}

// UTF-16 that no mark tells of has an even number of bytes, where they are known.
static ft_coding utf16_of(const ft_blocks *b) {
    bool marked;
    const ft_coding found = ft_source_utf16(b->data, b->length, &marked);
    return !marked && b->stages == 0 && b->size % 2 != 0 ? FT_CODING_NONE : found;
}

// Whether it is packed or UTF-16 is told by 16 bytes, or by a line of text; and once more of what was packed.
static ft_status look(ft_blocks *b) {
    const bool line = b->length >= 4 && memchr(b->data, '\n', b->length) != NULL && memchr(b->data, '\0', b->length) == NULL;
    if (b->known || !(b->ended || b->length >= 16 || line)) return FT_OK;
    if (b->stages == 0 && b->size > 0 && ft_is_parquet(b->data, b->length)) return begin_parquet(b);
    if (b->stages == 0) FT_TRY(ft_refuse_kind(ft_source_display(b->path), b->data, b->length));
    const ft_coding packing = b->stages == 0 ? ft_source_packing(b->data, b->length) : FT_CODING_NONE;
    if (packing != FT_CODING_NONE) return add_stage(b, packing);
    const ft_coding utf16 = utf16_of(b);
    b->known = true;
    if (utf16 == FT_CODING_NONE) return FT_OK;
    ft_info("%s is no UTF-8 and is read as UTF-16", ft_source_display(b->path));
    return add_stage(b, utf16);
}

ft_status ft_blocks_next(ft_blocks *b, ft_table *table, bool *found) {
    *table = (ft_table){0};
    *found = false;
    for (bool waits = b->length > 0 && must_wait(b);;) {
        const bool first = b->layout.line == 0;
        size_t length = 0;
        FT_TRY(look(b));
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
