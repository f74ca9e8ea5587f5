"""Two hosts of Mininet, a switch that is started as bmv2's is, and a controller that pushes the program: ping.

Usage: mininet_ping.py FOLDER_OF_SIMPLE_SWITCH_GRPC PYTHON CONTROLLER P4INFO BLOB, in a network namespace of its own, as root.
Ends with status 0 and the word `done` when no ping is lost.
"""

import os
import signal
import subprocess
import sys
import time

from mininet.net import Mininet
from mininet.node import Switch
from mininet.topo import Topo

FOLDER, PYTHON, CONTROLLER, P4INFO, BLOB = sys.argv[1:]
ADDRESS = "127.0.0.1:50051"


class SimpleSwitchGrpc(Switch):
    """What scripts for bmv2 do."""

    def start(self, controllers):
        words = ["simple_switch_grpc"]
        for port, interface in self.intfs.items():
            if not interface.IP() and port > 0:
                words += ["-i", f"{port}@{interface.name}"]
        words += ["--no-p4", "--device-id", "1", "--log-console", "--thrift-port", "9090"]
        words += ["--", "--grpc-server-addr", ADDRESS, "--cpu-port", "255"]
        path = f"{FOLDER}:{os.environ['PATH']}"
        self.log = open(os.path.join(FOLDER, "switch.log"), "wb")
        environment = dict(os.environ, PATH=path, WIREYARD_RUN_DIR=FOLDER)
        # The path of the parent finds the program, as in a shell.
        self.process = subprocess.Popen(
            [os.path.join(FOLDER, words[0])] + words[1:], stdout=self.log, stderr=self.log, env=environment
        )
        for _ in range(300):
            with open(os.path.join(FOLDER, "switch.log")) as log:
                if " runs on " in log.read():
                    return
            assert self.process.poll() is None, "the switch ended"
            time.sleep(0.1)
        raise AssertionError("the switch does not run")

    def stop(self, deleteIntfs=True):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(20)
        self.log.close()
        super().stop(deleteIntfs)


class Two(Topo):
    def build(self):
        switch = self.addSwitch("s1")
        for number in (1, 2):
            host = self.addHost(f"h{number}", ip=f"10.0.0.{number}/24", mac=f"00:00:00:00:00:0{number}")
            self.addLink(host, switch, port2=number)


net = Mininet(topo=Two(), switch=SimpleSwitchGrpc, controller=None, autoStaticArp=True)
net.start()
try:
    one, two = net.get("h1", "h2")
    before = one.cmd("ping -c 1 -W 1", two.IP())
    assert "100% packet loss" in before, before
    subprocess.run([PYTHON, CONTROLLER, ADDRESS, P4INFO, BLOB], check=True, timeout=40)
    after = one.cmd("ping -c 3 -W 5", two.IP())
    assert " 0% packet loss" in after, after
    print("done")
finally:
    net.stop()
