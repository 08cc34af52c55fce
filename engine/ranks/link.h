// link.h - the ends of a meeting's connections: sockets of one host with a name in no file system, messages that arrive
// whole.
#ifndef FT_LINK_H
#define FT_LINK_H

#include "engine/ranks/rank.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

typedef struct ft_link_name {
    struct sockaddr_un address;
    socklen_t length;
} ft_link_name;

// Of the ranks of this job, in this attempt, of this user. FT_INVALID: the launcher's proxy cannot be asked.
ft_status ft_link_name_of(const ft_rank *rank, ft_link_name *name);

ft_status ft_link_listen(const ft_link_name *name, int ranks, int *socket);
// *socket -1: nobody listens yet. Only this user's.
ft_status ft_link_connect(const ft_link_name *name, int *socket);
// *socket -1: nobody was there, or somebody else's process, which is hung up on.
ft_status ft_link_accept(int listener, int *socket);
// Blocking. descriptor -1: none goes along. FT_FAILED: the other end is gone.
ft_status ft_link_send(int socket, const void *data, size_t length, int descriptor);
// A message of at most `size` - 1 bytes, with a NUL behind it. *length 0: none is there yet; -1: the other end is gone.
// descriptor: NULL, or -1 where none came along.
ft_status ft_link_receive(int socket, char *data, size_t size, long *length, int *descriptor);

#endif
