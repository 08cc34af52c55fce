#include "engine/track/protobuf.h"

#include "base/heap.h"

#include <stdlib.h>
#include <string.h>

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

static void add(ft_proto *m, const void *data, size_t length) {
    if (m->failed) return;
    if (m->length + length > m->room) {
        const size_t room = 2 * (m->length + length) + 64;
        unsigned char *grown = ft_realloc(m->data, room, 1, "an event");
        if (grown == NULL) {
            m->failed = true;
            return;
        }
        m->data = grown;
        m->room = room;
    }
    if (length > 0) memcpy(m->data + m->length, data, length);
    m->length += length;
}

static void add_varint(ft_proto *m, uint64_t value) {
    unsigned char bytes[10];
    size_t count = 0;
    for (; value >= 0x80; value >>= 7)
        bytes[count++] = (unsigned char)(value | 0x80);
    bytes[count++] = (unsigned char)value;
    add(m, bytes, count);
}

static void add_key(ft_proto *m, int field, int type) { add_varint(m, (uint64_t)field << 3 | (unsigned)type); }

// Little endian, whatever the machine.
static void add_fixed(ft_proto *m, uint64_t bits, size_t count) {
    unsigned char bytes[8];
    for (size_t i = 0; i < count; i++)
        bytes[i] = (unsigned char)(bits >> 8 * i);
    add(m, bytes, count);
}

static void add_bytes(ft_proto *m, int field, const void *data, size_t length) {
    add_key(m, field, BYTES);
    add_varint(m, length);
    add(m, data, length);
}

void ft_proto_number(ft_proto *m, int field, int64_t value) {
    add_key(m, field, VARINT);
    add_varint(m, (uint64_t)value);
}

void ft_proto_double(ft_proto *m, int field, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    add_key(m, field, FIXED64);
    add_fixed(m, bits, 8);
}

static void add_float(ft_proto *m, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    add_fixed(m, bits, 4);
}

void ft_proto_float(ft_proto *m, int field, float value) {
    add_key(m, field, FIXED32);
    add_float(m, value);
}

void ft_proto_floats(ft_proto *m, int field, int count, const float *values) {
    add_key(m, field, BYTES);
    add_varint(m, (uint64_t)count * 4);
    for (int i = 0; i < count; i++)
        add_float(m, values[i]);
}

void ft_proto_text(ft_proto *m, int field, const char *value) { add_bytes(m, field, value, strlen(value)); }

void ft_proto_message(ft_proto *m, int field, ft_proto *inner) {
    m->failed = m->failed || inner->failed;
    add_bytes(m, field, inner->data, inner->length);
    ft_proto_free(inner);
}

void ft_proto_free(ft_proto *m) {
    free(m->data);
    *m = (ft_proto){0};
}
