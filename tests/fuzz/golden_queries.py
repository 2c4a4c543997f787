"""golden_queries.py FOLDER: the sequence cases of tests/golden that fit in a query, as seeds of fuzz_encodings: NAME?QUERY, one file each."""
import json
import sys
from pathlib import Path

import numpy

golden = Path(__file__).resolve().parents[1] / "golden" / "sequence"
LONGEST = 6000


def text(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list) and not any(isinstance(v, list) for v in value):
        return ",".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


for case in json.loads((golden / "manifest.json").read_text()):
    files = {k: golden / (f["file"] if isinstance(f, dict) else f) for k, f in case["inputs"].items()}
    if any(f.stat().st_size > LONGEST for f in files.values()):
        continue
    params = {k: text(v) for k, v in case["params"].items() if v is not None}
    params |= {k: json.dumps(numpy.load(f).tolist(), separators=(",", ":")) for k, f in files.items()}
    query = "&".join(f"{k}={v}" for k, v in params.items())
    if len(query) <= LONGEST:
        (Path(sys.argv[1]) / case["id"].replace("/", "-")).write_text(f"{case['encoding']}?{query}")
