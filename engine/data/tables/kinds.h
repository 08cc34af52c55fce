// kinds.h - what is no text: files of other kinds and addresses, named as what they are, with the command that makes a
// file of texts of them.
#ifndef FT_KINDS_H
#define FT_KINDS_H

#include "base/status.h"

#include <stddef.h>

// Of the first bytes of a file as they lie on the disk; 64 tell all. FT_INVALID with `name`: Parquet, Arrow, XLSX, ZIP,
// bzip2, xz, or a pointer that Git LFS left in place of a file. FT_OK: it may be texts, or what source.h unpacks.
ft_status ft_refuse_kind(const char *name, const char *data, size_t length);
// FT_INVALID where the path is an address (https://...), also one that a folder was put before, as paths of a
// configuration have it.
ft_status ft_refuse_address(const char *path);

#endif
