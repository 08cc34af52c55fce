#include "engine/data/tables/source.h"

#include "base/arena.h"
#include "base/files.h"
#include "base/log.h"
#include "base/utf8.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>
#include <zstd.h>

enum { CHUNK = 1 << 16 };
#define LONGEST_STREAM ((size_t)4 << 30) // of what does not say how long it is: /dev/zero never ends

const char *ft_source_display(const char *path) { return strcmp(path, "-") == 0 ? "<stdin>" : path; }

// ---- bytes that grow ----------------------------------------------------------------------------------------------

typedef struct growing {
    char *data;
    size_t length, capacity, most;
} growing;

// Room for another chunk, and for one byte more.
static ft_status make_room(growing *g, const char *name) {
    if (g->capacity - g->length >= CHUNK) return FT_OK;
    if (g->capacity > g->most) return ft_fail(FT_INVALID, name, "this file holds more than %zu bytes", g->most);
    size_t capacity = 2 * g->capacity + CHUNK;
    char *larger = ft_realloc(g->data, capacity + 1, 1, "a data file");
    if (larger == NULL) return FT_NO_MEMORY;
    g->data = larger;
    g->capacity = capacity;
    return FT_OK;
}

// The bytes take the place of *data, or are thrown away.
static ft_status finish(growing *g, ft_status status, const char *name, char **data, size_t *length) {
    if (status == FT_OK && g->length > g->most)
        status = ft_fail(FT_INVALID, name, "this file holds more than %zu bytes", g->most);
    if (status != FT_OK) {
        free(g->data);
        return status;
    }
    free(*data);
    *data = g->data;
    *length = g->length;
    return FT_OK;
}

// ---- files --------------------------------------------------------------------------------------------------------

static ft_status read_stream(FILE *stream, char **data, size_t *length) {
    struct stat info;
    const bool regular = fstat(fileno(stream), &info) == 0 && S_ISREG(info.st_mode);
    growing g = {.most = regular ? SIZE_MAX / 4 : LONGEST_STREAM};
    ft_status status = FT_OK;
    do {
        FT_TRY_GOTO(make_room(&g, "<stdin>"), done);
        g.length += fread(g.data + g.length, 1, g.capacity - g.length, stream);
    } while (!feof(stream) && !ferror(stream));
    if (ferror(stream)) status = ft_fail_errno(FT_FAILED, errno, "<stdin>", "cannot read standard input");
done:
    *data = NULL;
    return finish(&g, status, "<stdin>", data, length);
}

ft_status ft_source_load(const char *path, char **data, size_t *length) {
    if (strcmp(path, "-") == 0) return read_stream(stdin, data, length);
    struct stat info;
    const bool stream = stat(path, &info) == 0 && !S_ISREG(info.st_mode);
    return ft_read_stream(path, stream ? LONGEST_STREAM : SIZE_MAX / 2, data, length);
}

// ---- packing ------------------------------------------------------------------------------------------------------

static ft_status damaged(const char *name, const char *packing, const char *what) {
    return ft_fail(FT_INVALID, name, "this %s file is damaged: %s", packing, what);
}

// Inflates until the input is used up; members may follow each other, zeros behind the last one are padding.
static ft_status inflate_all(const char *name, z_stream *z, growing *g) {
    for (;;) {
        FT_TRY(make_room(g, name));
        size_t room = g->capacity - g->length;
        z->next_out = (Bytef *)g->data + g->length;
        z->avail_out = room < UINT32_MAX ? (uInt)room : UINT32_MAX;
        uInt before = z->avail_out;
        int result = inflate(z, Z_NO_FLUSH);
        g->length += before - z->avail_out;
        if (result == Z_MEM_ERROR) return ft_fail_memory(0, "a gzip file");
        if (result == Z_STREAM_END) {
            while (z->avail_in > 0 && *z->next_in == 0) z->next_in++, z->avail_in--;
            if (z->avail_in == 0) return FT_OK;
            if (inflateReset(z) != Z_OK) return damaged(name, "gzip", "a second member cannot be begun");
        } else if (result == Z_BUF_ERROR && z->avail_in == 0) {
            return damaged(name, "gzip", "it ends early");
        } else if (result != Z_OK && result != Z_BUF_ERROR) {
            return damaged(name, "gzip", z->msg != NULL ? z->msg : "it cannot be unpacked");
        }
    }
}

