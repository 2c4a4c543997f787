#!/bin/bash
# fresh-machine.sh DIR COMMAND...: runs COMMAND as root in a throw-away minimal Debian 12 that has git, make and
# ca-certificates besides; a copy of DIR is its working directory. A newcomer's machine: what the README says is all there is.
#   FRESH_CACHE   where the minimal Debian is kept between runs (default: build/fresh; about 500 MB)
#   FRESH_KEEP=1  keeps the machine's folder afterwards and prints its name
# The network is the host's (packages come from somewhere), so ports are shared; mounts and processes end with the script.
# Exit: COMMAND's status, or 77 with the reason when such a machine cannot be had here.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0"; exit 2; }
skip() { echo "SKIP fresh-machine: $*"; exit 77; }

if [ -z "${FRESH_NAMESPACES:-}" ]; then
    [ "$(id -u)" = 0 ] || skip "needs root"
    unshare --mount --pid --fork true 2>/dev/null || skip "no mount and pid namespaces here"
    FRESH_NAMESPACES=1 exec unshare --mount --pid --fork --kill-child --mount-proc --uts --ipc --propagation private "$0" "$@"
fi
trap 'exit 130' INT TERM
here=$(dirname "$(realpath "$0")")
dir=$(realpath "$1"); shift
cache=$(realpath -m "${FRESH_CACHE:-$here/../../build/fresh}")
packages="ca-certificates git make"
base=$cache/base-$(cat "$here/mk-base.sh" "$0" | sha256sum | cut -c1-12)

mounts() { # mounts ROOT: what programs expect of a running system
    local r=$1 n
    mount -t proc proc "$r/proc"
    mount -t sysfs -o ro sysfs "$r/sys" 2>/dev/null || mount --rbind -o ro /sys "$r/sys"
    mount -t tmpfs -o mode=755,nosuid,size=1m tmpfs "$r/dev"
    for n in null zero full random urandom tty; do : >"$r/dev/$n"; mount --bind "/dev/$n" "$r/dev/$n"; done
    mkdir -p "$r/dev/pts" "$r/dev/shm"
    mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts "$r/dev/pts"
    mount -t tmpfs -o mode=1777 tmpfs "$r/dev/shm"
    ln -s pts/ptmx "$r/dev/ptmx"
    ln -s /proc/self/fd "$r/dev/fd"
    for n in 0:stdin 1:stdout 2:stderr; do ln -s "/proc/self/fd/${n%:*}" "$r/dev/${n#*:}"; done
}
inside() { # inside ROOT FOLDER COMMAND...: nothing of our environment goes along
    local r=$1 d=$2; shift 2
    # shellcheck disable=SC2016
    env -i HOME=/root USER=root LOGNAME=root SHELL=/bin/bash TERM="${TERM:-dumb}" LANG=C.UTF-8 \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin chroot "$r" sh -c 'cd "$0" && exec "$@"' "$d" "$@"
}

mkdir -p "$cache"
if [ ! -d "$base" ]; then
    start=$SECONDS
    [ -s "$cache/minbase.tar" ] || "$here/mk-base.sh" "$cache/minbase.tar" minbase
    rm -rf --one-file-system "$cache"/base-*
    mkdir -p "$base.new"
    tar --numeric-owner --xattrs -C "$base.new" -xf "$cache/minbase.tar"
    mkdir -p "$base.new"/{dev,proc,sys}
    echo fresh >"$base.new/etc/hostname"
    printf '127.0.0.1 localhost fresh\n::1 localhost\n' >"$base.new/etc/hosts"
    cp -L /etc/resolv.conf "$base.new/etc/resolv.conf"
    mounts "$base.new"
    inside "$base.new" / sh -c "apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -yq install --no-install-recommends $packages &&
        apt-get clean && rm -rf /var/lib/apt/lists/*" >"$cache/base.log" 2>&1 || skip "$packages cannot be installed: $(tail -1 "$cache/base.log")"
    umount -R "$base.new"/{dev,proc,sys}
    mv "$base.new" "$base"
    echo "fresh-machine: minimal Debian made in $((SECONDS - start)) s: $(du -sh "$base" | cut -f1)"
fi

machine=$(mktemp -d "$cache/machine.XXXXXX")
root=$machine/root
clean() {
    umount -R "$root"/{dev,proc,sys} "$root" 2>/dev/null || true
    if [ "${FRESH_KEEP:-}" = 1 ]; then echo "fresh-machine: kept $machine"; else rm -rf --one-file-system "$machine"; fi
}
trap clean EXIT
mkdir "$root" "$machine/upper" "$machine/work"
mount -t overlay overlay -o "lowerdir=$base,upperdir=$machine/upper,workdir=$machine/work" "$root" 2>/dev/null ||
    cp -a "$base/." "$root/"
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
hostname fresh
mounts "$root"
folder=/root/$(basename "$dir")
mkdir "$root$folder"
tar -C "$dir" -cf - . | tar -C "$root$folder" --no-same-owner -xf -
inside "$root" "$folder" "$@"
