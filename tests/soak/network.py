"""The rig: hosts on veth pairs, two switches between them, and what a switch says of itself."""

import json
import os
import resource
import signal
import subprocess
import time

PROGRAM = "programs/rocev2_lossless"
OTHER_PROGRAM = "programs/l2_switch"
# Port 1 is the host's, port 4 the link between the switches, port 2 a second link, which is down but for the drill of the loop.
HOST, SPARE, LINK = 1, 2, 4


def run(*words, check=True, timeout=60, env=None):
    """Runs a command; its standard output and error."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=timeout, env=env)
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(words)}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def ip(text, check=True):
    return run("ip", *text.split(), check=check)


def cable(one, two):
    """A veth pair; no address, so that the kernel sends nothing of its own."""
    ip(f"link add {one} type veth peer name {two}")
    for name in (one, two):
        up(name)


def up(name, state="up"):
    disable = f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6"
    if os.path.exists(disable):
        with open(disable, "w") as file:
            file.write("1")
    ip(f"link set {name} {state}")


def build():
    """Interfaces of the two switches; those of switch X are X1, X2, X4."""
    up("lo")
    cable("hosta", "a1")
    cable("hostb", "b1")
    cable("a4", "b4")
    cable("a2", "b2")
    up("a2", "down")


def interfaces():
    names = (line.split(": ")[1].split("@")[0] for line in ip("-o link").stdout.splitlines())
    return sorted(names)


class Switch:
    """A `wireyard run` of two hosts' and one link's worth of ports."""

    def __init__(self, binary, name, folder):
        self.binary, self.name, self.folder = binary, name, os.path.join(folder, name)
        # What a full disk is tried with: the store and the captures lie on file systems of their own.
        self.state, self.captures = (os.path.join(self.folder, part) for part in ("state", "captures"))
        for path, size in ((self.state, "8m"), (self.captures, "1m")):
            os.makedirs(path)
            run("mount", "-t", "tmpfs", "-o", f"size={size}", "none", path)
        self.config = os.path.join(self.folder, "switch.yaml")
        with open(self.config, "w") as file:
            file.write(
                "ports:\n"
                + "".join(f"  {n}: {{ interface: 'raw:{name}{n}', rate: 1Gbps }}\n" for n in (HOST, SPARE, LINK))
                + "qos:\n  preset: onyx_roce\n"
                + "  port_defaults: { pfcwd: { detection_time: 200 ms, restoration_time: 200 ms, action: drop } }\n"
            )
        self.environment = dict(os.environ, WIREYARD_RUN_DIR=os.path.join(self.folder, "run"))
        os.makedirs(self.environment["WIREYARD_RUN_DIR"])
        self.process, self.starts = None, 0

    def start(self):
        self.starts += 1
        self.log = os.path.join(self.folder, f"log.{self.starts}")
        words = [self.binary, "run", PROGRAM, "--config", self.config, "--json", "--state", self.state]
        words += ["--writable", self.captures]
        with open(self.log, "wb") as err, open(self.log + ".out", "wb") as out:
            self.process = subprocess.Popen(words, stdout=out, stderr=err, env=self.environment)
        self.wait(lambda: " runs on " in self.said(), 60, "it does not start")

    def said(self):
        with open(self.log, errors="replace") as file:
            return file.read()

    def wait(self, done, seconds, what):
        """Waits until `done()`; the switch must live meanwhile."""
        end = time.monotonic() + seconds
        while not done():
            assert self.process.poll() is None, f"{self.name}: ended by itself: {self.said()[-2000:]}"
            assert time.monotonic() < end, f"{self.name}: {what} within {seconds} s: {self.said()[-2000:]}"
            time.sleep(0.02)

    def command(self, *words, check=True, timeout=30):
        return run(self.binary, *words, check=check, timeout=timeout, env=self.environment)

    def stats(self, timeout=30):
        return json.loads(self.command("stats", "--json", timeout=timeout).stdout)

    def kill(self, how=signal.SIGKILL):
        self.process.send_signal(how)
        self.process.wait(30)

    def end(self):
        """SIGTERM: success, a balanced report, nothing that the sandbox refused, no panic, no socket left.

        A capture that found no room is no failure of the run: `disk_full` writes another one of its name behind it.
        """
        self.kill(signal.SIGTERM)
        said = self.said()
        assert self.process.returncode == 0, f"{self.name}: status {self.process.returncode}: {said[-2000:]}"
        for bad in ("panicked at", "the sandbox refused"):
            assert bad not in said, f"{self.name}: {said[-2000:]}"
        with open(self.log + ".out") as file:
            report = json.load(file)
        assert report["total"]["balanced"] is True, f"{self.name}: {report['total']}"
        left = [name for name in os.listdir(self.environment["WIREYARD_RUN_DIR"]) if name.endswith(".sock")]
        assert not left, f"{self.name}: left {left}"

    def address_space(self):
        """Virtual memory of the process in bytes."""
        with open(f"/proc/{self.process.pid}/statm") as file:
            return int(file.read().split()[0]) * resource.getpagesize()

    def usage(self):
        """Resident memory in KiB, open descriptors and threads of the process."""
        with open(f"/proc/{self.process.pid}/status") as file:
            lines = dict(line.split(":", 1) for line in file.read().splitlines() if ":" in line)
        descriptors = len(os.listdir(f"/proc/{self.process.pid}/fd"))
        return int(lines["VmRSS"].split()[0]), descriptors, int(lines["Threads"])