static ft_status gunzip(const char *name, const char *packed, size_t length, growing *g) {
    if (length > UINT32_MAX) return ft_fail(FT_INVALID, name, "gzip files of 4 GiB and more are not read; unpack it first");
    z_stream z = {.next_in = (Bytef *)packed, .avail_in = (uInt)length};
    if (inflateInit2(&z, 16 + MAX_WBITS) != Z_OK) return ft_fail_memory(0, "a gzip file");
    ft_status status = inflate_all(name, &z, g);
    inflateEnd(&z);
    return status;
}

static ft_status unzstd(const char *name, const char *packed, size_t length, growing *g) {
    ZSTD_DStream *stream = ZSTD_createDStream();
    if (stream == NULL) return ft_fail_memory(0, "a Zstandard file");
    ZSTD_inBuffer in = {packed, length, 0};
    ft_status status = FT_OK;
    size_t left = 1; // 0: a frame has just ended
    while (status == FT_OK && (in.pos < in.size || left != 0)) {
        status = make_room(g, name);
        if (status != FT_OK) break;
        ZSTD_outBuffer out = {g->data + g->length, g->capacity - g->length, 0};
        size_t before = in.pos;
        left = ZSTD_decompressStream(stream, &out, &in);
        if (ZSTD_isError(left)) status = damaged(name, "Zstandard", ZSTD_getErrorName(left));
        else if (in.pos == in.size && in.pos == before && out.pos == 0 && left != 0)
            status = damaged(name, "Zstandard", "it ends early");
        else g->length += out.pos;
    }
    ZSTD_freeDStream(stream);
    return status;
}

static bool is_gzip(const char *data, size_t length) { return length >= 2 && memcmp(data, "\x1F\x8B", 2) == 0; }

static bool is_zstd(const char *data, size_t length) { return length >= 4 && memcmp(data, "\x28\xB5\x2F\xFD", 4) == 0; }

ft_status ft_source_unpack(const char *name, size_t most, char **data, size_t *length) {
    const char *packed = *data;
    const bool gzip = is_gzip(packed, *length);
    if (!gzip && !is_zstd(packed, *length)) return FT_OK;
    growing g = {.most = most};
    return finish(&g, gzip ? gunzip(name, packed, *length, &g) : unzstd(name, packed, *length, &g), name, data, length);
}

// ---- encodings ----------------------------------------------------------------------------------------------------

// Windows-1252's characters 0x80 .. 0x9F; five places are not given and stay control characters, as in browsers.
static const uint16_t windows_1252[32] = {0x20AC, 0x0081, 0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021, 0x02C6, 0x2030, 0x0160,
                                          0x2039, 0x0152, 0x008D, 0x017D, 0x008F, 0x0090, 0x2018, 0x2019, 0x201C, 0x201D, 0x2022,
                                          0x2013, 0x2014, 0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0x009D, 0x017E, 0x0178};

// UTF-16 without a mark: text of Latin letters has a zero in every other place from its first characters on.
static ft_encoding guess_utf16(const unsigned char *p, size_t length) {
    enum { LOOK = 16 };
    if (length < LOOK || length % 2 != 0) return FT_ENCODING_UTF8;
    int even = 0, odd = 0;
    for (int i = 0; i < LOOK; i += 2) even += p[i] == 0, odd += p[i + 1] == 0;
    if (even == 0 && odd == LOOK / 2) return FT_ENCODING_UTF16LE;
    return odd == 0 && even == LOOK / 2 ? FT_ENCODING_UTF16BE : FT_ENCODING_UTF8;
}

// Is there not one character of several bytes that is valid UTF-8, but others that are not?
static bool is_single_byte(const char *text, size_t length) {
    size_t at = 0;
    bool broken = false;
    while (at < length) {
        size_t valid = ft_utf8_valid_prefix(text + at, length - at);
        for (size_t i = at; i < at + valid; i++)
            if ((unsigned char)text[i] >= 0x80) return false;
        at += valid;
        if (at < length) broken = true, at++;
    }
    return broken;
}

static ft_encoding byte_encoding(const char *text, size_t length) {
    if (is_single_byte(text, length)) return FT_ENCODING_1252;
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] >= 0x80) return FT_ENCODING_UTF8;
    return FT_ENCODING_ASCII;
}

