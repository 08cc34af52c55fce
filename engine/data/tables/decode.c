#include "engine/data/tables/decode.h"

#include "base/arena.h"
#include "engine/data/tables/source.h"

#include <stdint.h>
#include <stdlib.h>
#include <zlib.h>
#include <zstd.h>

struct ft_decoder {
    ft_coding coding;
    z_stream gzip;
    bool between; // gzip: a member has ended, and what comes is another one or zeros
    ZSTD_DStream *zstd;
    size_t left; // Zstandard: 0: a frame has just ended
};

ft_status ft_decoder_open(ft_coding coding, ft_decoder **decoder) {
    ft_decoder *d = ft_calloc(1, sizeof *d, "a packed file");
    *decoder = NULL;
    if (d == NULL) return FT_NO_MEMORY;
    d->left = 1;
    if (coding == FT_CODING_GZIP && inflateInit2(&d->gzip, 16 + MAX_WBITS) != Z_OK) {
        free(d);
        return ft_fail_memory(0, "a gzip file");
    }
    if (coding == FT_CODING_ZSTD && (d->zstd = ZSTD_createDStream()) == NULL) {
        free(d);
        return ft_fail_memory(0, "a Zstandard file");
    }
    d->coding = coding;
    *decoder = d;
    return FT_OK;
}

void ft_decoder_close(ft_decoder *d) {
    if (d == NULL) return;
    if (d->coding == FT_CODING_GZIP) inflateEnd(&d->gzip);
    if (d->coding == FT_CODING_ZSTD) ZSTD_freeDStream(d->zstd);
    free(d);
}

static ft_status damaged(const char *name, const char *packing, const char *what) {
    return ft_fail(FT_INVALID, name, "this %s file is damaged: %s", packing, what);
}

static uInt at_most(size_t bytes) { return bytes < UINT32_MAX ? (uInt)bytes : UINT32_MAX; }

// One call of inflate: members may follow each other, zeros behind the last one are padding.
static ft_status run_gzip(ft_decoder *d, const char *name, const char *in, size_t length, bool last, size_t *used, char *out, size_t room,
                          size_t *made, bool *done) {
    z_stream *z = &d->gzip;
    if (d->between) {
        while (*used < length && in[*used] == 0) ++*used;
        *done = last && *used == length;
        if (*used == length) return FT_OK;
        if (inflateReset(z) != Z_OK) return damaged(name, "gzip", "a second member cannot be begun");
        d->between = false;
    }
    const uInt given = at_most(length - *used), space = at_most(room);
    z->next_in = (Bytef *)(uintptr_t)(in + *used);
    z->avail_in = given;
    z->next_out = (Bytef *)out;
    z->avail_out = space;
    const int result = inflate(z, Z_NO_FLUSH);
    *used += given - z->avail_in;
    *made = space - z->avail_out;
    if (result == Z_MEM_ERROR) return ft_fail_memory(0, "a gzip file");
    d->between = result == Z_STREAM_END;
    *done = d->between && last && *used == length;
    if (result == Z_STREAM_END || result == Z_OK) return FT_OK;
    if (result != Z_BUF_ERROR) return damaged(name, "gzip", z->msg != NULL ? z->msg : "it cannot be unpacked");
    return last && *used == length && *made == 0 ? damaged(name, "gzip", "it ends early") : FT_OK;
}

static ft_status run_zstd(ft_decoder *d, const char *name, const char *in, size_t length, bool last, size_t *used, char *out, size_t room,
                          size_t *made, bool *done) {
    ZSTD_inBuffer from = {in, length, 0};
    ZSTD_outBuffer to = {out, room, 0};
    *done = last && length == 0 && d->left == 0;
    if (*done || (length == 0 && !last)) return FT_OK;
    d->left = ZSTD_decompressStream(d->zstd, &to, &from);
    if (ZSTD_isError(d->left)) return damaged(name, "Zstandard", ZSTD_getErrorName(d->left));
    *used = from.pos;
    *made = to.pos;
    *done = last && from.pos == length && d->left == 0;
    return last && length == 0 && to.pos == 0 && d->left != 0 ? damaged(name, "Zstandard", "it ends early") : FT_OK;
}

// A pair of surrogates stays together: the first is left for the next call where the second has not come.
static ft_status run_utf16(ft_decoder *d, const char *name, const char *in, size_t length, bool last, size_t *used, char *out, size_t room,
                           size_t *made, bool *done) {
    const bool big = d->coding == FT_CODING_UTF16BE;
    const size_t fits = room / 3 & ~(size_t)1; // no character takes more than 3 bytes a byte
    size_t take = length & ~(size_t)1;
    if (take > fits) take = fits;
    if (take >= 2 && !(last && take == (length & ~(size_t)1)) && ft_utf16_is_first(in + take - 2, big)) take -= 2;
    *made = ft_utf16_to_utf8(in, take, big, out);
    *used = take;
    if (!last || length - take > 1) return FT_OK;
    if (take < length) return ft_fail(FT_INVALID, name, "this UTF-16 file ends in the middle of a character");
    *done = true;
    return FT_OK;
}

ft_status ft_decoder_run(ft_decoder *d, const char *name, const char *in, size_t length, bool last, size_t *used, char *out, size_t room,
                         size_t *made, bool *done) {
    *used = *made = 0;
    *done = false;
    if (d->coding == FT_CODING_GZIP) return run_gzip(d, name, in, length, last, used, out, room, made, done);
    if (d->coding == FT_CODING_ZSTD) return run_zstd(d, name, in, length, last, used, out, room, made, done);
    return run_utf16(d, name, in, length, last, used, out, room, made, done);
}
