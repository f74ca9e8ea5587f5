#!/usr/bin/env bash
# rootfs.sh BINARY FOLDER: the root of a container: the binary, the libraries that it asks for, and nothing else.
set -euo pipefail
binary=$(realpath "$1") root=$(realpath -m "$2")
rm -rf "$root"
install -D -m 755 "$binary" "$root/usr/bin/wireyard"
# The loader and the libraries of this machine, at the paths at which the binary looks for them.
for library in $(ldd "$binary" | grep -o '/[^ ]*'); do install -D -m 755 "$(realpath "$library")" "$root$library"; done
install -d -m 755 "$root"/{dev,etc/wireyard,proc,sys,run/wireyard,var/lib/wireyard}
install -d -m 1777 "$root/tmp"
echo 'root:x:0:0:root:/:/usr/bin/wireyard' > "$root/etc/passwd"
echo 'root:x:0:' > "$root/etc/group"
if [ -n "${SOURCE_DATE_EPOCH:-}" ]; then find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +; fi
