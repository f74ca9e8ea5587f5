"""Pushes programs with p4runtime-shell and writes the entries of their packet tests (`add`, `setdefault`) by P4Runtime.

Usage: entries_controller.py ADDRESS FOLDER. For each line NAME of standard input it pushes FOLDER/NAME.bin with the P4Info FOLDER/NAME.txt, writes what
NAME.stf beside this file says, and prints `wrote NAME`.
"""

import os
import re
import sys

import p4runtime_sh.shell as sh

ADDRESS, FOLDER = sys.argv[1:]
HERE = os.path.dirname(os.path.abspath(__file__))


def act(entry, text):
    name, arguments = re.fullmatch(r"(\S+)\((.*)\)", text).groups()
    entry = entry(action=name)
    for argument in filter(None, arguments.split(",")):
        parameter, value = argument.split(":")
        entry.action[parameter] = value
    return entry


def write(name):
    for line in open(os.path.join(HERE, f"{name}.stf")):
        words = line.split()
        if words[:1] == ["add"]:
            entry = act(sh.TableEntry(words[1]), words[-1])
            for key in words[2:-1]:
                field, value = key.split(":")
                entry.match[field] = value
            entry.insert()
        elif words[:1] == ["setdefault"]:
            entry = act(sh.TableEntry(words[1]), words[2])
            entry.is_default = True
            entry.modify()


for election, name in enumerate(sys.stdin, 1):
    name = name.strip()
    files = [os.path.join(FOLDER, f"{name}.{kind}") for kind in ("txt", "bin")]
    sh.setup(device_id=1, grpc_addr=ADDRESS, election_id=(0, election), config=sh.FwdPipeConfig(*files))
    write(name)
    sh.teardown()
    print("\nwrote", name, flush=True)
