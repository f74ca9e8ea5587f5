#!/usr/bin/env python3
"""Two live switches, two hosts and every drill, in turns, for `--seconds`: `tests/soak/soak.py --seconds 600`.

    hosta --- 1 [ a ] 4 --- 4 [ b ] 1 --- hostb          ports 2 are a second cable, down but for the drill of the loop

Frames go both ways all the time, and tables are written all the time. Behind each drill frames must flow again, then a quiet window
follows, in which none is lost, doubled or overtaken; the ledger of both switches balances; memory, descriptors and threads of `a`,
which is never ended, stay where they were in the second third of the time, and the median latency where it was in the first. At the end both end by SIGTERM
and nothing is left: no process, socket, lock, interface. Needs root, ip and unshare; everything is in namespaces of its own.

The clock of the machine is not stepped: all on it would see that. The drills are those of drills.py; a seed gives their order.
"""

import argparse
import collections
import contextlib
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import drills
import network
from traffic import Traffic

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# A window in which nothing happens, behind each drill.
QUIET_SECONDS = 1.0
# Frames flow again within this time.
RECOVERY_SECONDS = 15
# What `a` may have more in the last third than in the second; the first one fills what is filled once.
MEMORY_KIB_MAX, DESCRIPTORS_MAX = 8 << 10, 4
# How much the median latency may grow, and what is noise on a machine that does other things too.
LATENCY_FACTOR_MAX, LATENCY_NOISE_US = 2.0, 300


class Rig:
    def __init__(self, binary, folder):
        network.build()
        self.interfaces = network.interfaces()
        self.a, self.b = (network.Switch(binary, name, folder) for name in "ab")
        self.a.start()
        self.b.start()
        self.traffic = Traffic()
        # Routes that b acknowledged, and the lock that whoever must not be disturbed by writes holds.
        self.acknowledged, self.writing, self.over, self.written = set(), threading.Lock(), False, 0
        self.failure, self.starts_after_full_disk = None, 0
        self.load_routes()
        self.churn = threading.Thread(target=self.write_tables, daemon=True)
        self.churn.start()

    def control(self, switch):
        return os.path.join(switch.environment["WIREYARD_RUN_DIR"], "rocev2_lossless.sock")

    def load_routes(self):
        """The table that is written has some entries from the beginning."""
        for n in range(4):
            self.a.command("table", "set", "routes4", f"ipv4.dst=10.100.{n}.0/24", "via", "1")

    def write_tables(self):
        """Entries come and go on both switches, until the end."""
        n = 0
        try:
            while not self.over:
                with self.writing:
                    self.write(n)
                n += 1
                time.sleep(0.02)
        except Exception as error:  # It is reported where the drills are.
            self.failure = error

    def write(self, n):
        route = f"10.{n // 250 % 50}.{n % 250}.0/24"
        for switch in (self.a, self.b):
            switch.command("table", "set", "routes4", f"ipv4.dst={route}", "via", "1")
        self.acknowledged.add(route)
        self.written += 2
        if len(self.acknowledged) > 200:
            gone = next(iter(self.acknowledged))
            for switch in (self.a, self.b):
                switch.command("table", "delete", "routes4", f"ipv4.dst={gone}", check=False)
            self.acknowledged.discard(gone)

    @contextlib.contextmanager
    def churn_stopped(self):
        with self.writing:
            yield

    def entries(self, switch, table):
        lines = switch.command("table", "dump", table, "--json").stdout.splitlines()
        return [entry for entry in map(json.loads, lines) if "match" in entry]

    def kept_again(self):
        """Behind a full disk the store takes writes again, by itself or after a start of the switch."""
        words = ("table", "set", "routes4", "ipv4.dst=10.201.0.0/24", "via", "1")
        end = time.monotonic() + 5
        while self.b.command(*words, check=False).returncode != 0:
            if time.monotonic() > end:
                self.b.end()
                self.b.start()
                self.starts_after_full_disk += 1
                self.b.command(*words)
                return
            time.sleep(0.2)

    def flows(self, when, seconds=RECOVERY_SECONDS):
        """Frames flow both ways."""
        end = time.monotonic() + seconds
        while True:
            ways = self.traffic.window(0.2)
            if all(way["lost"] == 0 and way["sent"] > 0 for way in ways):
                return
            assert time.monotonic() < end, f"{when}: frames do not flow: {ways}"

    def balanced(self, switch):
        total = switch.stats()["total"]
        assert total["balanced"] is True, f"{switch.name}: {total}"
        return total

    def quiet(self):
        """A window without a drill: its two medians."""
        ways = self.traffic.window(QUIET_SECONDS)
        for way in ways:
            wrong = [name for name in ("lost", "doubled", "overtaken") if way[name]]
            assert not wrong and way["sent"] > 0, f"in a quiet window: {ways}"
        return max(way["p50_us"] for way in ways), max(way["p99_us"] for way in ways)

    def end(self):
        self.over = True
        self.churn.join(60)
        sent = self.traffic.end()
        self.a.end()
        self.b.end()
        left = network.run("ps", "-o", "pid,args", "--ppid", str(os.getpid()), "--no-headers").stdout
        left = [line for line in left.splitlines() if " ps " not in f"{line} "]
        assert not left, f"processes are left: {left}"
        assert network.interfaces() == self.interfaces, f"{network.interfaces()} were {self.interfaces}"
        with open("/proc/net/unix") as file:
            locks = [line for line in file if "wireyard" in line]
        assert not locks, f"sockets are left: {locks}"
        return sent


