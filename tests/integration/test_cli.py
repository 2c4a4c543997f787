"""The posenc command: the same bytes here and from a server, errors and exit statuses, files whole or not at all."""
import hashlib
import json
import os
import pty
import signal
import socket
import subprocess
import threading
import time

import numpy as np
import pytest

from conftest import BUILD

FORMATS = ["json", "npy", "npz", "safetensors", "bin", "csv"]
GRAPH = {"num_nodes": 7, "edge_index": [[0, 1, 2, 3, 4, 0, 5], [1, 2, 3, 4, 0, 5, 6]], "edge_weight": [1, 1, 1, 1, 1, 1, 0.5]}


def posenc(*args, **kw):
    return subprocess.run([str(BUILD / "posenc"), *map(str, args)], capture_output=True, timeout=120, **kw)


def output(*args, **kw):
    run = posenc(*args, **kw)
    assert run.returncode == 0, run.stderr.decode()
    return run.stdout


@pytest.fixture
def graph(tmp_path):
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(GRAPH))
    return path


def encodings():
    """(name, arguments, tensors) of every encoding's example."""
    run = posenc("list")
    for line in run.stdout.decode().splitlines():
        e = json.loads(posenc("describe", line.split()[0]).stdout)
        yield e["name"], e["example"].split("&"), e["input"] == "graph"


def outputs(name, args):
    return json.loads(output("explain", name, *args, "--format", "json"))["tensors"]


# ---- here and there ----

def test_examples_have_the_same_bytes_here_and_there(server, graph):
    seen = 0
    for name, example, has_graph in encodings():
        args = [*example, *(["--graph", graph] if has_graph else [])]
        for tensor, about in outputs(name, args).items():
            for fmt in FORMATS:
                if fmt == "csv" and len(about["shape"]) > 2:
                    continue
                call = [name, *args, "--tensor", tensor, "--format", fmt]
                assert output(*call) == output(*call, "--url", server.url), call
                seen += 1
        for fmt in ("json", "npz", "safetensors"):
            call = [name, *args, "--format", fmt]
            assert output(*call) == output(*call, "--url", server.url + "/"), call
    assert seen >= 12


@pytest.mark.parametrize("more", [
    ["--rows", "1:3"], ["--format", "npy", "--rows=0:0"], ["--data", "flat"], ["--data", "base64"], ["dtype=bfloat16", "--format", "npz"],
    ["--dtype", "float64", "--format=bin"], ["--scale", "1e-3"], ["--flip-sin-to-cos", "--layout", "split"], ["--flip_sin_to_cos=true"],
])
def test_options_have_the_same_bytes_here_and_there(server, more):
    call = ["sinusoidal", "--embedding-dim", "8", "num_positions=4", *more]
    assert output(*call) == output(*call, "--url", server.url)


def test_spellings(server):
    spellings = [["--embedding-dim", 8, "--num-positions", 4], ["--embedding_dim=8", "--num_positions=4"], ["embedding_dim=8", "num_positions=4"]]
    answers = {output("sinusoidal", *s, *where) for s in spellings for where in ([], ["--url", server.url])}
    assert len(answers) == 1


def test_long_lists(server):
    positions = ",".join(str(i * 0.25) for i in range(5000))
    call = ["sinusoidal", "embedding_dim=2", "--positions", positions, "--format", "npy"]
    assert output(*call) == output(*call, "--url", server.url)


def test_negative_values(server):
    call = ["sinusoidal", "embedding_dim=2", "--positions", "-1,0.5"]
    assert json.loads(output(*call))["params"]["positions"] == [-1, 0.5]
    assert output(*call) == output(*call, "--url", server.url)


# ---- graphs ----

