"""Every golden case of an encoding that the server lists, over both doors."""
import io
import json
import urllib.request
from pathlib import Path

import grpc_golden
import numpy as np
import pytest
import rpc
from bodies import json_body
from golden import compare

GOLDEN = Path(__file__).parents[1] / "golden"
# No peer has these as a function of their own: their unit tests hold them against closed forms.
ALONE = {"chunk_position_ids", "combine", "continuous_mlp", "dynamic_position_bias", "hierarchical", "learned", "no_rope_layers",
         "random_sinusoidal", "relative_shift", "rope_permute"}
CASES = [(GOLDEN / folder, case) for folder in ("sequence", "graph") for case in compare.cases(GOLDEN / folder)]


@pytest.fixture(scope="module")
def doors(server):
    names = {e["name"] for e in json.loads(server.get("/v1/encodings"))["encodings"]}
    asked = [(folder, case) for folder, case in CASES if case["encoding"] in names]
    assert {case["encoding"] for _, case in asked} == names - ALONE, "an encoding without a golden case"
    return asked, rpc.Client(server.grpc)


def ask(server, folder, case):
    params = {k: v for k, v in case["params"].items() if v is not None}
    body = json_body(params, compare.inputs(folder, case), compare.graph(folder, case))
    r = urllib.request.Request(f"{server.url}/v1/encodings/{case['encoding']}.npz", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(r, timeout=120) as answer:
        return dict(np.load(io.BytesIO(answer.read())))


def failures(asked, run):
    out = []
    for folder, case in asked:
        try:
            run(folder, case)
        except Exception as e:          # one case's failure must not hide the others
            out.append(f"{case['id']}: {type(e).__name__}: {e}")
    print(f"{len(asked) - len(out)} passed, {len(out)} failed")
    return out


def test_rest(server, doors):
    assert not failures(doors[0], lambda folder, case: compare.check(folder, case, ask(server, folder, case)))


def test_grpc(doors):
    assert not failures(doors[0], lambda folder, case: grpc_golden.run(doors[1], folder, case))
