"""``python -m tests.evidence WHAT [--number N] [--seed S] [--processes P]``: evidence in large numbers.

The work is done in parts; after each is said what all of them found so far. A part depends on the seed and on
its place alone, not on the processes. The status is not 0 if anything was wrong, and the inputs are kept in
``out/evidence``. What is not installed is left out, with a line that says so.

kills: processes that spend are killed by SIGKILL at every labelled step of a charge, and at random moments.
race: processes that spend from one cap at the same time. fuzz: damaged documents, study files, ledgers,
schemas, tables and requests. documents: such documents alone, each in two seconds of processor time.
triples: the exact distribution of every mechanism over pairs of neighbours, by outcome.
records: random tables with one record more, by every reader: no record changes what another counts as.
soak: a studio and its ledger under eight clients, for so many minutes. crowded: releases from files beside
busy processes, each compared with the truth.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import importlib.util
import json
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager, redirect_stdout, suppress
from fractions import Fraction
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from discreet.errors import DiscreetError

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))
FIXTURES = TESTS / "fixtures" / "0.1.0"
SECRET = "Zx7secretQ9"
"""Stands in tables as a value of a person; no message may hold it."""
DOCUMENTS = sorted((TESTS / "fixtures").glob("0.*/documents/*.json"))
TOO_LONG_DOCUMENT = 2.0
"""Seconds of processor time after which a document counts as one that hangs."""
TOO_LONG = 20.0
"""Seconds after which one input counts as a hang; it is a busy machine that this allows for."""
ENDLESS = 120
"""Seconds after which an input is left."""
KEPT = TESTS.parent / "out" / "evidence"
"""Where inputs are kept that show something wrong."""


class Endless(BaseException):
    """Nothing in the package catches it."""


def leave(*_: object) -> None:
    raise Endless


@contextmanager
def ledger_at(url: str, part: int) -> Iterator[Any]:
    """A new ledger with a budget of one, in a file of its own or in a schema of its own on a server."""
    import discreet

    if url:
        import psycopg

        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE part{part}")
        address: str | Path = url.rpartition("/")[0] + f"/part{part}"
    else:
        folder = tempfile.mkdtemp()
        address = Path(folder) / "ledger.db"
    with discreet.Ledger(address) as ledger:
        ledger.create("survey", epsilon=1)
        yield ledger
    if not url:
        shutil.rmtree(folder)


def kills(part: int, trials: int, url: str = "") -> Counter[str]:
    """Nine in ten at a labelled step, the others anywhere in the transaction."""
    from evidence import drivers

    seen = drivers.Killed()
    with ledger_at(url, part) as ledger:
        for i in range(9 * trials // 10):
            drivers.kill_at(ledger, drivers.STEPS[i % len(drivers.STEPS)], f"step-{i}", seen)
        at_steps = seen.deaths
        longest = 2.5 * drivers.duration_of(ledger)
        seen.asked |= {f"warm-{i}" for i in range(50)}
        for i, delay in enumerate(drivers.delays(trials - 9 * trials // 10, longest, seed=part)):
            drivers.kill_within(ledger, delay, [f"any-{i}"], seen)
        verdict = drivers.judge(ledger, seen)
    return Counter(
        {
            "trials": seen.trials,
            "killed at a step": at_steps,
            "killed at any moment": seen.deaths - at_steps,
            "uncharged": verdict.uncharged,
            "lost": verdict.lost,
        }
    )


def race(processes: int, url: str = "") -> Counter[str]:
    """Twice as many tries as the cap allows: exactly those that it allows succeed."""
    from evidence import drivers

    allowed = 20 * processes
    with ledger_at(url, 0) as ledger:
        won = drivers.race(ledger, processes, 40, Fraction(1, allowed))
        ledger.verify()
    return Counter(
        {"processes": processes, "tries": 40 * processes, "allowed": allowed, "wrong": abs(won - allowed)}
    )


def damaged(rng: random.Random, text: bytes) -> bytes:
    """Bytes lost, doubled, swapped for others, or replaced by what parsers stumble over."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(len(text) + 1)
        to = min(len(text), at + rng.choice((0, 1, 2, 8, 40)))
        put: bytes = rng.choice(
            (
                b"",
                bytes([rng.randrange(256)]),
                text[to : to + 20] * 2,
                *(
                    b'"',
                    b"\\",
                    b"\n",
                    b"\0",
                    b"{",
                    b"]",
                    b",",
                    b"=",
                    b"-1",
                    b"1e999",
                    b"NaN",
                    b"null",
                    b"true",
                ),
                *(b"9" * 40, b"\xff\xfe", "ε\u202e".encode(), b"[" * 50, b"1/0", b"'; --", b"<b>", b"../.."),
            )
        )
        text = text[:at] + put + text[to:]
    return text


