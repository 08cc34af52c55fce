// sha1.h - the checksum that git gives a file: SHA-1 of "blob <bytes>", a NUL and the content. It tells files apart; it
// does not withstand somebody who wants two files with one checksum.
#ifndef FT_SHA1_H
#define FT_SHA1_H

#include "base/status.h"

ft_status ft_git_blob_file(const char *path, char hex[41]); // lower case

#endif