def write_graph(folder, kind):
    index, weight = np.array(GRAPH["edge_index"]), np.array(GRAPH["edge_weight"])
    if kind == "json":
        (folder / "g").write_text(json.dumps(GRAPH))
        return []
    if kind == "npy":
        np.save(folder / "g.npy", index)
        (folder / "g.npy").rename(folder / "g")
        np.save(folder / "w.npy", weight.astype(np.float32))
        return ["--weights", folder / "w.npy", "--num-nodes", 7]
    if kind == "npz":
        np.savez(folder / "g.npz", edge_index=index.astype(np.int32), edge_weight=weight)
        (folder / "g.npz").rename(folder / "g")
        return ["--num-nodes=7"]
    header = json.dumps({"edge_index": {"dtype": "I64", "shape": [2, 7], "data_offsets": [0, 112]},
                         "edge_weight": {"dtype": "F64", "shape": [7], "data_offsets": [112, 168]}}).encode()
    (folder / "g").write_bytes(len(header).to_bytes(8, "little") + header + index.tobytes() + weight.tobytes())
    return ["--num_nodes", 7]


def test_graph_files_are_one_request(server, tmp_path):
    digests = set()
    for kind in ("json", "npy", "npz", "safetensors"):
        more = write_graph(tmp_path, kind)
        for where in ([], ["--url", server.url]):
            digests.add(json.loads(output("laplacian", "k=2", "--graph", tmp_path / "g", *more, *where))["digest"])
    assert len(digests) == 1


def test_graph_from_standard_input():
    assert json.loads(output("laplacian", "k=2", "--graph", "-", input=json.dumps(GRAPH).encode()))["encoding"] == "laplacian"


def test_batch_and_direction(server, tmp_path):
    g = {"num_nodes": 5, "edge_index": [[0, 1, 3], [1, 2, 4]], "ptr": [0, 3, 5], "directed": True}
    (tmp_path / "g").write_text(json.dumps(g))
    here, there = (output("laplacian", "k=1", "--graph", tmp_path / "g", *w) for w in ([], ["--url", server.url]))
    assert here == there and json.loads(here)["tensors"]["status"]["shape"] == [2]


@pytest.mark.parametrize("text, field", [
    ('{"num_nodes": 3, "edge_index": [[0, 1.5], [1, 2]]}', "graph.edge_index[0][1]: got 1.5"),
    ('{"num_nodes": 3, "edge_index": [[0, 1], [1, 9]]}', "got 9"),
    ('{"num_nodes": 3, "edge_index": [[0, 1], [1]]}', "graph.edge_index: got 2 sources, 1 targets"),
    ('{"num_nodes": 3, "edge_index": [0, 1]}', "graph.edge_index"),
    ('{"num_nodes": -3, "edge_index": [[0], [1]]}', "graph.num_nodes"),
    ('{"num_nodes": 3, "edges": []}', "graph.edges: got unknown name"),
    ('{"num_nodes": 3, "num_nodes": 4, "edge_index": [[0], [1]]}', "every name once"),
    ('{"num_nodes": 3, "edge_index": [[0], [1]], "edge_weight": ["x"]}', "graph.edge_weight[0]"),
    ('{"edge_index": [[0], [1]]}', "num_nodes"), ('{"num_nodes": 3', "graph"), ("", "graph"), ("[1]", "graph"), ("[" * 1000, "graph"),
    ('{"a": "\\u12"}', "graph"), ('{"num_nodes": 03}', "graph"),
])
def test_bad_graphs(text, field):
    run = posenc("laplacian", "k=2", "--graph", "-", input=text.encode())
    assert run.returncode == 2 and field in run.stderr.decode() and not run.stdout


# ---- what people read ----

def test_help_comes_from_the_rows(server):
    text = output("sinusoidal", "--help").decode()
    for word in ("--embedding-dim INT", "required", "interleaved", "outputs", "table", "posenc sinusoidal "):
        assert word in text
    assert text == output("sinusoidal", "--help", "--url", server.url).decode()
    assert "--input" in output("--help").decode() and output("--version").startswith(b"posenc 0.")
    assert output() == output("--help")


def test_list_and_describe(server):
    assert output("list") == output("list", "--url", server.url)
    for name, _, _ in encodings():
        here, there = (json.loads(output("describe", name, *w)) for w in ([], ["--url", server.url]))
        assert here == there and here["name"] == name and here["schema"]["type"] == "object"


def test_list_is_aligned():
    lines = output("list").decode().splitlines()
    column = min(line.index("  ", len(line.split()[0])) for line in lines if len(line.split()[0]) == max(len(x.split()[0]) for x in lines)) + 2
    assert all(line[column - 2:column] == "  " and line[column] != " " for line in lines)


