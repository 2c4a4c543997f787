"""One way to time: ours and a peer in turn, each in a process of its own, on one thread.

    ours = Ours("laplacian", {"k": 8}, {"edge_index": e, "ptr": ptr})        bench_requests, the C library
    peer = Peer("small", "numpy_eigh", path)                                  once = small.numpy_eigh(path); once(); once() ...
    yield from compare("HIV, k=8", ours, "numpy.linalg.eigh", peer, target=20)

A row is a dict: goal, peer, ours_s, peer_s, ratio (peer by ours: over 1 ours is faster), target (the least ratio, or None),
note; also spread (least and largest ratio of the pairs), pairs, peak_kib. A row that compares with no peer has value, unit
and at_most instead. Every round runs ours, then the peer, each for at least LEAST seconds; the first round warms up. Figures
are medians over the rounds, ratio is the median of the rounds' ratios. CPU time of the process; `wall` for several threads.

A peer is a function of the family's module; it imports what it needs, prepares its inputs and returns what is timed. It runs
in build/bench/peers (`make bench-peers`) where that is, otherwise in Debian's Python. What it cannot import is absent."""
import atexit
import json
import os
import re
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = ROOT / os.environ.get("POSENC_BUILD", "build/release")
VENV = ROOT / "build/bench/peers/bin/python"
PYTHON = str(VENV if VENV.exists() else "/usr/bin/python3")
INSTALL = "make bench-peers"

settings = {"pairs": 5, "least": 0.1, "quick": False, "only": re.compile("")}
_files = None


class Absent(Exception):
    """What a row needs is not installed; the text says what and how to get it."""


class Failed(Exception):
    """Ours or a peer could not do it; the text is its error."""


class Overtime(Exception):
    """A peer was still busy after its limit."""


def say(text):
    """Progress, for people."""
    print(time.strftime("%H:%M:%S"), text, file=sys.stderr, flush=True)


def quick():
    return settings["quick"]


def wanted(goal, *peers):
    """Whether --only wants a row of this goal against one of these peers."""
    return any(settings["only"].search(f"{goal}, {p}") for p in peers or [""])


def inputs():
    """A folder for files of this run."""
    global _files
    if not _files:
        _files = Path(tempfile.mkdtemp(prefix="posenc-bench-"))
        atexit.register(shutil.rmtree, _files, True)
    return _files


def write(name, value):
    """A file of this run: a dict of arrays as .npz, text as it is. Its path."""
    path = inputs() / f"{len(list(inputs().iterdir()))}-{name}"
    if isinstance(value, str):
        path.write_text(value)
    else:
        import numpy as np
        np.savez(path, **value)
    return str(path)


# ---- processes ----

def environment(core=None):
    """One thread everywhere, and OpenBLAS' core type. OpenBLAS 0.3.21 does not know recent processors and falls back to
    kernels for SSE3: a peer that is held back so would be no peer."""
    one = {v: "1" for v in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")}
    core = best_core()[0] if core is None else core
    if core:
        one["OPENBLAS_CORETYPE"] = core
    return {**os.environ, **one}


class Worker:
    """A process that answers every line "SECONDS THREADS" with a line of figures."""

    def __init__(self, command, env=None, limit=None, threads=1):
        self.limit, self.threads = limit, threads
        self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env,
                                        text=True, bufsize=1)

    def line(self):
        ready, _, _ = select.select([self.process.stdout], [], [], self.limit)
        if not ready:
            self.close(kill=True)
            raise Overtime
        text = self.process.stdout.readline().strip()
        if text.startswith("absent "):
            raise Absent(text[7:])
        if not text or text.startswith("error"):
            raise Failed(text or f"{self.process.args}: ended with status {self.process.wait()}")
        return text

    def run(self, least):
        self.process.stdin.write(f"{least} {self.threads}\n")
        self.process.stdin.flush()
        cpu, wall, prepare, n, peak = self.line().split()
        return {"cpu": float(cpu) * 1e-9, "wall": float(wall) * 1e-9, "prepare": float(prepare) * 1e-9, "n": int(n),
                "peak_kib": int(peak)}

    def close(self, kill=False):
        if self.process.poll() is None:
            self.process.kill() if kill else self.process.stdin.close()
            self.process.wait()
        self.process.stdout.close()


class Ours:
    """A request: parameters as JSON would have them, tensors (the graph among them) as arrays or the path of an .npz."""

    def __init__(self, encoding, params, tensors=None, num_nodes=None, directed=False, threads=1):
        self.threads, self.limit = threads, None
        self.command = [BUILD / "bench_requests", encoding, write(f"{encoding}.json", json.dumps(params))]
        self.tensors = tensors if tensors is None or isinstance(tensors, str) else write(f"{encoding}.npz", tensors)
        if self.tensors:
            self.command += [self.tensors, -1 if num_nodes is None else num_nodes]
        if directed:
            self.command.append("directed")

    def start(self):
        return Worker(self.command, threads=self.threads)


