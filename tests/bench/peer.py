#!/usr/bin/env python3
"""peer.py MODULE FUNCTION ARGUMENTS (a JSON list): the other side of measure.py, and it speaks as bench_requests does.

Prints "ready", or "absent WHAT". Then for a line "SECONDS THREADS" (1) repeats for at least that long and prints
"cpu wall 0 repetitions peak": nanoseconds a repetition, and the largest resident size [KiB]."""
import gc
import importlib
import json
import re
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from measure import INSTALL  # noqa: E402

out, sys.stdout = sys.stdout, sys.stderr        # what libraries print is not ours


def peak():
    return int(re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())[1])


def main():
    module, function, arguments = sys.argv[1:]
    try:
        once = getattr(importlib.import_module(module), function)(*json.loads(arguments))
    except ImportError as e:
        print(f"absent {e.name} ({INSTALL})", file=out, flush=True)
        return
    print("ready", file=out, flush=True)
    for line in sys.stdin:
        least, n, wall = float(line.split()[0]), 0, 0.0
        gc.collect()
        Path("/proc/self/clear_refs").write_text("5")
        cpu, begin = time.process_time(), time.perf_counter()
        while True:
            once()
            n += 1
            wall = time.perf_counter() - begin
            if wall >= least:
                break
        print(f"{(time.process_time() - cpu) / n * 1e9:.1f} {wall / n * 1e9:.1f} 0 {n} {peak()}", file=out, flush=True)


main()
