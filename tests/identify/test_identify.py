"""identify over the public golden files, drawn tables and tables that are nothing; compare over injected mistakes.

The light form is part of `make check`; the whole:  python3 tests/identify/test_identify.py --drawn 500 --nothing 1000 --mistakes 20
Both print their seed. The library alone, by ctypes (build it first: make); needs no server."""
import argparse
import os
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import tables  # noqa: E402

SEED = int(os.environ.get("POSENC_TEST_SEED") or time.time_ns() % 10**9)


def as_file(table):
    """A table as np.load gives it, in a dtype that the library reads."""
    return table if str(table.dtype) in tables.DTYPES else table.astype("int64" if table.dtype.kind in "iu" else "float32")


def tally(results):
    """(right, of how many) by kind, and what went wrong."""
    all_, good, wrong = Counter(), Counter(), []
    for kind, ok, words in results:
        all_[kind] += 1
        good[kind] += ok
        wrong += [] if ok else [words]
    return sum(good.values()), sum(all_.values()), {k: f"{good[k]} of {all_[k]}" for k in all_}, wrong


def golden():
    for name, table, encoding, params, output in tables.golden():
        ok, words = tables.right(tables.identify(as_file(table)), table, encoding, params, output)
        yield encoding, ok, f"{name} {table.shape}: {words}"


def drawn(n, seed):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        words, table, encoding, params, output, undo = tables.draw(rng)
        ok, got = tables.right(tables.identify(table), table, encoding, params, output, undo)
        yield encoding, ok, f"{words} {table.shape}: {got}"


def nothing(n, seed):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        kind, table = tables.nothing(rng)
        matches = tables.identify(table)["matches"]
        yield kind, not matches, f"{kind} {table.shape}: {matches[:1]}"


def mistakes(n, seed):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        for names, table, encoding, params, output in tables.mistakes(rng):
            dtype = "float32" if table.dtype == np.float64 and rng.random() < 0.7 else table.dtype
            table = table.astype(dtype)
            if "short_angles" not in names and "rounded" not in names and "precision_of_angles" not in names and rng.random() < 0.3:
                table = (table + rng.normal(0, 1e-4 * np.abs(table).max(), table.shape)).astype(table.dtype) if table.dtype.kind == "f" else table
            got = tables.compare(table, encoding, params, output)
            yield sorted(names)[0], got["mistake"] in names, f"{sorted(names)} {encoding} {tables.query(params)}: {got['mistake']}"


def unexplained(n, seed):
    """Tables that differ from the request by noise, by one element, or altogether: no mistake is claimed."""
    rng = np.random.default_rng(seed)
    for i in range(n):
        d, rows = 2 * int(rng.integers(4, 40)), int(rng.integers(16, 120))
        params = {"embedding_dim": d, "num_positions": rows}
        right = tables.encode("sinusoidal", params)["table"]
        table = [right + rng.normal(0, 1e-3, right.shape), rng.normal(0, 1, right.shape), np.cumsum(rng.normal(0, .1, right.shape), 0),
                 np.where(rng.random(right.shape) < 0.02, 0, right), right + 0.2 * rng.random(d), right][i % 6].astype("f4")
        got = tables.compare(table, "sinusoidal", params)
        yield f"kind {i % 6}", got["mistake"] is None, f"kind {i % 6} {table.shape}: {got['mistakes'][:1]}"


def test_golden():
    good, all_, by, wrong = tally(golden())
    print(f"golden: {good} of {all_} named: {by}")
    assert good >= 0.95 * all_, wrong


def test_drawn():
    print(f"seed {SEED}")
    good, all_, by, wrong = tally(drawn(80, SEED))
    print(f"drawn: {good} of {all_} named: {by}")
    assert good >= 0.9 * all_, (SEED, wrong)        # of 500 at least 95 %; a few of 80 may be unlucky


def test_nothing():
    print(f"seed {SEED}")
    good, all_, _, wrong = tally(nothing(150, SEED))
    assert good == all_, (SEED, wrong)


KINDS = {"llama-2-7b": None, "qwen3-8b": None, "gemma-3-4b-global": "linear", "llama-3.1-8b": "llama3", "llama-4-scout": "llama3",
         "qwen2.5-7b-yarn": "yarn", "gpt-oss-20b": "yarn"}


@pytest.mark.parametrize("preset", KINDS)
def test_few_bits(preset):
    """Tables of released models in 16 bits: the scaling that made them, or none where the rows show none; to the last bit."""
    for dtype in ("bfloat16", "float16"):
        for rows in (128, 512, 2048):
            made = tables.encode("rope", {"preset": preset, "num_positions": rows, "dtype": dtype})
            for output in ("cos", "sin"):
                best = tables.identify(made[output])["matches"][0]
                kind = best["params"].get("rope_type")
                assert best["largest"] == 0 and best["output"] == output and kind in (KINDS[preset], None), (dtype, rows, best)
                assert rows < 2048 or kind == KINDS[preset] or output == "cos", (dtype, rows, best)


def test_mistakes():
    print(f"seed {SEED}")
    good, all_, _, wrong = tally(mistakes(1, SEED))
    assert good == all_, (SEED, wrong)


def test_no_mistake():
    good, all_, _, wrong = tally(unexplained(30, SEED))
    assert good == all_, (SEED, wrong)


def test_only_what_explains():
    """A default rope rounded to 16 bits is rounded, and nothing that a scaling, which changes none of it, would explain."""
    params = {"head_dim": 64, "num_positions": 128}
    table = tables.encode("rope", {**params, "dtype": "bfloat16"})["cos"]
    got = tables.compare(table, "rope", params, "cos")
    assert [m["mistake"] for m in got["mistakes"]] == ["rounded"], got["mistakes"]


@pytest.mark.parametrize("table, words", [
    (np.full((8, 4), np.nan, "f4"), "table[0][0]: got nan"), (np.zeros((1, 4), "f4"), "at least 2 rows"),
    (np.zeros((4, 0), "f4"), "axis 1 of size 0"), (np.array([[1, 2], [np.inf, 3]], "f4"), "table[1][0]: got inf")])
def test_refused(table, words):
    with pytest.raises(tables.Refused, match=".*") as e:
        tables.identify(table)
    assert words in str(e.value)
    with pytest.raises(tables.Refused) as e:
        tables.compare(table, "sinusoidal", {"embedding_dim": 4, "num_positions": 8})
    assert words in str(e.value)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--seed", type=int, default=SEED)
    for name in ("drawn", "nothing", "mistakes"):
        p.add_argument(f"--{name}", type=int, default=0)
    a = p.parse_args()
    print(f"seed {a.seed}")
    failed = False
    for what, results, least in (("golden", golden(), 0.95), ("drawn", drawn(a.drawn, a.seed), 0.95), ("nothing", nothing(a.nothing, a.seed), 1),
                                 ("mistakes", mistakes(a.mistakes, a.seed), 1), ("no mistake", unexplained(6 * a.mistakes, a.seed), 1)):
        good, all_, by, wrong = tally(results)
        print(f"{what}: {good} of {all_}: {by}", *wrong, sep="\n    ")
        failed |= good < least * all_
    sys.exit(failed)


if __name__ == "__main__":
    main()
