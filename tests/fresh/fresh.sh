#!/bin/bash
# fresh.sh: a newcomer's first minutes in a throw-away minimal Debian (fresh-machine.sh), with what is committed:
# `make run`, the three commands it prints, Ctrl-C, and a second `make run` that has nothing to install.
#   FRESH_CHECK=1  `make check` there as well
# Exit 77 with the reason when such a machine cannot be had here.
set -euo pipefail

if [ "${1:-}" != inside ]; then
    here=$(dirname "$(realpath "$0")")
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    git clone -q --no-hardlinks "$here/../.." "$work/posenc"
    [ -z "$(git -C "$here" status --porcelain)" ] || echo "fresh: what is not committed is not in it"
    "$here/fresh-machine.sh" "$work/posenc" env FRESH_CHECK="${FRESH_CHECK:-}" tests/fresh/fresh.sh inside
    exit
fi

set -m      # each `make run` is a process group of its own, as in a terminal
fail() { echo "FAIL  $*"; tail -20 /root/run.log; exit 1; }
start_run() { # make run in the background until it says ready
    local start=$SECONDS
    make run >/root/run.log 2>&1 &
    run=$!
    disown $run      # no notice from the shell when it ends
    until grep -q '^ready ' /root/run.log; do
        kill -0 $run 2>/dev/null || fail "make run ended"
        [ $((SECONDS - start)) -lt 1200 ] || fail "make run is not ready after 20 minutes"
        sleep 0.2
    done
    sleep 1
    echo "ok    make run: $(grep '^ready ' /root/run.log) after $((SECONDS - start)) s"
}
press_ctrl_c() {
    kill -INT -- -$run
    for ((i = 0; i < 300; i++)); do
        kill -0 -- -$run 2>/dev/null || { echo "ok    Ctrl-C ends it"; return; }
        sleep 0.1
    done
    fail "still running 30 s after Ctrl-C"
}

# the network is the host's: where somebody serves already, take free ports
for port in 8080 50051; do
    ! (exec 3<>/dev/tcp/127.0.0.1/$port) 2>/dev/null || export POSENC_HTTP=127.0.0.1:0 POSENC_GRPC=127.0.0.1:0
done

start_run
grep '^deps: ' /root/run.log | cut -c1-100
grep -E '^  (curl|build/)' /root/run.log >/root/commands || fail "no commands were printed"
[ "$(wc -l </root/commands)" = 3 ] || fail "not three commands were printed"
while read -r command; do
    echo "\$ $command"
    bash -c "set -e; $command" >/root/answer 2>/root/problem </dev/null || { cat /root/problem; fail "this command failed"; }
    head -c 300 /root/answer; echo
done </root/commands
[ "$(stat -c %s table.npy)" = $((128 + 2048 * 1024 * 4)) ] || fail "table.npy has $(stat -c %s table.npy) bytes"
press_ctrl_c

start_run
! grep '^deps: ' /root/run.log || fail "the second make run installed something"
press_ctrl_c
! git status --porcelain --ignored | grep -vE '^.. (build/|table.npy|molecules.npz)' || fail "files outside build/"

if [ "${FRESH_CHECK:-}" = 1 ]; then
    start=$SECONDS
    make check || fail "make check"
    echo "ok    make check after $((SECONDS - start)) s"
fi
echo "fresh: passed"
