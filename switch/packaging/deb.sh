#!/usr/bin/env bash
# deb.sh BINARY FOLDER: a Debian package of the binary, made by dpkg-deb: the same bytes for the same binary and commit.
# SBOM names the list of crates to put beside it. Needs dpkg-dev (dpkg-shlibdeps says which libraries the binary asks for).
set -euo pipefail
binary=$(realpath "$1") folder=$(realpath -m "$2")
here=$(dirname "$(realpath "$0")")
source=$here/../..
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$source" log -1 --format=%ct 2> /dev/null || echo 0)}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$source/Cargo.toml" | head -1)
architecture=$(dpkg --print-architecture)
root=$folder/deb
rm -rf "$root"
put() { install -D -m "$1" "$2" "$root/$3"; }

put 755 "$binary" usr/bin/wireyard
put 644 "$here/wireyard@.service" usr/lib/systemd/system/wireyard@.service
for file in switch.yaml ports.yaml; do put 644 "$here/example/$file" "etc/wireyard/example/$file"; done
for file in program.yaml entries.yaml; do put 644 "$source/programs/rocev2_lossless/$file" "etc/wireyard/example/$file"; done
put 644 "$source/programs/mininet/wireyard.py" usr/share/wireyard/mininet/wireyard.py
# For `simple_switch_grpc` of scripts: this folder first in PATH.
mkdir -p "$root/usr/lib/wireyard"
ln -s ../../bin/wireyard "$root/usr/lib/wireyard/simple_switch_grpc"
# The pages, in the folders in which they link each other, and the files that they show.
put 644 "$source/README.md" usr/share/doc/wireyard/README.md
(cd "$source" && find programs -name '*.md' -o -name '*.yaml' -o -name grafana.json) | while read -r file; do
  put 644 "$source/$file" "usr/share/doc/wireyard/$file"
done
put 644 "$here/copyright" usr/share/doc/wireyard/copyright
if [ -n "${SBOM:-}" ]; then put 644 "$SBOM" usr/share/doc/wireyard/sbom.json; fi

mkdir -p "$root/usr/share/man"
"$binary" man -o "$root/usr/share/man/man1"
gzip -9n "$root"/usr/share/man/man1/*.1
# The registration of completion names the binary as it was called.
completion() { (cd "$root/usr/bin" && PATH=.:$PATH COMPLETE=$1 wireyard) > "$folder/completion"; sed -i "s#$root##g" "$folder/completion"; put 644 "$folder/completion" "$2"; }
completion bash usr/share/bash-completion/completions/wireyard
completion zsh usr/share/zsh/vendor-completions/_wireyard
completion fish usr/share/fish/vendor_completions.d/wireyard.fish
rm "$folder/completion"

mkdir -p "$root/DEBIAN" "$folder/debian"
(cd "$root" && find etc -type f | sort | sed 's#^#/#') > "$root/DEBIAN/conffiles"
# dpkg-shlibdeps wants a source package around it.
printf 'Source: wireyard\n\nPackage: wireyard\nArchitecture: any\n' > "$folder/debian/control"
libraries=$(cd "$folder" && dpkg-shlibdeps -O "$root/usr/bin/wireyard" | sed -n 's/^shlibs:Depends=//p')
rm -r "$folder/debian"
cat > "$root/DEBIAN/control" << CONTROL
Package: wireyard
Version: $version
Architecture: $architecture
Maintainer: The Wireyard founders <wireyard@example.org>
Section: net
Priority: optional
Installed-Size: $(du -sk --apparent-size --exclude DEBIAN "$root" | cut -f1)
Depends: $libraries
Description: software switch and NIC pipeline for lossless RDMA fabrics
 Programs in YAML or P4-16 are checked, compiled to machine code and run between
 Linux interfaces, over captures, or in a laboratory in virtual time.
CONTROL
find "$root" -newermt "@$SOURCE_DATE_EPOCH" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
dpkg-deb --root-owner-group "-Z${COMPRESSION:-xz}" -b "$root" "$folder/wireyard_${version}_$architecture.deb"
