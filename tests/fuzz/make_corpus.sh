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
for kind in json query framing protobuf safetensors config resolve; do
    [ -d "tests/fuzz/seeds/$kind" ] && [ -d "$out/$kind" ] && cp tests/fuzz/seeds/"$kind"/* "$out/$kind/"
done
for d in "$out"/*/; do [ -n "$(ls "$d")" ] || printf 'seed' >"$d/empty"; done
