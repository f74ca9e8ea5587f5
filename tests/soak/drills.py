"""The drills: what happens to the switches, one function each. Each leaves the rig as it found it.

A drill gets the rig (`soak.Rig`) and a random generator, and asserts what must hold during it; what must hold behind each of them
(frames flow, ledgers balance, memory is flat) the rig asserts itself. Switch `a` lives for the whole run: it is the witness for
memory. Switch `b` is the one that is killed.
"""

import os
import resource
import signal
import socket
import struct
import subprocess
import time

from network import LINK, OTHER_PROGRAM, PROGRAM, ip, run, up
from traffic import packet_socket


def killed(rig, random):
    """SIGKILL at any moment. What was acknowledged is there after the next start."""
    time.sleep(random.uniform(0, 0.3))
    with rig.churn_stopped():
        rig.b.kill(signal.SIGKILL)
        rig.b.start()
        kept = {line["match"]["ipv4.dst"] for line in rig.entries(rig.b, "routes4")}
        missing = rig.acknowledged - kept
        assert not missing, f"acknowledged, and lost: {sorted(missing)[:5]} of {len(rig.acknowledged)}"


def ended_and_started(rig, _random):
    """SIGTERM and a new start."""
    with rig.churn_stopped():
        rig.b.end()
        rig.b.start()


def interface_down(rig, random):
    """`ip link set down`, and up again."""
    name = random.choice(["a1", "b1", "a4", "b4"])
    ip(f"link set {name} down")
    time.sleep(random.uniform(0.1, 1.5))
    up(name)


def interface_renamed(rig, random):
    """Another name, while it is up where the kernel allows it; the port follows."""
    name = random.choice(["a1", "b1", "a4", "b4"])
    if ip(f"link set {name} name other0", check=False).returncode != 0:
        ip(f"link set {name} down")
        ip(f"link set {name} name other0")
        up("other0")
    rig.flows("under another name")
    ip("link set other0 down")
    ip(f"link set other0 name {name}")
    up(name)


def interface_moved(rig, random):
    """To another network namespace, and back."""
    name = random.choice(["a1", "b4"])
    other = subprocess.Popen(["unshare", "--net", "sleep", "60"])
    try:
        time.sleep(0.2)
        ip(f"link set {name} netns {other.pid}")
        time.sleep(random.uniform(0.2, 1.0))
        run("nsenter", "--net", "--target", str(other.pid), "ip", "link", "set", name, "netns", str(os.getpid()))
        up(name)
    finally:
        other.kill()
        other.wait()


def interface_deleted(rig, _random):
    """The cable between the switches is deleted and made again."""
    ip("link del a4")
    time.sleep(0.5)
    ip("link add a4 type veth peer name b4")
    up("a4")
    up("b4")


def port_removed(rig, _random):
    """By command, and added again."""
    rig.a.command("port", "remove", str(LINK))
    time.sleep(0.2)
    rig.a.command("port", "add", str(LINK), "raw:a4")


def disk_full(rig, _random):
    """Captures and the store find no room. Packets pass; writes that cannot be kept are refused; behind it both work again."""
    with rig.churn_stopped():
        for switch in (rig.a, rig.b):
            filler = os.path.join(switch.captures, "filler")
            path = os.path.join(switch.captures, "one.pcapng")
            with open(filler, "wb") as file:
                file.write(bytes((1 << 20) - (64 << 10)))
            switch.command("capture", "start", "1", path)
            time.sleep(1.0)
            rig.flows("with a full disk")
            switch.command("capture", "stop", "all", check=False)
            os.remove(filler)
            os.remove(path)
            switch.command("capture", "start", "1", path)
            time.sleep(0.3)
            switch.command("capture", "stop", "all")
            assert os.path.getsize(path) > 1000, f"{switch.name}: no capture behind a full disk"
            os.remove(path)
        filler = os.path.join(rig.b.state, "filler")
        try:
            with open(filler, "wb") as file:
                file.write(bytes(8 << 20))
        except OSError:
            pass
        refused = 0
        for n in range(200):
            refused += rig.b.command("table", "set", "routes4", f"ipv4.dst=10.200.{n}.0/24", "via", "1", check=False).returncode != 0
            if refused:
                break
        rig.flows("with a full store")
        os.remove(filler)
        rig.kept_again()


