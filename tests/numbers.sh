#!/usr/bin/env bash
# numbers.sh [PART...]: the figures of this project, measured on this machine: a page on standard output, each with its command.
#
# Parts: size forward compile prefetch interpreter ports sparse lab count tests. Without one, all of them: an hour and more, on a machine that
# does nothing else. Rivals run in the same run, in turns; their ratio stands beside each figure. What a part cannot do here is said in its place.
set -uo pipefail
cd "$(dirname "$0")/.."
all='size forward compile prefetch interpreter ports sparse lab count tests'
parts=${*:-$all}

section() { printf '\n## %s\n\n`%s`\n\n```text\n' "$1" "$2"; }

# The command, and the lines of its output that are figures.
figures() { # title, pattern, command...
  local title=$1 pattern=$2 out
  shift 2
  section "$title" "$*"
  if out=$("$@" 2>&1); then
    grep -E "$pattern" <<< "$out" | sed 's/^ *//' || echo "no line of the output is a figure: the benchmark has changed"
  else
    echo "failed: $(tail -n 3 <<< "$out" | tr '\n' ' ')"
  fi
  echo '```'
}

bench() { figures "$1" "$2" cargo bench --locked -p "wireyard-$3" --bench "$4" -- "${@:5}"; }

part() {
  case $1 in
    size)
      figures "The binary with link-time optimisation, in bytes" '^[0-9]+$' bash -c 'cargo build --quiet --locked --profile dist -p wireyard-switch && stat -c %s target/dist/wireyard' ;;
    forward) bench "Compiled programs against functions written by hand" '^RATIO' pipeline forward ;;
    compile) bench "From a checked program to its first packet" '^COMPILE' pipeline compile ;;
    prefetch) bench "Tables that outgrow the caches" '^PREFETCH' pipeline prefetch ;;
    interpreter) bench "The interpreter" 'time:|thrpt:|^[a-z_]+/' pipeline pipeline --warm-up-time 1 --measurement-time 3 ;;
    ports) bench "Between veth pairs, against a bare forwarder" 'bytes|^ *[0-9]+ |forwarder|kpps' switch ports ;;
    sparse) bench "A frame that comes alone, against a Linux bridge" 'forwarder|[0-9]+ +[0-9.]+' switch sparse ;;
    lab) bench "The laboratory" 'time:|thrpt:|^[a-z_]+/' switch lab --warm-up-time 1 --measurement-time 5 ;;
    count) figures "Instructions a packet" '^COUNT' pipeline/benches/count.sh ;;
    tests) figures "Tests" '^test result|SKIPPED' cargo test --workspace --locked ;;
  esac
}

for name in $parts; do
  case " $all " in
    *" $name "*) ;;
    *) echo "numbers.sh: there is no part $name" >&2; exit 2 ;;
  esac
done
cat << PAGE
# Numbers

Made by \`./ci.sh numbers\`; what they mean is in programs/performance.md.

| | |
| --- | --- |
| processor | $(sed -n 's/^model name\s*: //p' /proc/cpuinfo | head -1), $(nproc) cores |
| system | $(uname -sr), $(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release) |
| build | $(git rev-parse --short=12 HEAD 2> /dev/null || echo 'no checkout'), $(rustc --version) |
| load at the beginning | $(cut -d' ' -f1-3 /proc/loadavg) |
PAGE
for name in $parts; do part "$name"; done