def rewritten(rng: random.Random, value: Any) -> Any:
    """A JSON value with one of its parts replaced by something of another kind or size."""
    if rng.random() < 0.25 or not isinstance(value, dict | list) or not value:
        odd = (
            None,
            True,
            -1,
            0,
            2**70,
            0.5,
            -1e308,
            "",
            "x" * 300,
            "1/0",
            "1e-99",
            [],
            {},
            [[]],
            "\n\x1b[2J",
        )
        return rng.choice(odd)
    if isinstance(value, dict):
        key = rng.choice(list(value))
        changed = dict(value)
        if rng.random() < 0.15:
            del changed[key]
        elif rng.random() < 0.15:
            changed[f"{key}x"] = value[key]
        else:
            changed[key] = rewritten(rng, value[key])
        return changed
    place = rng.randrange(len(value))
    return [*value[:place], rewritten(rng, value[place]), *value[place + 1 :]][: rng.choice((99, 99, place))]


HOSTILE_NUMBERS = (
    *("1e-9_9_9_9_9_9_9_9", "1e-99999999", "1e-999", "1e300", "1e-300", "9" * 4000, "1/" + "7" * 4000, "٣/٤"),
    *(10**300, -(10**300), 10**30, 10**4000, 1e300, -1e300, 5e-324, 2**53, 0, -1, 1e-9, "inf", "0x9", " 1 "),
)
"""Put where numbers stand, or texts that stand for numbers."""
HOSTILE_FORMULAS = (
    *("I(a*(9**9**9))", "I(a << 10**9)", "bs(a, degree=100000, knots=[1])", "bs(a, knots=[0]*10**9)"),
    f"({'+'.join(f'a{i}' for i in range(40))})**20",
    *("*".join(f"a{i}" for i in range(number)) for number in (3, 6, 12)),
    *("(" * 500 + "a" + ")" * 500, "I(" + "-" * 3000 + "a)", "a" + "+a" * 5000, "C(g)*C(h)*C(i)"),
)


def hostile(rng: random.Random, value: Any) -> Any:
    """A document's content with one number, list or formula that is made to take long or to mislead."""
    if isinstance(value, dict) and value:
        key = rng.choice(list(value))
        if key == "formula" or (key == "question" and rng.random() < 0.5):
            formula = f"y ~ {rng.choice(HOSTILE_FORMULAS)}"
            if key == "formula":
                return {**value, key: formula}
            bounds = {name: [0, 1] for name in ("y", "a", *(f"a{i}" for i in range(12)))}
            levels = {name: [str(i) for i in range(rng.choice((2, 50, 10**5)))] for name in "ghi"}
            used = {name: b for name, b in bounds.items() if name in formula}
            more = {"levels": {name: v for name, v in levels.items() if f"C({name})" in formula}}
            return {**value, key: {**value[key], "formula": formula, "bounds": used, **more}}
        return {**value, key: hostile(rng, value[key])}
    if isinstance(value, list) and value:
        place = rng.randrange(len(value))
        if rng.random() < 0.1:
            return value * rng.choice((2, 100))
        return [*value[:place], hostile(rng, value[place]), *value[place + 1 :]]
    if isinstance(value, str) and value.startswith("{"):  # a document in a document
        inner = json.loads(value)
        inner["release"] = hostile(rng, inner["release"])
        return resealed(inner)
    return rng.choice(HOSTILE_NUMBERS)


