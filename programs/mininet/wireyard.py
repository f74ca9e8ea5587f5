"""A switch for Mininet that is a `wireyard run`.

    mn --custom programs/mininet/wireyard.py --switch wireyard --controller none --test pingall

or in a script:

    from wireyard import WireyardSwitch
    net = Mininet(topo=Topo(), switch=WireyardSwitch, controller=None)
    net.get("s1").wireyard("table", "dump", "fdb")

The program is `rocev2_lossless`, which bridges all of its ports; `--switch wireyard,program=FILE` or
`addSwitch("s1", cls=WireyardSwitch, program=.., entries=.., config=.., options="--p4runtime 127.0.0.1:9559")` takes another one.
Ports have Mininet's numbers. The binary is `wireyard` of PATH, or that of the variable WIREYARD.
"""

import os
import shlex
import shutil
import subprocess
import tempfile
import time

from mininet.log import warn
from mininet.node import Switch

START_SECONDS_MAX = 30
END_SECONDS_MAX = 10


def found(binary):
    """The path of the binary."""
    binary = binary or os.environ.get("WIREYARD", "wireyard")
    path = shutil.which(binary)
    if not path:
        raise RuntimeError(f"there is no {binary}: put it into PATH, or name it by `binary=` or the variable WIREYARD")
    return os.path.abspath(path)


def absolute(path):
    """A path for a process that has another working directory; names of programs inside the binary stay."""
    return os.path.abspath(path) if os.path.exists(path) else path


class WireyardSwitch(Switch):
    """One process for each switch, in the namespace of Mininet's switches."""

    def __init__(self, name, program="rocev2_lossless", entries=None, config=None, options="", binary=None, **parameters):
        self.binary = found(binary)
        super().__init__(name, **parameters)
        self.words = ["run", absolute(program)]
        for flag, value in (("--entries", entries), ("--config", config)):
            self.words += [flag, absolute(value)] if value else []
        # Mininet's TCLink limits a rate by tc(8) at the interface, which frames of a port bypass.
        self.words += ["--rates-of-interfaces", *shlex.split(options)]
        self.process = self.folder = None

    def start(self, controllers):
        """Starts the process on the interfaces that it has; back when it forwards. Controllers are not for it (P4Runtime: `options`)."""
        self.folder = tempfile.mkdtemp(prefix=f"wireyard-{self.name}.")
        ports = []
        for number, interface in sorted(self.intfs.items()):
            if interface.name != "lo":
                ports += ["--port", f"{number}={interface.name}"]
        # An interface needs no address of the kernel's; its own frames would be those of one more host.
        log = open(os.path.join(self.folder, "log"), "wb")
        self.process = self.popen(
            [self.binary, *self.words, *ports, "--control", self.socket()], stdout=log, stderr=log, cwd=self.folder
        )
        log.close()
        end = time.monotonic() + START_SECONDS_MAX
        while " runs on " not in self.log():
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{self.name} does not start: {self.log()}")
            time.sleep(0.02)
        for line in self.log().splitlines():
            if "warning: " in line:
                warn(f"{self.name}: {line}\n")

    def stop(self, deleteIntfs=True):
        """Ends the process as Ctrl-C does; what it printed is in `last_log` then."""
        if self.process:
            self.process.terminate()
            try:
                self.process.wait(END_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.last_log, self.status = self.log(), self.process.returncode
            shutil.rmtree(self.folder, ignore_errors=True)
            self.process = None
        super().stop(deleteIntfs)

    def wireyard(self, *words):
        """Runs a command for this switch, `wireyard table dump fdb` or another; what it prints."""
        done = subprocess.run(
            [self.binary, *words, "--switch", self.socket()], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        if done.returncode != 0:
            raise RuntimeError(f"wireyard {' '.join(words)}: {done.stdout}")
        return done.stdout

    def socket(self):
        return os.path.join(self.folder, "control.sock")

    def log(self):
        """What the process printed so far."""
        with open(os.path.join(self.folder, "log"), errors="replace") as file:
            return file.read()


switches = {"wireyard": WireyardSwitch}
