#!/bin/bash
# check_digests.sh POSENC [--write]: the bytes of tests/golden/digests.txt's requests, in this build, in this machine's
# way of computing and with glibc's FMA and AVX2 variants hidden. The file was frozen once; it changes only with a
# revision. --write prints the lines anew.
set -uo pipefail
cd "$(dirname "$(realpath "$0")")/../.."
posenc=$1
list=tests/golden/digests.txt
bytes() { "$posenc" "$@" --format safetensors | sha256sum | cut -c1-64; }

if [ "${2:-}" = --write ]; then
    while read -r line; do
        case $line in '#'* | '') echo "$line" ;; *) read -r _ words <<<"$line"; echo "$(eval bytes "$words") $words" ;; esac
    done <"$list"
    exit
fi
failed=0 n=0
while read -r want words; do
    case $want in '#'* | '') continue ;; esac
    n=$((n + 1))
    plain=$(eval bytes "$words")
    hidden=$(GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F,-AVX2_Usable,-FMA_Usable; export GLIBC_TUNABLES; eval bytes "$words")
    [ "$plain" = "$want" ] || { echo "FAIL $words: $plain, frozen $want"; failed=$((failed + 1)); }
    [ "$hidden" = "$want" ] || { echo "FAIL with AVX2 and FMA hidden, $words: $hidden, frozen $want"; failed=$((failed + 1)); }
done <"$list"
echo "$((2 * n - failed)) passed, $failed failed"
[ $failed = 0 ] && [ $n -gt 0 ]
