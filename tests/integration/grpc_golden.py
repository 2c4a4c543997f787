#!/usr/bin/env python3
"""Holds a running posencd against golden cases over gRPC.

usage: grpc_golden.py HOST:PORT DIR [--encoding NAME] [--only TEXT]

DIR holds manifest.json and .npy files. Every case is one Encode; those too large for it come by EncodeStream. Requests
are built from the contract that the server's reflection tells. Prints failures and "N passed, N failed".
"""
import argparse
import sys
from pathlib import Path

import grpc
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import rpc
from golden import compare


def answer(client, request):
    try:
        return client.encode(request, timeout=120)
    except grpc.RpcError as e:
        if "max_grpc_unary" not in (e.details() or ""):
            raise
    header, data = client.stream(request, timeout=120)
    out, at = {}, 0
    for t in header.tensors:
        width = np.dtype(rpc.DTYPES[t.dtype].replace("bfloat16", "<u2")).itemsize
        size = int(np.prod(list(t.shape), dtype=np.int64)) * width
        out[t.name] = client.array(t, data[at:at + size])
        at += size
    return out


def run(client, folder, case):
    """Raises when the case fails."""
    params = {k: v for k, v in case["params"].items() if v is not None}
    compare.check(folder, case, answer(client, client.request(case["encoding"], params, compare.inputs(folder, case),
                                                              compare.graph(folder, case))))


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("address", metavar="HOST:PORT")
    p.add_argument("folder", metavar="DIR")
    p.add_argument("--encoding")
    p.add_argument("--only", default="")
    a = p.parse_args()
    client = rpc.Client(a.address)
    passed = failed = 0
    for case in compare.cases(a.folder):
        if a.only not in case["id"] or (a.encoding and a.encoding != case["encoding"]):
            continue
        try:
            run(client, a.folder, case)
            passed += 1
        except Exception as e:      # one case's failure must not hide the others
            failed += 1
            why = f"{e.code().name}: {e.details()}" if isinstance(e, grpc.RpcError) else f"{type(e).__name__}: {e}"
            print(f"FAIL {case['id']}: {why}")
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
