#!/bin/bash
# fuzz.sh replay: every target over its corpus with the plain driver (release build).
# fuzz.sh SECONDS: every target for so long with libFuzzer under ASan and UBSan (clang). New inputs go to build/corpus.
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/../.."
tests/fuzz/make_corpus.sh build/corpus
targets=$(basename -s .c -a tests/fuzz/fuzz_*.c)
if [ "$1" = replay ]; then
    make -s -j"$(nproc)" fuzz-bins
    for t in $targets; do build/release/"$t" build/corpus/"${t#fuzz_}"; done
    exit
fi
make -s -j"$(nproc)" VARIANT=fuzz fuzz-bins
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
pids=()
for t in $targets; do
    mkdir -p build/fuzz/artifacts
    build/fuzz/"$t" -max_total_time="$1" -timeout=10 -rss_limit_mb=4096 -max_len=65536 -artifact_prefix=build/fuzz/artifacts/"$t"- \
        build/corpus/"${t#fuzz_}" >build/fuzz/"$t".log 2>&1 &
    pids+=("$!:$t")
    while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n || true; done
done
rc=0
for p in "${pids[@]}"; do
    wait "${p%%:*}" && s=ok || { s=FAIL; rc=1; }
    t=${p#*:}
    echo "$s $t $(grep -aE 'Done|SUMMARY' build/fuzz/"$t".log | tail -1)"
    [ $s = ok ] || tail -30 build/fuzz/"$t".log
done
exit $rc
