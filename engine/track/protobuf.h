// protobuf.h - a message of Protocol Buffers as bytes, field by field. Writing alone, of the five types that event
// files have: protobuf-c would bring a generator and a library for these few lines.
#ifndef FT_TRACK_PROTOBUF_H
#define FT_TRACK_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Begin with {0}. Out of memory is remembered in `failed`, with the error set; what is added then changes nothing.
typedef struct ft_proto {
    unsigned char *data;
    size_t length, room;
    bool failed;
} ft_proto;

void ft_proto_number(ft_proto *message, int field, int64_t value); // int32, int64, enum, bool
void ft_proto_double(ft_proto *message, int field, double value);
void ft_proto_float(ft_proto *message, int field, float value);
void ft_proto_text(ft_proto *message, int field, const char *value);                // string, bytes
void ft_proto_floats(ft_proto *message, int field, int count, const float *values); // packed
// Adds `inner` as a message, and frees it.
void ft_proto_message(ft_proto *message, int field, ft_proto *inner);
void ft_proto_free(ft_proto *message); // {0} is fine

#endif
