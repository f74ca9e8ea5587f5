"""Three hosts of Mininet around a switch that is started as bmv2's is: each exercise is pushed, its packet test done with real frames.

Usage: mininet_exercises.py FOLDER PYTHON NAME..., in a network namespace of its own, as root. FOLDER has simple_switch_grpc and, for each NAME,
NAME.txt (P4Info) and NAME.bin (what is pushed). Ends with status 0 and the word `done` when all frames came as expected.
"""

import os
import select
import signal
import subprocess
import sys
import time

from mininet.net import Mininet
from mininet.node import Switch
from mininet.topo import Topo

FOLDER, PYTHON, *NAMES = sys.argv[1:]
HERE = os.path.dirname(os.path.abspath(__file__))
ADDRESS = "127.0.0.1:50052"
PORTS = (1, 2, 3)


class SimpleSwitchGrpc(Switch):
    def start(self, controllers):
        words = ["simple_switch_grpc"]
        for port, interface in self.intfs.items():
            if not interface.IP() and port > 0:
                words += ["-i", f"{port}@{interface.name}"]
        words += ["--no-p4", "--device-id", "1", "--", "--grpc-server-addr", ADDRESS]
        path = os.path.join(FOLDER, "switch.log")
        self.log = open(path, "wb")
        environment = dict(os.environ, WIREYARD_RUN_DIR=FOLDER)
        self.process = subprocess.Popen(
            [os.path.join(FOLDER, words[0])] + words[1:], stdout=self.log, stderr=self.log, env=environment
        )
        for _ in range(300):
            if " runs on " in open(path).read():
                return
            assert self.process.poll() is None, "the switch ended"
            time.sleep(0.1)
        raise AssertionError("the switch does not run")

    def stop(self, deleteIntfs=True):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(20)
        self.log.close()
        super().stop(deleteIntfs)


class Three(Topo):
    def build(self):
        switch = self.addSwitch("s1")
        for number in PORTS:
            host = self.addHost(f"h{number}", ip=f"10.9.9.{number}/24", mac=f"02:00:00:00:99:0{number}")
            self.addLink(host, switch, port2=number)


def agrees(frame, pattern, exact):
    if len(frame) < len(pattern) or (exact and len(frame) != len(pattern)):
        return False
    return all(wanted in ("*", found) for wanted, found in zip(pattern, frame))


class Ends:
    """The far ends of the ports."""

    def __init__(self, net):
        self.ends = {}
        self.read = dict.fromkeys(PORTS, b"")
        for port in PORTS:
            host = net.get(f"h{port}")
            host.cmd("sysctl -w net.ipv6.conf.all.disable_ipv6=1")
            words = [sys.executable, os.path.join(HERE, "frames.py"), f"h{port}-eth0"]
            self.ends[port] = host.popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            assert self.receive(port, 10) == "ready"
        # What the hosts said before they were told not to.
        for port in PORTS:
            while self.receive(port, 0.5):
                pass

    def send(self, port, frame):
        self.ends[port].stdin.write(f"{frame}\n".encode())
        self.ends[port].stdin.flush()

    def receive(self, port, seconds):
        """A frame that comes within so many seconds."""
        out = self.ends[port].stdout
        while b"\n" not in self.read[port]:
            if not select.select([out], [], [], seconds)[0]:
                return None
            self.read[port] += os.read(out.fileno(), 65536)
        line, self.read[port] = self.read[port].split(b"\n", 1)
        return line.decode()

    def compare(self, name, expected):
        for port, patterns in expected.items():
            for pattern, exact in patterns:
                frame = self.receive(port, 10)
                assert frame and agrees(frame, pattern, exact), f"{name}: port {port}: {frame}, not {pattern}"
        time.sleep(0.1)
        for port in PORTS:
            frame = self.receive(port, 0)
            assert frame is None, f"{name}: port {port}: nobody expected {frame}"

    def close(self):
        for end in self.ends.values():
            end.stdin.close()
            end.wait(10)


def script(ends, name):
    expected = {}
    for line in open(os.path.join(HERE, f"{name}.stf")):
        words = line.split("#")[0].split()
        if words[:1] == ["packet"]:
            ends.send(int(words[1]), "".join(words[2:]))
            time.sleep(0.02)
        elif words[:1] == ["expect"]:
            exact = words[-1] == "$"
            pattern = "".join(words[2:-1] if exact else words[2:])
            expected.setdefault(int(words[1]), []).append((pattern, exact))
        elif words[:1] == ["wait"]:
            ends.compare(name, expected)
            expected = {}
    ends.compare(name, expected)


# Nobody speaks but the script.
for kind in ("all", "default"):
    subprocess.run(["sysctl", "-q", "-w", f"net.ipv6.conf.{kind}.disable_ipv6=1"], check=True)
net = Mininet(topo=Three(), switch=SimpleSwitchGrpc, controller=None)
net.start()
try:
    words = [PYTHON, os.path.join(HERE, "entries_controller.py"), ADDRESS, FOLDER]
    controller = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    ends = Ends(net)
    for name in NAMES:
        print(name, file=controller.stdin, flush=True)
        wrote = next((line for line in controller.stdout if line == f"wrote {name}\n"), None)
        assert wrote, f"the controller ended at {name}"
        script(ends, name)
        print(name, "passes")
    ends.close()
    controller.stdin.close()
    assert controller.wait(20) == 0
    print("done")
finally:
    net.stop()