def resealed(document: dict[str, Any]) -> str:
    """The document as text, under a checksum that is right."""
    from discreet._documents.base import checksum

    if isinstance(document["release"], dict):
        document["checksum"] = checksum(document["release"])
    return json.dumps(document)


SOURCES: list[bytes] = []
"""Documents of 0.1.0 and 0.2.0 as they are, and one of every kind of 0.3; see :func:`write_documents`."""


def write_documents() -> list[str]:
    """Fill ``SOURCES``, and ask each for all that it offers once; what cannot be written here is said."""
    from discreet._documents.answer import load_answer

    absent = [] if importlib.util.find_spec("pandas") else ["frames of documents: pandas is not installed"]
    warnings.simplefilter("ignore")
    # Older regressions are refused at once.
    SOURCES[:] = [path.read_bytes() for path in DOCUMENTS if not path.name.startswith("regress")]
    try:
        import test_forged

        for name in (*test_forged.NAMES, "study"):
            try:
                text = test_forged.study_text() if name == "study" else test_forged.text_of(name)
                SOURCES.append(text.encode())
            except DiscreetError as error:
                if "not installed" not in str(error):
                    raise
                absent.append(f"document {name} of 0.3: {error}")
    except ImportError as error:
        absent.append(f"documents of 0.3: {error}")
    for source in SOURCES:
        with suppress(DiscreetError):
            offered(load_answer(source))
    return absent


def a_document(rng: random.Random, place: Path) -> Callable[[], object]:
    """Damaged text, or a damaged or hostile part under a checksum that is right: what lies behind it is tried
    too."""
    from discreet._documents.answer import load_answer

    text = rng.choice(SOURCES)
    if (way := rng.random()) < 0.8:
        document = json.loads(text)
        document["version"] = rng.choice((document["version"], 2))
        for _ in range(rng.choice((1, 1, 2, 4))):
            document["release"] = (hostile if way < 0.5 else rewritten)(rng, document["release"])
        text = resealed(document).encode()
    else:
        text = damaged(rng, text)
    (place / "document.json").write_bytes(text)
    return lambda: offered(load_answer(text))


def offered(answer: Any) -> str:
    """What an answer prints, once all else that it offers was an answer or one of our errors."""
    asked: tuple[Callable[[], object], ...] = (
        *(lambda: answer.rows(0.5), lambda: answer.interval(0.99), lambda: answer.draws(10, 1)),
        *((lambda: answer.to_frame(),) if importlib.util.find_spec("pandas") else ()),
        *(lambda: answer.page(), lambda: answer.likelihood()),
        *(
            lambda: answer.mean(),
            lambda: answer.std(),
            lambda: answer.to_json(),
            lambda: answer._repr_html_(),
        ),
    )
    for each in () if hasattr(answer, "questions") else asked:
        with suppress(DiscreetError):
            each()
    return str(answer)


SCHEMA = """
n = 5000

[columns]
smoker = ["never", "former", "current"]
sex = {values = ["f", "m"], public = true, missing = "exclude"}
age = {low = 0, high = 100, bins = [0, 30, 60, 100], outside = "bin", label = "Age", unit = "years"}
visits = [0, 20]
"""
STUDY = """
[study]
title = "A survey"
data = "survey.csv"
epsilon = 9
delta = "1e-5"
""" + SCHEMA.replace("[columns]", "[schema.columns]").replace("n = 5000", "[schema]\nn = 5000")
QUESTIONS = (
    'columns = ["smoker", "sex"]\nepsilon = "0.5"\nprior = 0.5',
    'columns = "smoker"\nby = "sex"\nwithin = "9 points"',
    'columns = "age"\nmechanism = "lattice"\nepsilon = "1/4"',
    'kind = "mean"\ncolumn = "age"\nby = "sex"\nepsilon = 0.2\nguess = {typical = 30}',
    'kind = "quantiles"\ncolumn = "age"\nprobs = [0.1, 0.5]\nepsilon = 0.5',
    'kind = "regress"\nformula = "visits ~ age + smoker"\nfamily = "poisson"\nweight = 2',
    'kind = "draw"\ncolumn = "visits"\nfamily = "poisson"\nprior = [2, 1]\nepsilon = 1\ndelta = "1e-6"',
    'kind = "network"\nparents = {smoker = ["sex"]}\nepsilon = 1',
)
"""Questions of each kind, as a study file asks them."""


