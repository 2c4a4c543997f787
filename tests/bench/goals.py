#!/usr/bin/env python3
"""goals.py: every speed goal as a ratio to its peer in the same run. `make bench` builds what it needs and runs it.

Prints a Markdown table, and leaves it in build/bench/goals.md, with the machine in build/bench/goals.json. Progress is on
standard error. A goal that is missed fails nothing: it is said in the table. Exit status 1: a row ended in an error.
Families are modules of this folder whose rows() yields rows as measure.py describes them; measure.py times.

usage: goals.py [--only REGEX] [--quick] [--pairs N]
  --only REGEX   families whose name it matches wholly, and rows where it is found in "GOAL, PEER"
  --quick        fewer graphs, smaller graphs, less time a run
  --pairs N      rounds of ours and peer in turn (5)"""
import argparse
import importlib
import json
import os
import platform
import re
import subprocess
import sys
import time
import traceback
from pathlib import Path

import measure

FAMILIES = ["small", "walks", "large", "tables", "families", "serving", "latency"]
OUT = measure.ROOT / "build/bench"


# ---- the machine ----

def said(*command):
    """The first line that a command says; None: it is not there."""
    try:
        p = subprocess.run(command, capture_output=True, text=True, cwd=measure.ROOT)
    except OSError:
        return None
    return ((p.stdout or p.stderr).strip().split("\n") or [""])[0] if p.returncode == 0 else None


def caches():
    out = {}
    for c in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = ((c / f).read_text().strip() for f in ("level", "type", "size"))
        out[f"L{level}{'d' if kind == 'Data' else 'i' if kind == 'Instruction' else ''}"] = size
    return out


