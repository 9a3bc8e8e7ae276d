"""The parts of the comparison with other tools that can be wrong without a peer: distributions, coverage,
reports."""

from __future__ import annotations

import json
import math
import sys
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import discreet
from benchmarks import peers, peers_report, peers_tools
from benchmarks.environments import Found, Peer, find


def test_the_naive_enumeration_is_the_distribution_of_ehd() -> None:
    for prior, counts in (((1.0, 1.0), (7, 3)), ((0.5, 2.0, 1.0), (4, 0, 5))):
        n, epsilon = sum(counts), 1.5
        sensitivity = float(discreet.global_sensitivity(n, prior))
        candidates, probabilities = peers_tools.naive_distribution(prior, counts, epsilon, sensitivity)
        outputs, log_probability = discreet.mechanism("ehd", prior=prior, n=n, epsilon="1.5").log_pmf(counts)
        distribution = dict(zip(map(tuple, outputs.tolist()), np.exp(log_probability).tolist(), strict=True))
        assert len(candidates) == math.comb(n + len(prior) - 1, len(prior) - 1) == len(distribution)
        assert probabilities == pytest.approx([distribution[c] for c in candidates], rel=1e-6)


def test_the_peers_are_given_the_same_candidates_and_scores() -> None:
    prior, counts = (0.5, 2.0, 1.0), (4, 0, 5)
    rows, scores = peers_tools.scored_candidates(prior, counts)
    naive = list(peers_tools.naive_candidates(9, 3))
    assert [tuple(row) for row in rows.tolist()] == naive
    expected = [-peers_tools.naive_distance(prior, counts, c) for c in naive]
    assert scores == pytest.approx(expected, rel=1e-9, abs=1e-7)


def test_a_job_makes_the_releases_it_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = count()
    monkeypatch.setattr(peers_tools, "time", SimpleNamespace(perf_counter=lambda: next(ticks)))
    job = {"tool": "naive enumeration", "prior": [1, 1], "epsilon": 1.0, "sensitivity": 0.4}
    result = peers_tools.perform({**job, "rows": [[3, 2], [0, 5]], "repetitions": 4})
    assert len(result["counts"]) == 8
    assert all(sum(counts) == 5 for counts in result["counts"])
    assert (result["first_s"], result["each_s"]) == (1, 1)
    assert result["peak_mb"] >= result["base_mb"] > 1
    stopped = peers_tools.perform({**job, "rows": [[3, 2]], "repetitions": 9, "seconds": 0, "at_least": 3})
    assert len(stopped["counts"]) == 3


def test_clamped_counts_and_rounded_proportions() -> None:
    assert peers_tools.clamp([-3, 4, 12.0], 10) == [0, 4, 10]
    assert peers.rounded_counts((1, 1, 1), 10) == (4, 3, 3)
    assert peers.rounded_counts((0.62, 0.38), 100) == (62, 38)
    assert sum(peers.rounded_counts((0.001, 0.0, 0.3335, 0.6655), 1000)) == 1000


def test_coverage_of_a_known_case() -> None:
    share, error = peers.coverage(np.array([[0.5, 0.04], [0.06, 0.94], [0.96, 0.01], [0.05, 0.95]]))
    assert share == pytest.approx((0.5 + 1 + 0 + 1) / 4)
    assert error == pytest.approx(np.std([0.5, 1, 0, 1], ddof=1) / 2)


def test_coverage_without_noise_is_what_is_promised() -> None:
    """A difference of 5 standard errors has probability 6e-7."""
    rng = np.random.default_rng(0)
    theta = rng.dirichlet((1.0, 1.0, 1.0), 20_000)
    true = rng.multinomial(50, theta)
    share, error = peers.coverage(peers.plug_in(true, theta)[0])
    assert abs(share - 0.9) < 5 * error < 0.02
    far, _ = peers.coverage(peers.plug_in(np.roll(true, 1, axis=1), theta)[0])
    assert far < 0.5