def a_study(rng: random.Random, place: Path) -> Callable[[], object]:
    from discreet.study.study import read_study

    path = place / "study.toml"
    some = rng.sample(QUESTIONS, rng.randrange(1, 4))
    asked = "".join(f'\n[[question]]\nid = "q{i}"\n{one}\n' for i, one in enumerate(some))
    path.write_bytes(damaged(rng, (STUDY + asked).encode()))
    return lambda: read_study(path)


def a_schema(rng: random.Random, place: Path) -> Callable[[], object]:
    from discreet.schema import Schema

    text = damaged(rng, SCHEMA.encode()).decode("utf-8", "replace")
    return lambda: Schema.from_toml(text).to_toml()


def an_export(rng: random.Random, place: Path) -> Callable[[], object]:
    import discreet

    path = place / "export.jsonl"
    lines = rng.choice(sorted((FIXTURES / "ledgers").glob("*.jsonl"))).read_bytes().splitlines(keepends=True)
    which = rng.randrange(len(lines))
    lines[which] = damaged(rng, lines[which])
    path.write_bytes(b"".join(lines))
    return lambda: discreet.Ledger.verify_export(path)


def a_table(rng: random.Random, place: Path) -> Callable[[], object]:
    """A CSV file with a secret in it, counted as levels or in bins, or summed."""
    import shorthand

    path = place / "people.csv"
    rows = b"name,smoker,age\n" + b"".join(
        b"%s,%s,%d\n" % (SECRET.encode(), rng.choice((b"yes", b"no", SECRET.encode())), rng.randrange(90))
        for _ in range(8)
    )
    path.write_bytes(damaged(rng, rows))
    asked: list[dict[str, Any]] = [
        {"column": "smoker", "levels": ("no", "yes")},
        {"column": "smoker", "levels": ("no", "yes"), "other": "other", "relation": "add-remove"},
        {"column": "age", "edges": (0, 30, 60, 90)},
    ]
    if rng.random() < 0.2:
        return lambda: shorthand.mean(path, column="age", bounds=(0, 90), epsilon=1)
    return lambda: shorthand.shares(path, epsilon=1, **rng.choice(asked))


