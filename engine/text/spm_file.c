// spm_file.c - a SentencePiece model file: a protobuf message, of which five fields matter here. A reader of our own:
// the format is a few rules, and the library would do its own normalising and searching, which is not the reference's.
#include "engine/text/tokenizer_parts.h"

#include "base/files.h"
#include "base/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// A message or a part of one.
typedef struct reader {
    const unsigned char *at, *end, *start;
    const char *path;
} reader;

typedef struct field {
    uint32_t number;
    int type;        // how it is written
    uint64_t value;  // VARINT, FIXED
    reader contents; // BYTES
} field;
enum { VARINT = 0, FIXED_8 = 1, BYTES = 2, FIXED_4 = 5 };

static ft_status broken(const reader *r, const char *what) {
    (void)ft_fail(FT_INVALID, r->path, "not a SentencePiece model: %s at byte %zu", what, (size_t)(r->at - r->start));
    ft_hint("the file may be cut short, or a pointer of Git LFS in place of the model");
    return FT_INVALID;
}

static ft_status read_number(reader *r, uint64_t *out) {
    *out = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (r->at == r->end) return broken(r, "it ends inside a number");
        unsigned char byte = *r->at++;
        *out |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) return FT_OK;
    }
    return broken(r, "a number without end");
}

static ft_status read_field(reader *r, field *f) {
    uint64_t tag;
    FT_TRY(read_number(r, &tag));
    *f = (field){.number = (uint32_t)(tag >> 3), .type = (int)(tag & 7)};
    if (tag >> 32 != 0 || f->number == 0) return broken(r, "a field without a number");
    if (f->type == VARINT) return read_number(r, &f->value);
    if (f->type == FIXED_8 || f->type == FIXED_4) {
        int bytes = f->type == FIXED_8 ? 8 : 4;
        if (r->end - r->at < bytes) return broken(r, "it ends inside a number");
        for (int i = 0; i < bytes; i++)
            f->value |= (uint64_t)*r->at++ << (8 * i);
        return FT_OK;
    }
    if (f->type != BYTES) return broken(r, "a field of unknown form");
    uint64_t length;
    FT_TRY(read_number(r, &length));
    if (length > (uint64_t)(r->end - r->at)) return broken(r, "a field longer than the file");
    f->contents = (reader){r->at, r->at + length, r->start, r->path};
    r->at += length;
    return FT_OK;
}

// A field that is there must be written as its kind is.
static ft_status need_type(const reader *r, const field *f, int type) {
    return f->type == type ? FT_OK : broken(r, "a field written in the wrong form");
}

static ft_status read_piece(reader *r, ft_arena *arena, ft_spm *spm) {
    ft_spm_piece piece = {.text = "", .type = FT_SPM_NORMAL};
    while (r->at < r->end) {
        field f;
        FT_TRY(read_field(r, &f));
        if (f.number == 1) {
            FT_TRY(need_type(r, &f, BYTES));
            size_t length = (size_t)(f.contents.end - f.contents.at);
            const char *text = (const char *)f.contents.at;
            if (ft_utf8_valid_prefix(text, length) != length || memchr(text, '\0', length) != NULL)
                return broken(r, "a piece that is not valid UTF-8 text");
            if (length > UINT32_MAX / 2) return broken(r, "a piece too long");
            piece.text = ft_arena_strndup(arena, text, length), piece.length = (uint32_t)length;
            if (piece.text == NULL) return FT_NO_MEMORY;
        } else if (f.number == 2) {
            FT_TRY(need_type(r, &f, FIXED_4));
            uint32_t bits = (uint32_t)f.value;
            memcpy(&piece.score, &bits, sizeof bits);
            if (!isfinite(piece.score)) return broken(r, "a score that is not a number");
        } else if (f.number == 3) {
            FT_TRY(need_type(r, &f, VARINT));
            if (f.value < FT_SPM_NORMAL || f.value > FT_SPM_BYTE) return broken(r, "a piece of unknown type");
            piece.type = (int)f.value;
        }
    }
    if (spm->count == FT_TEXT_MOST_IDS) return ft_fail(FT_INVALID, r->path, "more than %d pieces", FT_TEXT_MOST_IDS);
    if (spm->count == spm->capacity) {
        size_t capacity = 2 * spm->capacity + 1024;
        ft_spm_piece *pieces = ft_realloc(spm->pieces, capacity, sizeof *pieces, "a SentencePiece model");
        if (pieces == NULL) return FT_NO_MEMORY;
        spm->pieces = pieces, spm->capacity = capacity;
    }
    spm->pieces[spm->count++] = piece;
    return FT_OK;
}

