"""The examples of README.md and clients/curl.md run as they stand: every ```sh block, by itself, with bash -e."""
import os
import re
import subprocess

import pytest

from conftest import BUILD, ROOT

BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.M | re.S)


def blocks():
    for name in ("README.md", "clients/curl.md"):
        path = ROOT / name
        text = path.read_text() if path.exists() else ""
        for m in BLOCK.finditer(text):
            yield pytest.param(m[1], id=f"{name}:{text.count(chr(10), 0, m.start()) + 2}")


@pytest.mark.parametrize("script", blocks())
def test_example(server, script, tmp_path):
    env = {**os.environ, "POSENC_URL": server.url, "PATH": f"{BUILD}:{os.environ['PATH']}"}
    run = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", script], cwd=tmp_path, env=env, stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=120)
    assert run.returncode == 0, f"{script}\nanswered {run.returncode}:\n{run.stdout}"


def test_there_are_examples():
    assert len(list(blocks())) >= 15