def test_noise_aware_intervals_cover_where_plug_in_ones_do_not() -> None:
    rng = np.random.default_rng(1)
    theta = rng.dirichlet((1.0, 1.0), 400)
    m = discreet.mechanism("lattice", prior=(1.0, 1.0), n=50, epsilon="0.2")
    noisy = rng.multinomial(50, theta) + m.simulate_noise(400, rng)
    released = m.decoder.decode_many(noisy)
    below, widths = peers.noise_aware_intervals("discreet lattice", 0.2, released, noisy.tolist(), theta)
    share, error = peers.coverage(below)
    assert abs(share - 0.9) < 5 * error < 0.1
    plug_in, narrow = peers.plug_in(released, theta)
    assert peers.coverage(plug_in)[0] < 0.8
    assert widths.shape == narrow.shape == (peers.WIDTHS, 1)
    assert widths.mean() > narrow.mean()


def test_errors_are_zero_without_noise_and_know_other_totals() -> None:
    true = np.array([[3, 7]])
    errors = peers.hellinger_errors(true, np.array([[3, 7], [3, 9]]))
    assert errors[0] == 0
    a, b = np.array([4.0, 8.0]), np.array([4.0, 10.0])

    def log_beta(x: np.ndarray) -> float:
        return sum(map(math.lgamma, x)) - math.lgamma(x.sum())

    coefficient = math.exp(log_beta((a + b) / 2) - (log_beta(a) + log_beta(b)) / 2)
    assert errors[1] == pytest.approx(math.sqrt(1 - coefficient))


def test_a_peer_that_fails_to_import_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    absent = Peer("absent", (), "no_such_module_anywhere", (), clashes=True)
    folder = tmp_path / "absent" / "bin"
    folder.mkdir(parents=True)
    (folder / "python").symlink_to(sys.executable)
    found = find(absent, tmp_path)
    assert found.python is None
    assert "No module named 'no_such_module_anywhere'" in found.reason
    monkeypatch.setattr(peers, "PEERS", (absent,))
    monkeypatch.setattr(peers, "find", lambda peer: found)
    assert peers.find_peers() == {"absent": found}
    assert "absent" in (printed := capsys.readouterr().out)
    assert "skipped" in printed
    missing = dict.fromkeys(("OpenDP", "diffprivlib", "dp-accounting"), Found(None, {}, "not here"))
    bench = peers.Bench(peers.QUICK, missing)
    assert [column for column, *_ in bench.tools("counts")] == ["discreet"]
    assert [column for column, *_ in bench.tools("exponential")] == ["discreet", "naive"]
    assert list(bench.accounting()) == []


def test_a_worker_that_ends_or_is_late_gives_an_error_and_no_more() -> None:
    bench = peers.Bench(peers.QUICK, {})
    with peers.Worker(sys.executable) as worker:
        unknown = worker.ask({**bench.job("naive enumeration", [(2, 2)], 1.0), "tool": "nobody"})
        assert unknown["error"].startswith("KeyError")
        late = worker.ask(bench.job("naive enumeration", [(200, 200, 200, 200)], 1.0), seconds=0.05)
        assert "not finished" in late["error"]


# ---- reports -------------------------------------------------------------------------------------------


def figure(tool: str, value: float, measure: str = "error", **more: Any) -> dict[str, Any]:
    setting = more.pop("setting", "wine, cultivar, k = 3, n = 1000, ε = 0.5")
    content = {"measure": measure, "method": "counts", "setting": setting, "tool": tool, "value": value}
    return {**content, "unit": "H", "standard_error": 0.0, "more": {}, **more}