// How the model was trained: its kind, and which piece stands for what is unknown.
static ft_status read_trainer(reader *r, ft_spm *spm) {
    enum { MODEL_TYPE = 3, SUFFIX = 24, BYTE_FALLBACK = 35, UNKNOWN_ID = 40, UNIGRAM = 1 };
    while (r->at < r->end) {
        field f;
        FT_TRY(read_field(r, &f));
        if (f.number != MODEL_TYPE && f.number != SUFFIX && f.number != BYTE_FALLBACK && f.number != UNKNOWN_ID)
            continue;
        FT_TRY(need_type(r, &f, VARINT));
        if (f.number == MODEL_TYPE && f.value != UNIGRAM)
            return ft_fail(FT_INVALID, r->path, "%s SentencePiece models are not supported; supported: Unigram",
                           f.value == 2   ? "BPE"
                           : f.value == 3 ? "word"
                           : f.value == 4 ? "character"
                                          : "these");
        if (f.number == SUFFIX && f.value != 0)
            return ft_fail(FT_INVALID, r->path, "treat_whitespace_as_suffix is not supported");
        if (f.number == BYTE_FALLBACK && f.value != 0)
            return ft_fail(FT_INVALID, r->path, "byte_fallback is not supported");
        if (f.number == UNKNOWN_ID) spm->unknown = f.value < FT_TEXT_MOST_IDS ? (int32_t)f.value : FT_TEXT_MOST_IDS;
    }
    return FT_OK;
}

static ft_status read_normalizer(reader *r, ft_arena *arena, ft_spm *spm) {
    while (r->at < r->end) {
        field f;
        FT_TRY(read_field(r, &f));
        if (f.number == 2) {
            FT_TRY(need_type(r, &f, BYTES));
            size_t length = (size_t)(f.contents.end - f.contents.at);
            char *copy = ft_arena_alloc(arena, length + 1);
            if (copy == NULL) return FT_NO_MEMORY;
            memcpy(copy, f.contents.at, length);
            spm->charsmap = copy, spm->charsmap_length = length;
        } else if (f.number == 3 && f.value == 0) {
            FT_TRY(need_type(r, &f, VARINT));
            return ft_fail(FT_INVALID, r->path, "add_dummy_prefix false is not supported");
        }
    }
    return FT_OK;
}

static ft_status read_model(reader *r, ft_arena *arena, ft_spm *spm) {
    while (r->at < r->end) {
        field f;
        FT_TRY(read_field(r, &f));
        if (f.number > 3) continue; // self-test, denormaliser, extensions
        FT_TRY(need_type(r, &f, BYTES));
        if (f.number == 1)
            FT_TRY(read_piece(&f.contents, arena, spm));
        else
            FT_TRY(f.number == 2 ? read_trainer(&f.contents, spm) : read_normalizer(&f.contents, arena, spm));
    }
    if (spm->count == 0) return broken(r, "it has no pieces");
    if ((size_t)spm->unknown >= spm->count)
        return ft_fail(FT_INVALID, r->path, "unk_id %d is none of the model's %zu pieces", spm->unknown, spm->count);
    return FT_OK;
}

ft_status ft_spm_read(const char *path, ft_arena *arena, ft_spm *spm) {
    char *data;
    size_t length;
    *spm = (ft_spm){.charsmap = ""};
    FT_TRY(ft_read_file(path, (size_t)256 << 20, &data, &length));
    const unsigned char *start = (const unsigned char *)data;
    reader r = {start, start + length, start, path};
    ft_status status = read_model(&r, arena, spm);
    free(data);
    return status;
}
