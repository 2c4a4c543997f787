#!/usr/bin/env python3
"""tables.py [ROUNDS]: the goals of tables: against the store limit, against NumPy and torch, and what tensors as input cost.

rows() yields a dict a goal: goal, peer, ours_s, peer_s, ratio, target, note. ratio: seconds of the peer by seconds of posenc; of the
store limit its share that is reached. Alternated in one run, medians, one thread each; an absent peer has a row that says so."""
import statistics
import subprocess
import sys

import numpy as np

import families
from families import BUILD, Posenc, spent, torch

SHARE, TWO_CORES, GATHER = 0.85, 1.8, 20.0


def store_rows(rounds):
    out = subprocess.run([BUILD / "bench_tables", str(rounds), "--tsv"], capture_output=True, text=True, check=True).stdout
    for line in out.splitlines():
        what, size, ours, limit = line.split("\t")
        ours, limit, size = float(ours), float(limit), int(size)
        if what.endswith("threads"):
            yield dict(goal=what, peer="posenc, 1 thread", ours_s=ours, peer_s=limit, ratio=limit / ours, target=TWO_CORES, note="wall clock; bound by memory where float32")
        else:
            yield dict(goal=what, peer="store limit", ours_s=ours, peer_s=limit, ratio=limit / ours, target=SHARE,
                       note=f"{size / ours * 1e-9:.1f} of {size / limit * 1e-9:.1f} GB/s")


def exact_places(p, d):
    """The same accuracy: angles and sines in float64, rounded once."""
    a = p.astype(np.float64)[:, None] * 10000.0 ** (-np.arange(0, d, 2) / d)
    out = np.empty((len(p), d), np.float32)
    out[:, 0::2], out[:, 1::2] = np.sin(a), np.cos(a)
    return out


def against(engine, rounds, goal, encoding, body, peers, target, note):
    """One row a peer: (name, function or None where it is absent)."""
    ours, theirs = [], {name: [] for name, f in peers if f}
    for i in range(rounds + 1):
        s = engine.seconds(encoding, body)
        times = {name: spent(f) for name, f in peers if f}
        if i:  # the first round warms up
            ours.append(s)
            for name, t in times.items():
                theirs[name].append(t)
    mine = statistics.median(ours)
    for name, f in peers:
        if f:
            t = statistics.median(theirs[name])
            yield dict(goal=goal, peer=name, ours_s=mine, peer_s=t, ratio=t / mine, target=target, note=note)
        else:
            yield dict(goal=goal, peer=name, ours_s=mine, peer_s=None, ratio=None, target=target, note="absent")


def rows(rounds=7):
    yield from store_rows(rounds)
    engine = Posenc()
    places = np.random.default_rng(2).integers(0, 10**6, 2048)
    yield from against(engine, rounds, "2,048 places to 10^6, 128 wide", "sinusoidal", {"embedding_dim": 128, "positions": places.tolist()},
                       [("numpy float64", lambda: exact_places(places, 128)), ("numpy float32", lambda: families.sinusoid_at(np, places, 128)),
                        ("torch float32", (lambda: families.sinusoid_at(torch, places, 128)) if torch else None)],
                       GATHER, "in float32, angles near 10^6 are off by 0.03")
    wanted = ("rope_apply", "combine", "learned_extend", "position_ids", "sinusoidal 2048", "rope 8192", "timestep", "sinusoidal_2d")
    for _, what, encoding, body, by_numpy, by_torch in families.rows():
        if what.startswith(wanted):
            peers = [("numpy", by_numpy)] if by_numpy else []
            peers += [("torch", by_torch if torch else None)] if by_torch else []
            yield from against(engine, rounds, what, encoding, body, peers, 1.0, "checked, not named; the result's memory is fresh")


if __name__ == "__main__":
    print("| goal | peer | posenc ms | peer ms | ratio | target | note |\n| --- | --- | --- | --- | --- | --- | --- |")
    for r in rows(int(sys.argv[1]) if len(sys.argv) > 1 else 7):
        peer = "-" if r["peer_s"] is None else f"{r['peer_s'] * 1e3:.3f}"
        ratio = "-" if r["ratio"] is None else f"{r['ratio']:.2f}"
        print(f"| {r['goal']} | {r['peer']} | {r['ours_s'] * 1e3:.3f} | {peer} | {ratio} | {r['target']:g} | {r['note']} |", flush=True)
