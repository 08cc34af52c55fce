#include "engine/ranks/link.h"

#include "base/files.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char where[] = "ranks";

// Who holds the other end of a descriptor: the launcher's proxy, which lives as long as its ranks.
static ft_status proxy_of(int descriptor, long *pid) {
    struct ucred other;
    socklen_t size = sizeof other;
    if (getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &other, &size) != 0)
        return ft_fail_errno(FT_INVALID, errno, "PMI_FD", "descriptor %d is not the launcher's", descriptor);
    *pid = (long)other.pid;
    return FT_OK;
}

ft_status ft_link_name_of(const ft_rank *rank, ft_link_name *name) {
    char job[FT_RANK_JOB + 128], hash[65];
    long proxy = 0;
    if (rank->proxy >= 0) FT_TRY(proxy_of(rank->proxy, &proxy));
    int length = snprintf(job, sizeof job, "%ld %s %d %ld %d %s", (long)geteuid(), ft_launcher_name(rank->launcher),
                          rank->size, proxy, rank->attempt, rank->job);
    FT_TRY(ft_sha256(job, (size_t)length, hash));
    *name = (ft_link_name){.address = {.sun_family = AF_UNIX}};
    length = snprintf(name->address.sun_path + 1, sizeof name->address.sun_path - 1, "ftengine-ranks-%.32s",
                      hash); // behind a NUL: no file
    name->length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    return FT_OK;
}

static int open_socket(int flags) { return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0); }

static bool is_ours(int socket) {
    struct ucred other;
    socklen_t size = sizeof other;
    return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 && other.uid == geteuid();
}

ft_status ft_link_listen(const ft_link_name *name, int ranks, int *socket) {
    *socket = open_socket(SOCK_NONBLOCK);
    if (*socket < 0) return ft_fail_errno(FT_FAILED, errno, where, "cannot open a socket");
    if (bind(*socket, (const struct sockaddr *)&name->address, name->length) == 0 && listen(*socket, ranks) == 0)
        return FT_OK;
    const int error = errno;
    close(*socket);
    *socket = -1;
    if (error == EADDRINUSE)
        return ft_fail(FT_FAILED, where, "another process is rank 0 of this job, or takes itself for it");
    return ft_fail_errno(FT_FAILED, error, where, "cannot wait for other ranks");
}

ft_status ft_link_connect(const ft_link_name *name, int *socket) {
    int s = open_socket(0);
    *socket = -1;
    if (s < 0) return ft_fail_errno(FT_FAILED, errno, where, "cannot open a socket");
    if (connect(s, (const struct sockaddr *)&name->address, name->length) != 0) {
        const int error = errno;
        close(s);
        if (error == ECONNREFUSED || error == EAGAIN || error == EINTR) return FT_OK;
        return ft_fail_errno(FT_FAILED, error, where, "cannot reach rank 0");
    }
    if (is_ours(s)) return *socket = s, FT_OK;
    close(s);
    return ft_fail(FT_FAILED, where, "what waits for this job's ranks is another user's process");
}

ft_status ft_link_accept(int listener, int *socket) {
    *socket = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (*socket < 0) {
        if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return FT_OK;
        return ft_fail_errno(FT_FAILED, errno, where, "cannot take the connection of another rank");
    }
    if (!is_ours(*socket)) close(*socket), *socket = -1;
    return FT_OK;
}

typedef union control {
    struct cmsghdr header; // for its alignment
    char bytes[CMSG_SPACE(sizeof(int))];
} control;

ft_status ft_link_send(int socket, const void *data, size_t length, int descriptor) {
    struct iovec piece = {.iov_base = (void *)data, .iov_len = length};
    control room = {.bytes = {0}};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    if (descriptor >= 0) {
        message.msg_control = room.bytes, message.msg_controllen = sizeof room.bytes;
        struct cmsghdr *part = CMSG_FIRSTHDR(&message);
        part->cmsg_level = SOL_SOCKET, part->cmsg_type = SCM_RIGHTS, part->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(part), &descriptor, sizeof descriptor);
    }
    while (sendmsg(socket, &message, MSG_NOSIGNAL) < 0)
        if (errno != EINTR) return ft_fail_errno(FT_FAILED, errno, where, "another rank is gone");
    return FT_OK;
}

static int descriptor_in(struct msghdr *message) {
    struct cmsghdr *part = CMSG_FIRSTHDR(message);
    int descriptor = -1;
    if (part != NULL && part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS)
        memcpy(&descriptor, CMSG_DATA(part), sizeof descriptor);
    return descriptor;
}

ft_status ft_link_receive(int socket, char *data, size_t size, long *length, int *descriptor) {
    struct iovec piece = {.iov_base = data, .iov_len = size - 1};
    control room;
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = room.bytes, .msg_controllen = sizeof room.bytes};
    const ssize_t got = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    const int error = errno;
    *length = got;
    if (descriptor != NULL) *descriptor = -1;
    if (got < 0 && (error == EAGAIN || error == EINTR)) return *length = 0, FT_OK;
    if (got <= 0) return *length = -1, FT_OK; // an end, or a reset: it was killed before it had read everything
    const int came = descriptor_in(&message);
    if (descriptor != NULL)
        *descriptor = came;
    else if (came >= 0)
        close(came);
    data[got] = '\0';
    return (message.msg_flags & MSG_TRUNC) == 0 ? FT_OK
                                                : ft_fail(FT_FAILED, where, "a message of another rank is too long");
}
