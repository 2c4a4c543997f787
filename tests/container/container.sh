#!/bin/bash
# container.sh: builds the image and runs it as production would, then asks it over both doors.
#
# Engine: a docker that answers; else, as root on Debian, a dockerd of this script's own (docker.io is installed if need
# be), whose data, mounts and network are private and end with it; else podman, in the same way.
# Base image: debian:bookworm-slim from its registry, or where that is out of reach, made from the machine's own mirror.
#   ENGINE=docker|podman  tries only that      INSTALL=0  installs nothing      REQUIRE=1  makes every SKIP a failure
# shellcheck disable=SC2317    # functions that step, trap and wait_for call
set -uo pipefail

# as root, mounts are this script's own and end with it
[ -n "${CONTAINER_NAMESPACE:-}" ] || ! unshare --mount true 2>/dev/null || CONTAINER_NAMESPACE=1 exec unshare --mount "$0" "$@"

top=$(realpath "$(dirname "$0")/../..")
work=$(mktemp -d "${TMPDIR:-/tmp}/posenc-container.XXXXXX")
image=posenc:test-$$ name=posenc-test-$$ project=posenctest$$ base=debian:bookworm-slim
limit_mb=160
engine=none daemon='' passed=0 failed=0 skipped=0
http=127.0.0.1:18480 grpc=127.0.0.1:18481
publish=(-p "$http:8080" -p "$grpc:50051")
enter=()      # how to get to where the ports are

ok() { passed=$((passed + 1)); echo "ok    $*"; }
bad() { failed=$((failed + 1)); echo "FAIL  $*"; }
skip() { if [ "${REQUIRE:-}" = 1 ]; then bad "$*"; else skipped=$((skipped + 1)); echo "SKIP  $*"; fi; }
finish() { echo "$passed passed, $failed failed, $skipped skipped"; [ "$failed" = 0 ]; exit; }
step() { # step WHAT COMMAND...: its output is shown only when it fails
    local what=$1 start=$SECONDS; shift
    if "$@" >"$work/log" 2>&1; then ok "$what ($((SECONDS - start)) s)"; return 0; fi
    bad "$what"; tail -20 "$work/log" | sed 's/^/      /'; return 1
}
wait_for() { # wait_for SECONDS COMMAND...
    local end=$((SECONDS + $1)); shift
    until "$@" >/dev/null 2>&1; do [ $SECONDS -lt $end ] || return 1; sleep 0.1; done
}
E() { if [ "$engine" = podman ]; then podman "${podman[@]}" "$@"; else docker "$@"; fi; }

clean() {
    [ "$engine" = none ] || E rm -f "$name" >/dev/null 2>&1
    [ "$engine" != docker ] || E rmi -f "$image" posenc-base:test-$$ >/dev/null 2>&1
    stop_dockerd
    awk -v w="$work/" 'index($5, w) == 1 { print $5 }' /proc/self/mountinfo | sort -r | while read -r m; do umount "$m"; done
    rm -rf --one-file-system "$work"
}
trap clean EXIT
trap 'exit 130' INT TERM

# ---- engine ----