class Requests:
    """The studio without a network: every request goes through its guard, pages and error pages."""

    PATHS = (
        *("/plan", "/plan", "/plan/split", "/schema", "/schema/download", "/release", "/release/review"),
        *(
            "/release/confirm",
            "/release/result",
            "/ledger",
            "/ledger/create",
            "/audit",
            "/distribution",
            "/evidence",
            "/",
        ),
    )
    FIELDS = (
        *("columns", "column", "by", "formula", "parents", "prior", "options", "epsilon", "delta", "n", "of"),
        *("within", "guess", "source", "request", "dataset", "kind", "name", "text", "form", "q", "token"),
    )
    KINDS = ("proportions", "mean", "quantiles", "survival", "regress", "draw", "network")
    VALUES = (
        *(b"smoker", b"age,sex", b"visits ~ age", b"smoker=sex"),
        *(b"0.5", b"100", b"typical=0.5", b"survey"),
    )

    def __init__(self, place: Path) -> None:
        import discreet
        from discreet._studio.app import create_app
        from discreet._studio.guard import StudioSettings

        settings = StudioSettings(port=8765, ledger=f"sqlite:///{place / 'studio.db'}")
        with discreet.Ledger(settings.ledger) as book:
            book.create("survey", epsilon=1)
        self._app, self._host, self._origin = create_app(settings), settings.hosts[0], settings.origins[0]
        found = asyncio.run(self._send("GET", f"/?token={settings.token}", b"", {}))
        headers = dict(found[1])
        self._cookie = headers.get(b"set-cookie", b"").partition(b";")[0]
        page = asyncio.run(self._send("GET", "/schema", b"", {b"cookie": self._cookie}))[2].decode()
        self._csrf = page.partition('name="csrf" value="')[2].partition('"')[0]
        body = urlencode({"csrf": self._csrf, "text": SCHEMA}).encode()
        status, kept, _ = asyncio.run(self._send("POST", "/schema", body, self._posting()))
        assert status == 303, status
        self._schema = dict(kept)[b"location"].decode().partition("schema=")[2].partition("&")[0]
        assert self._schema

    def _posting(self) -> dict[bytes, bytes]:
        form = {b"content-type": b"application/x-www-form-urlencoded", b"origin": self._origin.encode()}
        return {b"cookie": self._cookie, **form}

    async def _send(self, method: str, target: str, body: bytes, more: dict[bytes, bytes]) -> Any:
        path, _, query = target.partition("?")
        headers = {b"host": self._host.encode(), **more}
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [*headers.items()],
            "client": ("127.0.0.1", 50000),
            "server": ("127.0.0.1", 8765),
        }
        sent: list[dict[str, Any]] = []
        waiting = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> dict[str, Any]:
            return waiting.pop() if waiting else {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        return sent[0]["status"], sent[0]["headers"], b"".join(part.get("body", b"") for part in sent[1:])

    def one(self, rng: random.Random, place: Path) -> Callable[[], object]:
        method = rng.choice(("GET", "GET", "GET", "POST", "PUT", "HEAD"))
        path = rng.choice(self.PATHS)
        if rng.random() < 0.3:
            path = quote(damaged(rng, path.encode() + b"/x.png"), safe="/<>\"'")
        fields = {
            rng.choice(self.FIELDS): damaged(rng, rng.choice(self.VALUES)) for _ in range(rng.randrange(4))
        }
        for name, right in (("schema", self._schema), ("csrf", self._csrf), ("kind", rng.choice(self.KINDS))):
            if rng.random() < 0.8:
                fields[name] = right if rng.random() < 0.9 else damaged(rng, right.encode())
        body = urlencode(fields).encode() if method == "POST" else b""
        target = path if body or not fields else f"{path}?{urlencode(fields)}"
        more = self._posting() if method == "POST" else {b"cookie": self._cookie}
        if rng.random() < 0.1:
            del more[b"cookie"]
        if rng.random() < 0.1:
            more[rng.choice((b"cookie", b"origin", b"range", b"accept"))] = damaged(rng, b"a=b; c").replace(
                b"\n", b""
            )

        def ask() -> object:
            status, _, content = asyncio.run(self._send(method, "/" + target.lstrip("/"), body, more))
            assert status < 500, (status, method, target)
            return content.decode("utf-8", "replace")

        return ask


def documents(part: int, inputs: int) -> Counter[str]:
    """The same for documents alone."""
    return fuzz(part, inputs, ("document",))


def fuzz(part: int, inputs: int, only: tuple[str, ...] = ()) -> Counter[str]:
    """Each input ends in an answer or in one of our errors, soon, with no person's value in what it says."""
    rng, found = random.Random(f"fuzz {part}"), Counter[str](tracebacks=0, hangs=0, secrets=0)
    kinds = {"document": a_document, "study": a_study, "schema": a_schema}
    kinds |= {"ledger": an_export, "table": a_table}
    # About as much work for each:
    often = {"document": 4, "study": 4, "schema": 10, "ledger": 8, "table": 1, "request": 7}
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, leave)
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        place = Path(folder)
        if only:
            kinds = {name: kinds[name] for name in only}
        else:
            kinds["request"] = Requests(place).one
        for i in range(inputs):
            kind = rng.choices(list(kinds), [often[name] for name in kinds])[0]
            ask = kinds[kind](rng, place)
            begun, worked, said, wrong = time.perf_counter(), time.process_time(), "", ""
            signal.alarm(ENDLESS)
            try:
                with redirect_stdout(StringIO()):
                    said = str(ask()) if kind != "table" else (ask(), "")[1]
                found["answered"] += 1
            except DiscreetError as error:
                said = str(error)
                found["refused"] += 1
            except Endless:
                pass
            except Exception as error:  # a traceback: what is looked for
                found["tracebacks"] += 1
                frames = traceback.extract_tb(error.__traceback__)
                own = [f"{Path(at.filename).name}:{at.lineno}" for at in frames if "discreet" in at.filename]
                wrong = f"{type(error).__name__}: {str(error)[:200]} at {' < '.join(own[:-4:-1])}"
            signal.alarm(0)
            worked, waited = time.process_time() - worked, time.perf_counter() - begun
            if worked > TOO_LONG_DOCUMENT if kind == "document" else waited > TOO_LONG:
                found["hangs"] += 1
                wrong = f"{waited:.0f} s, of the processor {worked:.1f} s"
            if SECRET in said:
                found["secrets"] += 1
                wrong = said[:300]
            if wrong:
                kept = KEPT / f"{kind}-{part}-{i}"
                shutil.copytree(place, kept, dirs_exist_ok=True)
                print(f"{kind}: {wrong}; the input is in {kept}", flush=True)
            found[kind] += 1
            found["slowest, in ms of the processor"] = max(
                found["slowest, in ms of the processor"], int(1000 * worked)
            )
    return found