@pytest.mark.parametrize("call", [["list"], ["describe", "rope"], ["explain", "rope", "head_dim=8"]], ids=lambda c: c[0])
def test_words_as_json(server, tmp_path, call):
    for i, where in enumerate(([], ["--url", server.url])):
        path = tmp_path / f"{i}.json"
        assert output(*call, "-o", path, *where) == b"" and path.read_bytes() == output(*call, "--format", "json", *where)
        assert isinstance(json.loads(path.read_text()), dict)


@pytest.mark.parametrize("call", [
    ["list", "--rows", "0:1"], ["list", "--tensor", "x"], ["list", "--format", "npz"], ["list", "-o", "x.npz"], ["list", "--fromat", "json"],
    ["describe", "rope", "--graph", "g"], ["describe", "rope", "--data", "flat"], ["describe", "rope", "--format", "csv"],
    ["explain", "rope", "head_dim=8", "--format", "npz"], ["explain", "rope", "head_dim=8", "-o", "x.npy"], ["explain", "rope", "head_dim=8", "--rows", "0:1"],
    ["explain", "rope", "head_dim=8", "--tensor", "cos"], ["explain", "rope", "head_dim=8", "--data", "flat"],
    ["resolve", "CONFIG", "--format", "npy"], ["resolve", "CONFIG", "--format", "csv"], ["resolve", "CONFIG", "-o", "x.bin"],
    ["resolve", "CONFIG", "--rows", "0:1"], ["resolve", "CONFIG", "--tensor", "x"], ["resolve", "CONFIG", "--data", "flat"],
    ["resolve", "CONFIG", "--graph", "g"], ["resolve", "CONFIG", "--num-nodes", "3"], ["resolve", "CONFIG", "--directed"],
    ["resolve", "CONFIG", "--input", "a=b"], ["resolve", "CONFIG", "--weights", "w"], ["resolve", "CONFIG", "--json", "--format", "npz"],
    ["rope", "head_dim=8", "--format", "npz", "--format", "json"], ["rope", "head_dim=8", "--directed"], ["rope", "head_dim=8", "--num-nodes", "3"],
    ["rope", "head_dim=8", "--weights", "w.npy"], ["rope", "head_dim=8", "--json"], ["laplacian", "k=1", "--directed=true"],
], ids=" ".join)
def test_no_flag_is_ignored(call, tmp_path):
    config = tmp_path / "config.json"
    config.write_text('{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4}')
    run = posenc(*[config if a == "CONFIG" else a for a in call], cwd=tmp_path)
    assert run.returncode == 2 and run.stderr.startswith(b"posenc: ") and not run.stdout, run.stdout[:200]
    assert list(tmp_path.iterdir()) == [config]


def test_rows_on_a_terminal():
    code, text, _ = terminal("sinusoidal", "embedding_dim=8", "num_positions=4", "--rows", "1:2")
    assert code == 0 and json.loads(text)["tensors"]["table"]["shape"] == [1, 8]


def test_direction_of_a_file_and_of_the_flag(tmp_path):
    g = {"num_nodes": 3, "edge_index": [[0, 1], [1, 2]], "directed": True}
    (tmp_path / "g").write_text(json.dumps(g))
    (tmp_path / "u").write_text(json.dumps({**g, "directed": False}))
    call = ["degree", "--graph"]
    assert output(*call, tmp_path / "g", "--directed=false") == output(*call, tmp_path / "u") != output(*call, tmp_path / "g")


@pytest.mark.parametrize("call, code, words", [
    (["resolv", "config.json"], 3, "command: got resolv, allowed: did you mean resolve?"),
    (["lits"], 3, "did you mean list?"), (["rop"], 3, "did you mean rope?"),
    (["rope", "head_dim=8", "--ouput", "x.npz"], 2, "ouput: got unknown name, allowed: did you mean --output?"),
    (["rope", "dim=8"], 2, "did you mean head_dim?"), (["rope", "preset=llama3"], 2, "did you mean llama-3-8b?"),
    (["learned", "table=q.npy", "num_positions=1"], 2, "table: got q.npy, allowed: --input table=FILE.npy"),
    (["learned", "num_positions=1", "--input", "table=absent.npy"], 2, "input table=absent.npy: got absent.npy, allowed: a file that can be read"),
])
def test_suggestions(call, code, words, tmp_path):
    run = posenc(*call, cwd=tmp_path)
    assert run.returncode == code and words in run.stderr.decode() and len(run.stderr.splitlines()) == 1, run.stderr


