"""``python tests/evidence/mutants.py COSMIC_RAY [--seed S] [--number N]``: mutants of cosmic-ray at random.

COSMIC_RAY is the command of an installation of its own (``pip install cosmic-ray`` in a new environment). The
mutants are made in a copy. Each module meets the tests that are about it; printed are those that live.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = {
    "_randomness": "test_randomness test_bulk test_gaussian test_log_concave test_noise",
    "privacy": "test_guarantee test_curves test_accounting test_compositions test_convolution",
    "mechanisms": "test_mechanisms test_exponential test_decoding test_add_remove test_sparse",
    "_data": "test_data test_data_statistics test_records test_withheld test_weights test_engine_failures "
    "test_databases test_means test_discovery test_excel",
}
COPIED = ("src", "tests", "proofs", "docs", "benchmarks", "reproductions")
COPIED += ("pyproject.toml", "README.md", "conftest.py")
CONFIG = """
[cosmic-ray]
module-path = "src/discreet/{module}"
timeout = 300
excluded-modules = []
test-command = "{python} -m pytest -q -x -p no:cacheprovider -m 'not slow' {tests}"
[cosmic-ray.distributor]
name = "local"
"""


def sample(session: Path, number: int, rng: random.Random) -> int:
    """Leave so many mutants to try, drawn at random; return how many there were."""
    with sqlite3.connect(session) as database:
        jobs = sorted(row[0] for row in database.execute("SELECT job_id FROM work_items"))
        kept = set(rng.sample(jobs, min(number, len(jobs))))
        left_out = [(job,) for job in jobs if job not in kept]
        database.executemany("DELETE FROM mutation_specs WHERE job_id = ?", left_out)
        database.executemany("DELETE FROM work_items WHERE job_id = ?", left_out)
    return len(jobs)


def living(session: Path) -> list[str]:
    with sqlite3.connect(session) as database:
        query = """SELECT work_results.diff FROM work_results WHERE test_outcome = 'SURVIVED'"""
        return [str(row[0]) for row in database.execute(query)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cosmic_ray")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--number", type=int, default=50, help="mutants of each module")
    parser.add_argument("--modules", nargs="*", default=list(TESTS))
    given = parser.parse_args()
    lived = 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        for name in COPIED:
            source = ROOT / name
            (shutil.copytree if source.is_dir() else shutil.copy)(source, Path(folder) / name)
        for module in given.modules:
            tests = " ".join(f"tests/{name}.py" for name in TESTS[module].split())
            config, session = Path(folder) / f"{module}.toml", Path(folder) / f"{module}.sqlite"
            config.write_text(CONFIG.format(module=module, python=sys.executable, tests=tests))

            def call(*words: str | Path, config: Path = config) -> None:
                environment = {
                    "PYTHONPATH": f"{folder}/src:{folder}/reproductions/src",
                    "PATH": "/usr/bin:/bin",
                }
                subprocess.run(
                    [Path(given.cosmic_ray).resolve(), *words], cwd=folder, env=environment, check=True
                )

            call("init", config, session)
            there = sample(session, given.number, random.Random(f"{module} {given.seed}"))
            call("exec", config, session)
            survivors = living(session)
            lived += len(survivors)
            print(
                f"{module}: {min(given.number, there)} of {there} mutants tried, {len(survivors)} live",
                flush=True,
            )
            print(*survivors, sep="\n", flush=True)
    return int(lived > 0)


if __name__ == "__main__":
    sys.exit(main())
