// tar.h - the members of a tar archive, where they lie: none is unpacked.
//
//     FT_TRY(ft_tar_open(path, &tar));
//     while ((status = ft_tar_next(&tar, &member, &found)) == FT_OK && found) ...
//     ft_tar_close(&tar);
#ifndef FT_TAR_H
#define FT_TAR_H

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ft_tar {
    const char *path; // kept by reference
    int file;
    int64_t size, at; // of the archive; of the header that is next
    ft_arena arena;   // of the member read last
} ft_tar;

typedef struct ft_tar_member {
    const char *name;     // relative, without "." and ".." in it; until the next one
    int64_t offset, size; // of its bytes in the archive
} ft_tar_member;

// Archives of tar as POSIX, GNU and the old one have it, with long names of both kinds. FT_INVALID with the path: it is none, or packed.
ft_status ft_tar_open(const char *path, ft_tar *tar);
// The next regular file; directories are passed over. *found false: the end mark was reached. FT_INVALID with "path: member": links, devices and
// sparse files, a name that leaves the folder that the archive would be unpacked in, a damaged header, a member or an archive that was cut off.
ft_status ft_tar_next(ft_tar *tar, ft_tar_member *member, bool *found);
void ft_tar_close(ft_tar *tar); // {.file = -1} is fine

// size bytes at `offset` of a file that is open, into `out`. FT_INVALID: it ends before.
ft_status ft_tar_bytes(int file, const char *path, int64_t offset, int64_t size, void *out);

#endif
