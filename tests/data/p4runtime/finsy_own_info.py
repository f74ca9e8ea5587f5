"""finsy with a P4Info of another compiler, which has other names and the same ids, and without a program to push; roles, two switches
of one controller, and the ports by gNMI.

Usage: finsy_own_info.py ADDRESS P4INFO BLOB. Ends with status 0 and the word `done` when all is as expected.
"""

import asyncio
import re
import sys
from pathlib import Path

import finsy as fy
from finsy.gnmiclient import GNMIClient, GNMIClientError, GNMIPath
from finsy.proto import stratum

ADDRESS, P4INFO, _ = sys.argv[1:]
OPER_STATUS = GNMIPath("interfaces/interface/state/oper-status")


def other_names():
    """The P4Info with names as another compiler gives them."""
    path = Path(P4INFO).with_name("other.p4info.txt")
    text = Path(P4INFO).read_text()
    for name in ["ipv4_lpm", "ipv4_forward"]:
        text = re.sub(rf'(?<= )name: "{name}"', f'name: "MyIngress.{name}"', text)
    text = text.replace('name: "ipv4.dstAddr"', 'name: "hdr.ipv4.dstAddr"')
    assert "MyIngress.ipv4_lpm" in text and "hdr.ipv4" in text, text
    path.write_text(text)
    return path


def entry(address, prefix=32):
    return fy.P4TableEntry(
        "ipv4_lpm",
        match=fy.P4TableMatch(dstAddr=(address, prefix)),
        action=fy.P4TableAction("ipv4_forward", dstAddr=0x020000000001, port=1),
    )


async def writes(info):
    async with fy.Switch("sw1", ADDRESS, fy.SwitchOptions(p4info=info)) as switch:
        assert (switch.device_id, switch.election_id, switch.primary_id) == (1, 10, 10)
        assert switch.is_primary and switch.is_up
        assert switch.p4info.tables["ipv4_lpm"].id == 0x023A4CB4
        await switch.insert([entry(0x0A000000, 24)])
        await switch.write([+entry(0x100000 + 1024 * i) for i in range(1, 2001)])
        found = [one async for one in switch.read(fy.P4TableEntry("ipv4_lpm"))]
        assert len(found) == 2001, len(found)
        assert found[0].match["dstAddr"] == (0x0A000000, 24), found[0]
        ports = {port.name: (port.id, port.up) for port in switch.ports}
        assert ports == {"a1": (1, True), "b1": (2, True)}, ports


async def roles(info):
    config = stratum.P4RoleConfig(receives_packet_ins=True)
    options = fy.SwitchOptions(p4info=info, role_name="role1", role_config=config)
    async with fy.Switch("sw1", ADDRESS, options) as switch:
        assert switch.is_primary


async def controller():
    async with fy.Controller([]) as one:
        for name in ["sw0", "sw1"]:
            one.add(fy.Switch(name, ADDRESS))
            await asyncio.sleep(0.3)
        assert one["sw0"].is_primary and not one["sw1"].is_primary, "the second takes another election id"
        for name in ["sw0", "sw1"]:
            one.remove(one[name])


async def gnmi():
    async with GNMIClient(ADDRESS) as client:
        answer = await client.capabilities()
        assert answer.gNMI_version.startswith("0."), answer
        [top] = await client.get(GNMIPath("/"), config=True)
        assert top.path == GNMIPath("/") and b'"name":"a1"' in top.value, top
        all = await client.get(GNMIPath("interfaces/interface"))
        assert {update.path["interface", "name"] for update in all} == {"a1", "b1"}
        some = await client.get(
            GNMIPath("interfaces/interface[name=*]/state/ifindex"),
            GNMIPath("interfaces/interface[name=b1]/state/id"),
        )
        assert [(one.path["name"], one.path.last, one.value) for one in some] == [
            ("a1", "ifindex", 1),
            ("b1", "ifindex", 2),
            ("b1", "id", 2),
        ], some
        try:
            await client.get(GNMIPath("interfaces/interface[name=none]/state/id"))
        except GNMIClientError as error:
            assert error.code == fy.GRPCStatusCode.NOT_FOUND, error
        else:
            raise AssertionError("an interface that is not there was read")
        once = client.subscribe()
        once.once(*[OPER_STATUS.set("interface", name=name) for name in ["a1", "b1"]])
        assert [one.value async for one in once.synchronize()] == ["UP", "UP"]


async def samples():
    async with GNMIClient(ADDRESS) as client:
        sub = client.subscribe()
        sub.sample(GNMIPath("interfaces/interface[name=a1]/state/counters/in-octets"), sample_interval=100)
        async for _ in sub.synchronize():
            pass
        found = []
        async for update in sub.updates():
            assert update.path.last == "in-octets", update
            found.append(update.value)
            if len(found) == 3:
                break
        assert found == sorted(found), found


async def changes():
    async with GNMIClient(ADDRESS) as client:
        sub = client.subscribe()
        sub.on_change(*[OPER_STATUS.set("interface", name=name) for name in ["a1", "b1"]])
        assert [one.value async for one in sub.synchronize()] == ["UP", "UP"]
        for state, expected in [("down", "LOWER_LAYER_DOWN"), ("up", "UP")]:
            done = await asyncio.create_subprocess_exec("ip", "link", "set", "b0", state)
            assert await done.wait() == 0
            update = await asyncio.wait_for(anext(sub.updates()), 10)
            assert (update.path["name"], update.value) == ("b1", expected), update


async def main():
    info = other_names()
    await writes(info)
    await roles(info)
    await controller()
    await gnmi()
    await samples()
    await changes()
    print("done")


asyncio.run(main())
