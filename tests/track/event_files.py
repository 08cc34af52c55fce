"""TensorBoard's event files, read with Python's standard library alone: every length and checksum is looked at, a message is a dict of
lists by field number. What a reader shows of a directory is `Board`: files by name, and from a session's START on nothing older."""

import os
import struct


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


assert crc32c(b"123456789") == 0xE3069283  # the check value of the polynomial's catalogue


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(path):
    """The records of a file; a tail that is not whole is the last writer's, who was killed."""
    data, at = open(path, "rb").read(), 0
    while len(data) - at >= 12:
        length, of_length = struct.unpack_from("<QI", data, at)
        assert masked(data[at : at + 8]) == of_length, f"{path}: the checksum of a length, at {at}"
        if len(data) - at < 16 + length:
            return
        body = data[at + 12 : at + 12 + length]
        assert masked(body) == struct.unpack_from("<I", data, at + 12 + length)[0], f"{path}: the checksum of a record, at {at}"
        yield body
        at += 16 + length


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at


def message(data):
    """Fields by number; bytes stay bytes, numbers of 8 and 4 bytes are floating point in these messages."""
    fields, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 1:
            value, at = struct.unpack_from("<d", data, at)[0], at + 8
        elif kind == 5:
            value, at = struct.unpack_from("<f", data, at)[0], at + 4
        else:
            assert kind == 2, kind
            length, at = varint(data, at)
            assert at + length <= len(data)
            value, at = data[at : at + length], at + length
        fields.setdefault(key >> 3, []).append(value)
    return fields


def single(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


class Board:
    def __init__(self, directory):
        self.scalars, self.texts, self.hparams, self.files = {}, {}, {}, sorted(os.listdir(directory))
        for name in self.files:
            assert name.startswith("events.out.tfevents."), name
            self.read(os.path.join(directory, name))

    def read(self, path):
        for n, body in enumerate(records(path)):
            event = message(body)
            assert event[1][0] > 1.7e9, "the time of an event"
            if n == 0:
                assert event[3] == [b"brain.Event:2"] and len(event) == 2, event
                continue
            step = event.get(2, [0])[0]
            if 7 in event:
                assert message(event[7][0]) == {1: [1]}
                for points in self.scalars.values():
                    points[:] = [p for p in points if p[0] < step]
            for summary in event.get(5, []):
                for value in message(summary)[1]:
                    self.take(step, message(value))

    def take(self, step, value):
        tag = value[1][0].decode()
        if 2 in value:
            self.scalars.setdefault(tag, []).append((step, value[2][0]))
            return
        plugin = message(message(value[9][0])[1][0])
        tensor = message(value[8][0])
        if plugin[1] == [b"text"]:
            assert tensor[1] == [7] and message(tensor[2][0]) == {2: [b"\x08\x01"]} and message(value[9][0])[4] == [2]
            self.texts.setdefault(tag, []).append((step, tensor[8][0].decode()))
        else:
            assert plugin[1] == [b"hparams"] and tensor[1] == [1] and tensor[5] == [bytes(4)]
            self.hparams[tag] = message(plugin[2][0])
