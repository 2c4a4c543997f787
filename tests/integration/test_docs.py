"""The examples of README.md and clients/curl.md run as they stand: every ```sh block, by itself, with bash -e, in a
scratch folder that looks like the repository. build/release there is the build under test."""
import json
import os
import re
import subprocess
import sys

import pytest

from conftest import BUILD, ROOT

BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.M | re.S)


def blocks():
    for name in ("README.md", "clients/curl.md"):
        path = ROOT / name
        text = path.read_text() if path.exists() else ""
        for m in BLOCK.finditer(text):
            yield pytest.param(m[1], id=f"{name}:{text.count(chr(10), 0, m.start()) + 2}")


@pytest.fixture
def folder(tmp_path):
    here, tools = tmp_path / "posenc", tmp_path / "bin"
    (here / "build").mkdir(parents=True)
    (here / "build/release").symlink_to(BUILD.resolve())
    for entry in ("clients", "lib", "proto", "tests"):
        (here / entry).symlink_to(ROOT / entry)
    tools.mkdir()
    (tools / "python3").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')      # the one that has numpy
    (tools / "python3").chmod(0o755)
    return here


@pytest.mark.parametrize("script", list(blocks()))
def test_example(server, script, folder):
    env = {**os.environ, "POSENC_URL": server.url, "PATH": f"{folder.parent / 'bin'}:{os.environ['PATH']}",
           "PYTHONDONTWRITEBYTECODE": "1"}
    run = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", script], cwd=folder, env=env, stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=120)
    assert run.returncode == 0, f"{script}\nanswered {run.returncode}:\n{run.stdout}"


def test_encodings_page():
    """lib/encodings/ENCODINGS.md is what `make docs` would write."""
    page = subprocess.run([sys.executable, ROOT / "tests/tools/encodings_md.py", BUILD / "posenc"], capture_output=True, text=True, check=True)
    assert page.stdout == (ROOT / "lib/encodings/ENCODINGS.md").read_text(), "run make docs"


def test_models_page():
    """The commands of lib/resolve/MODELS.md run; those that need more say so."""
    page = (ROOT / "lib/resolve/MODELS.md").read_text()
    commands = re.findall(r"^    (posenc (?:.*\\\n)*.*)\n( *needs )?", page, re.M)
    assert len(commands) > 10
    for line, needs in commands:
        explain = line.replace("posenc ", f"{BUILD}/posenc explain ", 1)
        run = subprocess.run(["bash", "-ec", explain], capture_output=True, text=True)
        assert run.returncode == 0 or (needs and "required" in run.stderr), f"{line}\n{run.stderr}"


def test_encodings_page_examples(server, folder):
    """Every example of lib/encodings/ENCODINGS.md, of the command and of REST, as it stands."""
    page = (ROOT / "lib/encodings/ENCODINGS.md").read_text()
    graph = folder / "graph.json"
    graph.write_text(re.search(r"^```json\n(.*?)^```$", page, re.M | re.S)[1])
    run = subprocess.run([BUILD / "posenc", "example-graph"], capture_output=True, text=True, check=True)
    assert json.loads(run.stdout) == json.loads(graph.read_text())
    seen = 0
    for line in re.findall(r"^Example: (.*)$", page, re.M):
        command, path, body = re.fullmatch(r"`(posenc .*?)`, or `(/v1/.*?)`(?: with the body `(.*)`)?", line).groups()
        run = subprocess.run(f"{BUILD}/{command} --format npz", shell=True, cwd=folder, capture_output=True)
        assert run.returncode == 0, f"{line}\n{run.stderr.decode()}"
        args = ["-d", body.replace("GRAPH", graph.read_text()), "-H", "Content-Type: application/json"] if body else []
        answer = subprocess.run(["curl", "-gfsS", *args, server.url + path], capture_output=True)
        assert answer.returncode == 0 and answer.stdout == run.stdout, f"{line}\n{answer.stderr.decode()}"
        seen += 1
    assert seen == page.count("\nExample: ") > 50


def test_there_are_examples():
    assert len(list(blocks())) >= 15
