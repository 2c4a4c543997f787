"""Model configurations: the same answer over REST, gRPC and the command; requests that can be posted as they are; numbers
against formulas; published configurations against what the models' own code computes."""
import io
import json
import math
import os
import re
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import grpc
import numpy as np
import pytest

import rpc
from conftest import BUILD, ROOT

SEEDS = sorted((ROOT / "tests/fuzz/seeds/resolve").glob("[0-9]*.json"))
LLAMA3 = {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "max_position_embeddings": 131072, "rope_theta": 500000.0,
          "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                           "original_max_position_embeddings": 8192}}
GEMMA3 = {"model_type": "gemma3", "text_config": {"num_hidden_layers": 7, "rope_scaling": {"rope_type": "linear", "factor": 8}},
          "vision_config": {"model_type": "siglip_vision_model", "hidden_size": 16, "image_size": 28, "patch_size": 14}}
NOT_COMPUTED = ("none", "conv_position")


def post(url, body, media="application/json"):
    """(status, headers, body)"""
    request = urllib.request.Request(url, body if isinstance(body, bytes) else json.dumps(body).encode(), {"Content-Type": media})
    try:
        with urllib.request.urlopen(request, timeout=60) as r:
            return r.status, r.headers, r.read()
    except urllib.error.HTTPError as e:
        return e.code, e.headers, e.read()


def load_safetensors(body):
    size = int.from_bytes(body[:8], "little")
    words = json.loads(body[8:8 + size])
    words.pop("__metadata__")
    at = {"F32": "<f4", "F64": "<f8", "I64": "<i8"}
    return {k: np.frombuffer(body[8 + size + w["data_offsets"][0]:8 + size + w["data_offsets"][1]], at[w["dtype"]]).reshape(w["shape"])
            for k, w in words.items()}


def resolve(server, config):
    status, _, body = post(f"{server.url}/v1/resolve.json", config)
    assert status == 200, body
    return json.loads(body)


def encode(server, name, params):
    status, _, body = post(f"{server.url}/v1/encodings/{name}.npz", params)
    assert status == 200, f"{name} refuses {params}: {body.decode(errors='replace')}"
    return dict(np.load(io.BytesIO(body)))


def faults(server, config):
    status, _, body = post(f"{server.url}/v1/resolve.json", config)
    assert status == 400, body[:300]
    return [e["field"] for e in json.loads(body)["errors"]]


def command(*args, stdin=None):
    return subprocess.run([str(BUILD / "posenc"), "resolve", *map(str, args)], input=stdin, capture_output=True, timeout=60)


@pytest.fixture(scope="module")
def client(server):
    c = rpc.Client(server.grpc)
    yield c
    c.close()


def over_grpc(client, text):
    return client.call("posenc.v1.EncodingService.Resolve", client.message("posenc.v1.ResolveRequest")(config_json=text))


# ---- one answer ----

@pytest.mark.parametrize("path", SEEDS, ids=lambda p: p.stem)
def test_doors_agree(server, client, path):
    text = path.read_bytes()
    status, _, body = post(f"{server.url}/v1/resolve.json", text)
    assert status == 200, body
    answer = json.loads(body)
    assert json.loads(command(path, "--json").stdout) == answer
    assert json.loads(command("-", "--json", "--url", server.url, stdin=text).stdout) == answer
    m = over_grpc(client, text)
    assert (m.model_type or None) == answer["model_type"] and list(m.warnings) == answer["warnings"]
    assert {d.path: json.loads(d.value_json) for d in m.defaults_used} == answer["defaults_used"]
    assert len(m.requests) == len(answer["requests"])
    for a, b in zip(m.requests, answer["requests"]):
        assert (a.layer_type, a.encoding, a.note) == (b["layer_type"], b["encoding"], b["note"])
        assert json.loads(a.params_json) == b["params"] and json.loads(a.needs_json) == b["needs"]
        assert list(a.layers) == b.get("layers", [])


CHOICES = {"timesteps": [0, 7], "relative_position": [-3, 0, 3], "positions": [0, 9], "query_length": 3, "key_length": 3, "length": 3,
           "ids": None, "patch_attention_mask": [[1, 1]], "height": 2, "width": 3, "crops_coords": [[0, 0], [2, 3]]}


def with_choices(q):
    """The parameters, with what `needs` says chosen."""
    p, needs = dict(q["params"]), q["needs"]
    if "table_shape" in needs and q["encoding"] == "learned":
        p.update(table=np.zeros(needs["table_shape"]).tolist())
        p.update({"input_ids": [[5, 6, 7]]} if "padding_idx" in p else {"num_positions": 2})
    if "posemb" in needs:
        p.update(posemb=np.zeros(needs["table_shape"]).tolist(), new_size=[3, 4])
    for name in needs:
        if name in CHOICES:
            p[name] = CHOICES[name]
    if "ids" in needs:
        p["ids"] = [[1] * len(p["axes_dim"])]
    if "crops_coords" in needs:
        p.update(height=2, width=3)
    if "query_length" in str(needs.get("key_length", "")):
        p["query_length"] = 3
    if "relative_position" in p:
        p.pop("query_length", None), p.pop("key_length", None)
    return p


@pytest.mark.parametrize("path", SEEDS, ids=lambda p: p.stem)
def test_requests_can_be_posted(server, path):
    for q in resolve(server, path.read_bytes())["requests"]:
        if q["encoding"] not in NOT_COMPUTED and np.prod(q["needs"].get("table_shape", [1])) < 300_000:
            assert encode(server, q["encoding"], with_choices(q))


# ---- numbers ----

def ladder(theta, dim):
    return theta ** -(np.arange(0, dim, 2) / dim)


def test_llama3(server):
    [q] = resolve(server, LLAMA3)["requests"]
    got = encode(server, "rope", {**q["params"], "dtype": "float64"})
    f = ladder(500000.0, 128)
    wavelength = 2 * math.pi / f
    smooth = (8192 / wavelength - 1) / 3
    want = np.where(wavelength > 8192, f / 8, np.where(wavelength < 2048, f, (1 - smooth) * f / 8 + smooth * f))
    assert np.allclose(got["inv_freq"], want, rtol=1e-12) and got["attention_factor"] == 1


def test_layer_types(server):
    answer = resolve(server, GEMMA3)
    full, sliding = (next(q for q in answer["requests"] if q["layer_type"] == t) for t in ("full_attention", "sliding_attention"))
    assert full["layers"] == [5] and sliding["layers"] == [0, 1, 2, 3, 4, 6]
    a, b = (encode(server, "rope", {**q["params"], "dtype": "float64"})["inv_freq"] for q in (full, sliding))
    assert np.allclose(a, ladder(1e6, 256) / 8, rtol=1e-12) and np.allclose(b, ladder(1e4, 256), rtol=1e-12)
    assert answer["defaults_used"]["text_config.rope_local_base_freq"] == 10000


def test_yarn(server):
    config = {"model_type": "deepseek_v3", "qk_rope_head_dim": 64, "max_position_embeddings": 163840, "rope_theta": 10000,
              "rope_scaling": {"type": "yarn", "factor": 40, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 1.0,
                               "original_max_position_embeddings": 4096}}
    [q] = resolve(server, config)["requests"]
    got = encode(server, "rope", {**q["params"], "dtype": "float64"})
    f = ladder(10000, 64)
    low, high = (64 * math.log(4096 / (n * 2 * math.pi)) / (2 * math.log(10000)) for n in (32, 1))
    low, high = max(math.floor(low), 0), min(math.ceil(high), 63)
    ramp = np.clip((np.arange(32) - low) / (high - low), 0, 1)
    assert np.allclose(got["inv_freq"], ramp * f / 40 + (1 - ramp) * f, rtol=1e-12)
    assert got["attention_factor"] == 1 and np.isclose(got["softmax_scale_multiplier"], (0.1 * math.log(40) + 1) ** 2)


# ---- containers ----

@pytest.mark.parametrize("ext", ["npz", "safetensors"])
def test_tensors(server, ext):
    status, headers, body = post(f"{server.url}/v1/resolve.{ext}", GEMMA3)
    assert status == 200 and headers["Cache-Control"] == "no-store", body
    tensors = dict(np.load(io.BytesIO(body))) if ext == "npz" else load_safetensors(body)
    requests = resolve(server, GEMMA3)["requests"]
    want = {f"{i}/{k}": v for i, q in enumerate(requests) if q["encoding"] == "rope"
            for k, v in encode(server, "rope", q["params"]).items() if k != "__posenc__.json"}
    assert {"0/inv_freq", "1/inv_freq"} <= set(want)
    for name, value in want.items():
        assert np.array_equal(tensors[name], value), name


def test_large_tables_are_left_out(server):
    sd3 = {"_class_name": "SD3Transformer2DModel", "attention_head_dim": 64, "num_attention_heads": 24, "patch_size": 2,
           "pos_embed_max_size": 192, "sample_size": 128}
    status, headers, body = post(f"{server.url}/v1/resolve.npz", sd3)
    assert status == 200 and "left%20out" in headers["Posenc-Warning"] or "left out" in headers["Posenc-Warning"]
    assert not [n for n in np.load(io.BytesIO(body)).files if n.startswith("0/")]


def test_what_resolve_refuses(server):
    assert post(f"{server.url}/v1/resolve.npy", {})[0] == 406
    assert post(f"{server.url}/v1/resolve.json", b"{}", "application/x-npz")[0] == 415
    assert post(f"{server.url}/v1/resolve.json?x=1", LLAMA3)[0] == 400
    with pytest.raises(urllib.error.HTTPError) as e:
        urllib.request.urlopen(f"{server.url}/v1/resolve.json")
    assert e.value.code == 405 and e.value.headers["Allow"] == "POST"


def test_large_configurations(server):
    padded = {**LLAMA3, "id2label": {str(i): f"class {i}" for i in range(30000)}}    # on the pool
    assert resolve(server, padded)["requests"] == resolve(server, LLAMA3)["requests"]
    status, _, body = post(f"{server.url}/v1/resolve.json", b" " * (2 << 20) + b"{}")
    assert status == 400 and json.loads(body)["reason"] == "LIMIT_EXCEEDED"


# ---- faults ----

def without(config, *path):
    config = json.loads(json.dumps(config))
    part = config
    for key in path[:-1]:
        part = part[key]
    del part[path[-1]]
    return config


@pytest.mark.parametrize("config, field", [
    (b'{"model_type": "llama", ', "$"),
    (b"[]", "$"),
    (without(LLAMA3, "rope_scaling", "factor"), "rope_scaling.factor"),
    (without(LLAMA3, "rope_scaling", "high_freq_factor"), "rope_scaling.high_freq_factor"),
    ({**LLAMA3, "rope_parameters": {"rope_type": "llama3", "factor": 4.0}}, "rope_scaling.factor"),
    ({**LLAMA3, "max_position_embeddings": 4096}, "rope_scaling.original_max_position_embeddings"),
    (b'{"model_type": "llama", "rope_theta": NaN}', "rope_theta"),
    (b'{"model_type": "llama", "rope_theta": 1, "rope_theta": 2}', "rope_theta"),
    ({"model_type": "gemma3", "text_config": {"layer_types": ["sideways_attention"]}}, "text_config.layer_types[0]"),
    ({"model_type": "nobody knows"}, "model_type"),
])
def test_faults(server, client, config, field):
    assert field in faults(server, config)
    text = config if isinstance(config, bytes) else json.dumps(config).encode()
    with pytest.raises(grpc.RpcError) as e:
        over_grpc(client, text)
    assert e.value.code() == grpc.StatusCode.INVALID_ARGUMENT and field in e.value.details()
    run = command("-", stdin=text)
    assert run.returncode == 2 and f"posenc: {field}: " in run.stderr.decode() and not run.stdout
    there = command("-", "--url", server.url, stdin=text)
    assert there.returncode == 2 and field in there.stderr.decode()


def test_no_configuration(client):
    with pytest.raises(grpc.RpcError) as e:
        client.call("posenc.v1.EncodingService.Resolve")
    assert e.value.code() == grpc.StatusCode.INVALID_ARGUMENT and "config_json" in e.value.details()


# ---- what people read ----

def test_table(tmp_path):
    path = tmp_path / "config with = and spaces.json"
    path.write_text(json.dumps(GEMMA3))
    run = command(path)
    out = run.stdout.decode()
    assert run.returncode == 0 and "model type  gemma3" in out and "layers 0-4, 6" in out and "factor=8" in out
    assert "text_config.rope_local_base_freq=10000" in out
    for wrong in (["resolve"], ["resolve", str(path), "twice"], ["resolve", "absent.json"], ["resolve", str(path), "--dim", "3"]):
        assert subprocess.run([str(BUILD / "posenc"), *wrong], capture_output=True).returncode == 2, wrong


LONGROPE = {"model_type": "phi3", "hidden_size": 256, "num_attention_heads": 8, "rope_theta": 10000.0, "max_position_embeddings": 131072,
            "original_max_position_embeddings": 4096,
            "rope_scaling": {"type": "longrope", "short_factor": [1.0 + i / 8 for i in range(16)], "long_factor": [1 + i for i in range(16)]}}


@pytest.mark.parametrize("config", [GEMMA3, LONGROPE], ids=["gemma3", "longrope"])
@pytest.mark.parametrize("indent", [None, 3])
def test_what_is_printed_is_run(config, indent, tmp_path):
    """The table's commands, pasted into a shell, say the digests of the params of the JSON."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config, indent=indent))
    text = command(path).stdout.decode()
    answer = json.loads(command(path, "--json").stdout)
    commands = re.findall(r"^    (posenc (?:.*\\\n)*.*)$", text, re.M)
    assert len(commands) == len([q for q in answer["requests"] if q["encoding"] != "none"]) > 0
    for line, q in zip(commands, [q for q in answer["requests"] if q["encoding"] != "none"]):
        if q["needs"]:                                                  # a table that is the caller's
            continue
        env = {**os.environ, "PATH": f"{BUILD}:{os.environ['PATH']}"}
        run = subprocess.run(["bash", "-ec", line.replace("posenc ", "posenc explain --format json ", 1)], env=env, capture_output=True)
        assert run.returncode == 0, run.stderr
        spelt = [f"{k}={v if isinstance(v, str) else json.dumps(v)}" for k, v in q["params"].items()]   # lists in brackets, with blanks
        again = subprocess.run([str(BUILD / "posenc"), "explain", "--format", "json", q["encoding"], *spelt], capture_output=True)
        assert again.returncode == 0, again.stderr
        assert json.loads(run.stdout)["digest"] == json.loads(again.stdout)["digest"]


@pytest.mark.parametrize("ext", ["json", "npz", "safetensors"])
def test_command_writes_what_the_server_answers(server, ext, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(GEMMA3))
    _, _, there = post(server.url + f"/v1/resolve.{ext}", GEMMA3)
    for flags in (["-o", tmp_path / f"a.{ext}"], ["--format", ext, "-o", tmp_path / "b"], ["--format", ext, "--url", server.url, "-o", tmp_path / "c"]):
        run = subprocess.run([str(BUILD / "posenc"), "resolve", tmp_path / "config.json", *flags], capture_output=True)
        assert run.returncode == 0 and not run.stdout, run.stderr
    a, b, c = ((tmp_path / name).read_bytes() for name in (f"a.{ext}", "b", "c"))
    assert a == b == c and a.rstrip(b"\n") == there.rstrip(b"\n")


# ---- published configurations, where the test data are ----

def published():
    folder = Path(os.environ.get("POSENC_TEST_DATA") or "/nonexistent") / "hf_configs"
    cases = []
    for name in ("manifest.json", "broken_manifest.json"):
        if (folder / name).exists():
            cases += [(folder, c) for c in json.loads((folder / name).read_text())]
    return cases or [pytest.param(None, None, marks=pytest.mark.skip("POSENC_TEST_DATA has no hf_configs"))]


NUMBERS = ("inv_freq", "attention_factor", "slopes", "cos", "sin", "embedding", "index", "bucket", "table")
CALLERS = ("seq_len", "height", "width", "timesteps", "relative_position", "query_length", "key_length")


def tensors_of(server, q, e):
    """The request's tensors, with the lengths and times that the expectation was computed for."""
    p = {**{k: e["params"][k] for k in CALLERS if k in e["params"]}, **q["params"]}
    span = p.get("relative_position")
    if isinstance(span, dict):
        p["relative_position"] = list(range(span["start"], span["stop"] + 1))
    if {"cos", "sin"} & set(e["outputs"]) and not {"num_positions", "ids", "height"} & set(p):
        return None                                              # places that a pipeline knows, and no file
    return encode(server, q["encoding"], p)


def disagreement(server, folder, q, e):
    """What differs; None: nothing."""
    got = tensors_of(server, q, e)
    for name, want in e["outputs"].items():
        if name not in NUMBERS or (got is None and name in ("cos", "sin")):
            continue
        if got is None or name not in got:
            return f"no {name}"
        want = np.load(folder / want) if isinstance(want, str) else np.array(want)
        t = e["tolerance"].get(name, e["tolerance"])
        a, b = got[name].astype(float).ravel(), want.astype(float).ravel()
        far = max(map(abs, e["params"].get("timesteps", [0])))
        allowed = (t.get("abs") or 0) + max(t.get("rel") or 0, 3e-7) * np.abs(b) + (t.get("angle_rel") or 0) * far + 1e-30
        if a.shape != b.shape or not (np.abs(a - b) <= allowed).all():
            return f"{name} differs"
    return None


def check_expected(server, folder, answer, e):
    if e["encoding"] in ("conv_position", "attention_temperature", "softmax_scale_multiplier"):
        return
    names = ("learned", "vit_resize") if e["encoding"] == "vit_learned_grid" else (e["encoding"],)
    near = [q for q in answer["requests"] if q["encoding"] in names and q["layer_type"] == e["layer_type"]]
    assert near, f"no {e['encoding']} for {e['layer_type']}"
    facts = {k: v for k, v in e["outputs"].items() if k in ("table_shape", "first_position")}
    if e["encoding"] in ("learned", "vit_learned_grid"):
        assert any(facts.items() <= q["needs"].items() for q in near), [q["needs"] for q in near]
    layers = e.get("applies_to")
    if isinstance(layers, dict) and "layers" in layers:
        near = [q for q in near if q.get("layers") == layers["layers"]]
        assert near, f"{e['layer_type']}: other layers"
    if set(NUMBERS) & set(e["outputs"]):
        assert None in [disagreement(server, folder, q, e) for q in near], f"{e['layer_type']} {e['encoding']}"


@pytest.mark.parametrize("folder, case", published(), ids=lambda v: v["name"] if isinstance(v, dict) else "")
def test_published(server, folder, case):
    text = (folder / case["config"]).read_bytes()
    if "expect_error" in case:
        wanted = [case["expect_error"]["field"], *case["expect_error"].get("accept_also", [])]
        assert set(wanted) & set(faults(server, text))
        return
    status, _, body = post(f"{server.url}/v1/resolve.json", text)
    answer = json.loads(body)
    if case["verdict"] == "refuse_or_note":
        assert status == 400 or answer["warnings"] or answer["defaults_used"]
        return
    assert status == 200, body
    told = {k.split(".")[-1] for k in answer["defaults_used"]}
    assert {k.split(".")[-1] for k in case["defaults_used"] or {}} <= told
    for e in case["expect"]:
        check_expected(server, folder, answer, e)