def busy():
    """Load averages, and since start the shares of time that others took from this machine and that it was idle."""
    t = [int(v) for v in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    return {"load": [round(v, 2) for v in os.getloadavg()], "ticks": t}


def versions():
    """Of the peers, each as its own Python says; None: absent."""
    code = ("import importlib.metadata as m, json, platform\ndef v(n):\n  try: return m.version(n)\n  except m.PackageNotFoundError: "
            "pass\nd={n: v(n) for n in ('numpy','scipy','torch','torch-geometric','networkx')}\nd['python']=platform.python_version()\n"
            "try:\n  import io, contextlib, numpy\n  f=io.StringIO()\n  with contextlib.redirect_stdout(f): numpy.show_config()\n"
            "  d['numpy config']=f.getvalue()\nexcept ImportError: pass\nprint(json.dumps(d))")
    out = json.loads(said(measure.PYTHON, "-c", code) or "{}")
    out["nginx"] = (said("nginx", "-v") or "").removeprefix("nginx version: ") or None
    out["grpc++"] = said("pkg-config", "--modversion", "grpc++")
    return out


def machine():
    info = Path("/proc/cpuinfo").read_text()
    model = re.search(r"^(?:model name|Processor)\s*:\s*(.*)$", info, re.M)
    family = re.findall(r"^(?:cpu family|model|stepping)\s*:\s*(\d+)$", info, re.M)[:3]
    core, took = measure.best_core()
    return {
        "date": time.strftime("%Y-%m-%d %H:%M"), "cpu": model[1] if model else platform.machine(),
        "family, model, stepping": " ".join(family), "cores": os.cpu_count(), "caches": caches(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}", "compiler": said(os.environ.get("CC", "cc"), "--version"),
        "posenc": said("git", "rev-parse", "--short", "HEAD"), "peers": versions(), "peers_python": measure.PYTHON,
        "openblas_coretype": core or "its own choice", "openblas_seconds": {c or "its own choice": t for c, t in took.items()},
    }


# ---- the table ----

def time_of(s):
    if s is None:
        return "-"
    for unit, size in (("s", 1), ("ms", 1e-3), ("us", 1e-6)):
        if s >= size:
            return f"{s / size:.3g} {unit}"
    return f"{s * 1e9:.3g} ns"


def short(v):
    return f"{v:.2f}" if v < 10 else f"{v:.1f}" if v < 100 else f"{v:.0f}"


def verdict(r):
    """reached, MISSED, absent, ERROR, or "-" where no goal is set."""
    if r["note"].startswith("error:"):
        return "ERROR"
    if "value" in r:
        return "-" if r["at_most"] is None else "reached" if r["value"] <= r["at_most"] else "MISSED"
    if r["ratio"] is None:
        return "absent"
    return "-" if r["target"] is None else "reached" if r["ratio"] >= r["target"] else "MISSED"


HEAD = "| goal | posenc | peer | its time | ratio | of pairs | wanted | verdict | note |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |"


def line(r):
    if "value" in r:
        cells = [r["goal"], f"{r['value']:.3g} {r['unit']}", r["peer"] or "-", "-", "-", "-",
                 "-" if r["at_most"] is None else f"at most {r['at_most']:g} {r['unit']}"]
    else:
        spread = r.get("spread")
        cells = [r["goal"], time_of(r["ours_s"]), r["peer"], time_of(r["peer_s"]), "-" if r["ratio"] is None else short(r["ratio"]),
                 f"{short(spread[0])} - {short(spread[1])}" if spread else "-", "-" if r["target"] is None else f"{r['target']:g}"]
    return "| " + " | ".join([*cells, verdict(r), r["note"].replace("|", "/").replace("\n", " ")]) + " |"


def described(m):
    peers = ", ".join(f"{k} {v or 'absent'}" for k, v in m["peers"].items() if k != "numpy config")
    return (f"{m['cpu']} ({m['family, model, stepping']}), {m['cores']} cores, {', '.join(f'{k} {v}' for k, v in m['caches'].items())}, "
            f"{m['memory_gib']} GiB, {m['system']}; {m['compiler']}; posenc {m['posenc']}.\nPeers on one thread: {peers}; OpenBLAS core "
            f"type {m['openblas_coretype']}.\nLoad {m['begin']['load'][0]} at the start, {m['end']['load'][0]} at the end; "
            f"{m['stolen_percent']} % of the time was taken by other machines.\nratio: time of the peer by time of posenc, median of "
            f"{measure.settings['pairs']} pairs in turn unless the row says otherwise; CPU time, wall time where threads are compared.\n")


def leave(m, rows):
    """Both files, after every family: a run that is stopped leaves what it measured."""
    m["end"] = busy()
    spent = [b - a for a, b in zip(m["begin"]["ticks"], m["end"]["ticks"])]
    m["stolen_percent"] = round(100 * spent[7] / max(sum(spent), 1), 1)
    OUT.mkdir(parents=True, exist_ok=True)
    count = {}
    for r in rows:
        count[verdict(r)] = count.get(verdict(r), 0) + 1
    end = "\n".join(["", ", ".join(f"{n} {v}" for v, n in count.items() if v != "-") or "no goal measured", "", described(m)])
    (OUT / "goals.md").write_text("\n".join([HEAD, *map(line, rows), end]))
    (OUT / "goals.json").write_text(json.dumps({"machine": m, "settings": {**measure.settings, "only": measure.settings["only"].pattern},
                                                "rows": [{**r, "verdict": verdict(r)} for r in rows]}, indent=1))
    return end


def main():
    p = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1])
    p.add_argument("--only", default="")
    p.add_argument("--quick", action="store_true")
    p.add_argument("--pairs", type=int, default=5)
    arguments = p.parse_args()
    if arguments.pairs < 1:
        p.error("--pairs: at least 1")
    measure.settings.update(pairs=arguments.pairs, quick=arguments.quick, least=0.03 if arguments.quick else 0.2)
    only = re.compile(arguments.only)
    m, rows = {"begin": busy()}, []
    m.update(machine())
    lacking = [n for n, v in m["peers"].items() if v is None]
    if lacking:
        measure.say(f"absent peers: {', '.join(lacking)}. `{measure.INSTALL}` makes a venv of the Python ones under build/; "
                    "the others: apt-get install nginx-light libgrpc++-dev protobuf-compiler-grpc")
    print(HEAD, flush=True)
    for name in FAMILIES:
        if not (measure.HERE / f"{name}.py").exists():
            measure.say(f"{name}: there is no such family yet")
            continue
        measure.settings["only"] = re.compile("") if only.fullmatch(name) else only
        try:
            for r in importlib.import_module(name).rows():
                rows.append({"family": name, "load": round(os.getloadavg()[0], 2), **r})
                print(line(r), flush=True)
        except Exception as e:      # the other families go on
            absent = isinstance(e, ImportError)
            if not absent:
                traceback.print_exc()
            rows.append({"family": name, **measure.missing(name, f"absent: {e.name} for {sys.executable}" if absent else f"error: {e!r}")})
            print(line(rows[-1]), flush=True)
        end = leave(m, rows)
    print(end)
    return any(verdict(r) == "ERROR" for r in rows)


if __name__ == "__main__":
    sys.exit(main())
