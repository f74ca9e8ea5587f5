"""A session of finsy with a running switch: every kind of entity, packets, digests, a second pipeline.

Usage: finsy_session.py ADDRESS P4INFO BLOB. Ends with status 0 and the word `done` when all is as expected.
"""

import asyncio
import sys
from pathlib import Path

import finsy as fy
from finsy.p4entity import P4ValueSetMember

ADDRESS, P4INFO, BLOB = sys.argv[1:]


async def read(switch, entity):
    return [one async for one in switch.read(entity)]


async def session(switch):
    assert switch.is_primary
    assert switch.p4info.pkg_info.arch == "wireyard"

    def entry():
        match = fy.P4TableMatch({"ethernet.dst": 0x0200_0000_000A})
        return fy.P4TableEntry("fdb", match=match, action=fy.P4TableAction("forward", port=2))

    await switch.write([+entry()])
    [found] = await read(switch, fy.P4TableEntry("fdb"))
    assert found.match["dst"] == 0x0200_0000_000A, found
    assert found.action == fy.P4TableAction("forward", port=2), found
    await switch.write([~fy.P4TableEntry("fdb", match=entry().match, action=fy.P4TableAction("drop"))])
    [found] = await read(switch, fy.P4TableEntry("fdb"))
    assert found.action == fy.P4TableAction("drop"), found
    try:
        await switch.write([+entry()])
    except fy.P4ClientError as error:
        assert error.details[0].canonical_code == fy.GRPCStatusCode.ALREADY_EXISTS, error
    else:
        raise AssertionError("an entry was inserted twice")

    await switch.write([
        +fy.P4TableEntry(
            "acl",
            match=fy.P4TableMatch({"ethernet.src": (0x020000000000, 0xFF0000000000), "ethernet.ether_type": (0x800, 0x8FF)}),
            action=fy.P4TableAction("nop"),
            priority=7,
        ),
        fy.P4CounterEntry("ports", index=3, data=fy.P4CounterData(byte_count=7, packet_count=9)),
        fy.P4RegisterEntry("seen", index=4, data=77),
        fy.P4ValueSetEntry("known_types", members=[P4ValueSetMember(0x0806)]),
        fy.P4MeterEntry("police", index=1, config=fy.P4MeterConfig(cir=1000, cburst=2000, pir=3000, pburst=4000)),
        +fy.P4MulticastGroupEntry(5, replicas=[1, 2]),
        +fy.P4CloneSessionEntry(6, replicas=[2], packet_length_bytes=128),
        +fy.P4ActionProfileMember("ways.profile", member_id=1, action=fy.P4TableAction("forward", port=1)),
        +fy.P4ActionProfileGroup("ways.profile", group_id=1, members=[fy.P4Member(1, weight=3)]),
        +fy.P4TableEntry("ways", match=fy.P4TableMatch({"std.ingress_port": 9}), action=fy.P4IndirectAction(group_id=1)),
        +fy.P4DigestEntry("learn", max_list_size=2, max_timeout_ns=1000, ack_timeout_ns=2000),
    ])
    [counter] = await read(switch, fy.P4CounterEntry("ports", index=3))
    assert (counter.data.byte_count, counter.data.packet_count) == (7, 9), counter
    assert len(await read(switch, fy.P4CounterEntry("ports"))) == 8
    [register] = await read(switch, fy.P4RegisterEntry("seen", index=4))
    assert register.data == 77, register
    [meter] = await read(switch, fy.P4MeterEntry("police", index=1))
    assert meter.config.pburst == 4000, meter
    assert [one.multicast_group_id for one in await read(switch, fy.P4MulticastGroupEntry())] == [5]
    assert [one.session_id for one in await read(switch, fy.P4CloneSessionEntry())] == [6]
    assert len(await read(switch, fy.P4ActionProfileMember())) == 1
    assert len(await read(switch, fy.P4ActionProfileGroup())) == 1
    assert len(await read(switch, fy.P4DigestEntry())) == 1
    assert len(await read(switch, fy.P4ValueSetEntry("known_types", members=[]))) == 1
    assert len(await read(switch, fy.P4TableEntry("acl"))) == 1

    await switch.delete_all()
    left = await read(switch, fy.P4TableEntry())
    assert [one.table_id for one in left] == ["fixed"], left
    # Where a program has a constant table, `delete_all` leaves what is in no table.
    await switch.delete([
        fy.P4MulticastGroupEntry(5),
        fy.P4CloneSessionEntry(6),
        fy.P4ActionProfileGroup("ways.profile", group_id=1),
        fy.P4ActionProfileMember("ways.profile", member_id=1),
    ])
    assert await read(switch, fy.P4MulticastGroupEntry()) == []
    assert await read(switch, fy.P4CloneSessionEntry()) == []
    assert await read(switch, fy.P4ActionProfileGroup()) == []
    assert await read(switch, fy.P4ActionProfileMember()) == []


async def main():
    options = fy.SwitchOptions(p4info=Path(P4INFO), p4blob=Path(BLOB))
    async with fy.Switch("sw1", ADDRESS, options) as switch:
        await session(switch)
    print("done")


asyncio.run(main())
