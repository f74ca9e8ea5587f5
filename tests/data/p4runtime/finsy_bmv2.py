"""A session of finsy with JSON of bmv2 (tests/data/bmv2/state.json), by the names of its source.

Usage: finsy_bmv2.py ADDRESS P4INFO JSON. Ends with status 0 and the word `done` when all is as expected.
"""

import asyncio
import sys
from pathlib import Path

import finsy as fy

ADDRESS, P4INFO, JSON = sys.argv[1:]


async def read(switch, entity):
    return [one async for one in switch.read(entity)]


async def session(switch):
    assert switch.is_primary
    assert switch.p4info.pkg_info.arch == "v1model"
    match = fy.P4TableMatch({"hdr.mark.kind": 1})
    counted = fy.P4TableAction("counted", port=2)
    await switch.write([
        +fy.P4TableEntry("kinds", match=match, action=counted),
        +fy.P4TableEntry("own", match=fy.P4TableMatch({"hdr.mark.value": 9}), action=fy.P4TableAction("colored")),
        fy.P4RegisterEntry("latest", index=4, data=77),
        fy.P4MeterEntry("rates", index=1, config=fy.P4MeterConfig(cir=1000, cburst=2000, pir=3000, pburst=4000)),
        +fy.P4CloneSessionEntry(5, replicas=[2]),
        +fy.P4DigestEntry("learned_t", max_list_size=2, max_timeout_ns=1000, ack_timeout_ns=2000),
    ])
    [found] = await read(switch, fy.P4TableEntry("kinds"))
    assert found.action == counted and found.match["kind"] == 1, found
    [register] = await read(switch, fy.P4RegisterEntry("latest", index=4))
    assert register.data == 77, register
    [meter] = await read(switch, fy.P4MeterEntry("rates", index=1))
    assert meter.config.pburst == 4000, meter
    assert len(await read(switch, fy.P4DigestEntry())) == 1
    await switch.delete_all()
    assert await read(switch, fy.P4TableEntry()) == []


async def main():
    options = fy.SwitchOptions(p4info=Path(P4INFO), p4blob=Path(JSON))
    async with fy.Switch("sw1", ADDRESS, options) as switch:
        await session(switch)
    print("done")


asyncio.run(main())