static ft_encoding encoding_of(const char *text, size_t length) {
    if (length >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) return FT_ENCODING_UTF8;
    if (length >= 2 && memcmp(text, "\xFF\xFE", 2) == 0) return FT_ENCODING_UTF16LE;
    if (length >= 2 && memcmp(text, "\xFE\xFF", 2) == 0) return FT_ENCODING_UTF16BE;
    ft_encoding guessed = guess_utf16((const unsigned char *)text, length);
    if (guessed != FT_ENCODING_UTF8) return guessed;
    return byte_encoding(text, length);
}

ft_coding ft_source_packing(const char *data, size_t length) {
    return is_gzip(data, length) ? FT_CODING_GZIP : is_zstd(data, length) ? FT_CODING_ZSTD : FT_CODING_NONE;
}

ft_coding ft_source_utf16(const char *data, size_t length, bool *marked) {
    const ft_encoding found = encoding_of(data, length < 64 ? length & ~(size_t)1 : 64);
    *marked = length >= 2 && (memcmp(data, "\xFF\xFE", 2) == 0 || memcmp(data, "\xFE\xFF", 2) == 0);
    return found == FT_ENCODING_UTF16LE ? FT_CODING_UTF16LE : found == FT_ENCODING_UTF16BE ? FT_CODING_UTF16BE : FT_CODING_NONE;
}

static size_t from_1252(const unsigned char *in, size_t length, char *out) {
    size_t used = 0;
    for (size_t i = 0; i < length; i++)
        used += ft_utf8_put(in[i] >= 0x80 && in[i] < 0xA0 ? windows_1252[in[i] - 0x80] : in[i], out + used);
    return used;
}

static uint32_t unit_at(const unsigned char *in, bool big) {
    return big ? (uint32_t)in[0] << 8 | in[1] : (uint32_t)in[1] << 8 | in[0];
}

bool ft_utf16_is_first(const char *unit, bool big) {
    const uint32_t code = unit_at((const unsigned char *)unit, big);
    return code >= 0xD800 && code < 0xDC00;
}

size_t ft_utf16_to_utf8(const char *text, size_t length, bool big, char *out) {
    const unsigned char *in = (const unsigned char *)text;
    size_t used = 0;
    for (size_t i = 0; i < length; i += 2) {
        uint32_t code = unit_at(in + i, big);
        if (code >= 0xD800 && code < 0xDC00 && i + 2 < length) {
            uint32_t low = unit_at(in + i + 2, big);
            if (low >= 0xDC00 && low < 0xE000) code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00), i += 2;
        }
        if (code >= 0xD800 && code < 0xE000) code = 0xFFFD;
        used += ft_utf8_put(code, out + used);
    }
    return used;
}

static void drop_mark(char *data, size_t *length) {
    if (*length < 3 || memcmp(data, "\xEF\xBB\xBF", 3) != 0) return;
    *length -= 3;
    memmove(data, data + 3, *length);
}

ft_status ft_source_to_utf8(const char *name, ft_encoding *known, char **data, size_t *length) {
    const bool first = *known == FT_ENCODING_UNKNOWN, news = first || *known == FT_ENCODING_ASCII;
    if (news) *known = first ? encoding_of(*data, *length) : byte_encoding(*data, *length);
    const ft_encoding found = *known;
    if (first) drop_mark(*data, length);
    if (found == FT_ENCODING_ASCII || found == FT_ENCODING_UTF8) return FT_OK;
    if (found != FT_ENCODING_1252 && *length % 2 != 0)
        return ft_fail(FT_INVALID, name, "this UTF-16 file ends in the middle of a character");
    char *text = ft_calloc(*length + 1, 3, "a data file"); // no character of either takes more than 3 bytes a byte
    if (text == NULL) return FT_NO_MEMORY;
    size_t used = found == FT_ENCODING_1252 ? from_1252((const unsigned char *)*data, *length, text)
                                            : ft_utf16_to_utf8(*data, *length, found == FT_ENCODING_UTF16BE, text);
    if (news) ft_info("%s is no UTF-8 and is read as %s", name, found == FT_ENCODING_1252 ? "Windows-1252 (Latin-1)" : "UTF-16");
    char *fitted = ft_realloc(text, used + 1, 1, "a data file");
    if (fitted == NULL) {
        free(text);
        return FT_NO_MEMORY;
    }
    free(*data);
    *data = fitted;
    *length = used;
    if (first) drop_mark(*data, length);
    return FT_OK;
}
