"""The examples of README.md and clients/curl.md run as they stand: every ```sh block, by itself, with bash -e, in a
scratch folder that looks like the repository. build/release there is the build under test."""
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


def test_there_are_examples():
    assert len(list(blocks())) >= 15
