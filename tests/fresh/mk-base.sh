#!/bin/bash
# mk-base.sh OUT.tar slim|minbase: a Debian bookworm root file system, from the mirror this machine itself uses.
#   minbase  plain minimal Debian, for fresh-machine.sh
#   slim     what debian:bookworm-slim has (no manuals, locales, package lists), for container.sh
# It carries this machine's apt settings and site certificates: never publish an image made from it.
# Needs root and debootstrap; exit 77 with the reason when it cannot be made.
set -euo pipefail
out=$(realpath -m "$1") kind=$2
skip() { echo "SKIP mk-base: $*"; exit 77; }

mirror=${MIRROR:-$(cat /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null |
    awk '!m && ($1 == "URIs:" || $1 == "deb") { for (i = 2; i <= NF; i++) if (!m && $i ~ /^https?:/) m = $i } END { print m }' || true)}
[ -n "$mirror" ] || skip "no Debian mirror in the apt sources; set MIRROR"
[ "$(id -u)" = 0 ] || skip "needs root"
command -v debootstrap >/dev/null || skip "debootstrap is not installed"

mkdir -p "$(dirname "$out")/debs"
root=$(mktemp -d "$(dirname "$out")/root.XXXXXX")
trap 'rm -rf --one-file-system "$root"' EXIT
debootstrap --variant=minbase --cache-dir="$(dirname "$out")/debs" bookworm "$root" "$mirror" >"$out.log" 2>&1 ||
    skip "debootstrap failed, see $out.log: $(tail -1 "$out.log")"
cat >"$root/etc/apt/sources.list" <<TEXT
deb $mirror bookworm main
deb $mirror bookworm-updates main
deb ${SECURITY_MIRROR:-${mirror%/}-security} bookworm-security main
TEXT

# what this machine needs to reach its mirror
for f in /etc/apt/apt.conf.d/*; do
    ! grep -qsE 'Acquire::(http|https)::?(Proxy|CaInfo)|Check-Valid-Until|Check-Date' "$f" || cp "$f" "$root/etc/apt/apt.conf.d/"
done
if ls /usr/local/share/ca-certificates/*.crt >/dev/null 2>&1; then
    mkdir -p "$root/usr/local/share/ca-certificates"
    cp /usr/local/share/ca-certificates/*.crt "$root/usr/local/share/ca-certificates/"
fi

rm -rf "$root"/var/cache/apt/*.bin "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/* "$root"/var/log/{dpkg.log,bootstrap.log,apt} \
    "$root"/var/cache/debconf/*-old "$root"/var/lib/dpkg/*-old "$root"/etc/{hostname,resolv.conf}
: >"$root/etc/machine-id"
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"      # packages start no services
chmod 755 "$root/usr/sbin/policy-rc.d"
if [ "$kind" = slim ]; then
    for d in doc groff info lintian linda locale man; do echo "path-exclude /usr/share/$d/*"; done >"$root/etc/dpkg/dpkg.cfg.d/docker"
    printf 'path-include /usr/share/doc/*/copyright\nforce-unsafe-io\n' >>"$root/etc/dpkg/dpkg.cfg.d/docker"
    echo 'DPkg::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb /var/cache/apt/*.bin"; }; Acquire::Languages "none";' >"$root/etc/apt/apt.conf.d/docker-clean"
    find "$root/usr/share/doc" ! -type d ! -name copyright -delete
    rm -rf "${root:?}"/usr/share/{groff,info,lintian,linda,locale,man}/*
fi
tar --numeric-owner --xattrs -C "$root" --exclude='./dev/*' --exclude='./proc/*' --exclude='./sys/*' -cf "$out.tmp" .
mv "$out.tmp" "$out"
echo "mk-base: $out ($(du -h "$out" | cut -f1), $kind)"
