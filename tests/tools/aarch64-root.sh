#!/bin/bash
# aarch64-root.sh: unpacks what libposenc links from Debian's arm64 packages into build/aarch64-root and prints the folder. Exit 1 with
# the reason on standard output where that can't be had. The machine's own apt and dpkg are not touched.
set -uo pipefail
cd "$(dirname "$(realpath "$0")")/../.."
root=$PWD/build/aarch64-root
[ ! -f "$root/done" ] || { echo "$root"; exit 0; }
for tool in aarch64-linux-gnu-gcc qemu-aarch64-static apt-get dpkg-deb; do
    command -v $tool >/dev/null || { echo "$tool is not installed"; exit 1; }
done
state=$PWD/build/aarch64-apt
mkdir -p "$root" "$state"/{lists/partial,cache/archives/partial}
touch "$state/status"
apt=(apt-get -q -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o Dir::State="$state" -o Dir::State::status="$state/status"
    -o Dir::Cache="$state/cache" -o Debug::NoLocking=1 -o APT::Sandbox::User=root)
packages="libc6 libgcc-s1 libmpfr-dev libmpfr6 libgmp-dev libgmp10 libssl-dev libssl3 zlib1g-dev zlib1g libjansson-dev libjansson4"
{
    "${apt[@]}" update && (cd "$state" && "${apt[@]}" download $packages) && for d in "$state"/*.deb; do dpkg-deb -x "$d" "$root" || exit 1; done
} >"$state/log" 2>&1 || { echo "arm64 packages could not be fetched: $(tail -1 "$state/log" | cut -c1-120)"; exit 1; }
[ -e "$root/lib" ] || ln -s usr/lib "$root/lib"
touch "$root/done"
echo "$root"