@pytest.fixture
def recorded() -> dict[str, Any]:
    prior = "data from the prior, k = 2, n = 100, ε = 0.1"
    conversion = "20 draws of a mean and 20 tables of ε = 0.1, δ = 1e-06"
    result = {
        "date": "2026-01-02",
        "quick": False,
        "machine": {"cores": 2, "load_before_and_after": [[0.5, 0, 0], [1, 0, 0]]},
        "versions": {"discreet": "0.1.0"},
        "peers": {
            "OpenDP": {"versions": {"opendp": "0.16.0"}, "skipped": ""},
            "d3p": {"versions": {"d3p": "0.2.0"}, "skipped": "import d3p.svi: AttributeError"},
        },
        "parameters": {"relation": "replace one"},
        "figures": [
            figure("discreet", 0.1, standard_error=0.01),
            figure("OpenDP", 0.2),
            figure("OpenDP, n kept", 0.15),
            figure("limit", 0.05, setting=prior),
            figure("discreet", 0.06, setting=prior),
            figure("discreet", 90.0, "coverage", unit="%", setting=prior),
            figure("OpenDP", 45.5, "coverage", unit="%", setting=prior),
            figure("discreet", 5.0, "time", method="conversion", unit="ms", setting=conversion),
            figure(
                "dp-accounting RDP",
                1.0,
                "time",
                method="conversion",
                unit="ms",
                setting=conversion,
            ),
            figure(
                "discreet",
                2**30,
                "size",
                method="exponential",
                unit="records",
                setting="largest n, k = 5, ε = 1, 60 s",
            ),
        ],
    }
    return json.loads(json.dumps(result))


def test_the_table_has_ratios_to_ours(recorded: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    tables = dict(peers_report.table_rows(recorded))
    errors = tables[peers_report.TITLES["error", "counts"]]
    assert errors[0][1:] == ["0.100 ± 0.01", "0.200 (2×)", "0.150 (1.5×)", "–", ""]
    assert errors[1][1:] == ["0.0600", "–", "–", "–", "limit: 0.0500 (0.833×)"]
    assert len(tables) == 4
    peers_report.show(recorded)
    printed = capsys.readouterr().out
    assert "d3p: skipped" in printed
    assert "1,073,741,824" in printed


def test_the_page_block_is_made_of_recorded_numbers(recorded: dict[str, Any]) -> None:
    block = peers_report.page_block(recorded)
    rows = [line for line in block.splitlines() if line.startswith("| ") and "---" not in line]
    assert "| Error, 3 levels, n = 1000, ε = 0.5 | 0.100 ± 0.01 | 0.150 | – | – |" in rows
    assert "| Largest n of a selection, by doubling, 5 levels, 60 s | 1,073,741,824 | – | – | – |" in rows
    assert len(rows) == 1 + 4
    assert "2026-01-02, 2 cores (load 0.5 to 1.0), OpenDP 0.16.0" in block
    assert "d3p (d3p 0.2.0): skipped, `import d3p.svi" in block
    assert "discreet is also slower in the conversion to ε (5.00 ms; dp-accounting RDP: 1.00 ms)." in block
    assert "`python benchmarks/peers.py --page docs/evidence/tools.md`" in block


def test_the_page_has_at_most_twelve_rows() -> None:
    assert len(peers_report.PAGE_ROWS) <= 12


def test_writing_the_page_twice_changes_nothing_more(recorded: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "tools.md"
    path.write_text(f"before\n{peers_report.BEGIN}\nold\n{peers_report.END}\nafter\n", "utf-8")
    peers_report.write_page(path, recorded)
    once = path.read_text("utf-8")
    assert once.startswith("before\n")
    assert once.endswith("\nafter\n")
    assert "old" not in once
    peers_report.write_page(path, recorded)
    assert path.read_text("utf-8") == once


@pytest.mark.parametrize("marks", ["", peers_report.BEGIN, peers_report.END + peers_report.BEGIN])
def test_a_page_without_markers_is_refused_and_kept(
    marks: str, recorded: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "tools.md"
    path.write_text(f"text {marks}", "utf-8")
    with pytest.raises(SystemExit, match="peers:begin"):
        peers_report.write_page(path, recorded)
    assert path.read_text("utf-8") == f"text {marks}"


def test_the_plot_is_drawn(recorded: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    peers_report.draw(recorded, tmp_path / "peers.png")
    assert (tmp_path / "peers.png").read_bytes().startswith(b"\x89PNG")