have() { # have PROGRAM PACKAGE...: installs the packages when the program is missing
    command -v "$1" >/dev/null && return
    [ "${INSTALL:-1}" = 1 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return
    shift
    echo "installing with apt-get: $*"
    { apt-get -q update; RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get -yq -o DPkg::Lock::Timeout=300 install --no-install-recommends "$@"; } >"$work/log" 2>&1
}
start_dockerd() { # start_dockerd UNSHARE_OPTION... -- DOCKERD_OPTION...
    local ns=(); while [ "$1" != -- ]; do ns+=("$1"); shift; done; shift
    export DOCKER_HOST=unix://$work/docker.sock
    # shellcheck disable=SC2016
    unshare "${ns[@]}" sh -c 'ip link set lo up; exec dockerd "$@"' sh --data-root="$work/data" --exec-root="$work/exec" \
        --pidfile="$work/docker.pid" -H "$DOCKER_HOST" "$@" >"$work/dockerd.log" 2>&1 &
    daemon=$!
    wait_for 30 docker version && return
    stop_dockerd
    why="dockerd does not start here: $(grep -E 'level=(error|fatal)|^failed' "$work/dockerd.log" | tail -1 | cut -c1-200)"
    return 1
}
stop_dockerd() {
    [ -z "$daemon" ] || { kill "$daemon"; wait "$daemon"; daemon=; } 2>/dev/null
}
private_ok() { # what an engine of our own needs
    if [ "$(id -u)" != 0 ]; then why="no engine answers, and starting one needs root"
    elif ! unshare --mount --pid --net --ipc --uts --fork true 2>/dev/null; then why="no mount, pid and network namespaces here"
    elif ! grep -qE ' cgroup2? ' /proc/mounts; then why="no control groups here"
    else return 0; fi
    return 1
}
try_docker() {
    if docker version >/dev/null 2>&1; then engine=docker; return 0; fi
    private_ok || return
    have dockerd docker.io iptables iproute2 || { why="docker.io cannot be installed"; return 1; }
    start_dockerd -- --bridge=none --iptables=false --ip-forward=false --ip-masq=false || return    # builds use the machine's network
    engine=private-docker
}
try_podman() {
    private_ok || return
    have podman podman buildah runc iproute2 || { why="podman cannot be installed"; return 1; }
    # no signature settings of the machine's; no more open files and processes than this process may ask for
    local files processes; files=$(ulimit -Hn) processes=$(ulimit -Hu)
    [ "$processes" -le 32768 ] 2>/dev/null || processes=32768      # podman's own ceiling
    echo '{"default":[{"type":"insecureAcceptAnything"}]}' >"$work/policy.json"
    printf '[containers]\ndefault_ulimits=["nofile=%s:%s","nproc=%s:%s"]\n[engine]\nevents_logger="file"\n' \
        "$files" "$files" "$processes" "$processes" >"$work/containers.conf"
    export CONTAINERS_CONF=$work/containers.conf
    podman=(--root "$work/root" --runroot "$work/run" --runtime "$(command -v runc || command -v crun)" --cgroup-manager cgroupfs)
    base=docker.io/library/debian:bookworm-slim
    podman "${podman[@]}" info >"$work/log" 2>&1 || { why="podman does not start here: $(tail -1 "$work/log" | cut -c1-200)"; return 1; }
    engine=podman
    http=127.0.0.1:8080 grpc=127.0.0.1:50051 publish=(--network none)
}
for e in ${ENGINE:-docker podman}; do
    why=
    "try_$e" && break
    echo "      $e: $why"
done
[ "$engine" != none ] || { skip "no container engine can be had here"; finish; }
echo "      engine: $engine $(E version -f '{{.Server.Version}}' 2>/dev/null || podman --version)"

# ---- image ----

make_base() {
    local tar=$top/build/fresh/slim.tar
    [ -s "$tar" ] || { have debootstrap debootstrap && "$top/tests/fresh/mk-base.sh" "$tar" slim; } || return
    E import -c 'CMD ["bash"]' "$tar" posenc-base:test-$$
}
if ! E image inspect $base >/dev/null 2>&1 && ! E pull -q $base >/dev/null 2>&1; then
    step "base image from this machine's mirror" make_base || finish
    base=posenc-base:test-$$
fi

options=(--build-arg "BASE=$base")
[ "$engine" = docker ] || options+=(--network=host)
[ "$engine" = podman ] && options+=(--isolation chroot --format docker --signature-policy "$work/policy.json")
[ "$engine" = private-docker ] && export DOCKER_BUILDKIT=0
for v in http_proxy https_proxy no_proxy; do [ -z "${!v:-}" ] || options+=(--build-arg "$v"); done
step "image builds" E build "${options[@]}" -f "$top/docker/Dockerfile" -t "$image" "$top" || finish
mb=$(($(E image inspect -f '{{.Size}}' "$image") / 1000000))
if [ $mb -lt $limit_mb ]; then ok "image has $mb MB, limit $limit_mb"; else bad "image has $mb MB, limit $limit_mb"; fi

# ---- run ----

if [ "$engine" = private-docker ]; then      # the same data, now in a network of its own: real ports, nothing of the machine's changes
    stop_dockerd
    start_dockerd --net -- || { bad "$why"; finish; }
    enter=(nsenter --net -t "$daemon")
fi
E run -d --name "$name" "${publish[@]}" --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges \
    --memory 256m --pids-limit 256 --health-interval 1s "$image" >"$work/log" 2>&1 || { bad "run: $(tail -1 "$work/log")"; finish; }
pid=$(E inspect -f '{{.State.Pid}}' "$name")
[ "$engine" = podman ] && enter=(nsenter --net -t "$pid")
start=$(date +%s%N)
if wait_for 20 "${enter[@]}" curl -fsS -m 2 "http://$http/readyz"; then ok "/readyz answers 200 after $((($(date +%s%N) - start) / 1000000)) ms"
else bad "/readyz does not answer"; E logs "$name" 2>&1 | tail -5; finish; fi

status() { awk -v k="$1:" '$1 == k { print $2 }' "/proc/$pid/status"; }
if [ -r "/proc/$pid/status" ] && [ "$(readlink "/proc/$pid/ns/pid")" != "$(readlink /proc/self/ns/pid)" ]; then
    seen="uid $(status Uid) capabilities $(status CapBnd) no-new-privileges $(status NoNewPrivs) root $(awk '$5 == "/" { print substr($6, 1, 2) }' "/proc/$pid/mountinfo")"
    want="uid 10001 capabilities 0000000000000000 no-new-privileges 1 root ro"
    if [ "$seen" = "$want" ]; then ok "$seen"; else bad "$seen; wanted $want"; fi
    echo "      resident $(status VmRSS) KiB, $(status Threads) threads"
else skip "hardening: the process is not visible from here"; fi

table='sinusoidal.npy?embedding_dim=64&num_positions=1000'
"${enter[@]}" curl -fsS -m 10 -o "$work/table.npy" "http://$http/v1/encodings/$table"
E exec "$name" posenc sinusoidal embedding_dim=64 num_positions=1000 --format npy >"$work/command.npy"
if [ "$(stat -c %s "$work/table.npy")" = $((128 + 64 * 1000 * 4)) ] && cmp "$work/table.npy" "$work/command.npy"
then ok "REST and the posenc command give the same bytes"; else bad "REST and the posenc command differ"; fi

python=
for p in python3 /usr/bin/python3; do $p -c 'import numpy, grpc' 2>/dev/null && python=$p && break; done
if [ -n "$python" ]; then step "values against numpy; gRPC health" "${enter[@]}" "$python" "$top/tests/container/probe.py" "$work/table.npy" "$grpc"
else skip "values and gRPC health: no python3 with numpy and grpc (python3-numpy, python3-grpcio)"; fi

if [ "$engine" = podman ]; then      # its timer is systemd's
    step "health check" E healthcheck run "$name"
else
    healthy() { [ "$(E inspect -f '{{.State.Health.Status}}' "$name")" = healthy ]; }
    step "HEALTHCHECK says healthy" wait_for 20 healthy || E inspect -f "{{json .State.Health}}" "$name" | cut -c1-600
fi

start=$(date +%s%N)
E stop -t 30 "$name" >/dev/null 2>&1
code=$(E inspect -f '{{.State.ExitCode}}' "$name") ms=$((($(date +%s%N) - start) / 1000000))
if [ "$code" = 0 ]; then ok "SIGTERM: exit 0 after $ms ms"; else bad "SIGTERM: exit $code after $ms ms"; E logs "$name" 2>&1 | tail -5; fi

# ---- compose ----

if [ "$engine" = podman ]; then skip "compose: with docker only"; finish; fi
if docker compose version >/dev/null 2>&1; then compose=(docker compose)
elif have docker-compose docker-compose; then compose=(docker-compose)
else skip "compose: neither docker compose nor docker-compose"; finish; fi
compose+=(-p "$project" -f "$top/docker/compose.yml")
export POSENC_IMAGE=$image POSENC_HTTP_PORT=${http#*:} POSENC_GRPC_PORT=${grpc#*:}
if step "compose up" "${compose[@]}" up -d --no-build; then
    step "compose: /readyz answers 200" wait_for 20 "${enter[@]}" curl -fsS -m 2 "http://$http/readyz"
fi
step "compose down" "${compose[@]}" down
finish
