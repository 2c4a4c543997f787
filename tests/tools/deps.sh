#!/bin/sh
# deps.sh build|test ...: installs what is missing for building or testing posenc on Debian, as root or through sudo.
# Says what it does; does nothing when all is there.
set -eu

build="gcc libc6-dev make pkg-config libmicrohttpd-dev libgnutls28-dev libgrpc-dev libprotobuf-c-dev protobuf-c-compiler
protobuf-compiler libprotobuf-dev libjansson-dev libmpfr-dev libssl-dev zlib1g-dev libcurl4-openssl-dev curl"
test="clang clang-format libclang-rt-14-dev llvm-14 check libsubunit-dev python3 python3-pytest python3-numpy python3-scipy python3-requests
python3-grpcio python3-protobuf git procps iproute2 qemu-user-static gcc-aarch64-linux-gnu libc6-dev-arm64-cross"

want=
for set in "$@"; do
    case $set in
    build) want="$want $build" ;;
    test)
        want="$want $test"
        # a machine may have Node.js of its own, which conflicts with Debian's packages
        command -v node >/dev/null || want="$want nodejs"
        command -v npm >/dev/null || want="$want npm"
        ;;
    *) echo "usage: deps.sh build|test ..." >&2; exit 2 ;;
    esac
done

command -v dpkg-query >/dev/null || { echo "deps: not a Debian machine; what is needed: $want" >&2; exit 1; }
missing=
for p in $want; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null || true)" = installed ] || missing="$missing $p"
done
[ -n "$missing" ] || exit 0

as_root=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "deps: these packages are missing and neither root nor sudo is at hand:$missing" >&2; exit 1; }
    as_root=sudo
fi
echo "deps: installing with apt-get:$missing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
if ! { $as_root apt-get -q update && $as_root env DEBIAN_FRONTEND=noninteractive apt-get -yq -o DPkg::Lock::Timeout=300 install --no-install-recommends $missing; } >"$log" 2>&1; then
    tail -20 "$log" >&2
    exit 1
fi
echo "deps: done"
