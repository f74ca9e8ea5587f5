"""Frames of one interface: hexadecimal lines from standard input are sent, what comes in is printed.

Usage: frames.py INTERFACE. Ends with its standard input.
"""

import select
import socket
import sys

wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
wire.bind((sys.argv[1], 0))
print("ready", flush=True)
while True:
    ready, _, _ = select.select([wire, sys.stdin], [], [])
    if wire in ready:
        frame, address = wire.recvfrom(65536)
        if address[2] != socket.PACKET_OUTGOING:
            print(frame.hex(), flush=True)
    if sys.stdin in ready:
        line = sys.stdin.readline()
        if not line:
            break
        wire.send(bytes.fromhex(line))
