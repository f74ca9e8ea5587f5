#!/usr/bin/env bash
# ci.sh: what CI runs (all), its parts, and what is too long for it, one word each.
#
#   ./ci.sh lint     formatting, clippy with warnings as errors, docs
#   ./ci.sh test     the README's test command; needs only Rust, skips loudly what needs more
#   ./ci.sh tools    install what the tests with root and tools need (Debian)
#   ./ci.sh models   small concurrent parts in every order of their steps (loom)
#   ./ci.sh root     every test, none may skip: needs root and the tools
#   ./ci.sh bench    all benches in a short form; where there is a rival, the ratio to it in the same run
#   ./ci.sh guided   target/guided/dist/wireyard, built with a profile of itself, and the laboratory's bench built alike
#   ./ci.sh package  target/package/wireyard_*.deb: binary, manual, completion, unit, example
#   ./ci.sh container  target/container/wireyard.tar: an image with nothing but the binary and its libraries (podman or buildah)
#   ./ci.sh reproducible  two builds for packages, in two folders, and whether their bytes are the same
#   ./ci.sh soak [SECONDS] [SEED]  two live switches and everything that may happen to them, for 600 seconds or SECONDS
#   ./ci.sh fuzz TARGET [SECONDS]  a target of tests/fuzz under libFuzzer (nightly, or this toolchain with RUSTC_BOOTSTRAP=1; installs cargo-fuzz)
#   ./ci.sh site     target/site/index.html: the pages as a book with search (installs mdbook: some minutes)
#   ./ci.sh numbers [PART...]  target/numbers.md: the figures of programs/performance.md, measured on this machine (an hour)
#   ./ci.sh sbom     target/sbom.json: the crates of the binary, with versions, licences and sums (CycloneDX)
#   ./ci.sh count    instructions per packet of the compiled programs and of the laboratory, against their limits (valgrind)
#   ./ci.sh counters  builds what count counts
#   ./ci.sh miri     unit tests of tables under Miri (needs a nightly toolchain with it: rustup toolchain install nightly --component miri)
#   ./ci.sh deny     licences, advisories and sources of all dependencies (installs cargo-deny: some minutes; needs the advisory database)
#   ./ci.sh all      lint, sbom, tools, models, root (the test command once, with nothing skipped), count; what can goes on beside each other
set -euo pipefail
cd "$(dirname "$0")"
# One seed for all property tests: a run that fails can be run again. Fuzzing by hand sets another.
export PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-1}

lint() {
  cargo fmt --all --check
  cargo clippy --workspace --all-targets --locked -- -D warnings
  # The small switch, without the laboratory.
  cargo clippy -p wireyard-switch --no-default-features --features command --locked -- -D warnings
  RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --locked --quiet
  # The fuzz targets have a workspace of their own, whose lock file has to follow.
  cargo metadata --manifest-path tests/fuzz/Cargo.toml --locked --format-version 1 > /dev/null
}

test_() { cargo test --workspace --locked; }

tools() {
  export DEBIAN_FRONTEND=noninteractive
  local packages=(iproute2 openssl iputils-ping traceroute frr ethtool mininet podman crun tcpdump tshark python3-scapy python3-jsonschema python3-yaml python3-venv slurmctld slurmd slurm-client munge qemu-system-x86 chromium prometheus util-linux procps debian-archive-keyring valgrind)
  if ! dpkg -s "${packages[@]}" > /dev/null 2>&1; then
    apt-get update -qq
    # Nothing that is installed is started.
    RUNLEVEL=1 apt-get install -y -qq --no-install-recommends "${packages[@]}" > /dev/null
  fi
  # P4Runtime controllers, each in an environment of its own: they want different versions of protobuf. Kubernetes' schemas.
  environment finsy finsy==0.30.0
  environment shell p4runtime-shell==0.0.6
  environment kubernetes kubernetes-validate==1.37.0
}

environment() {
  local folder=target/tools/$1
  "$folder/bin/python" -c '' 2> /dev/null && [ -e "$folder/installed" ] && return
  python3 -m venv --clear "$folder"
  "$folder/bin/pip" install --quiet --disable-pip-version-check "$2"
  touch "$folder/installed"
}

root() {
  together
  alone
}

# The README's test command, where nothing is missing and so nothing may skip. CI: tests that have a
# long form take it (a million packets through a lossless pair).
together() {
  WIREYARD_SKIP=never CI=1 cargo test --workspace --locked -- "${alone[@]/#/--skip=}"
}

# Tests that need the processors for themselves: a switch that is not run for milliseconds overruns the rings of its ports, and the
# daemons of two routers and two emulated machines want to be heard within their timers.
alone=(nothing_is_lost_at_fifty_thousand a_lossless_class_between_live_switches frr_speaks_ospf_and_bgp
  bgp_over_a_fabric_of_three_switches
  two_soft_roce_hosts_talk_through_it two_linux_hosts_are_marked_and_nothing_is_lost)