def test_tensors_from_files(server, tmp_path):
    table = np.arange(8, dtype=np.float32).reshape(4, 2)
    np.save(tmp_path / "t.npy", table)
    np.savez(tmp_path / "one.npz", other=table)
    np.savez(tmp_path / "two.npz", other=table[::-1], table=table)
    np.savez(tmp_path / "none.npz", other=table, another=table)
    half = (table.view(np.uint32) >> 16).astype(np.uint16)              # exact: small integers
    for name, dtype, data in (("f32", "F32", table), ("bf16", "BF16", half)):
        header = json.dumps({"table": {"dtype": dtype, "shape": [4, 2], "data_offsets": [0, data.nbytes]}}).encode()
        (tmp_path / f"{name}.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + data.tobytes())
    call = ["learned", "num_positions=3", "--format", "npy", "--tensor", "embedding", "--input"]
    for name in ("t.npy", "one.npz", "two.npz", "f32.safetensors", "bf16.safetensors"):
        for where in ([], ["--url", server.url]):
            (tmp_path / "out.npy").write_bytes(output(*call, f"table={tmp_path / name}", *where))
            assert (np.load(tmp_path / "out.npy") == table[:3]).all(), name
    for name in ("none.npz", "text"):
        (tmp_path / "text").write_text("no tensor")
        run = posenc(*call, f"table={name}", cwd=tmp_path)
        assert run.returncode == 2 and run.stderr.startswith(f"posenc: input table={name}: ".encode()), run.stderr
    (tmp_path / "own.npz").write_bytes(output("learned", "num_positions=4", "--format", "npz", "--input", f"table={tmp_path / 't.npy'}"))
    assert output(*call, f"table={tmp_path / 'own.npz'}") == output(*call, f"table={tmp_path / 't.npy'}")


def test_explain(server, graph):
    call = ["explain", "laplacian", "k=2", "--graph", graph]
    here, there = output(*call).decode(), output(*call, "--url", server.url).decode()
    digest = json.loads(output(*call[1:]))["digest"]
    for text in (here, there):
        assert f"digest    {digest}" in text and "tensor    eigenvectors float32 [7,2], 56 bytes" in text
        key = next(line for line in text.splitlines() if line.startswith("key")).split(None, 1)[1]
        assert hashlib.sha256(key.encode()).hexdigest() == digest
    assert "cached" in there
    a, b = (json.loads(output(*call, "--format", "json", *w)) for w in ([], ["--url", server.url]))
    assert {k: v for k, v in b.items() if k not in ("cached", "cost")} == {k: v for k, v in a.items() if k != "cost"}


def terminal(*args):
    """What the command writes when standard output is a terminal, and its exit status."""
    master, slave = pty.openpty()
    p = subprocess.Popen([str(BUILD / "posenc"), *map(str, args)], stdout=slave, stderr=subprocess.PIPE)
    os.close(slave)
    text = b""
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:
            break
        if not piece:
            break
        text += piece
    os.close(master)
    error = p.stderr.read()
    p.stderr.close()
    return p.wait(60), text.decode(), error.decode()


def test_summary_on_a_terminal(server):
    here, there = (terminal("sinusoidal", "embedding_dim=8", "num_positions=4", *w) for w in ([], ["--url", server.url]))
    assert here == there and here[0] == 0 and "table" in here[1] and "float32  [4, 8]  0 1 0 1" in here[1]


@pytest.mark.parametrize("fmt", ["npy", "npz", "safetensors", "bin"])
def test_binary_stays_off_terminals(fmt):
    code, text, error = terminal("sinusoidal", "embedding_dim=8", "num_positions=4", "--format", fmt)
    assert code == 2 and not text and "-o FILE" in error


# ---- errors ----

HERE_AND_THERE = [
    (2, ["sinusoidal", "embedding_dim=7", "num_positions=4"], "embedding_dim: got 7, allowed:"),
    (2, ["sinusoidal", "num_positions=4"], "embedding_dim"),
    (2, ["sinusoidal", "embeding_dim=8", "num_positions=x"], "embeding_dim: got unknown name, allowed: did you mean embedding_dim?"),
    (2, ["sinusoidal", "embedding_dim=8", "num_positions=4", "--num-positions", "5"], "num_positions: got given twice"),
    (2, ["sinusoidal", "embedding_dim=8", "num_positions=4", "--rows", "1:9"], "rows: got 1:9"),
    (2, ["sinusoidal", "embedding_dim=1000", "num_positions=1000", "--format", "json"], "65536"),
    (2, ["laplacian", "k=2", "--graph", "GRAPH", "--format", "npy"], "eigenvectors"),
    (2, ["laplacian", "k=2"], "graph: got absent, allowed: --graph FILE"),
    (3, ["sinusoidl", "embedding_dim=8"], "encoding: got sinusoidl, allowed: did you mean sinusoidal?"),
    (3, ["sinusoidal", "embedding_dim=8", "num_positions=4", "rev=999"], "rev: got 999"),
    (3, ["sinusoidal", "embedding_dim=8", "num_positions=4", "--tensor", "tabel"], "tensor: got tabel, allowed: did you mean table?"),
    (3, ["describe", "sinusoidl"], "sinusoidal"),
]


@pytest.mark.parametrize("code, args, words", HERE_AND_THERE, ids=lambda v: str(v)[:40])
def test_errors_are_the_same_here_and_there(server, graph, code, args, words):
    args = [str(graph) if a == "GRAPH" else a for a in args]
    here, there = posenc(*args), posenc(*args, "--url", server.url)
    assert (here.returncode, there.returncode) == (code, code), (here.stderr, there.stderr)
    assert words in here.stderr.decode() and words in there.stderr.decode()
    assert not here.stdout and not there.stdout
    assert all(line.startswith(b"posenc: ") for line in here.stderr.splitlines() + there.stderr.splitlines())
    assert here.stderr == there.stderr


def test_all_faults_at_once():
    run = posenc("sinusoidal", "embeding_dim=8", "num_positions=x", "dtype=int8")
    assert [line.split(b":")[1] for line in run.stderr.splitlines()] == [b" embeding_dim", b" num_positions", b" dtype"]


@pytest.mark.parametrize("args", [
    ["list", "extra"], ["describe"], ["explain"], ["sinusoidal", "--embedding-dim"], ["sinusoidal", "--format", "xml"],
    ["sinusoidal", "--rows", "3"], ["sinusoidal", "--rows", "a:b"], ["sinusoidal", "--deadline", "0"], ["sinusoidal", "--url", "here"],
    ["sinusoidal", "--input", "x"], ["sinusoidal", "--data", "hex"], ["sinusoidal", "-o", "x.foo"], ["sinusoidal", "--num-nodes", "-1"],
    ["laplacian", "--graph", "/nonexistent"], ["sinusoidal", "word"], ["sinusoidal", "--input", "positions=/nonexistent"],
    ["sinusoidal", "--data", "flat", "--format", "npy"], ["sinusoidal", "--threads", "0"], ["sinusoidal", "--threads", "two"],
])
def test_usage(args, tmp_path):
    run = posenc(*args, cwd=tmp_path)
    assert run.returncode == 2 and run.stderr.startswith(b"posenc: ") and not run.stdout and not list(tmp_path.iterdir())


# ---- servers that do not do their part ----

class Fake:
    """Answers each connection with the next of some ready-made bytes."""

    def __init__(self, *answers):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.heads, self.answers = [], list(answers)
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        for answer in self.answers:
            c, _ = self.listener.accept()
            with c:
                self.heads.append(c.recv(65536).decode())
                if answer is None:
                    time.sleep(5)
                else:
                    c.sendall(answer)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()


def http(status, body=b"{}", *headers):
    lines = [f"HTTP/1.1 {status} Word", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


CALL = ["sinusoidal", "embedding_dim=8", "num_positions=4"]


def test_nobody_there():
    run = posenc(*CALL, "--url", "http://127.0.0.1:1")
    assert run.returncode == 4 and run.stderr.startswith(b"posenc: url: got http://127.0.0.1:1")


def test_busy_server_is_asked_again():
    with Fake(http(503, b"{}", "Retry-After: 0"), b"", http(200)) as f:
        assert output(*CALL, "--url", f.url) == b"{}" and len(f.heads) == 3


def test_three_attempts():
    with Fake(*[http(503, b'{"detail": "draining"}', "Retry-After: 0")] * 4) as f:
        run = posenc(*CALL, "--url", f.url)
        assert run.returncode == 4 and b"draining" in run.stderr and len(f.heads) == 3


@pytest.mark.parametrize("status, code", [(400, 2), (401, 4), (403, 4), (404, 3), (413, 2), (422, 1), (429, 4), (500, 4), (504, 5)])
def test_statuses(status, code):
    body = json.dumps({"detail": "what is wrong", "errors": []}).encode()
    with Fake(http(status, body), http(status, body)) as f:
        run = posenc(*CALL, "--url", f.url)
        assert run.returncode == code and b"what is wrong" in run.stderr and len(f.heads) == 1


def test_faults_of_a_server_are_one_a_line():
    fault = {"field": "ab", "value": "1", "reason": "R", "allowed": "2 \u00fc"}
    body = json.dumps({"errors": [fault, {"field": "c", "value": "", "reason": "R", "allowed": "is required"}]}).encode()
    with Fake(http(400, body)) as f:
        run = posenc(*CALL, "--url", f.url)
        assert run.stderr.decode().splitlines() == ["posenc: ab: got 1, allowed: 2 \u00fc", "posenc: c: is required"]


def test_cut_answer_writes_nothing(tmp_path):
    with Fake(http(200, b"x" * 100)[:-10]) as f:
        run = posenc(*CALL, "--url", f.url, "-o", "t.npy", cwd=tmp_path)
        assert run.returncode == 4 and not list(tmp_path.iterdir())


def test_warnings_go_to_standard_error():
    with Fake(http(200, b"x", "Posenc-Warning: a%20b", "Posenc-Warning: c"), http(200, b'{"warnings": ["d", "e"]}')) as f:
        run = posenc(*CALL, "--format", "npy", "--url", f.url)
        assert run.returncode == 0 and run.stdout == b"x" and run.stderr == b"posenc: warning: a b\nposenc: warning: c\n"
        assert posenc(*CALL, "--url", f.url).stderr == b"posenc: warning: d\nposenc: warning: e\n"


def test_deadline_there():
    with Fake(None) as f:
        begun = time.monotonic()
        run = posenc(*CALL, "--url", f.url, "--deadline", 0.3, env={**os.environ, "POSENC_API_KEY": "s3cret"})
        assert run.returncode == 5 and time.monotonic() - begun < 3
        assert "Request-Timeout: 0." in f.heads[0] and "Authorization: Bearer s3cret" in f.heads[0]


# ---- files ----

@pytest.mark.parametrize("fmt", FORMATS)
def test_format_by_extension(tmp_path, fmt):
    assert output(*CALL, "-o", tmp_path / f"t.{fmt}") == b""
    assert (tmp_path / f"t.{fmt}").read_bytes() == output(*CALL, "--format", fmt)
    assert [p.name for p in tmp_path.iterdir()] == [f"t.{fmt}"]


def test_files_are_replaced_whole(tmp_path):
    old, link = tmp_path / "t.npy", tmp_path / "link.npy"
    old.write_bytes(b"old")
    old.chmod(0o640)
    link.symlink_to(old)
    before = old.stat().st_ino
    output(*CALL, "-o", link)
    assert link.is_symlink() and np.load(old).shape == (4, 8)
    assert old.stat().st_mode & 0o777 == 0o640 and old.stat().st_ino != before


@pytest.mark.parametrize("args", [["embedding_dim=7"], ["--rows", "3:99"], ["rev=999"]])
def test_failures_leave_the_old_file(tmp_path, args):
    old = tmp_path / "t.npy"
    old.write_bytes(b"old")
    call = ["sinusoidal", "num_positions=4", *(["embedding_dim=8"] if "embedding_dim=7" not in args else []), *args]
    assert posenc(*call, "-o", old).returncode in (2, 3)
    assert old.read_bytes() == b"old" and len(list(tmp_path.iterdir())) == 1


def test_places_that_cannot_be_written(tmp_path):
    for place in ("/dev/full", tmp_path / "none" / "t.npy"):
        run = posenc(*CALL, "--format", "npy", "-o", place)
        assert run.returncode == 1 and b"posenc: output: got " in run.stderr
    with open("/dev/full", "wb") as full:
        assert subprocess.run([str(BUILD / "posenc"), *CALL], stdout=full, stderr=subprocess.PIPE).returncode == 1
    assert output(*CALL, "--format", "npy", "-o", "/dev/null") == b"" and os.path.exists("/dev/null")


def big(*more):
    return ["sinusoidal", "embedding_dim=1024", "num_positions=400000", "dtype=float64", *more]


def test_threads_change_no_byte(tmp_path):
    rng = np.random.default_rng(8)
    ptr = np.concatenate([[0], np.cumsum(rng.integers(2, 12, 3000))])     # several chunks
    edges = np.concatenate([[np.arange(a + 1, b), rng.integers(a, np.arange(a + 1, b))] for a, b in zip(ptr, ptr[1:])], 1)
    np.savez(tmp_path / "graphs.npz", edge_index=edges, ptr=ptr)
    bodies = {output("laplacian", "k=4", "--graph", tmp_path / "graphs.npz", "--format", "npz", "--threads", n) for n in (1, 2, 7)}
    assert len(bodies) == 1


def test_deadline_here(tmp_path):
    begun = time.monotonic()
    run = posenc(*big("--deadline", 0.05, "-o", "t.npy"), cwd=tmp_path)
    assert run.returncode == 5 and b"deadline" in run.stderr and not list(tmp_path.iterdir())
    assert time.monotonic() - begun < 20


def test_partial_answer_is_written(tmp_path):
    side = 150
    at = np.arange(side * side).reshape(side, side)
    np.save(tmp_path / "grid.npy", np.concatenate([[at[:, :-1].ravel(), at[:, 1:].ravel()], [at[:-1].ravel(), at[1:].ravel()]], 1))
    run = posenc("laplacian", "k=500", "allow_partial=true", "--graph", "grid.npy", "--num-nodes", side * side, "--deadline", 2,
                 "-o", "t.npz", cwd=tmp_path)
    assert run.returncode == 0 and b"stopped early" in run.stderr, run.stderr
    with np.load(tmp_path / "t.npz") as t:
        assert t["status"].tolist() == [504] and np.isnan(t["residuals"]).any()


@pytest.mark.parametrize("words", [["magnetic_laplacian", "--directed"], ["svd", "k=12"], ["lambda_max"]])
def test_partial_answers_of_others_are_written(tmp_path, words):
    np.save(tmp_path / "random.npy", np.random.default_rng(1).integers(0, 6000, (2, 30000)))
    run = posenc(*words, "tol=1e-14", "max_iter=1", "allow_partial=true", "--graph", "random.npy", "--num-nodes", 6000, "-o", "t.npz", cwd=tmp_path)
    assert run.returncode == 0 and b"stopped early" in run.stderr, run.stderr
    with np.load(tmp_path / "t.npz") as t:
        assert t["status"].tolist() == [504] and np.isnan(t["residuals"]).any()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_leaves_nothing(tmp_path, number):
    p = subprocess.Popen([str(BUILD / "posenc"), *big("-o", "t.npy")], cwd=tmp_path, stderr=subprocess.PIPE)
    time.sleep(0.1)
    p.send_signal(number)
    error = p.communicate(timeout=60)[1]
    if p.returncode != 0:       # 0: it was done before the signal came
        assert p.returncode == -number and b"cancelled" in error and not list(tmp_path.iterdir())
