#!/bin/bash
# node.sh: a foreign client on npm's @grpc/grpc-js against a daemon of its own. POSENC_BUILD: build/release.
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/../.."
build=${POSENC_BUILD:-build/release}
mkdir -p build/node
cp tests/integration/node/* build/node/
(cd build/node && npm install --no-package-lock --no-audit --no-fund --loglevel=error)
out=$(mktemp)
"$build"/posencd --http 127.0.0.1:0 --grpc 127.0.0.1:0 >"$out" &
pid=$!
trap 'kill $pid 2>/dev/null; wait $pid || true; rm -f "$out"' EXIT
for _ in $(seq 200); do grep -q ^ready "$out" && break; sleep 0.05; done
http=$(sed -n 's/^ready http=\([^ ]*\).*/\1/p' "$out")
grpc=$(sed -n 's/.*grpc=\([^ ]*\).*/\1/p' "$out")
timeout 60 node build/node/client.js "$grpc" "http://$http"
