"""A session of p4runtime-shell with a running P4 program, by the names of its source.

Usage: shell_p4_session.py ADDRESS P4INFO BLOB. Ends with status 0 and the word `done` when all is as expected.
"""

import sys

import p4runtime_sh.shell as sh

ADDRESS, P4INFO, BLOB = sys.argv[1:]

sh.setup(device_id=1, grpc_addr=ADDRESS, election_id=(0, 1), config=sh.FwdPipeConfig(P4INFO, BLOB))
try:
    # Aliases are the ends of names.
    entry = sh.TableEntry("fwd")(action="counted")
    entry.match["dst"] = "02:00:00:00:00:0a"
    entry.action["port"] = "2"
    entry.insert()
    found = list(sh.TableEntry("Steered.fwd").read())
    assert len(found) == 1 and found[0].action["port"].value == b"\x02", found

    acl = sh.TableEntry("acl")(action="rate")
    acl.match["hdr.ethernet.src"] = "02:00:00:00:00:00&&&ff:00:00:00:00:00"
    acl.match["hdr.ethernet.kind"] = "0x0800..0x08ff"
    acl.match["hdr.ethernet.dst"] = "02:00:00:00:00:0a"
    acl.action["value"] = "7"
    acl.priority = 3
    acl.insert()
    route = sh.TableEntry("routes")(action="forward")
    route.match["hdr.ethernet.dst"] = "02:00:00:00:00:00/40"
    route.action["port"] = "1"
    route.insert()
    # The same action with another argument in another table.
    other = sh.TableEntry("routes")(action="rate")
    other.match["hdr.ethernet.dst"] = "03:00:00:00:00:00/40"
    other.action["value"] = "9"
    other.insert()
    assert len(list(sh.TableEntry("acl").read())) == 1
    assert {one.action.action_name for one in sh.TableEntry("routes").read()} == {
        "Steered.forward",
        "Steered.rate",
    }

    member = sh.ActionProfileMember("ways_profile")(member_id=1, action="forward")
    member.action["port"] = "1"
    member.insert()
    group = sh.ActionProfileGroup("ways_profile")(group_id=1)
    group.add(member_id=1, weight=2)
    group.insert()

    counter = sh.CounterEntry("seen")
    counter.index = 2
    counter.packet_count = 5
    counter.modify()
    assert [one.packet_count for one in counter.read()] == [5]

    packet = sh.PacketOut(b"\x02" * 60, egress_port="2", pad="0")
    packet.send()
    print("done")
finally:
    sh.teardown()
