"""Sends packets in tunnels by a packet socket, whose inner checksum is left to the card (PACKET_VNET_HDR).

send.py INTERFACE

Each case has a port of its own, from 7001 on.
"""
import socket
import struct
import sys

MACS = bytes.fromhex("020000000009" "020000000001")
NEEDS_CHECKSUM = 1


def total(data):
    data += b"\0" * (len(data) % 2)
    value = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while value > 0xFFFF:
        value = (value & 0xFFFF) + (value >> 16)
    return value


def put(data, at, value):
    return data[:at] + struct.pack("!H", value) + data[at + 2 :]


class Ip:
    """A packet of IP around `body`, whose checksum at `field` is right or only the sum of the pseudo-header."""

    def __init__(self, version, net, protocol, body, field=None, is_open=False):
        if version == 4:
            source, target = bytes([192, 0, net, 1]), bytes([192, 0, net, 2])
        else:
            source, target = (bytes.fromhex("20010db8") + bytes(10) + bytes([net, n]) for n in (1, 2))
        if field is not None:
            body = put(body, field, 0)
            pseudo = source + target + struct.pack("!II", len(body), protocol)
            value = total(pseudo) if is_open else 0xFFFF ^ total(pseudo + body)
            body = put(body, field, value or (0xFFFF if protocol == 17 else 0))
        if version == 4:
            head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 77, 0x4000, 64, protocol, 0) + source + target
            head = put(head, 10, 0xFFFF ^ total(head))
        else:
            head = struct.pack("!IHBB", 6 << 28, len(body), protocol, 64) + source + target
        self.bytes, self.kind = head + body, 0x0800 if version == 4 else 0x86DD


def ethernet(packet, tag=b""):
    return MACS + tag + struct.pack("!H", packet.kind) + packet.bytes


def tcp(port, payload):
    return struct.pack("!HHIIBBHHH", 40000, port, 1, 1, 5 << 4, 0x18, 512, 0, 0) + payload


def udp(port, payload, source=40000):
    return struct.pack("!HHHH", source, port, 8 + len(payload), 0) + payload


def gre(packet, is_bridged):
    """With a checksum and a key."""
    kind, content = (0x6558, ethernet(packet)) if is_bridged else (packet.kind, packet.bytes)
    data = struct.pack("!HHHHI", 0xA000, kind, 0, 0, 5) + content
    return put(data, 4, 0xFFFF ^ total(data))


def vxlan(packet, port=4789):
    return udp(port, bytes.fromhex("0800000000000900") + ethernet(packet))


def geneve(packet):
    return udp(6081, struct.pack("!BBHI", 2, 0, packet.kind, 0x900) + bytes(8) + packet.bytes)


def cases():
    """Functions that make a frame, with the inner checksum right, or open."""
    payload = bytes(range(250)) * 2

    def inner(port, is_open, version=4, protocol=6):
        body, field = (tcp(port, payload), 16) if protocol == 6 else (udp(port, payload), 6)
        return Ip(version, 3, protocol, body, field, is_open)

    def around(version, protocol, make, tag=b"", field=None):
        return lambda is_open: ethernet(Ip(version, 2, protocol, make(is_open), field), tag)

    tag = bytes.fromhex("81000064")
    return [
        around(4, 47, lambda o: gre(inner(7001, o), False)),
        around(4, 47, lambda o: gre(inner(7002, o), True)),
        around(4, 4, lambda o: inner(7003, o).bytes),
        around(4, 41, lambda o: inner(7004, o, 6).bytes),
        around(4, 17, lambda o: geneve(inner(7005, o)), field=6),
        around(6, 17, lambda o: vxlan(inner(7006, o)), field=6),
        around(4, 17, lambda o: vxlan(inner(7007, o, 6)), tag, 6),
        around(4, 17, lambda o: geneve(inner(7008, o, 4, 17)), field=6),
    ]


def main(interface):
    sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    sender.setsockopt(263, 15, 1)  # SOL_PACKET, PACKET_VNET_HDR
    sender.bind((interface, 0))

    def send(frame, start, field):
        sender.send(struct.pack("=BBHHHH", NEEDS_CHECKSUM, 0, 0, 0, start, field) + frame)

    for port, make in enumerate(cases(), 7001):
        field = 6 if port == 7008 else 16
        frame, left = bytearray(make(False)), make(True)
        start = left.index(struct.pack("!HH", 40000, port))
        place = slice(start + field, start + field + 2)
        # The sum of a tunnel is right for what is inside once that is finished.
        frame[place] = left[place]
        send(frame, start, field)
    # SCTP, whose checksum is no sum; AF_XDP sees that it is 0.
    data = struct.pack("!HHII", 40000, 7009, 1, 0) + struct.pack("!BBHIHHI", 0, 3, 20, 1, 0, 0, 0) + b"abcd"
    send(ethernet(Ip(4, 3, 132, data)), 34, 8)


if __name__ == "__main__":
    main(*sys.argv[1:])
