// source.h - the bytes of a data file as UTF-8, whatever they are packed and written in.
//
// Packing is told by the first bytes (gzip, Zstandard; several members behind each other are one text), the encoding by a
// byte order mark, else by the bytes: zeros in every other place are UTF-16; what is no UTF-8 anywhere is Windows-1252, of
// which Latin-1 is a part (as browsers read it). A file that is UTF-8 in some places and damaged in others stays as it is.
#ifndef FT_SOURCE_H
#define FT_SOURCE_H

#include "base/status.h"
#include "engine/data/tables/decode.h"

#include <stdbool.h>
#include <stddef.h>

// The bytes of a file, or of standard input for "-"; malloc()ed with room for one more.
ft_status ft_source_load(const char *path, char **data, size_t *length);

// Replaces packed bytes by what they hold, at most `most` bytes. FT_INVALID with `name` when they are damaged or hold more;
// *data is then as before. Both replace *data by a block with room for one more byte.
ft_status ft_source_unpack(const char *name, size_t most, char **data, size_t *length);
// In what a text is written. UNKNOWN: nobody has looked; ASCII: so far, and neither UTF-16 nor with a mark.
typedef enum ft_encoding {
    FT_ENCODING_UNKNOWN,
    FT_ENCODING_ASCII,
    FT_ENCODING_UTF8,
    FT_ENCODING_UTF16LE,
    FT_ENCODING_UTF16BE,
    FT_ENCODING_1252
} ft_encoding;
// Of the first bytes of a text, at least 16 or all there are: is it packed, and in what? Is it UTF-16, *marked: by a mark that says so?
ft_coding ft_source_packing(const char *data, size_t length);
ft_coding ft_source_utf16(const char *data, size_t length, bool *marked);
// One of UTF-16's surrogates that has to be followed by another?
bool ft_utf16_is_first(const char *unit, bool big_endian);
// Whole units; `out` has room for 3 bytes a byte. A surrogate without its partner is U+FFFD. How many bytes there are then.
size_t ft_utf16_to_utf8(const char *in, size_t length, bool big_endian, char *out);
// Replaces UTF-16 and Windows-1252 by UTF-8 and takes a byte order mark off. FT_INVALID when UTF-16 ends inside a unit.
// *known is what earlier pieces of the text were written in, and becomes what this one is; UNKNOWN: this is the first.
ft_status ft_source_to_utf8(const char *name, ft_encoding *known, char **data, size_t *length);

// What messages call this path: itself, "<stdin>" for "-".
const char *ft_source_display(const char *path);

#endif
