#!/usr/bin/env python3
"""instructions.py [--write]: instructions an element of each kernel and of the computation around it, counted by callgrind: a
regression shows without a quiet machine.

Fixed inputs, one thread. Valgrind knows no AVX-512: what runs, and is counted, is the AVX2 path. The last column is the ratio to
instructions.json, which --write renews; the counts are those of its compiler, others' differ. Nothing is asserted."""
import base64
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

TOP = Path(__file__).resolve().parents[2]
ENCODE = TOP / "build/release/encode"
BASELINE = Path(__file__).with_suffix(".json")
RNG = np.random.default_rng(1)


def tensor(a, dtype=None):
    return {"dtype": dtype or str(a.dtype), "shape": list(a.shape), "data": base64.b64encode(a.tobytes()).decode()}


def molecules(n):
    d = np.load(TOP / "tests/data/mol_hiv_1k.npz")
    e, ptr = d["edge_index"], d["ptr"][: n + 1]
    e = e[:, e[0] < ptr[-1]]
    return {"num_nodes": int(ptr[-1]), "edge_index": e.tolist(), "ptr": ptr.tolist()}


def workloads():
    """what, encoding, body, elements"""
    table = {"embedding_dim": 256, "num_positions": 1024}
    narrow = RNG.standard_normal((64, 768), dtype=np.float32)
    halves = narrow.astype(np.float16)
    bfloats = (narrow.view(np.uint32) >> 16).astype(np.uint16)
    heads = RNG.standard_normal((4, 64, 128), dtype=np.float32)
    graph = molecules(100)
    nodes = graph["num_nodes"]
    for dtype in ("float32", "float16", "bfloat16", "float64"):
        yield f"sinusoidal, {dtype}", "sinusoidal", {**table, "dtype": dtype}, 1024 * 256
    for dtype in ("float32", "float16", "bfloat16"):
        yield f"sinusoidal, split, {dtype}", "sinusoidal", {**table, "layout": "split", "dtype": dtype}, 1024 * 256
    for dtype in ("float32", "float16", "bfloat16"):
        yield f"sinusoidal, scaled, {dtype}", "sinusoidal", {**table, "scale_output": 3, "dtype": dtype}, 1024 * 256
    yield "sinusoidal at 1,024 places", "sinusoidal", {"embedding_dim": 256, "positions": [i * 7919 % 10**6 for i in range(1024)]}, 1024 * 256
    yield "sinusoidal in float32 steps", "sinusoidal", {**table, "compute_dtype": "float32"}, 1024 * 256
    yield "rope", "rope", {"head_dim": 128, "num_positions": 2048, "rope_theta": 500000}, 2 * 2048 * 128
    yield "timestep", "timestep", {"embedding_dim": 256, "timesteps": [i * 0.37 for i in range(1024)]}, 1024 * 256
    yield "random_fourier", "random_fourier", {"coords": tensor(RNG.uniform(0, 1, (512, 2)).astype(np.float32)), "m": 128, "sigma": 10, "seed": 1}, 512 * 256
    yield "rope_apply", "rope_apply", {"q": tensor(heads), "k": tensor(heads), "head_dim": 128, "num_positions": 64}, 2 * heads.size
    yield "learned_extend, linear", "learned_extend", {"table": tensor(narrow), "new_length": 128, "method": "linear"}, 128 * 768
    yield "combine of float32", "combine", {"embedding": tensor(narrow), "encoding": tensor(narrow), "match_rms": True}, narrow.size
    yield "combine of float16", "combine", {"embedding": tensor(halves), "encoding": tensor(halves)}, narrow.size
    yield "combine of bfloat16", "combine", {"embedding": tensor(bfloats, "bfloat16"), "encoding": tensor(bfloats, "bfloat16")}, narrow.size
    yield "kerple, log", "kerple", {"variant": "log", "query_length": 256, "key_length": 256, "p": [1.5, 1], "a": [0.5, 2]}, 2 * 256 * 256
    yield "laplacian k=8, 100 molecules", "laplacian", {"k": 8, "graph": graph}, nodes * 8
    yield "laplacian rw k=8, 100 molecules", "laplacian", {"k": 8, "normalization": "rw", "graph": graph}, nodes * 8
    yield "random_walk 20, 100 molecules", "random_walk", {"walk_length": 20, "graph": graph}, nodes * 20
    yield "shortest_path, 100 molecules", "shortest_path", {"graph": graph}, nodes


def count(encoding, body):
    """Instructions of posenc_compute, of each kernel within, and of the one that checks tensors before."""
    with tempfile.TemporaryDirectory() as d:
        out = f"{d}/out"
        r = subprocess.run(["valgrind", "--tool=callgrind", "--collect-atstart=no", "--toggle-collect=posenc_compute", "--toggle-collect=within_avx2", f"--callgrind-out-file={out}", ENCODE],
                           input=f"{encoding}\t{json.dumps(body)}\t{d}/result.npz\n", capture_output=True, text=True)
        if r.returncode or r.stdout.strip() != "ok":
            sys.exit(f"{encoding}: {r.stdout.strip()} {r.stderr[-500:]}")
        text = subprocess.run(["callgrind_annotate", "--auto=no", "--threshold=100", out], capture_output=True, text=True, check=True).stdout
    total = int(re.search(r"^\s*([\d,]+) .*PROGRAM TOTALS", text, re.M)[1].replace(",", ""))
    kernels = {}
    for cost, name in re.findall(r"^\s*([\d,]+) .*?:(\w+)_(?:base|avx2)(?:'\d+)?(?: \[|$)", text, re.M):
        kernels[name] = kernels.get(name, 0) + int(cost.replace(",", ""))
    return total, kernels


def main():
    if not shutil.which("callgrind_annotate"):
        sys.exit("instructions.py: valgrind is absent (Debian: valgrind)")
    names = subprocess.run(["nm", ENCODE], capture_output=True, text=True, check=True).stdout
    listed = set(re.findall(r" (\w+)_listed$", names, re.M))
    compiler = subprocess.run(["cc", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    old = json.loads(BASELINE.read_text()) if BASELINE.exists() else {"counts": {}}
    counts, run = {}, set()
    print(f"AVX2 path (valgrind knows no AVX-512), {compiler}; the baseline is of {old.get('compiler', 'no compiler')}.\n")
    print("| what | instructions an element | in kernels | to the baseline |\n| --- | --- | --- | --- |")
    for what, encoding, body, elements in workloads():
        total, kernels = count(encoding, body)
        inside = {k: v for k, v in kernels.items() if k in listed}
        run |= set(inside)
        counts[what] = round(total / elements, 3)
        most = ", ".join(f"{k} {v / elements:.2f}" for k, v in sorted(inside.items(), key=lambda x: -x[1]) if v > total / 100)
        ratio = f"{counts[what] / old['counts'][what]:.3f}" if what in old["counts"] else "-"
        print(f"| {what} | {counts[what]:.2f} | {most or '-'} | {ratio} |", flush=True)
    for name in sorted(listed - run):
        print(f"| {name} | not run | | |")
    if sys.argv[1:] == ["--write"]:
        BASELINE.write_text(json.dumps({"compiler": compiler, "counts": counts}, indent=1) + "\n")


if __name__ == "__main__":
    main()
