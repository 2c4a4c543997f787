#!/bin/bash
# make_corpus.sh FOLDER: seeds for every fuzz target, from the tree's own data and examples: FOLDER/NAME for fuzz_NAME.
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/../.."
out=$1
for c in tests/fuzz/fuzz_*.c; do mkdir -p "$out/$(basename -s .c "${c/fuzz_/}")"; done
# seeds NAME FILE...: copies small files
seeds() { local to=$out/$1; shift; [ -d "$to" ] || return 0; for f in "$@"; do cp "$f" "$to/$(basename "$f")"; done; }
seeds npy tests/golden/graph/graphs/{karate,cycle6,rand20_w}*.npy tests/golden/sequence/sinusoidal_whisper-16x8.table.npy
seeds npz tests/data/graph_atlas_1253.npz
seeds protobuf tests/fuzz/seeds/protobuf/* 2>/dev/null || true
for kind in json query framing protobuf safetensors config resolve analysis identify; do
    [ -d "tests/fuzz/seeds/$kind" ] && [ -d "$out/$kind" ] && cp tests/fuzz/seeds/"$kind"/* "$out/$kind/"
done
# right tables behind the three bytes that say their shape (rows, columns, dtype and axes)
if [ -d "$out/identify" ]; then
    { printf '\024\020\000'; tail -c 1280 tests/golden/sequence/sinusoidal_gpt-neox-20x16.table.npy; } >"$out/identify/sinusoidal"
    { printf '\020\010\000'; tail -c 512 tests/golden/sequence/sinusoidal_whisper-16x8.table.npy; } >"$out/identify/whisper"
    { printf '\010\004\100'; tail -c 128 tests/golden/sequence/rope_gpt-oss-20b.inv_freq.npy; } >"$out/identify/inv_freq"
    { printf '\014\020\200'; tail -c 768 tests/golden/sequence/rope_llama-3.2-1b.cos.npy; } >"$out/identify/cos"
fi
# every encoding's example, as it is and with bytes that change it; then the golden cases that fit in a query
if [ -d "$out/encodings" ]; then
    for n in $(sed -n 's/^X(\(.*\))$/\1/p' lib/encodings/list.h); do
        printf '%s?' "$n" >"$out/encodings/$n"
        for i in 1 2 3; do { printf '%s?\0' "$n"; sha512sum <<<"$n $i" | head -c $((i * 16)); } >"$out/encodings/$n-$i"; done
    done
    /usr/bin/python3 tests/fuzz/golden_queries.py "$out/encodings"
fi
for d in "$out"/*/; do [ -n "$(ls "$d")" ] || printf 'seed' >"$d/empty"; done
