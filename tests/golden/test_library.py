"""Every golden case of an encoding that the library has, answered by the library alone (tests/golden/encode.c)."""
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "integration")]
BUILD = HERE.parents[1] / os.environ.get("POSENC_BUILD", "build/release")

from bodies import json_body  # noqa: E402
from golden import compare  # noqa: E402


def listed():
    lines = (HERE.parents[1] / "lib/encodings/list.h").read_text().splitlines()
    return {line[2:-1] for line in lines if line.startswith("X(")}


def build():
    """Brings the program that asks the library up to date: the variant is the folder's name."""
    variant = BUILD.name if BUILD.name in ("release", "debug", "asan", "tsan", "cov") else "release"
    make = ["make", "--no-print-directory", f"VARIANT={variant}", f"O={os.path.relpath(BUILD, HERE.parents[1])}", "encode"]
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS")}
    subprocess.run(make, cwd=HERE.parents[1], env=env, capture_output=True, check=True)


def test_library(tmp_path):
    build()
    asked = [(HERE / f, c) for f in ("sequence", "graph") for c in compare.cases(HERE / f) if c["encoding"] in listed()]
    orders, files = "", []
    for i, (folder, case) in enumerate(asked):
        body = json_body({k: v for k, v in case["params"].items() if v is not None}, compare.inputs(folder, case), compare.graph(folder, case))
        files.append(tmp_path / f"{i}.npz")
        orders += f"{case['encoding']}\t{json.dumps(body)}\t{files[-1]}\n"
    run = subprocess.run([BUILD / "encode"], input=orders, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    words, failures = run.stdout.splitlines(), []
    assert len(words) == len(asked)
    for (folder, case), word, file in zip(asked, words, files):
        try:
            assert word == "ok", word
            compare.check(folder, case, dict(np.load(file)))
        except AssertionError as e:
            failures.append(f"{case['id']}: {e}")
    print(f"{len(asked) - len(failures)} passed, {len(failures)} failed")
    assert asked and not failures, failures
