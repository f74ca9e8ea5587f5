"""Pushes a P4 program with p4runtime-shell and writes the entries of two hosts.

Usage: ping_controller.py ADDRESS P4INFO BLOB.
"""

import sys

import p4runtime_sh.shell as sh

ADDRESS, P4INFO, BLOB = sys.argv[1:]

sh.setup(device_id=1, grpc_addr=ADDRESS, election_id=(0, 1), config=sh.FwdPipeConfig(P4INFO, BLOB))
try:
    for number in ("1", "2"):
        entry = sh.TableEntry("fwd")(action="counted")
        entry.match["dst"] = f"00:00:00:00:00:0{number}"
        entry.action["port"] = number
        entry.insert()
finally:
    sh.teardown()
