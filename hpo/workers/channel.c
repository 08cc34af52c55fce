#include "hpo/workers/channel.h"

#include "base/arena.h"
#include "base/json/json.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char where[] = "worker";
enum { PIECE = 4096, LONGEST = 1 << 20 };

static ft_status send_all(int descriptor, const char *text, size_t length) {
    while (length > 0) {
        ssize_t sent = send(descriptor, text, length, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) return ft_fail_errno(FT_FAILED, errno, where, "the other end of the socket is gone");
        text += sent;
        length -= (size_t)sent;
    }
    return FT_OK;
}

ft_status ft_channel_send(ft_channel *c, json_t *message) {
    char *line = ft_json_line(message);
    json_decref(message);
    if (line == NULL) return FT_NO_MEMORY;
    size_t length = strlen(line);
    line[length++] = '\n'; // in place of the NUL: one send
    ft_status status = send_all(c->socket, line, length);
    free(line);
    return status;
}

static ft_status read_more(ft_channel *c) {
    if (c->capacity - c->used < PIECE) {
        char *grown = c->capacity < LONGEST ? ft_realloc(c->buffer, c->capacity + 2 * PIECE, 1, "a message") : NULL;
        if (grown == NULL)
            return c->capacity < LONGEST ? FT_NO_MEMORY : ft_fail(FT_FAILED, where, "a message without an end");
        c->buffer = grown;
        c->capacity += 2 * PIECE;
    }
    ssize_t got = recv(c->socket, c->buffer + c->used, c->capacity - c->used, MSG_DONTWAIT);
    if (got > 0) c->used += (size_t)got;
    // A reset is the end of a process that was killed before it had read everything.
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) c->ended = true;
    return FT_OK;
}

static ft_status take_line(ft_channel *c, json_t **message) {
    char *end = c->used > 0 ? memchr(c->buffer, '\n', c->used) : NULL;
    if (end == NULL) return FT_OK;
    size_t length = (size_t)(end - c->buffer);
    ft_status status = ft_json_parse(c->buffer, length, where, message);
    if (status == FT_NO_MEMORY) return status; // it is there the next time
    c->used -= length + 1;
    memmove(c->buffer, end + 1, c->used);
    return status;
}

ft_status ft_channel_receive(ft_channel *c, double seconds, json_t **message) {
    *message = NULL;
    FT_TRY(take_line(c, message));
    if (*message != NULL || c->ended) return FT_OK;
    struct pollfd ready = {.fd = c->socket, .events = POLLIN};
    if (poll(&ready, 1, seconds < 0 ? -1 : (int)(seconds * 1000)) <= 0) return FT_OK;
    FT_TRY(read_more(c));
    return take_line(c, message);
}

void ft_channel_close(ft_channel *c) {
    if (c->socket >= 0) close(c->socket);
    free(c->buffer);
    *c = (ft_channel){.socket = -1};
}
