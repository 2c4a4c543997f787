#!/bin/bash
# units.sh UNIT: every suite of that binary in a process of its own, as many beside each other as there are processors; what they
# say, then the sum of their checks.
set -uo pipefail
said=$(mktemp)
trap 'rm -f "$said"' EXIT
"$1" --list | xargs -P "$(nproc)" -I{} sh -c 'out=$("$1" "$2" 2>&1); rc=$?; printf "%s\n" "$out"; exit $rc' sh "$1" {} | tee "$said"
rc=$?
awk -F'[:,]' '/^[0-9]+%: Checks/ { c += $3; f += $5; e += $7; n++ }
              END { printf "%d%%: Checks: %d, Failures: %d, Errors: %d\n", c ? 100 * (c - f - e) / c : 0, c, f, e; exit !n || f || e }' "$said" || rc=1
exit $rc
