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
  curl -H 'Content-Type: application/json' -d '{"k": 2, "graph": {"num_nodes": 5, "edge_index": [[0,1,2,3],[1,2,3,4]]}}' http://$http/v1/encodings/laplacian.json
  build/release/posenc sinusoidal embedding_dim=8 num_positions=4 --url http://$http

TEXT
wait $pid