alone() {
  WIREYARD_SKIP=never CI=1 cargo test -p wireyard-tests --locked -- --test-threads 1 "${alone[@]}"
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

# The binary of packages. Paths of this machine are not in it, nor its time, so that who builds it elsewhere gets the same bytes.
dist() {
  local folder=$1 target=$2
  (
    cd "$folder"
    export CARGO_TARGET_DIR=$target
    export RUSTFLAGS="--remap-path-prefix=$PWD=/wireyard --remap-path-prefix=$target=/target --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo"
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) cargo build --profile dist -p wireyard-switch --locked
  )
}

package() {
  dist "$PWD" "$PWD/target/packages"
  sbom
  SBOM=target/sbom.json switch/packaging/deb.sh target/packages/dist/wireyard target/package
}

container() {
  local tool
  tool=$(command -v buildah || command -v podman) || { echo "ci.sh: neither buildah nor podman (Debian has both)" >&2; exit 2; }
  dist "$PWD" "$PWD/target/packages"
  mkdir -p target/container
  switch/packaging/rootfs.sh target/packages/dist/wireyard target/container/rootfs
  "$tool" build --isolation chroot --layers=false --format docker -t localhost/wireyard:latest -f switch/packaging/Containerfile target/container
  rm -f target/container/wireyard.tar
  "$tool" push localhost/wireyard:latest docker-archive:target/container/wireyard.tar:localhost/wireyard:latest
  # Without it `docker load` takes no archive.
  tar -tf target/container/wireyard.tar manifest.json
  ls -l target/container/wireyard.tar
}

reproducible() {
  local work
  work=$(mktemp -d)
  for folder in one another/place; do
    git clone --quiet . "$work/$folder"
    dist "$work/$folder" "$work/$folder/target"
  done
  cmp "$work/one/target/dist/wireyard" "$work/another/place/target/dist/wireyard"
  sha256sum "$work/one/target/dist/wireyard" "$work/another/place/target/dist/wireyard"
  ls -l "$work/one/target/dist/wireyard"
  rm -rf "$work"
}

soak() {
  [ -x target/release/wireyard ] || cargo build --release --locked
  python3 tests/soak/soak.py --seconds "${1:-600}" --seed "${2:-1}"
}

# libFuzzer wants a compiler with its instrumentation: nightly, or this one told that it may.
fuzz() {
  command -v cargo-fuzz > /dev/null || cargo install --quiet --locked cargo-fuzz
  local toolchain=()
  rustup toolchain list 2> /dev/null | grep -q nightly && toolchain=(+nightly) || export RUSTC_BOOTSTRAP=1
  mkdir -p "tests/fuzz/corpus/$1"
  cargo "${toolchain[@]}" fuzz run --fuzz-dir tests/fuzz --sanitizer none "$1" -- -max_total_time="${2:-60}" -rss_limit_mb=4096
}

site() {
  command -v mdbook > /dev/null || cargo install --quiet --locked mdbook --version 0.5.4 --no-default-features --features search
  python3 programs/site/make.py target/site-source
  mdbook build target/site-source --dest-dir "$PWD/target/site"
  python3 programs/site/make.py --check target/site
}

numbers() {
  mkdir -p target
  tests/numbers.sh "$@" | tee target/numbers.md
}

sbom() { python3 switch/packaging/sbom.py > target/sbom.json; ls -l target/sbom.json; }

count() { pipeline/benches/count.sh; }

counters() { pipeline/benches/count.sh --build; }

# A workspace of its own, with a lock of its own.
models() { cargo test --manifest-path tests/models/Cargo.toml --locked; }

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

# A build that waits for one large crate leaves a processor free, and many tests wait for time. The parts with a target folder of their
# own use that; the build for the counts, the longest of them, only what nobody else wants (sched(7), SCHED_IDLE).
all() {
  local out failed=0
  out=$(mktemp -d)
  declare -gA beside
  start tools tools
  start models models
  start counters idle ./ci.sh counters
  trap 'for part in "${beside[@]}"; do kill -- "-$part" 2> /dev/null || true; done' EXIT
  lint
  sbom
  cargo test --workspace --locked --no-run
  ended tools
  ended models
  [ "$failed" = 0 ]
  together
  ended counters
  [ "$failed" = 0 ]
  rm -rf "$out"
  alone
  WIREYARD_SKIP=never count
}

# The part that a command is, in the background. It has a process group, so that its compilers end with it when something else fails.
start() { # part command...
  set -m
  "${@:2}" > "$out/$1" 2>&1 &
  beside[$1]=$!
  set +m
}

# Waits for a part, and shows what it said.
ended() { # part
  wait "${beside[$1]}" || { echo "ci.sh: $1 failed" >&2; failed=1; }
  cat "$out/$1"
}

idle() {
  if command -v chrt > /dev/null; then chrt --idle 0 "$@"; else nice -n 19 "$@"; fi
}

case ${1:-} in
  lint) lint ;;
  test) test_ ;;
  tools) tools ;;
  models) models ;;
  root) root ;;
  bench) bench ;;
  guided) guided ;;
  package) package ;;
  container) container ;;
  reproducible) reproducible ;;
  soak) soak "${@:2}" ;;
  fuzz) fuzz "${@:2}" ;;
  site) site ;;
  numbers) numbers "${@:2}" ;;
  sbom) sbom ;;
  count) count ;;
  counters) counters ;;
  miri) miri ;;
  deny) deny ;;
  all) all ;;
  *) sed -n '4,25s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