def descriptors_out(rig, random):
    """No descriptor is left for clients; packets pass, and clients are served again behind it."""
    switch = rig.a
    _, used, _ = switch.usage()
    before = resource.prlimit(switch.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(switch.process.pid, resource.RLIMIT_NOFILE, (used + random.randrange(3), before[1]))
    clients = []
    try:
        for _ in range(20):
            client = socket.socket(socket.AF_UNIX)
            client.settimeout(1)
            try:
                client.connect(rig.control(switch))
                clients.append(client)
            except OSError:
                client.close()
        rig.flows("without descriptors")
    finally:
        for client in clients:
            client.close()
        resource.prlimit(switch.process.pid, resource.RLIMIT_NOFILE, before)


def memory_out(rig, random):
    """Switch b gets no more memory, and another table and program need some. It refuses, or ends like one that was killed;
    what was acknowledged is there behind it."""
    with rig.churn_stopped():
        process = rig.b.process
        before = resource.prlimit(process.pid, resource.RLIMIT_AS)
        size = rig.b.address_space() + random.randrange(4 << 20)
        resource.prlimit(process.pid, resource.RLIMIT_AS, (size, before[1]))
        rig.b.command("swap", PROGRAM, check=False)
        for n in range(20):
            rig.b.command("table", "set", "routes4", f"ipv4.dst=10.202.{n}.0/24", "via", "1", check=False)
        if process.poll() is None:
            rig.flows("without memory")
            resource.prlimit(process.pid, resource.RLIMIT_AS, before)
        else:
            rig.b.start()
        kept = {line["match"]["ipv4.dst"] for line in rig.entries(rig.b, "routes4")}
        missing = rig.acknowledged - kept
        assert not missing, f"acknowledged, and lost: {sorted(missing)[:5]} of {len(rig.acknowledged)}"
        rig.b.command("swap", PROGRAM, timeout=60)


def stopped(rig, random):
    """SIGSTOP and SIGCONT, as of a machine that is suspended: of one switch or both."""
    chosen = random.choice([[rig.a], [rig.b], [rig.a, rig.b]])
    for switch in chosen:
        switch.process.send_signal(signal.SIGSTOP)
    time.sleep(random.uniform(0.2, 3.0))
    for switch in chosen:
        switch.process.send_signal(signal.SIGCONT)


def swapped(rig, _random):
    """Another program and back, and the same one again, while packets flow."""
    with rig.churn_stopped():
        for program in (OTHER_PROGRAM, PROGRAM, PROGRAM):
            rig.a.command("swap", program, timeout=60)
        rig.load_routes()


def paused(rig, random):
    """A host pauses the lossless class of its port again and again, and lets it go."""
    frame = bytes.fromhex("0180c2000001" + "020000000099" + "88080101" + "0008")
    with packet_socket("hosta") as host:
        for _ in range(random.randrange(1, 8)):
            host.send((frame + struct.pack("!8H", *(0xFFFF if n == 3 else 0 for n in range(8)))).ljust(60, b"\0"))
            time.sleep(random.uniform(0.005, 0.03))
        host.send((frame + bytes(16)).ljust(60, b"\0"))


def loop(rig, _random):
    """A second cable between the switches: a loop, in which broadcasts go round for ever. Control answers meanwhile."""
    before = rig.balanced(rig.a)["received"]
    up("a2")
    up("b2")
    end = time.monotonic() + 3
    n = 0
    with packet_socket("hosta") as host:
        while time.monotonic() < end:
            n += 1
            host.send(b"\xff" * 6 + bytes([2, 0, 0, 0, 1, n]) + b"\x88\xb5" + bytes(100))
            for switch in (rig.a, rig.b):
                rig.balanced(switch)
            time.sleep(0.1)
    went_round = rig.balanced(rig.a)["received"] - before
    ip("link set a2 down")
    assert went_round > 8000, f"{went_round} frames: there was no storm"


def slow_clients(rig, _random):
    """Clients that connect and say or read nothing."""
    clients = []
    for _ in range(30):
        client = socket.socket(socket.AF_UNIX)
        client.connect(rig.control(rig.a))
        client.send(b"PRI * HTTP/2.0\r\n")
        clients.append(client)
    rig.flows("with clients that say nothing")
    for client in clients:
        client.close()


def overloaded(rig, _random):
    """More frames than a link takes, of a class that may drop."""
    with packet_socket("hosta") as host:
        host.setblocking(True)
        frame = bytes.fromhex("02000000000b02000000000a88b5") + bytes(1400)
        for _ in range(20000):
            try:
                host.send(frame)
            except OSError:
                pass


ALL = [
    killed, ended_and_started, interface_down, interface_renamed, interface_moved, interface_deleted, port_removed, disk_full,
    descriptors_out, memory_out, stopped, swapped, paused, loop, slow_clients, overloaded,
]  # fmt: skip
