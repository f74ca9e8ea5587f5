"""Numbered frames both ways between the two hosts, in a process of its own: what is lost, doubled, late.

Each frame carries its number and the time at which it was sent, by a clock that nobody steps.
"""

import multiprocessing
import select
import socket
import struct
import time

FRAMES_A_SECOND = 500
PAYLOAD_BYTES = 200
MAGIC = b"soak"
# DSCP 26 is in the lossless class of preset onyx_roce.
LOSSLESS_TOS = 26 << 2
PORTS = {"hosta": (bytes.fromhex("02000000000a"), "10.9.0.1"), "hostb": (bytes.fromhex("02000000000b"), "10.9.0.2")}


def checksum(header):
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def headers(source, target):
    """Ethernet, IPv4 and UDP in front of a payload."""
    (from_mac, from_ip), (to_mac, to_ip) = PORTS[source], PORTS[target]
    udp = struct.pack("!HHHH", 49152, 5000, 8 + PAYLOAD_BYTES, 0)
    words = (0x45, LOSSLESS_TOS, 28 + PAYLOAD_BYTES, 0, 0x4000, 64, 17)
    ipv4 = struct.pack("!BBHHHBBH4s4s", *words, 0, socket.inet_aton(from_ip), socket.inet_aton(to_ip))
    ipv4 = ipv4[:10] + struct.pack("!H", checksum(ipv4)) + ipv4[12:]
    return to_mac + from_mac + b"\x08\x00" + ipv4 + udp


def packet_socket(interface):
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
    opened.setsockopt(socket.SOL_SOCKET, 33, 32 << 20)  # SO_RCVBUFFORCE
    opened.bind((interface, 0x0800))
    opened.setblocking(False)
    return opened


class Way:
    """From one host to the other."""

    def __init__(self, source, target, sockets):
        self.head, self.out, self.into = headers(source, target), sockets[source], sockets[target]
        self.pad = bytes(PAYLOAD_BYTES - len(MAGIC) - 16)
        self.next = 0
        self.open_window()

    def open_window(self):
        self.first, self.seen, self.times, self.last, self.overtaken = self.next, set(), [], -1, 0

    def send(self):
        payload = MAGIC + struct.pack("!QQ", self.next, time.monotonic_ns()) + self.pad
        try:
            self.out.send(self.head + payload)
            self.next += 1
        except OSError:
            pass  # The interface is down: nothing was sent.

    def receive(self):
        for _ in range(256):
            try:
                frame = self.into.recv(2048)
            except OSError:
                return
            if frame[:12] != self.head[:12] or frame[42:46] != MAGIC:
                continue
            number, sent_at = struct.unpack("!QQ", frame[46:62])
            if number < self.first:
                continue
            self.times.append(time.monotonic_ns() - sent_at)
            self.overtaken += number < self.last
            self.last = max(self.last, number)
            self.seen.add(number)

    def report(self):
        times = sorted(self.times) or [0]
        sent = self.next - self.first
        return {
            "sent": sent,
            "lost": sent - len(self.seen),
            "doubled": len(self.times) - len(self.seen),
            "overtaken": self.overtaken,
            "p50_us": times[len(times) // 2] / 1e3,
            "p99_us": times[len(times) * 99 // 100] / 1e3,
        }


def serve(pipe):
    """Sends and receives until told to end. `window SECONDS` answers with what was seen in a window of that length."""
    sockets = {name: packet_socket(name) for name in PORTS}
    ways = [Way("hosta", "hostb", sockets), Way("hostb", "hosta", sockets)]
    period, due, window_end, drain_end = 1 / FRAMES_A_SECOND, time.monotonic(), None, None
    while True:
        now = time.monotonic()
        if drain_end is None and now >= due:
            for way in ways:
                way.send()
            # What could not be sent in time is not sent in a burst later.
            due = max(due + period, now - 20 * period)
        wait = 0.01 if drain_end else max(0, min(due - now, 0.01))
        select.select(list(sockets.values()), [], [], wait)
        for way in ways:
            way.receive()
        now = time.monotonic()
        if window_end and now >= window_end:
            window_end, drain_end = None, now + 0.5
        if drain_end and (now >= drain_end or all(len(way.seen) == way.next - way.first for way in ways)):
            pipe.send([way.report() for way in ways])
            drain_end, due = None, time.monotonic()
        if pipe.poll():
            words = pipe.recv()
            if words[0] == "end":
                pipe.send([way.next for way in ways])
                return
            for way in ways:
                way.receive()
                way.open_window()
            window_end = time.monotonic() + words[1]


class Traffic:
    def __init__(self):
        self.pipe, far = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=serve, args=(far,), daemon=True)
        self.process.start()

    def window(self, seconds):
        """What a window of so many seconds sees, for both ways: [{sent, lost, doubled, overtaken, p50_us, p99_us}]."""
        self.pipe.send(("window", seconds))
        assert self.pipe.poll(seconds + 30), "the traffic stands still"
        return self.pipe.recv()

    def end(self):
        """Frames that were sent, each way."""
        self.pipe.send(("end",))
        sent = self.pipe.recv()
        self.process.join(10)
        return sent
