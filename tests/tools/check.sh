#!/bin/bash
# check.sh: every test, in groups with a time budget; prints a table of them. Logs stay in build/check/.
# usage: check.sh [GROUP ...]   all of: build sanitizers golden integration faults fuzz
set -uo pipefail
cd "$(dirname "$(realpath "$0")")/../.."
logs=build/check
rm -rf "$logs"
mkdir -p "$logs"
export PYTHONDONTWRITEBYTECODE=1 POSENC_TEST_LOGS=$PWD/$logs
jobs=$(nproc)
python=/usr/bin/python3            # Debian's, which has the packages of deps.sh
declare -A budget=([build]=180 [sanitizers]=360 [golden]=240 [integration]=360 [faults]=180 [fuzz]=120)
failed=0
table=()

# step NAME COMMAND...: runs, logs, says how long; a failure shows the end of its log
step()
{
    local name=$1 log=$logs/$group-${1//[^a-zA-Z0-9]/-}.log t0=$SECONDS rc
    shift
    "$@" >"$log" 2>&1 </dev/null
    rc=$?
    if [ $rc = 0 ]; then
        local note
        note=$(grep -hoE '^(SKIP .*|.*: [0-9]+ passed, 0 failed|[0-9]+%: Checks.*|=+ .*(passed|skipped).* =+|[0-9]+ passed, .*)' "$log" | tail -3 | tr -d '=' | tr '\n' ';')
        printf '  ok    %-44s %4d s  %s\n' "$name" $((SECONDS - t0)) "$note"
    else
        printf '  FAIL  %-44s %4d s  rc %d, %s:\n' "$name" $((SECONDS - t0)) $rc "$log"
        tail -40 "$log" | sed 's/^/        /'
        failed=1
    fi
    return $rc
}

group()
{
    group=$1
    echo "$1 (budget ${budget[$1]} s)"
    local t0=$SECONDS
    "group_$1"
    table+=("$1 $((SECONDS - t0)) ${budget[$1]}")
}

pytest() { $python -m pytest -q -p no:cacheprovider --durations=5 "$@"; }

group_build()
{
    step "release, gcc" make -j"$jobs" all unit encode fuzz-bins bench-bins || return
    step "debug, clang, nothing linked" make -j"$jobs" VARIANT=debug O=build/clang CC=clang lib objects
    step "unit tests" build/release/unit
    step "symbols of libposenc" tests/tools/check_symbols.sh build/release/libposenc.a
    step "style" tests/tools/check_style.sh
}

# one options file a sanitizer, one wrapper: tests/tools/sanitized.sh VARIANT COMMAND...
group_sanitizers()
{
    step "build asan" make -j"$jobs" VARIANT=asan all unit &&
        step "asan+ubsan: unit tests" tests/tools/sanitized.sh asan tests/tools/units.sh build/asan/unit &&
        step "asan+ubsan: real daemon" env POSENC_BUILD=build/asan tests/tools/sanitized.sh asan $python -m pytest -q -p no:cacheprovider \
            -m "not slow" tests/integration/test_http.py tests/integration/test_grpc.py tests/integration/test_doors.py
    step "build tsan" make -j"$jobs" VARIANT=tsan all unit &&
        step "tsan: unit tests" tests/tools/sanitized.sh tsan build/tsan/unit batches ldl cache service guard reflect query &&
        step "tsan: real daemon" env POSENC_BUILD=build/tsan tests/tools/sanitized.sh tsan $python -m pytest -q -p no:cacheprovider \
            -m "not slow" tests/integration/test_http.py tests/integration/test_grpc.py tests/integration/test_doors.py
}

group_golden()
{
    step "golden cases, library alone" pytest tests/golden/test_library.py
    step "identify and compare, library alone" pytest tests/identify/test_identify.py
    step "golden cases, both doors" pytest tests/integration/test_golden.py
    step "real graphs" pytest -m "not slow" tests/integration/test_graph_*.py
    step "frozen digests: compilers, CPUs" tests/golden/check_digests.sh
}

group_integration()
{
    step "doors" pytest tests/integration/test_http.py tests/integration/test_grpc.py tests/integration/test_doors.py tests/integration/test_resolve.py \
        tests/integration/test_analysis.py tests/integration/test_identify.py
    step "hostile framing" pytest tests/integration/test_framing.py
    step "command and documents" pytest tests/integration/test_cli.py tests/integration/test_docs.py tests/integration/test_bench.py
    step "python client" pytest clients/python/tests
    step "node client" tests/integration/node.sh
}

group_faults()
{
    step "1,000 clients, exhaustion, stop" pytest tests/integration/test_faults.py
}

group_fuzz()
{
    step "replay" tests/tools/fuzz.sh replay
    step "5 s a target" tests/tools/fuzz.sh 5
}

begin=$SECONDS
[ $# -gt 0 ] || set -- build sanitizers golden integration faults fuzz
for g in "$@"; do group "$g"; done

printf '\n| group | seconds | budget |\n| --- | --- | --- |\n'
for row in "${table[@]}"; do
    read -r name took limit <<<"$row"
    printf '| %s | %s | %s%s |\n' "$name" "$took" "$limit" "$([ "$took" -le "$limit" ] || echo ' EXCEEDED')"
done
printf '| all | %s | |\n' $((SECONDS - begin))
[ $failed = 0 ] && echo "check: all passed" || echo "check: FAILED, logs in $logs"
exit $failed
