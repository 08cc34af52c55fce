// decode.h - packed bytes, or UTF-16, piece by piece: in memory that does not grow with the file. Bytes, members and mistakes are those of
// source.h, which has a text whole.
#ifndef FT_DECODE_H
#define FT_DECODE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum ft_coding { FT_CODING_NONE, FT_CODING_GZIP, FT_CODING_ZSTD, FT_CODING_UTF16LE, FT_CODING_UTF16BE } ft_coding;

typedef struct ft_decoder ft_decoder;

ft_status ft_decoder_open(ft_coding coding, ft_decoder **decoder);
// Takes the first *used of `length` bytes and makes *made of at most `room`, at least 64. last: nothing comes behind these. *done: all that
// there was is made; only with last. With used and made both 0 it needs more than these bytes, or more room. FT_INVALID with `name`: damaged.
ft_status ft_decoder_run(ft_decoder *decoder, const char *name, const char *in, size_t length, bool last, size_t *used, char *out, size_t room,
                         size_t *made, bool *done);
void ft_decoder_close(ft_decoder *decoder); // NULL is fine

#endif
