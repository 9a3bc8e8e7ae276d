"""How far an answer travels through the code: calls from one module of ours into another.

Each script runs in a process of its own, under a profiler. A crossing is a function that calls a function of
another module, counted once however often it is made; `both ways` are the pairs of modules that each call the
other.

    python benchmarks/crossings.py                  # the table
    python benchmarks/crossings.py study            # one script, with its crossings in the order of the calls
    python benchmarks/crossings.py mine.py          # a script of your own
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType
from typing import Any

RECORDS = """
import random
draw = random.Random(1)
survey = {
    "age": [draw.uniform(18, 95) for _ in range(1000)],
    "hours": [draw.uniform(0, 80) for _ in range(1000)],
    "smoker": draw.choices(["never", "former", "current"], k=1000),
}
schema = {"age": (18, 95), "hours": (0, 80), "smoker": ["never", "former", "current"]}
"""
SCRIPTS = {
    "release": """
import discreet
schema = discreet.Schema({"x": ["a", "b", "c"]}, n=80, nameless=True)
discreet.proportions(["a", "b", "a", "c"] * 20, schema=schema, epsilon=1)
""",
    "summary": """
import discreet
schema = discreet.Schema({"x": ["a", "b", "c"]}, n=80, nameless=True)
print(discreet.proportions(["a", "b", "a", "c"] * 20, schema=schema, epsilon=1))
""",
    "regression": f"""
import discreet
{RECORDS}
schema = discreet.Schema(schema, n=1000)
print(discreet.regress(survey, "hours ~ age + smoker", schema=schema, epsilon=8, delta="1e-6"))
""",
    "study": f"""
import discreet
{RECORDS}
schema = discreet.Schema(schema, n=1000)
study = discreet.Study(survey, schema, epsilon=2, delta="1e-6", ledger="ledger.db", dataset="survey")
study.proportions("smoker", epsilon=1)
study.mean("age", epsilon=1)
study.report("board.html")
""",
}
"""What is measured: one answer, one printed, a regression, a study with its report."""

Crossing = tuple[str, str, str, str]


def is_ours(frame: FrameType) -> bool:
    """Return whether a frame runs code of the package."""
    return str(frame.f_globals.get("__name__", "")).split(".")[0] == "discreet"


def place(frame: FrameType) -> tuple[str, str]:
    """Return the module and the function of a frame."""
    return frame.f_globals["__name__"], frame.f_code.co_qualname


def follow(script: str) -> list[Crossing]:
    """Run a script here; return each crossing (module, function, module, function) once, in order."""
    crossings: dict[Crossing, None] = {}

    def watch(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not is_ours(frame) or frame.f_code.co_qualname == "<module>":
            return
        caller = frame.f_back
        while caller is not None and not is_ours(caller):
            caller = caller.f_back
        origin = (
            ("script", "") if caller is None else (caller.f_globals["__name__"], caller.f_code.co_qualname)
        )
        if origin[0] != frame.f_globals["__name__"]:
            crossings[(*origin, frame.f_globals["__name__"], frame.f_code.co_qualname)] = None

    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        exec(compile(script, "script", "exec"), {"__name__": "__main__"})
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return list(crossings)


def measure(script: str) -> list[Crossing]:
    """Run a script in a fresh process and an empty folder; return its crossings."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-W", "ignore", str(Path(__file__).resolve()), "--follow"]
        run = subprocess.run(command, input=script, capture_output=True, text=True, cwd=folder)
    if run.returncode:
        sys.exit(run.stderr)
    return [tuple(crossing) for crossing in json.loads(run.stdout.splitlines()[-1])]


def both_ways(crossings: list[Crossing]) -> list[tuple[str, str]]:
    """Return the pairs of modules of which each calls the other."""
    pairs = {(origin, target) for origin, _, target, _ in crossings}
    return sorted(pair for pair in pairs if pair[::-1] in pairs and pair[0] < pair[1])


def main() -> None:
    """Print the table, or the crossings of one script."""
    if sys.argv[1:] == ["--follow"]:
        print("\n" + json.dumps(follow(sys.stdin.read())))
        return
    names = sys.argv[1:] or list(SCRIPTS)
    print(f"{'':12}crossings  both ways")
    for name in names:
        crossings = measure(SCRIPTS[name] if name in SCRIPTS else Path(name).read_text("utf-8"))
        print(f"{name:12}{len(crossings):9}  {len(both_ways(crossings)):9}")
        if sys.argv[1:]:
            for pair in both_ways(crossings):
                print(f"  {pair[0]} <-> {pair[1]}")
            for origin, caller, target, called in crossings:
                print(f"  {origin}.{caller} -> {target}.{called}".replace("discreet.", ""))


if __name__ == "__main__":
    main()
