"""Hosts of Mininet behind two switches of `programs/mininet/wireyard.py`: ping, commands, a bottleneck between them, and the end.

Usage: mininet_wireyard.py, as root, in a network namespace of its own, with the variable WIREYARD. Prints `done` at the end.
"""

import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../programs/mininet"))

import wireyard
from mininet.link import TCLink
from mininet.net import Mininet
from mininet.topo import Topo
from wireyard import WireyardSwitch

# Paths are those of the script, by whatever name; a switch has a working directory of its own.
PROGRAMS = os.path.relpath(os.path.join(os.path.dirname(__file__), "../../programs"))
BINARY = os.environ.pop("WIREYARD")
try:
    WireyardSwitch("s0", binary="no_such_binary")
    raise AssertionError("a missing binary was taken")
except RuntimeError as error:
    assert "no_such_binary" in str(error), error


def switch(name, **parameters):
    return WireyardSwitch(name, program=f"{PROGRAMS}/rocev2_lossless", binary=os.path.relpath(BINARY), **parameters)


class Bottleneck(Topo):
    def build(self):
        for number in (1, 2):
            self.addLink(self.addHost(f"h{number}"), self.addSwitch(f"s{number}"))
        self.addLink("s1", "s2", cls=TCLink, bw=1)


RECEIVER = """
import socket
with socket.create_server(("", 5001)) as server:
    print("listens", flush=True)
    wire = server.accept()[0]
    while wire.recv(65536):
        pass
"""
SENDER = "import socket, sys; socket.create_connection((sys.argv[1], 5001)).sendall(bytes(250_000))"

warnings = []
wireyard.warn = lambda text: warnings.append(text)
net = Mininet(topo=Bottleneck(), switch=switch, controller=None)
# A discipline without a rate of its own, which a port cannot take.
has_htb = "Error" not in net.get("s1").cmd("tc qdisc add dev s1-eth1 root htb")
net.start()
try:
    assert not has_htb or any("s1-eth1 (htb)" in text for text in warnings), warnings
    assert net.pingAll(timeout=5) == 0, "pings are lost"
    if has_htb:
        one, two = net.get("h1"), net.get("h2")
        receiver = two.popen(["/usr/bin/python3", "-c", RECEIVER])
        assert receiver.stdout.readline() == b"listens\n"
        begun = time.monotonic()
        one.popen(["/usr/bin/python3", "-c", SENDER, two.IP()]).wait()
        receiver.wait()
        # Two seconds at 1 Mbit/s.
        assert time.monotonic() - begun > 1.5, time.monotonic() - begun
    first = net.get("s1")
    learned = first.wireyard("table", "dump", "fdb")
    assert all(host.MAC() in learned for host in net.hosts), learned
    first.wireyard("port", "down", "1")
    assert net.ping([net.get("h1"), net.get("h2")], timeout=1) == 100.0
    first.wireyard("port", "up", "1")
    assert net.pingAll(timeout=5) == 0, "pings are lost behind `port up`"
    try:
        first.wireyard("table", "dump", "no_such_table")
        raise AssertionError("a wrong command was taken")
    except RuntimeError as error:
        assert "no_such_table" in str(error), error
finally:
    net.stop()
for switch in net.switches:
    assert switch.status == 0, switch.last_log
print("done")
