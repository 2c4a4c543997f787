#!/bin/sh
# run-server.sh POSENCD [FLAG...]: starts the daemon and, when it is ready, prints three commands to paste.
set -eu
out=$(mktemp)
"$@" >"$out" &
pid=$!
# Ctrl-C reaches the daemon by itself, and a second signal would end it without draining
trap 'wait $pid || true; rm -f "$out"; exit 0' INT
trap 'kill $pid 2>/dev/null || true; wait $pid || true; rm -f "$out"; exit 0' TERM
while ! grep -q '^ready ' "$out"; do
    kill -0 $pid 2>/dev/null || { wait $pid || status=$?; rm -f "$out"; exit "${status:-1}"; }
    sleep 0.05
done
cat "$out"
http=$(sed -n 's/^ready http=\([^ ]*\).*/\1/p' "$out")
grpc=$(sed -n 's/.*grpc=\([^ ]*\).*/\1/p' "$out")
rm -f "$out"
cat <<TEXT

posencd serves REST on http://$http and gRPC on $grpc (Ctrl-C stops it). In another terminal:

  curl -o table.npy 'http://$http/v1/encodings/sinusoidal.npy?embedding_dim=1024&num_positions=2048'

  build/release/posenc laplacian k=8 skip=all_zero dtype=float64 --graph tests/golden/graph/graphs/cora.edges.npy --num-nodes 2708 --tensor eigenvalues --format csv --url http://$http

  build/release/posenc laplacian k=8 --graph tests/data/mol_hiv_1k.npz -o molecules.npz --url http://$http

The first is a table for numpy.load, the second the spectrum of the Cora graph past its 78 zeros, the third 1,000 molecules in one
request, with a status each.

TEXT
wait $pid
