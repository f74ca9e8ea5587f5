"""A session of p4runtime-shell with a running switch: every entity that it knows, packets in and out, digests, idle entries.

Usage: shell_session.py ADDRESS P4INFO BLOB. Ends with status 0 and the word `done` when all is as expected.
"""

import socket
import sys

import p4runtime_sh.shell as sh
from p4runtime_sh.p4runtime import P4RuntimeWriteException

ADDRESS, P4INFO, BLOB = sys.argv[1:]


def send(frame):
    """Sends a frame into port 1 of the switch."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as wire:
        wire.bind(("a0", 0))
        wire.send(frame)


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

    meter = sh.MeterEntry("police")
    meter.index = 1
    meter.cir, meter.cburst, meter.pir, meter.pburst = 1000, 2000, 3000, 4000
    meter.modify()
    assert [(one.cir, one.pburst) for one in meter.read()] == [(1000, 4000)]
    direct = sh.DirectCounterEntry("fdb.counter")
    direct.table_entry.match["ethernet.dst"] = "02:00:00:00:00:0a"
    direct.packet_count = 6
    direct.modify()
    assert [one.packet_count for one in direct.read()] == [6]
    rates = sh.DirectMeterEntry("fdb.meter")
    rates.table_entry.match["ethernet.dst"] = "02:00:00:00:00:0a"
    rates.cir, rates.cburst, rates.pir, rates.pburst = 1000000, 2000, 3000000, 4000
    rates.modify()
    assert [(one.cir, one.pir) for one in rates.read()] == [(1000000, 3000000)]

    shot = sh.TableEntry("shots")
    shot.match["std.ingress_port"] = "2"
    for port, weight in [("1", 1), ("2", 3)]:
        action = sh.Action("forward")
        action["port"] = port
        shot.oneshot.add(action, weight=weight)
    shot.insert()
    [found] = sh.TableEntry("shots").read()
    assert [one.weight for one in found.oneshot.actions] == [1, 3], found

    digest = sh.DigestEntry("learn")
    digest.max_list_size, digest.max_timeout_ns, digest.ack_timeout_ns = 1, 0, 10**9
    digest.insert()
    learner = sh.TableEntry("acl")(action="learn_it")
    learner.match["ethernet.src"] = "06:00:00:00:00:0c"
    learner.priority = 2
    learner.insert()
    send(bytes.fromhex("02000000000a" "06000000000c" "1234") + bytes(50))
    [learned] = sh.DigestList().sniff(timeout=3)
    [data] = learned.digest.data
    assert data.struct.members[0].bitstring == bytes.fromhex("06000000000c"), learned

    punt = sh.TableEntry("fdb")(action="to_controller")
    punt.match["ethernet.dst"] = "02:00:00:00:00:0b"
    punt.insert()
    frame = bytes.fromhex("02000000000b" "02000000000c" "1234") + bytes(50)
    send(frame)
    packets = sh.PacketIn()
    [punted] = packets.sniff(timeout=3)
    assert punted.packet.payload == frame, punted
    assert [one.value for one in punted.packet.metadata] == [b"\x01", b"\x03"], punted
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as wire:
        wire.bind(("b0", 0))
        wire.settimeout(10)
        sh.PacketOut(frame, egress_port="2", pad="0").send()
        while wire.recv(2048) != frame:
            pass

    idle = sh.TableEntry("short_lived")(action="nop")
    idle.match["ethernet.ether_type"] = "0x1234"
    idle.idle_timeout_ns = 50 * 10**6
    idle.insert()
    notices = list(sh.IdleTimeoutNotification().sniff(timeout=3))
    [of_entry] = notices[0].idle_timeout_notification.table_entry
    assert of_entry.match[0].exact.value == b"\x12\x34", notices

    multicast = sh.MulticastGroupEntry(4)
    multicast.add(egress_port=1, instance=1).add(egress_port=2, instance=1)
    multicast.insert()
    clone = sh.CloneSessionEntry(3)
    clone.add(egress_port=2, instance=1)
    clone.insert()
    # This shell reads the field that it writes, the number.
    found = []
    sh.MulticastGroupEntry(4).read(found.append)
    sh.CloneSessionEntry(3).read(found.append)
    assert [[one.egress_port for one in group.replicas] for group in found] == [[1, 2], [2]], found
    multicast.delete()
    clone.delete()

    entry.delete()
    punt.delete()
    assert list(sh.TableEntry("fdb").read()) == []
    print("done")
finally:
    sh.teardown()
