"""The framework of `make bench`: what becomes of figures, and of a peer that is not there. No figure is asserted."""
import json
import subprocess
import sys

import pytest

from conftest import BUILD, ROOT

sys.path.insert(0, str(ROOT / "tests/bench"))
import goals  # noqa: E402
import measure  # noqa: E402


class Told:
    """A side of a comparison that takes the seconds it is told, one after the other; an exception is raised."""

    limit = 7

    def __init__(self, *seconds):
        self.seconds = list(seconds)

    def start(self):
        if self.seconds and isinstance(self.seconds[0], measure.Absent):
            raise self.seconds[0]
        return self

    def run(self, least):
        s = self.seconds.pop(0)
        if isinstance(s, Exception):
            raise s
        return {"cpu": s, "wall": s / 2, "prepare": 0, "n": 1, "peak_kib": 1}

    def close(self):
        pass


def row(ours, peer, **kw):
    [r] = measure.compare("goal", ours, "peer", peer, pairs=3, **kw)
    return r


def test_ratio_is_the_median_of_the_rounds_without_the_first():
    r = row(Told(9, 1, 2, 4), Told(9, 3, 4, 20), target=3)
    assert (r["ours_s"], r["peer_s"], r["ratio"], r["spread"], r["pairs"]) == (2, 4, 3, [2, 5], 3)
    assert goals.verdict(r) == "reached" and "| 3.00 | 2.00 - 5.00 | 3 | reached |" in goals.line(r)
    assert goals.verdict({**r, "ratio": 2.99}) == "MISSED" and goals.verdict({**r, "target": None}) == "-"
    assert row(Told(9, 1, 2, 4), Told(9, 3, 4, 20), clock="wall")["ours_s"] == 1


@pytest.mark.parametrize("peer, ratio, verdict, note", [
    (Told(measure.Absent("torch (make bench-peers)")), None, "absent", "absent: torch (make bench-peers)"),
    (Told(9, measure.Overtime()), 3.5, "reached", "given up after 7 s"),
    (Told(9, measure.Failed("boom")), None, "ERROR", "error: boom")])
def test_peer_that_gives_no_figures(peer, ratio, verdict, note):
    r = row(Told(9, 2, 2, 2, 2, 2, 2), peer, target=3)
    assert (r["ratio"], goals.verdict(r)) == (ratio, verdict) and note in r["note"]
    assert (r["ours_s"] is None) == (verdict == "ERROR")


def test_bounds_and_only(monkeypatch):
    assert [goals.verdict(measure.bounded("g", v, "ms", 10)) for v in (10, 10.1)] == ["reached", "MISSED"]
    monkeypatch.setitem(measure.settings, "only", measure.re.compile("other"))
    assert list(measure.compare("goal", Told(), "peer", Told())) == [] and measure.wanted("goal", "another", "other")


def test_our_side_reads_requests_and_names_errors(tmp_path):
    def ask(params):
        (tmp_path / "p.json").write_text(json.dumps(params))
        p = subprocess.run([BUILD / "bench_requests", "sinusoidal", tmp_path / "p.json"], input="0 1\n0 2\n", text=True,
                           capture_output=True, timeout=60)
        return p.stdout.splitlines()
    lines = ask({"embedding_dim": 8, "num_positions": 4})
    assert len(lines) == 2 and all(len(x.split()) == 5 and float(x.split()[0]) > 0 for x in lines)
    assert ask({"embedding_dim": -1, "num_positions": 4})[0].startswith("error embedding_dim: got -1")


def test_peer_says_what_it_lacks():
    p = subprocess.run([sys.executable, ROOT / "tests/bench/peer.py", "no_such_module", "f", "[]"], text=True, capture_output=True,
                       timeout=60)
    assert p.stdout == "absent no_such_module (make bench-peers)\n"
