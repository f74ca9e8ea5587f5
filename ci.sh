#!/usr/bin/env bash
# ci.sh: what CI runs (all), its parts, and what is too long for it, one word each.
#
#   ./ci.sh lint     formatting, clippy with warnings as errors, docs
#   ./ci.sh test     the README's test command; needs only Rust, skips loudly what needs more
#   ./ci.sh tools    install what the tests with root and tools need (Debian)
#   ./ci.sh root     every test, none may skip: needs root and the tools
#   ./ci.sh bench    all benches in a short form; where there is a rival, the ratio to it in the same run
#   ./ci.sh guided   target/guided/dist/wireyard, built with a profile of itself, and the laboratory's bench built alike
#   ./ci.sh package  target/package/wireyard_*.deb: binary, manual, unit (installs cargo-deb: some minutes)
#   ./ci.sh count    instructions per packet of the compiled programs and of the laboratory, against their limits (valgrind)
#   ./ci.sh miri     unit tests of tables under Miri (needs a nightly toolchain with it: rustup toolchain install nightly --component miri)
#   ./ci.sh deny     licences, advisories and sources of all dependencies (installs cargo-deny: some minutes; needs the advisory database)
#   ./ci.sh all      lint, tools, root (the test command once, with nothing skipped), count
set -euo pipefail
cd "$(dirname "$0")"
# One seed for all property tests: a run that fails can be run again. Fuzzing by hand sets another.
export PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-1}

lint() {
  cargo fmt --all --check
  cargo clippy --workspace --all-targets --locked -- -D warnings
  RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --locked --quiet
}

test_() { cargo test --workspace --locked; }

tools() {
  export DEBIAN_FRONTEND=noninteractive
  local packages=(iproute2 openssl iputils-ping traceroute frr ethtool mininet tcpdump tshark python3-scapy python3-venv qemu-system-x86 chromium util-linux procps debian-archive-keyring valgrind)
  if ! dpkg -s "${packages[@]}" > /dev/null 2>&1; then
    apt-get update -qq
    # Nothing that is installed is started.
    RUNLEVEL=1 apt-get install -y -qq --no-install-recommends "${packages[@]}" > /dev/null
  fi
  # P4Runtime controllers, each in an environment of its own: they want different versions of protobuf.
  controller finsy finsy==0.30.0
  controller shell p4runtime-shell==0.0.6
}

controller() {
  local folder=target/tools/$1
  "$folder/bin/python" -c '' 2> /dev/null && [ -e "$folder/installed" ] && return
  python3 -m venv --clear "$folder"
  "$folder/bin/pip" install --quiet --disable-pip-version-check "$2"
  touch "$folder/installed"
}

root() {
  # The README's test command, where nothing is missing and so nothing may skip. CI: tests that have a
  # long form take it (a million packets through a lossless pair).
  export WIREYARD_SKIP=never CI=1
  # Tests that need the processors for themselves: a switch that is not run for milliseconds overruns the rings of its ports, and the
  # daemons of two routers and two emulated machines want to be heard within their timers.
  local alone=(nothing_is_lost_at_fifty_thousand a_lossless_class_between_live_switches frr_speaks_ospf_and_bgp
    two_soft_roce_hosts_talk_through_it)
  cargo test --workspace --locked -- "${alone[@]/#/--skip=}"
  cargo test -p wireyard-tests --locked -- --test-threads 1 "${alone[@]}"
}

bench() { cargo bench --workspace --locked -- --warm-up-time 0.5 --measurement-time 1 --sample-size 10; }

# The optimiser gets how often each part runs (rustc book, profile-guided optimization). Two builds: one that counts, one that uses the counts.
guided() {
  local work=$PWD/target/guided llvm profdata
  llvm=$(rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
  profdata=$(find "$(rustc --print sysroot)" -name llvm-profdata -type f | head -1)
  profdata=${profdata:-$(command -v "llvm-profdata-$llvm" || true)}
  if [ -z "$profdata" ]; then
    echo "ci.sh: no llvm-profdata of LLVM $llvm: rustup component add llvm-tools, or apt-get install llvm-$llvm" >&2
    exit 2
  fi
  rm -rf "$work/counts"
  learn() { RUSTFLAGS="-Cprofile-generate=$work/counts" CARGO_TARGET_DIR=$work/learn "$@"; }
  learn cargo bench -p wireyard-switch --bench lab --locked -- --profile-time 1
  for scenario in incast incast_16_100g dumbbell ib_fecn rocev1_pcp; do
    learn cargo run --release -p wireyard-switch --locked -- lab "programs/lab/$scenario.yaml" > /dev/null
  done
  "$profdata" merge -o "$work/profile" "$work/counts"
  export RUSTFLAGS="-Cprofile-use=$work/profile" CARGO_TARGET_DIR=$work
  cargo build --profile dist -p wireyard-switch --locked
  cargo bench -p wireyard-switch --bench lab --locked
}

package() {
  command -v cargo-deb > /dev/null || cargo install --quiet --locked cargo-deb
  cargo build --profile dist -p wireyard-switch --locked
  target/dist/wireyard man -o target/package/man
  cargo deb -p wireyard-switch --no-build --no-strip --profile dist --output target/package/
}

count() { pipeline/benches/count.sh; }

# Not in `all`: it needs another toolchain. Threads of readers and writers run as they are, on an interpreter that sees data races.
miri() {
  MIRIFLAGS=-Zmiri-disable-isolation PROPTEST_CASES=${PROPTEST_CASES:-3} PROPTEST_DISABLE_FAILURE_PERSISTENCE=1 \
    cargo +nightly miri test -p wireyard-tables --lib --locked
}

# Not in `all`: building the tool takes longer than the other lints together.
deny() {
  command -v cargo-deny > /dev/null || cargo install --quiet --locked cargo-deny
  cargo deny --workspace check
}

case ${1:-} in
  lint) lint ;;
  test) test_ ;;
  tools) tools ;;
  root) root ;;
  bench) bench ;;
  guided) guided ;;
  package) package ;;
  count) count ;;
  miri) miri ;;
  deny) deny ;;
  all) lint; tools; root; WIREYARD_SKIP=never count ;;
  *) sed -n '2,16s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
