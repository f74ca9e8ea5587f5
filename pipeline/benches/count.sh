#!/usr/bin/env bash
# count.sh: instructions per packet of the bench programs and of the laboratory, by callgrind, against the limits below.
#
# Times need a quiet machine; instruction counts do not. The limits are what was counted when they were
# written and a few per cent: a change that needs more says why, here. Needs valgrind: without it the
# check is skipped, loudly, or fails when WIREYARD_SKIP=never.
#
# `--build` builds the benches and counts nothing. COUNT_BENCH=path and COUNT_LAB=path take bench binaries that are built already.
set -euo pipefail
cd "$(dirname "$0")/../.."

# acl_firewall has more values alive than registers, so that the seeds of its tables, which are read from memory, cost 20 instructions:
# loads, and what they push out of registers. It verifies the lengths of IP and UDP (11 instructions).
limits='
rocev2_router 235
acl_firewall 340
vxlan_gateway 705
'
# Eight senders to one host through one switch: all that a delivered packet costs, with its acknowledgements.
# 14,257 instructions are counted, and a change elsewhere moves 100 of them, when the compiler inlines other functions: each frame asks for what the next one of a large lab reads (100 of them); frames take the one way in of the traffic manager, ports move them in bursts, also where a burst is one
# frame; end points measure a round-trip time for every packet, keep a window for rate controls that want one, and ask whether they send
# selectively or spray (500 of them). The goal is 11,100.
lab_limit=14300

if [ "${1:-}" != --build ] && ! command -v valgrind > /dev/null; then
  echo "SKIPPED instruction counts: valgrind is not installed" >&2
  [ "${WIREYARD_SKIP:-}" != never ]
  exit
fi
# The profile of a plain build: link-time optimisation takes minutes for each binary and changes the counts by less than 1 %.
# Both at once: what the one waits for, the other uses.
built=''
if [ -z "${COUNT_BENCH:-}" ] || [ -z "${COUNT_LAB:-}" ]; then
  # Without what counts nothing and takes half of the time: servers, the store, Parquet.
  built=$(cargo bench --locked --profile release -p wireyard-pipeline -p wireyard-switch --no-default-features --features wireyard-switch/lab \
    --bench forward --bench lab --no-run 2>&1) ||
    { echo "$built" >&2; exit 1; }
fi
[ "${1:-}" != --build ] || exit 0
path() { sed -n "s/.*(\(.*$1-[0-9a-f]*\)).*/\1/p" <<< "$built"; }
bench=${COUNT_BENCH:-$(path forward)}
lab=${COUNT_LAB:-$(path lab)}
out=$(mktemp)
trap 'rm -f "$out"' EXIT
failed=0
count() { # program engine: instructions per packet
  WIREYARD_COUNT=$1:$2 callgrind "$bench" |
    awk '/Collected/ && $NF > most { most = $NF } END { printf "%d", most / 8192 }'
}
callgrind() { # binary
  valgrind --tool=callgrind --callgrind-out-file="$out" --collect-atstart=no \
    --toggle-collect='*counted_runs*' "$1" --bench none 2>&1
}
while read -r program limit; do
  [ -n "$program" ] || continue
  jit=$(count "$program" jit)
  hand=$(count "$program" hand)
  idle=$(count "$program" filtered)
  echo "COUNT $program: $jit instructions a packet (limit $limit), hand-written $hand," \
    "with a trace filter that picks nothing $idle"
  if [ "$jit" -eq 0 ] || [ "$jit" -gt "$limit" ]; then failed=1; fi
  # What the project promises: less than 2 %.
  if [ "$idle" -eq 0 ] || [ $((idle * 100)) -ge $((jit * 102)) ]; then failed=1; fi
done <<< "$limits"
each=$(WIREYARD_COUNT=8 callgrind "$lab" |
  awk '$1 == "packets" { packets = $2 } /Collected/ && $NF > all { all = $NF } END { printf "%d", packets ? all / packets : 0 }')
echo "COUNT lab: $each instructions a delivered packet (limit $lab_limit)"
if [ "$each" -eq 0 ] || [ "$each" -gt "$lab_limit" ]; then failed=1; fi
[ $failed = 0 ] || { echo "instruction counts: over the limit" >&2; exit 1; }
