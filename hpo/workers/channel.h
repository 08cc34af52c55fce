// channel.h - messages between a coordinator and its workers: JSON objects, one a line, over a socket. Both ends are
// this program, of one build; what they say is in worker.h.
#ifndef FT_HPO_CHANNEL_H
#define FT_HPO_CHANNEL_H

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>

typedef struct ft_channel {
    int socket;   // -1: closed
    char *buffer; // what was received and not yet told
    size_t used, capacity;
    bool ended; // the other end is closed; what was received before is still told
} ft_channel;

// Sends `message` and takes it; NULL is out of memory. FT_FAILED when nobody is there to receive.
ft_status ft_channel_send(ft_channel *channel, json_t *message);
// The next message (json_decref it). NULL: none came within `seconds` (0: none is there), the other end is closed
// (channel->ended), or a signal came.
ft_status ft_channel_receive(ft_channel *channel, double seconds, json_t **message);
void ft_channel_close(ft_channel *channel);

#endif
