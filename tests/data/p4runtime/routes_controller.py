"""Pushes a program with the table `ipv4_lpm` of P4's tutorials with p4runtime-shell and writes the routes of two hosts.

Usage: routes_controller.py ADDRESS P4INFO BLOB.
"""

import sys

import p4runtime_sh.shell as sh

ADDRESS, P4INFO, BLOB = sys.argv[1:]

sh.setup(device_id=1, grpc_addr=ADDRESS, election_id=(0, 1), config=sh.FwdPipeConfig(P4INFO, BLOB))
try:
    for number in ("1", "2"):
        entry = sh.TableEntry("MyIngress.ipv4_lpm")(action="MyIngress.ipv4_forward")
        entry.match["hdr.ipv4.dstAddr"] = f"10.0.0.{number}/32"
        entry.action["dstAddr"] = f"00:00:00:00:00:0{number}"
        entry.action["port"] = number
        entry.insert()
finally:
    sh.teardown()
