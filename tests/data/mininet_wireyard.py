"""Hosts of Mininet behind two switches of `programs/mininet/wireyard.py`: ping, commands, and the end.

Usage: mininet_wireyard.py, as root, in a network namespace of its own, with the variable WIREYARD. Prints `done` at the end.
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../programs/mininet"))

from mininet.net import Mininet
from mininet.topo import LinearTopo
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


net = Mininet(topo=LinearTopo(k=2), switch=switch, controller=None)
net.start()
try:
    assert net.pingAll(timeout=5) == 0, "pings are lost"
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
