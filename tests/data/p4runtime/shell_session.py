"""A session of p4runtime-shell with a running switch.

Usage: shell_session.py ADDRESS P4INFO BLOB. Ends with status 0 and the word `done` when all is as expected.
"""

import sys

import p4runtime_sh.shell as sh
from p4runtime_sh.p4runtime import P4RuntimeWriteException

ADDRESS, P4INFO, BLOB = sys.argv[1:]

sh.setup(device_id=1, grpc_addr=ADDRESS, election_id=(0, 1), config=sh.FwdPipeConfig(P4INFO, BLOB))
try:
    entry = sh.TableEntry("fdb")(action="forward")
    entry.match["ethernet.dst"] = "02:00:00:00:00:0a"
    entry.action["port"] = "2"
    entry.insert()
    found = list(sh.TableEntry("fdb").read())
    assert len(found) == 1 and found[0].action["port"].value == b"\x02", found
    try:
        entry.insert()
    except P4RuntimeWriteException as error:
        assert "ALREADY_EXISTS" in str(error), error
    else:
        raise AssertionError("an entry was inserted twice")

    acl = sh.TableEntry("acl")(action="nop")
    acl.match["ethernet.src"] = "02:00:00:00:00:00&&&ff:00:00:00:00:00"
    acl.priority = 3
    acl.insert()

    member = sh.ActionProfileMember("ways.profile")(member_id=1, action="forward")
    member.action["port"] = "1"
    member.insert()
    group = sh.ActionProfileGroup("ways.profile")(group_id=1)
    group.add(member_id=1, weight=2)
    group.insert()
    way = sh.TableEntry("ways")
    way.match["std.ingress_port"] = "3"
    way.group_id = 1
    way.insert()
    assert len(list(sh.TableEntry("ways").read())) == 1

    counter = sh.CounterEntry("ports")
    counter.index = 2
    counter.packet_count = 5
    counter.modify()
    assert [one.packet_count for one in counter.read()] == [5]

    multicast = sh.MulticastGroupEntry(4)
    multicast.add(egress_port=1, instance=1).add(egress_port=2, instance=1)
    multicast.insert()
    clone = sh.CloneSessionEntry(3)
    clone.add(egress_port=2, instance=1)
    clone.insert()
    multicast.delete()
    clone.delete()

    entry.delete()
    assert list(sh.TableEntry("fdb").read()) == []
    print("done")
finally:
    sh.teardown()
