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
for kind in json query framing protobuf safetensors config resolve analysis; do
    [ -d "tests/fuzz/seeds/$kind" ] && [ -d "$out/$kind" ] && cp tests/fuzz/seeds/"$kind"/* "$out/$kind/"
done
# every encoding's example, as it is and with bytes that change it; then the golden cases that fit in a query
if [ -d "$out/encodings" ]; then
    for n in $(sed -n 's/^X(\(.*\))$/\1/p' lib/encodings/list.h); do
        printf '%s?' "$n" >"$out/encodings/$n"
        for i in 1 2 3; do { printf '%s?\0' "$n"; sha512sum <<<"$n $i" | head -c $((i * 16)); } >"$out/encodings/$n-$i"; done
    done
    /usr/bin/python3 tests/fuzz/golden_queries.py "$out/encodings"
fi
for d in "$out"/*/; do [ -n "$(ls "$d")" ] || printf 'seed' >"$d/empty"; done
