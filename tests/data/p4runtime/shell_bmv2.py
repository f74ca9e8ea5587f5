"""A session of p4runtime-shell with JSON of bmv2 (tests/data/bmv2/ways.json), by the names of its source.

Usage: shell_bmv2.py ADDRESS P4INFO JSON. Ends with status 0 and the word `done` when all is as expected.
"""

import sys

import p4runtime_sh.shell as sh

ADDRESS, P4INFO, JSON = sys.argv[1:]

sh.setup(device_id=1, grpc_addr=ADDRESS, election_id=(0, 1), config=sh.FwdPipeConfig(P4INFO, JSON))
try:
    group = sh.TableEntry("group")(action="set_way")
    group.match["hdr.ipv4.dstAddr"] = "10.0.0.0/8"
    group.action["base"] = "4"
    group.action["ways"] = "2"
    group.insert()
    way = sh.TableEntry("ingress.way")(action="ingress.to_port")
    way.match["meta.way"] = "4"
    way.action["port"] = "2"
    way.insert()
    found = list(sh.TableEntry("way").read())
    assert len(found) == 1 and found[0].action["port"].value == b"\x02", found

    member = sh.ActionProfileMember("hops")(member_id=1, action="to_port")
    member.action["port"] = "1"
    member.insert()
    hops = sh.ActionProfileGroup("hops")(group_id=1)
    hops.add(member_id=1, weight=2)
    hops.insert()
    balanced = sh.TableEntry("balanced")
    balanced.match["hdr.ethernet.dstAddr"] = "02:00:00:00:00:07"
    balanced.group_id = 1
    balanced.insert()
    assert [one.group_id for one in sh.TableEntry("balanced").read()] == [1]

    # A profile without a selector has members and no groups.
    marks = sh.ActionProfileMember("marks")(member_id=7, action="set_diffserv")
    marks.action["value"] = "0x1c"
    marks.insert()
    mark = sh.TableEntry("mark")
    mark.match["hdr.ipv4.diffserv"] = "4"
    mark.member_id = 7
    mark.insert()
    assert [one.member_id for one in sh.TableEntry("mark").read()] == [7]
    grouped = sh.ActionProfileGroup("marks")(group_id=1)
    grouped.add(member_id=7, weight=1)
    try:
        grouped.insert()
    except Exception as error:
        assert "members and no groups" in str(error), error
    else:
        raise AssertionError("a profile without a selector has a group")

    counter = sh.CounterEntry("seen")
    counter.index = 2
    counter.packet_count = 5
    counter.modify()
    assert [one.packet_count for one in counter.read()] == [5]
    print("done")
finally:
    sh.teardown()
