"""tables.py: rows of goals.py: tables against what stores alone reach in the same run (bench_tables), and rows at arbitrary
positions against NumPy. Alternated, medians, one thread; families.py has tables against what users write."""
import subprocess

import numpy as np

import measure

SHARE, TWO_CORES, GATHER = 0.85, 1.8, 20.0
PLACES, WIDTH = 2048, 128


def places():
    return np.random.default_rng(2).integers(0, 10**6, PLACES)


def gather(dtype):
    """What measure.py times: the rows of sinusoidal at those places, angles and sines in `dtype`."""
    p = places()

    def once():
        a = p.astype(dtype)[:, None] * (10000.0 ** (-np.arange(0, WIDTH, 2) / WIDTH)).astype(dtype)
        out = np.empty((PLACES, WIDTH), np.float32)
        out[:, 0::2], out[:, 1::2] = np.sin(a), np.cos(a)
        return out
    return once


def limits():
    tsv = subprocess.run([measure.BUILD / "bench_tables", "--tsv"], capture_output=True, text=True, check=True).stdout
    for line in tsv.splitlines():
        what, size, ours, limit = line.split("\t")
        ours, limit, size = float(ours), float(limit), int(size)
        two = what.endswith("threads")
        yield {"goal": f"tables: {what}", "peer": "posenc, 1 thread" if two else "store limit", "ours_s": ours, "peer_s": limit,
               "ratio": limit / ours, "target": TWO_CORES if two else SHARE,
               "note": "by the wall clock" if two else f"{size / ours * 1e-9:.1f} of {size / limit * 1e-9:.1f} GB/s"}


def rows():
    if measure.wanted("tables", "store limit", "posenc, 1 thread"):
        yield from limits()
    ours = measure.Ours("sinusoidal", {"embedding_dim": WIDTH, "positions": places().tolist()})
    goal = f"tables: {PLACES} places to 10^6, {WIDTH} wide"
    yield from measure.compare(goal, ours, "numpy, float64", measure.Peer("tables", "gather", "float64"), GATHER, "as exact as posenc")
    yield from measure.compare(goal, ours, "numpy, float32", measure.Peer("tables", "gather", "float32"), None, "angles are off by 0.03")