class Record:
    """What was seen: a line for each drill, and the verdict about drift."""

    def __init__(self):
        self.counts = collections.Counter()
        self.medians, self.tails, self.memory, self.descriptors, self.threads = [], [], [], [], []

    def add(self, drill, rig):
        self.counts[drill.__name__] += 1
        median, tail = rig.quiet()
        memory, descriptors, threads = rig.a.usage()
        for kept, value in ((self.medians, median), (self.tails, tail), (self.memory, memory)):
            kept.append(value)
        self.descriptors.append(descriptors)
        self.threads.append(threads)
        return f"median {median:.0f} us, 99 % {tail:.0f} us, memory {memory >> 10} MiB, {descriptors} descriptors"

    def check(self):
        """No drift between the thirds of the run."""
        if len(self.memory) < 6 * len(drills.ALL):
            return "too short for a word about drift"
        third = len(self.memory) // 3
        first, second, last = (slice(n * third, (n + 1) * third) for n in range(3))
        grown = max(self.memory[last]) - max(self.memory[second])
        assert grown <= MEMORY_KIB_MAX, f"memory grew by {grown} KiB: {self.memory}"
        more = max(self.descriptors[last]) - max(self.descriptors[second])
        assert more <= DESCRIPTORS_MAX, f"{more} descriptors more: {self.descriptors}"
        assert max(self.threads[last]) <= max(self.threads[second]), f"threads: {self.threads}"
        before, after = statistics.median(self.medians[first]), statistics.median(self.medians[last])
        assert after <= LATENCY_FACTOR_MAX * before + LATENCY_NOISE_US, f"latency drifts: {before} to {after} us"
        memory = ", ".join(f"{max(self.memory[part]) >> 10} MiB" for part in (first, second, last))
        return (
            f"by thirds of the run: most memory of a {memory}; most descriptors {max(self.descriptors[second])}, "
            f"{max(self.descriptors[last])} in the last; median latency {before:.0f} us in the first, {after:.0f} us in the last"
        )


def soak(arguments):
    folder = tempfile.mkdtemp(prefix="wireyard-soak.")
    rig, record, generator = None, Record(), random.Random(arguments.seed)
    try:
        rig = Rig(arguments.binary, folder)
        rig.flows("at the beginning", 30)
        begin = time.monotonic()
        chosen = [drill for drill in drills.ALL if not arguments.only or drill.__name__ in arguments.only]
        while time.monotonic() < begin + arguments.seconds:
            for drill in generator.sample(chosen, len(chosen)):
                started = time.monotonic()
                drill(rig, generator)
                rig.flows(f"behind {drill.__name__}")
                assert rig.failure is None, f"writing tables: {rig.failure}"
                took = time.monotonic() - started
                seen = record.add(drill, rig)
                for switch in (rig.a, rig.b):
                    rig.balanced(switch)
                print(f"{started - begin:7.1f} s  {drill.__name__:18} {took:5.1f} s  {seen}", flush=True)
                if time.monotonic() >= begin + arguments.seconds:
                    break
        verdict = record.check()
        total = rig.balanced(rig.a)
        sent = rig.end()
        print(f"drills: {', '.join(f'{name} {count}' for name, count in sorted(record.counts.items()))}")
        print(f"frames sent each way {sent}, received by a {total['received']}; {rig.written} writes acknowledged; starts of b {rig.b.starts}, {rig.starts_after_full_disk} of them because the disk had been full")
        print(verdict)
        print(f"{sum(record.counts.values())} passed, 0 failed")
    except BaseException:
        for switch in (rig.a, rig.b) if rig else ():
            print(f"--- {switch.name} said last:\n{switch.said()[-1500:]}", file=sys.stderr)
        print(f"the seed is {arguments.seed}", file=sys.stderr)
        raise
    finally:
        for switch in (rig.a, rig.b) if rig else ():
            if switch.process and switch.process.poll() is None:
                switch.process.kill()
        if rig:
            for switch in (rig.a, rig.b):
                for path in (switch.state, switch.captures):
                    network.run("umount", "-l", path, check=False)
        shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--binary", default=os.path.join(ROOT, "target/release/wireyard"))
    parser.add_argument("--only", nargs="+", metavar="DRILL", help="these drills only")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("soak: needs root, for namespaces and interfaces")
    if not arguments.inside:
        # Nothing that it makes is seen outside, and all of it ends with it.
        os.chdir(ROOT)
        words = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable]
        sys.exit(subprocess.run(words + sys.argv + ["--inside"]).returncode)
    soak(arguments)


if __name__ == "__main__":
    main()
