#!/usr/bin/env python3
"""Between a client and a server of PostgreSQL: passes everything on, and counts how often the client waited for an answer.

    count_round_trips.py SOCKET COUNT STARTING      the server's Unix socket; a file that says `TRIPS CONNECTIONS` whenever one begins or
                                                    ends; how many are told at first that the server is starting up

Prints its port on 127.0.0.1. A client in a hurry sends many statements and one Sync behind them; each Sync (and each statement of the
simple protocol) is a round trip. The client has sslmode=disable and gssencmode=disable: what is encrypted cannot be counted."""
import os
import socket
import struct
import sys
import threading

trips, connections, guard = 0, 0, threading.Lock()


def tell(more):
    global connections
    with guard:
        connections += more
        with open(sys.argv[2] + ".new", "w", encoding="ascii") as out:
            print(trips, connections, file=out)
        os.replace(sys.argv[2] + ".new", sys.argv[2])


def count(data):
    """How many round trips the whole messages at the beginning are, and what is left."""
    found = 0
    while len(data) >= 5 and len(data) > struct.unpack_from("!I", data, 1)[0]:
        found += data[0] in b"SQ"
        data = data[struct.unpack_from("!I", data, 1)[0] + 1:]
    return found, data


def forward(source, target, counted):
    global trips
    first, rest = counted, b""
    while True:
        try:
            data = source.recv(65536)
        except OSError:
            data = b""
        if not data:
            break
        target.sendall(data)
        if not counted:
            continue
        rest += data
        if first and len(rest) >= 4 and len(rest) >= struct.unpack_from("!I", rest)[0]:  # the first one has no letter
            rest, first = rest[struct.unpack_from("!I", rest)[0]:], False
        if not first:
            found, rest = count(rest)
            with guard:
                trips += found
    for end in (source, target):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
    if counted:
        tell(-1)


def refuse(client):
    length = struct.unpack("!I", client.recv(4, socket.MSG_WAITALL))[0]
    client.recv(length - 4, socket.MSG_WAITALL)
    fields = b"SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0"
    client.sendall(b"E" + struct.pack("!I", len(fields) + 4) + fields)
    client.close()


def main():
    starting = int(sys.argv[3])
    listener = socket.create_server(("127.0.0.1", 0), backlog=16)
    print(listener.getsockname()[1], flush=True)
    while True:
        client, _ = listener.accept()
        if starting > 0:
            starting -= 1
            refuse(client)
            continue
        tell(1)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        server = socket.socket(socket.AF_UNIX)
        server.connect(sys.argv[1])
        threading.Thread(target=forward, args=(client, server, True), daemon=True).start()
        threading.Thread(target=forward, args=(server, client, False), daemon=True).start()


main()