class Peer:
    """`function(*arguments)` of tests/bench/MODULE.py gives what is timed. Arguments are words, numbers, paths. `limit`:
    seconds after which one run is given up."""

    def __init__(self, module, function, *arguments, limit=None):
        self.command = [PYTHON, HERE / "peer.py", module, function, json.dumps(arguments)]
        self.limit = limit

    def start(self):
        w = Worker(self.command, environment(), self.limit)
        w.line()
        return w


# ---- rows ----

def compare(goal, ours, name, peer, target=None, note="", pairs=None, clock="cpu"):
    """The row of `ours` against `peer` (both have start()); none where --only does not want it."""
    if not wanted(goal, name):
        return
    pairs = pairs or settings["pairs"]
    row = missing(goal, note, name, target)
    say(f"{goal}, against {name}")
    a = b = None
    times = {"ours": [], "peer": []}
    try:
        a = ours.start()
        times["ours"].append(a.run(0))       # warms up; and where the peer is absent, this is still known
        try:
            b = peer.start()
            times["peer"].append(b.run(0))
            for _ in range(pairs):
                times["ours"].append(a.run(settings["least"]))
                times["peer"].append(b.run(settings["least"]))
        except Absent as e:
            row["note"] = f"absent: {e}"
        except Overtime:
            row["note"] = f"{name} was given up after {peer.limit} s: the ratio is at least this. {note}".strip()
            times["peer"] = []
        if not times["peer"]:
            times["ours"] += [a.run(settings["least"]) for _ in range(pairs)]
        mine = [t[clock] for t in times["ours"][1:]]
        row["ours_s"] = statistics.median(mine)
        row["prepare_s"] = statistics.median(t["prepare"] for t in times["ours"][1:])
        row["peak_kib"] = [max(t["peak_kib"] for t in times["ours"])]
        if times["peer"]:
            theirs = [t[clock] for t in times["peer"][1:]]
            ratios = [t / m for m, t in zip(mine, theirs)]
            row.update(peer_s=statistics.median(theirs), ratio=statistics.median(ratios), spread=[min(ratios), max(ratios)],
                       pairs=len(ratios))
            row["peak_kib"].append(max(t["peak_kib"] for t in times["peer"]))
        elif "absent" not in row["note"]:
            row.update(peer_s=peer.limit, ratio=peer.limit / row["ours_s"], pairs=0)
    except Failed as e:
        row["note"] = f"error: {e}"
    finally:
        for w in (a, b):
            if w:
                w.close()
    yield row


def bounded(goal, value, unit, at_most=None, note="", peer=""):
    """A row of a figure that has a bound and no peer."""
    return {**missing(goal, note, peer), "value": value, "unit": unit, "at_most": at_most}


def missing(goal, note, peer="", target=None):
    """A row that could not be measured; `note` says why: "absent: ..." or "error: ..."."""
    return {"goal": goal, "peer": peer, "ours_s": None, "peer_s": None, "ratio": None, "target": target, "note": note}


# ---- OpenBLAS ----

def core_types():
    """What OpenBLAS may be told on this CPU, "" (its own choice) among them."""
    text = Path("/proc/cpuinfo").read_text()
    flags = set(re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.M)[1].split())
    out = [""]
    if "avx2" in flags:
        out.append("Zen" if "AuthenticAMD" in text else "Haswell")
    if {"avx512f", "avx512bw", "avx512vl", "avx512dq"} <= flags:
        out.append("SkylakeX")
        if "avx512_bf16" in flags:
            out += ["Cooperlake", "SapphireRapids"]
    return out


_core = None


def best_core():
    """The core type with which NumPy's eigh and matmul are fastest here, and the CPU seconds of every type tried."""
    global _core
    if _core is None:
        took = {}
        for _ in range(2):
            for c in core_types():
                p = subprocess.run([PYTHON, HERE / "peer.py", "measure", "blas", "[]"], env=environment(c), input="0 1\n0 1\n",
                                   text=True, capture_output=True)
                lines = p.stdout.split("\n")
                if lines[0] == "ready":
                    took[c] = min(took.get(c, 1e9), float(lines[2].split()[0]) * 1e-9)
        _core = (min(took, key=took.get) if took else "", took)
        say(f"OpenBLAS core type: {_core[0] or 'its own choice'} of {({c or 'own': round(t, 4) for c, t in took.items()})}")
    return _core


def blas():
    """What best_core times: matrices of the sizes that the rows have."""
    import numpy as np
    draw = np.random.default_rng(1)
    some = [a + a.T for n, times in ((25, 60), (130, 4)) for a in draw.standard_normal((times, n, n))]
    big = draw.standard_normal((400, 400))

    def once():
        for a in some:
            np.linalg.eigh(a)
        for _ in range(3):
            big @ big
    return once