def triples(part: int, wanted: int) -> Counter[str]:
    """Random settings: each pair of neighbours and each outcome once; losses above the claim are counted."""
    import numpy as np

    import discreet
    from conformance.cases import MECHANISMS
    from conformance.oracle import distribution_matrix, neighbours

    rng, found = random.Random(f"triples {part}"), Counter[str]()
    warnings.simplefilter("ignore")
    while found["triples"] < wanted:
        name, options = rng.choice([row for row in MECHANISMS if row[0] != "ehdl"])
        k = rng.choice((2, 2, 3))
        n = rng.randrange(1, 60 if k == 2 else 13)
        prior = tuple(rng.choice((0.1, 0.5, 1.0, 2.0, 7.0, 40.0)) for _ in range(k))
        epsilon = Fraction(rng.randrange(5, 400), 100)
        m = discreet.mechanism(name, prior=prior, n=n, epsilon=epsilon, **options)
        points, matrix = distribution_matrix(m)
        index = {c: i for i, c in enumerate(points)}
        pairs = np.array([(index[c], index[d]) for c in points for d in neighbours(c)])
        for some in np.array_split(pairs, 1 + len(pairs) * matrix.shape[1] // 10**7):
            x, y = matrix[some[:, 0]], matrix[some[:, 1]]
            if m.guarantee.delta:
                stick = np.maximum(np.exp(x) - np.exp(m.guarantee.epsilon + y), 0).sum(1)
                above = stick > m.guarantee.delta + 1e-10
            else:
                above = (x - y).max(1) > float(epsilon) + 1e-10
                worst = int(1e6 * (x - y).max() / float(epsilon))
                found["largest loss over claim, in millionths"] = max(
                    found["largest loss over claim, in millionths"], worst
                )
            found["triples"] += x.size
            found["above the claim"] += int(above.sum())
        found["settings"] += 1
    return found


def records(part: int, tables: int) -> Counter[str]:
    """Tables with one record more, of which some other record counts for something else."""
    import independence

    with tempfile.TemporaryDirectory() as folder:
        found, wrong = independence.run(part, Path(folder), tables, records=16)
    for i, one in enumerate(wrong):
        KEPT.mkdir(parents=True, exist_ok=True)
        (kept := KEPT / f"records-{part}-{i}.txt").write_text(f"{one}\n", "utf-8", "backslashreplace")
        print(f"{one.reader}, {one.question}: {one.found}; the table is in {kept}", flush=True)
    return found


def find_engines() -> list[str]:
    import independence

    with tempfile.TemporaryDirectory() as folder:
        absent = independence.leave_out_the_absent(Path(folder))
    absent.append("PostgreSQL: has tests/evidence/test_databases.py")
    return [*absent, "Spark: has tests/evidence/test_engines.py"]


PREPARED: dict[str, Callable[[], list[str]]] = {
    "fuzz": write_documents,
    "documents": write_documents,
    "records": find_engines,
}


@functools.cache
def prepared(what: str) -> tuple[str, ...]:
    """What is left out. In each process once, so that threads of engines are its own."""
    return tuple(PREPARED[what]()) if what in PREPARED else ()


def a_part(work: Callable[..., Counter[str]], *more: Any) -> Counter[str]:
    prepared(work.__name__)
    return work(*more)


def gathered(
    work: Callable[..., Counter[str]], number: int, processes: int, seed: int, *more: Any
) -> Counter[str]:
    """What the parts found, together; the largest of what is a largest."""
    what, total, begun = work.__name__, Counter[str](), time.perf_counter()
    sizes = [min(SIZES[what], number - done) for done in range(0, number, SIZES[what])]
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        for line in pool.apply(prepared, (what,)):
            print(f"left out: {line}", flush=True)
        asked = [(work, 10**6 * seed + i, size, *more) for i, size in enumerate(sizes)]
        parts = [pool.apply_async(a_part, one) for one in asked]
        for each in parts:
            for key, value in each.get().items():
                most = key.startswith(("largest", "slowest"))
                total[key] = max(total[key], value) if most else total[key] + value
            print(told(what, total, begun), flush=True)
    return total


def told(what: str, found: Counter[str], begun: float) -> str:
    numbers = ", ".join(f"{value:,} {key}" for key, value in found.items())
    return f"{what}: {numbers}; {time.perf_counter() - begun:.0f} s"


SIZES = {"kills": 600, "fuzz": 5000, "documents": 500, "triples": 10**7, "records": 500}
"""Of a part."""
NUMBERS = {
    "kills": 10_000,
    "race": 64,
    "fuzz": 10**6,
    "documents": 10**5,
    "triples": 10**9,
    "soak": 20,
    "crowded": 500,
    "records": 10**5,
}
WRONG = (
    "uncharged",
    "lost",
    "wrong",
    "tracebacks",
    "hangs",
    "secrets",
    "above the claim",
    "differences",
    "charges not accounted for",
    "called malformed",
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.evidence", description=__doc__)
    parser.add_argument("what", choices=NUMBERS)
    counted = "trials, processes, inputs, triples, minutes, releases or tables"
    parser.add_argument("--number", "--tables", "--documents", type=int, help=counted)
    parser.add_argument("--seed", type=int, default=0, help="another gives other inputs")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="that share the work")
    parser.add_argument("--postgres", action="store_true", help="on a PostgreSQL server of its own")
    given = parser.parse_args()
    number = given.number or NUMBERS[given.what]
    begun = time.perf_counter()
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS"):
        os.environ.setdefault(variable, "1")  # before anything imports NumPy: processors are shared by parts
    from evidence import postgres

    with postgres.server() if given.postgres else _nowhere() as server:
        url = server.url if given.postgres else ""
        if given.what == "race":
            found = race(number, url)
        elif given.what == "soak":
            from evidence.soak import soak

            found = soak(number, url)
        elif given.what == "crowded":
            from evidence.crowded import crowded

            found = crowded(number)
        elif given.what == "kills":
            found = gathered(kills, number, given.processes, given.seed, url)
        else:
            work = {"fuzz": fuzz, "documents": documents, "triples": triples, "records": records}
            found = gathered(work[given.what], number, given.processes, given.seed)
    print(told(given.what, found, begun))
    return int(any(found[key] for key in WRONG))


@contextmanager
def _nowhere() -> Iterator[Any]:
    yield None


if __name__ == "__main__":
    sys.exit(main())
