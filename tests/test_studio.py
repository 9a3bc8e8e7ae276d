"""The studio over real HTTP on this machine: what protects it, what it charges, and what it shows.

A server runs in a thread; the client below writes its requests itself, so that each header can be wrong.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import html
import http.client
import json
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import pytest

import discreet
from discreet._cli import main
from discreet._declarations import Relation
from discreet._documents.answer import Answer as Released
from discreet._documents.answer import load_answer
from discreet._documents.parts import Row, Words
from discreet._registry import DOCUMENTS, QUESTIONS
from discreet._studio.app import bind_port, create_app, make_server
from discreet._studio.forms import ReleaseForm
from discreet._studio.guard import FORM_LIMIT, HEADERS, Sessions, StudioSettings
from discreet._studio.pages.distribution import DistributionQuestion
from discreet._studio.pages.evidence import AuditQuestion
from discreet._studio.pages.plan import PlanForm
from discreet._studio.pages.release import _promise
from discreet._studio.releasing import Releases, hear_warnings, new_request
from discreet._studio.schemas import Schemas
from discreet.answers.release import Release
from discreet.errors import GuaranteeMismatchError, InvalidInputError, RequestConflictError
from discreet.privacy.guarantee import Guarantee
from discreet.questions._request import PricedRequest, Request
from discreet.questions._text import NUMBER, TEXT, parameter
from discreet.questions.base import Question
from discreet.schema import Schema
from workbooks import workbook

pytestmark = pytest.mark.filterwarnings(
    "ignore::discreet.errors.PrivacyWarning"
)  # the server of these tests leaves them to pytest

STATIC = Path(discreet.__file__).parent / "_studio" / "static"
SECRET = "zebrafish-7351"  # a data value that must appear nowhere
ROWS = ["smoker,note", *(["never,a"] * 60), *(["former,b"] * 25), *(["current,c"] * 15)]
CSV = ("\n".join(ROWS) + "\n").encode()
VISITS = [f"{i // 2},{20 + i % 60},{i % 4},{'fm'[i % 7 > 2]}" for i in range(200)]
NUMBERS = ("\n".join(["who,age,visits,sex", *VISITS]) + "\n").encode()
"""100 people with two records each."""
SMOKERS = 'n = "public"\n\n[columns]\nsmoker = ["never", "former", "current"]\n'
"""The schema of ``CSV``: the number of records is read and published."""
COLUMNS = {"visits": "[0, 1, 2, 3]", "age": "[0, 120]", "sex": '["f", "m"]'}


def schema_of(n: str = '"public"', head: str = "", **columns: str) -> str:
    """The text of the schema of ``NUMBERS``, with some columns declared otherwise."""
    lines = [f"{name} = {text}" for name, text in {**COLUMNS, **columns}.items()]
    return "\n".join([*([f"n = {n}"] if n else []), head, "[columns]", *lines, ""])


PERSONS = 'person = "who"\nper_person = 1'
SCHEMAS = {
    "people": schema_of(head=PERSONS),
    "bins": schema_of(age='{low = 20, high = 60, bins = [20, 30.5, 60], outside = "bin"}'),
    "groups": schema_of(sex='{values = ["f", "m"], public = true}'),
    "rate": schema_of(visits="[0, 20]"),
    "successes": schema_of(visits="[0, 20]"),
    "logistic": schema_of(visits="[0, 4]"),
}
"""The schemas of questions that need another than the plain one."""
DRAWN = {"epsilon": "0.4", "delta": "1e-6", "dataset": "drawn"}
LEVELS = {"kind": "proportions", "columns": "visits", "epsilon": "0.4"}
KINDS: dict[str, dict[str, str]] = {
    "levels": LEVELS,
    "people": {**LEVELS, "dataset": "people"},
    "bins": {"kind": "proportions", "columns": "age", "epsilon": "2/5"},
    "table": {"kind": "proportions", "columns": "visits,sex", "epsilon": "0.4"},
    "groups": {
        "kind": "proportions",
        "columns": "visits",
        "by": "sex",
        "epsilon": "0.4",
        "dataset": "within",
    },
    "mean": {"kind": "mean", "column": "age", "epsilon": "0.4"},
    "quantiles": {"kind": "quantiles", "column": "age", "probs": "0.1, 0.5, 0.9", "epsilon": "0.4"},
    "survival": {"kind": "survival", "time": "age", "event": "sex", "bins": "5", "epsilon": "0.4"},
    "regress": {"kind": "regress", "formula": "age ~ sex + visits", **DRAWN},
    "network": {"kind": "network", "parents": "visits=sex", "epsilon": "0.4"},
    "drawn mean": {
        "kind": "draw",
        "column": "age",
        "family": "gaussian",
        "prior": "50, 30",
        "options": "sigma=20",
        **DRAWN,
    },
    "rate": {"kind": "draw", "column": "visits", "family": "poisson", "prior": "2, 1", **DRAWN},
    "successes": {
        "kind": "draw",
        "column": "visits",
        "family": "binomial",
        "prior": "1, 1",
        "options": "trials=20",
        **DRAWN,
    },
    "query": {"kind": "draw", "column": "age", **DRAWN},
    "logistic": {"kind": "draw", "column": "sex ~ age + visits", **DRAWN},
}
"""Questions of every kind, as their forms send them; the second asks for the guarantee of a person."""


@dataclass(frozen=True)
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    def field(self, name: str) -> str:
        """The value of a hidden field."""
        found = re.search(rf'name="{name}" value="([^"]*)"', self.text)
        assert found is not None, f"no field {name}"
        return html.unescape(found[1])


class Browser:
    """A client that keeps its cookie and says truthfully where it comes from, unless told otherwise."""

    def __init__(self, settings: StudioSettings, patience: float = 60) -> None:
        self.settings, self.patience = settings, patience
        self.cookie = ""

    def send(
        self, method: str, path: str, body: bytes | Iterator[bytes] = b"", **headers: str | None
    ) -> Answer:
        given: dict[str, str | None] = {"Host": self.settings.hosts[0], "Cookie": self.cookie or None}
        if method not in ("GET", "HEAD"):
            given["Origin"] = self.settings.origins[0]
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.settings.port, timeout=self.patience)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in given.items():
                if value is not None:
                    connection.putheader(name, value)
            if isinstance(body, bytes):
                if body or method == "POST":
                    connection.putheader("Content-Length", str(len(body)))
                connection.endheaders(body or None)
            else:
                connection.putheader("Transfer-Encoding", "chunked")
                connection.endheaders(body, encode_chunked=True)
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str | None) -> Answer:
        return self.send("GET", path, **headers)

    def post(self, path: str, fields: dict[str, str], **headers: str | None) -> Answer:
        kind: dict[str, str | None] = {"Content-Type": "application/x-www-form-urlencoded"}
        return self.send("POST", path, urlencode(fields).encode(), **(kind | headers))

    def follow(self, answer: Answer) -> Answer:
        assert answer.status == 303, answer.text
        return self.get(answer.headers["Location"])

    def enter(self) -> Browser:
        answer = self.get(f"/?token={self.settings.token}")
        self.cookie = answer.headers["Set-Cookie"].partition(";")[0]
        return self

    @property
    def csrf(self) -> str:
        return self.get("/release").field("csrf")

    def upload(
        self, content: bytes = CSV, name: str = "survey.csv", query: str = "", **headers: str | None
    ) -> Answer:
        body = (
            b'--B\r\nContent-Disposition: form-data; name="csrf"\r\n\r\n' + self.csrf.encode() + b"\r\n"
            b'--B\r\nContent-Disposition: form-data; name="file"; filename="' + name.encode() + b'"\r\n'
            b"Content-Type: text/csv\r\n\r\n" + content + b"\r\n--B--\r\n"
        )
        kind: dict[str, str | None] = {"Content-Type": "multipart/form-data; boundary=B"}
        return self.send("POST", f"/release/upload?{query}", body, **(kind | headers))

    def declare(self, text: str, source: str = "") -> Answer:
        """What the schema page answers to a schema of this source."""
        form = urlencode({"source": source}) if source else ""
        return self.post("/schema", {"csrf": self.csrf, "form": form, "text": text})

    def begin(self, source: str, schema: str) -> dict[str, str]:
        """Source, schema and request of a new form for data that are here."""
        kept = self.declare(schema, source)
        assert kept.status == 303, html.unescape(kept.text)
        known = parse_qs(urlsplit(kept.headers["Location"]).query)["schema"][0]
        page = self.get("/release?" + urlencode({"source": source, "schema": known}))
        return {name: page.field(name) for name in ("source", "schema", "request")}

    def opened(self, content: bytes, name: str, schema: str) -> dict[str, str]:
        """Source, schema and request of a new form for a new upload."""
        source = parse_qs(urlsplit(self.upload(content, name).headers["Location"]).query)["source"][0]
        return self.begin(source, schema)

    def form(self, content: bytes = CSV, name: str = "survey.csv", schema: str = SMOKERS) -> dict[str, str]:
        """The fields of a release form for a new upload, filled in as a user would."""
        return {
            **self.opened(content, name, schema),
            "kind": "proportions",
            "columns": "smoker",
            "epsilon": "0.4",
            "mechanism": "lattice",
            "dataset": "survey",
            "label": "Smokers",
        }

    def asked(self, kind: str, content: bytes = NUMBERS, schema: str = "") -> dict[str, str]:
        """The fields of a form of this kind for a new upload."""
        declared = schema or SCHEMAS.get(kind) or schema_of()
        known = {**self.opened(content, "survey.csv", declared), "dataset": "survey"}
        return {**known, "label": "Visits", **KINDS[kind]}

    def confirm(self, fields: dict[str, str], **headers: str | None) -> Answer:
        return self.post("/release/confirm", {**fields, "csrf": self.csrf}, **headers)


@contextlib.contextmanager
def running(**given: Any) -> Iterator[Browser]:
    with bind_port(0) as listening:
        settings = StudioSettings(port=listening.getsockname()[1], **given)
        server = make_server(create_app(settings))
        listening.listen(64)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            yield Browser(settings)
        finally:
            server.should_exit = True
            thread.join(10)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("studio")


@pytest.fixture(scope="module")
def shared(place: Path) -> Iterator[Browser]:
    """One studio for the tests that leave no trace: a folder, a gallery, and a ledger with a large budget."""
    import duckdb

    data = place / "data"
    (data / "deep").mkdir(parents=True)
    (data / "deep" / "survey.csv").write_bytes(CSV)
    (data / "<b>bold.csv").write_bytes(CSV)
    (data / ".hidden.csv").write_bytes(CSV)
    (place / "outside.csv").write_bytes(CSV)
    (data / "link.csv").symlink_to(place / "outside.csv")
    with duckdb.connect(str(data / "visits.duckdb")) as connection:
        connection.execute("CREATE TABLE \"odd 'name\" AS SELECT 'never' AS smoker FROM range(30)")
    gallery = place / "gallery"
    gallery.mkdir()
    picture = b"\x89PNG\r\n\x1a\n picture"
    (gallery / "figure1.png").write_bytes(picture)
    (gallery / "hidden.png").write_bytes(picture)
    row = {"paper": "Geumlek 2017", "title": "<Figure> 1", "verdict": "holds"}
    rows = [
        {"name": "one-figure1", "images": ["figure1.png"], **row},
        {"name": "gone", "images": ["absent.png"], **row},
        {"name": "sly", "images": ["../outside.csv"], **row},
    ]
    (gallery / "gallery.json").write_text(json.dumps(rows))
    ledger = f"sqlite:///{place / 'shared.db'}"
    with discreet.Ledger(ledger) as book:
        book.create("survey", epsilon=1000)
        book.create("people", epsilon=1000, relation="replace-person")
        book.create("drawn", epsilon=1000, delta="0.01")
        book.create("within", epsilon=1000, relation="within-group")
    with running(ledger=ledger, data=data, gallery=gallery, upload_limit=300_000) as browser:
        yield browser


@pytest.fixture
def inside(shared: Browser) -> Browser:
    return Browser(shared.settings).enter()


@pytest.fixture(scope="module")
def unspent(shared: Browser) -> dict[str, str]:
    """Source, schema and request of one form, for questions that are refused and so never use it up."""
    form = Browser(shared.settings).enter().asked("levels", schema=schema_of("200"))
    return {name: form[name] for name in ("source", "schema", "request", "dataset")}


def budgets(browser: Browser) -> str:
    """What every dataset has spent."""
    assert browser.settings.ledger is not None
    with discreet.Ledger(browser.settings.ledger) as book:
        return " ".join(str(book.show(name).spent) for name in book.datasets())


def spent(browser: Browser, dataset: str = "survey") -> Fraction:
    assert browser.settings.ledger is not None
    with discreet.Ledger(browser.settings.ledger) as book:
        return book.show(dataset).spent.epsilon or Fraction(0)


# ---- who gets in ---------------------------------------------------------------------------------------


def test_the_token_opens_a_session_and_leaves_the_address(shared: Browser) -> None:
    answer = shared.get(f"/plan?token={shared.settings.token}&n=50")
    assert (answer.status, answer.headers["Location"]) == (303, "/plan?n=50")
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert shared.settings.token not in cookie
    elsewhere = shared.get(f"//evil.example/?token={shared.settings.token}")
    assert not elsewhere.headers.get("Location", "/").startswith(("//", "http"))


@pytest.mark.parametrize(
    "path", ["/", "/plan", "/release", "/ledger?verify=1", "/static/studio.css", "/nope"]
)
def test_without_the_token_nothing_is_shown(shared: Browser, path: str) -> None:
    for cookie in (None, f"discreet-studio-{shared.settings.port}=guess", "other=1"):
        answer = shared.get(path, Cookie=cookie)
        assert answer.status == 401
        assert "survey" not in answer.text
    assert shared.get("/plan?token=wrong").status == 403
    assert shared.get(f"/plan?token={shared.settings.token}&token=x").status == 403
    assert "Set-Cookie" not in shared.get("/plan?token=wrong").headers


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1", "localhost", "127.0.0.1:1", "127.0.0.1.evil.example:{port}", "", None],
)
def test_another_host_name_is_refused(inside: Browser, host: str | None) -> None:
    port = str(inside.settings.port)
    answer = inside.get("/plan", Host=None if host is None else host.format(port=port))
    assert answer.status == 400
    assert inside.get("/plan", Host=f"localhost:{port}").status == 200


@pytest.mark.parametrize(
    ("origin", "site", "reaches"),
    [
        ("http://127.0.0.1:{port}", None, True),
        ("http://localhost:{port}", None, True),
        (None, "same-origin", True),
        ("null", "same-origin", True),
        (None, None, False),
        ("null", None, False),
        (None, "none", False),
        (None, "cross-site", False),
        ("null", "cross-site", False),
        ("https://127.0.0.1:{port}", None, False),
        ("http://evil.example", "same-origin", False),
        ("http://127.0.0.1:1", None, False),
    ],
)
def test_forms_come_from_our_pages_only(
    inside: Browser, origin: str | None, site: str | None, reaches: bool
) -> None:
    given = None if origin is None else origin.format(port=inside.settings.port)
    answer = inside.post("/release/confirm", {"csrf": "x"}, Origin=given, Sec_Fetch_Site=site)
    assert answer.status == 403
    # What passes the check of the origin is stopped by the secret of the form.
    assert ("The form is not from this session" in answer.text) == reaches


def test_the_secret_of_a_form_belongs_to_its_session(inside: Browser) -> None:
    other = Browser(inside.settings).enter()
    assert inside.csrf != other.csrf
    before = spent(inside)
    fields = inside.form()
    assert inside.post("/release/confirm", {**fields, "csrf": other.csrf}).status == 403
    assert inside.post("/release/confirm", fields).status == 403
    assert spent(inside) == before


def test_other_methods_are_refused(inside: Browser) -> None:
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS"):
        for path in ("/plan", "/release/confirm", "/ledger"):
            assert inside.send(method, path).status == 405
    assert inside.post("/plan", {}).status == 405
    assert inside.get("/release/confirm").status == 405
    for path in ("/docs", "/redoc", "/openapi.json"):
        assert inside.get(path).status == 404


def test_every_answer_carries_the_headers(inside: Browser, shared: Browser) -> None:
    answers = [
        inside.get("/plan"),
        inside.get("/static/studio.js"),
        inside.get("/nope"),
        inside.get("/", Host="evil.example"),
        shared.get("/plan", Cookie=None),
        inside.post("/release/confirm", {}),
        inside.post("/release/confirm", {"a": "x" * FORM_LIMIT}),
        inside.get("/audit?n=99999"),
    ]
    assert [a.status for a in answers] == [200, 200, 404, 400, 401, 403, 413, 400]
    for answer in answers:
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    assert "unsafe" not in HEADERS["Content-Security-Policy"]
    assert all(a.headers["Cache-Control"] == "no-store" for a in answers if a is not answers[1])
    assert "server" not in answers[0].headers


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/static/..%2fapp.py",
        "/static/vendor/../../app.py",
        "/static//etc/passwd",
        "/static/..%5capp.py",
        "/evidence/image/..%2foutside.csv",
        "/evidence/image/sly",
        "/evidence/image/gallery.json",
        "/evidence/image/hidden.png",
        "/release/download/..%2fx",
    ],
)
def test_no_path_leaves_its_folder(inside: Browser, path: str) -> None:
    answer = inside.get(path)
    assert answer.status == 404
    assert b"import" not in answer.body
    assert b"root:" not in answer.body


def test_listed_pictures_are_served(inside: Browser) -> None:
    answer = inside.get("/evidence/image/figure1.png")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "image/png")


# ---- what is shown -------------------------------------------------------------------------------------


EXAMPLE = Schemas().example.identifier


def under_example(path: str) -> str:
    """The address of a plan under the schema that comes with the studio."""
    if not path.startswith(("/plan?", "/plan/more?")) or "schema=" in path:
        return path + f"?schema={EXAMPLE}" if path == "/plan" else path
    return f"{path}&schema={EXAMPLE}"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/plan", ["points", "63 times in 100", "Copy as Python", "a share of 50 %", "Example (5 columns"]),
        ("/plan?kind=mean", ["without privacy it would be", "times in 100", "mean of age"]),
        (
            "/plan?kind=proportions&columns=smoker&by=region",
            ["points", "a share of 50 %", "discreet plan proportions"],
        ),
        ("/plan?kind=regress&formula=hours+~+age&delta=1e-6", ["Formula", "Intercept", "hours ~ age", "δ"]),
        ("/plan/more?n=60&within=20+points", ["<svg", "For ± 20 points", "ε = 0.", "records"]),
        ("/plan/more?n=60&within=1+point", ["cannot be reached", "records"]),
        ("/plan/split", ["No question yet"]),
        ("/schema", ["How a column is declared", "deep/survey.csv", "Example (5 columns, n = 3,000)"]),
        ("/release", ["Upload a file", "deep/survey.csv", "visits.duckdb: odd"]),
        ("/ledger?dataset=survey&verify=1", ["The ledger is sound", "History of survey", "survey"]),
        ("/audit", ["The claim holds", "Exact ε", "closed form"]),
        ("/audit?mechanism=ehdl&n=10", ["No guarantee is claimed", "triples"]),
        ("/audit?mechanism=mbeta&n=10&delta=1e-6", ["Exact ε"]),
        (
            "/distribution",
            ["(4, 4), n = 8", "0.2336", "(3, 5) (5, 3)", "0.2684", "discreet distribution ehds --counts 4,4"],
        ),
        ("/distribution?mechanism=ehdl&first=60&second=1", ["Not private", "(60, 1), n = 61", "more"]),
        ("/distribution?mechanism=ehdl-calibrated&alpha=0.1&epsilon=5", ["ehdl-calibrated", "(0.1, 1)"]),
        (
            "/evidence",
            [
                "What is checked",
                "Geumlek 2017",
                "discreet reproduce one-figure1 --out DIR",
                "&lt;Figure&gt; 1",
            ],
        ),
    ],
)
def test_pages_show_what_they_are_for(inside: Browser, path: str, words: list[str]) -> None:
    answer = inside.get(under_example(path))
    assert answer.status == 200
    for word in words:
        assert word in html.unescape(answer.text) or word in answer.text
    assert "<script>" not in answer.text
    assert not re.search(r"<[^>]+\s(?:style|on\w+)=", answer.text)  # nothing inline: the CSP would stop it
    for url in re.findall(r'(?:src|href)="([^"]+)"', answer.text):
        assert url.startswith(("/", "#", "data:,")), url


def test_a_budget_is_divided_and_each_part_released(inside: Browser) -> None:
    one = urlencode({"schema": EXAMPLE, "kind": "proportions", "columns": "smoker", "n": "2000"})
    two = urlencode({"schema": EXAMPLE, "kind": "mean", "column": "age", "n": "2000"})
    asked = [("q", one), ("q", two)]
    page = inside.get("/plan/split?" + urlencode(asked))
    assert page.status == 200
    assert "1. Proportions: smoker" in page.text
    given = [*asked, ("epsilon", "1"), ("within1", "2.4 points"), ("weight2", "2")]
    page = inside.get("/plan/split?" + urlencode(given))
    assert page.status == 200, html.unescape(page.text)
    assert re.search(r"Together ε = (1|0\.99\d*) of 1", page.text)
    assert re.search(r"± 2\.(4\d|3[6-9]) points", page.text)
    links = [html.unescape(link) for link in re.findall(r'href="(/release\?[^"]*)"', page.text)]
    texts = [parse_qs(urlsplit(link).query) for link in links]
    assert [text["kind"] for text in texts] == [["proportions"], ["mean"]]
    assert Fraction(99, 100) < sum(Fraction(text["epsilon"][0]) for text in texts) <= 1
    assert inside.get(links[0]).status == 200
    refused = inside.get("/plan/split?" + urlencode([*asked, ("epsilon", "1"), ("within1", "1 point")]))
    assert refused.status == 400
    assert "cannot be reached" in html.unescape(refused.text)


def test_questions_that_share_a_budget_share_a_schema(inside: Browser) -> None:
    kept = inside.declare(schema_of("200")).headers["Location"]
    other = parse_qs(urlsplit(kept).query)["schema"][0]
    plans = [urlencode({"kind": "mean", "schema": schema}) for schema in (EXAMPLE, other)]
    answer = inside.get("/plan/split?" + urlencode([*(("q", one) for one in plans), ("epsilon", "1")]))
    assert (answer.status, "under one schema" in answer.text) == (400, True)


def test_the_answers_of_a_dataset_are_one_report(inside: Browser, small: Browser) -> None:
    first, second = small.form(), {**small.form(), "label": "Again", "epsilon": "0.2"}
    assert small.confirm(first).status == 303
    assert small.confirm(second).status == 303
    assert "/ledger/report?dataset=survey" in small.get("/ledger?dataset=survey").text
    report = small.get("/ledger/report?dataset=survey")
    assert report.headers["Content-Disposition"].startswith("attachment")
    for words in ("Smokers", "Again", "ε = 0.6"):
        assert words in report.text
    assert inside.get("/ledger/report?dataset=drawn").status in (200, 400)
    assert inside.get("/ledger/report?dataset=nobody").status == 404


def test_a_release_goes_on_in_a_notebook(
    inside: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = inside.confirm(inside.asked("levels"))
    query = urlsplit(done.headers["Location"]).query
    assert "Continue in a notebook" in inside.follow(done).text
    book = json.loads(inside.get(f"/release/download/ipynb?{query}").text)
    scope: dict[str, Any] = {}
    for cell in book["cells"]:
        if cell["cell_type"] == "code":
            exec(cell["source"], scope)
    assert scope["answer"].guarantee.exact_epsilon == Fraction(2, 5)


def test_a_template_has_the_names_of_columns_and_no_value(inside: Browser) -> None:
    page = inside.get("/release")
    source = re.search(r'source=([^"&]+)[^"]*">visits.duckdb', page.text)
    assert source is not None
    first = inside.get(f"/release?source={source[1]}")
    assert (first.status, first.headers["Location"]) == (303, f"/schema?source={source[1]}")
    shown = inside.follow(first).text
    assert "smoker = []  # varchar: values" in shown
    assert "never" not in shown.partition("<textarea")[2].partition("</textarea>")[0].replace(
        "never what", ""
    )
    empty = inside.declare("[columns]\nsmoker = []\n", source[1])
    assert (empty.status, "smoker = []" in empty.text) == (400, True)  # the text is kept


def test_a_schema_is_declared_shown_used_and_changed(inside: Browser) -> None:
    source = parse_qs(urlsplit(inside.upload(NUMBERS).headers["Location"]).query)["source"][0]
    text = schema_of("200", age='{low = 0, high = 120, missing = "exclude", unit = "years", label = "Age"}')
    kept = inside.declare(text, source)
    page = html.unescape(inside.follow(kept).text)
    for words in (
        "What is public",
        "n = 200",
        "the replacement of any one record (replace-one)",
        "category: 0, 1, 2, 3",
        "number: 0 to 120 years",
        "missing: left out; outside: clipped",
        "Ask a question",
    ):
        assert words in page
    assert text.strip() in page
    link = re.search(r'href="(/schema/download[^"]*)"', page)
    assert link is not None
    saved = inside.get(link[1])
    assert discreet.Schema.from_toml(saved.text) == discreet.Schema.from_toml(text)
    # The source has it from now on; another takes its place, and an old address still means the old one.
    form = inside.get(f"/release?source={source}")
    assert (form.status, "3 columns, n = 200" in form.text) == (200, True)
    changed = inside.follow(inside.declare(schema_of("", sex='{values = ["f", "m"], public = true}'), source))
    assert "n private" in changed.text
    assert "<strong>public</strong>" in changed.text
    assert "n private" in inside.get(f"/release?source={source}").text
    old = urlsplit(kept.headers["Location"]).query
    assert "n = 200" in inside.get(f"/release?{old}").text
    assert inside.get("/release?schema=gone").status == 400
    assert inside.get(f"/plan?{urlencode({'schema': form.field('schema')})}").status == 200


def test_a_schema_is_uploaded(inside: Browser) -> None:
    def upload(content: bytes, name: str) -> Answer:
        body = (
            b'--B\r\nContent-Disposition: form-data; name="csrf"\r\n\r\n' + inside.csrf.encode() + b"\r\n"
            b'--B\r\nContent-Disposition: form-data; name="file"; filename="' + name.encode() + b'"\r\n'
            b"Content-Type: text/plain\r\n\r\n" + content + b"\r\n--B--\r\n"
        )
        return inside.send("POST", "/schema", body, Content_Type="multipart/form-data; boundary=B")

    toml, schema = schema_of("200"), discreet.Schema.from_toml(schema_of("200"))
    for content, name in ((toml.encode(), "survey.toml"), (schema.to_json().encode(), "survey.json")):
        page = inside.follow(upload(content, name))
        assert f"{name} (3 columns, n = 200)" in page.text
    for content in (b"\xff\xfe", b"n = ", b"x" * 60_000, b"a" * 199_000):
        assert upload(content, "bad.toml").status == 400
    assert upload(b"x" * 300_000, "huge.toml").status == 413


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "empty"),
        ("smoker", "not valid TOML"),
        ("{", "not valid JSON"),
        ("[columns]\nsmoker = ['x']", "at least two"),
        ("[columns]\na = ['x', 'y']\nb = {low = 0}", "column 'b': high is missing"),
        ("colums = 1\n[columns]\na = ['x', 'y']", "colums=1 is unknown; did you mean 'columns'"),
        ("n = 0x" + "f" * 5000 + "\n[columns]\na = ['x', 'y']", "below 1e300"),
        ("n = " + "9" * 5000 + "\n[columns]\na = ['x', 'y']", "not valid TOML"),
        ("n = 10000000000000\n[columns]\na = ['x', 'y']", "1,000,000,000,000"),
        ("a = " + "[" * 20_000, "not valid TOML"),
        ("[columns]\n" + ".".join("a" * 20_000) + " = 1", "2,000 dots"),
        ('{"columns": ' * 4000, "not valid JSON"),
        ("[columns]\na = {values = {from = 0, to = 99999999999999999999999}}", "range of two codes"),
        ("[columns]\na = {low = 0, high = 1, bins = 100000000}", "must be from 2 to 100,000"),
        ("[columns]\na = {low = 0, high = 1e300}", "within ±1e+100"),
        ("[columns]\na = {low = 0, high = inf}", "column 'a'"),
        ("[columns]\na = {low = 0, high = 1, label = 5}", "must be a text"),
        ("[columns]\na = [[1], [2]]", "column 'a'"),
        ("[columns]\n" + "\n".join(f"c{i} = ['x', 'y']" for i in range(201)), "at most 200"),
        ("[columns]\na = [" + ",".join(f"'{i}'" for i in range(1001)) + "]", "at most 1,000 values"),
        ("[columns]\na = ['x', '" + "y" * 300 + "']", "more than 200 characters"),
        ("sizes = {a = 5}\nn = 5\n[columns]\na = {values = ['x', 'y'], public = true}", "sizes of 'a'"),
        ("person = [1]\nper_person = 1\nn = 5\n[columns]\na = ['x', 'y']", "name of a column"),
        ("# " + "x" * 50_000, "50,000"),
    ],
)
def test_what_is_wrong_with_a_schema_is_said_and_its_text_kept(inside: Browser, text: str, word: str) -> None:
    answer = inside.declare(text)
    shown = html.unescape(answer.text)
    assert answer.status == 400, shown
    assert word.lower() in shown.lower()
    assert 'aria-invalid="true"' in answer.text
    assert text[:3000] in shown


def test_the_address_says_everything_and_fragments_push_it(inside: Browser) -> None:
    kept = parse_qs(urlsplit(inside.declare(schema_of("200")).headers["Location"]).query)["schema"][0]
    asked = {
        "kind": "proportions",
        "schema": kept,
        "columns": "sex",
        "n": "60",
        "epsilon": "1/4",
        "prior": "0.5, 2",
        "guess": "typical=0.3",
    }
    query = urlencode(asked)
    page = inside.get(f"/plan?{query}")
    assert 'value="1/4"' in page.text
    assert 'value="0.5, 2"' in page.text
    assert "a share of 30 %" in page.text
    assert re.search(r'type="range"[^>]* value="-0.60"', page.text)  # the slider, before any script runs
    part = inside.get(f"/plan?{query}", HX_Request="true")
    assert "<html" not in part.text
    pushed = urlsplit(part.headers["HX-Push-Url"])
    assert pushed.path == "/plan"
    assert {k: v[0] for k, v in parse_qs(pushed.query).items()} == asked


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("/plan?n=2000000", "1,000,000"),
        ("/plan?kind=draw&column=smoker&delta=1e-6", "o width can be planned"),
        ("/plan?kind=guess", "'guess' is unknown"),
        ("/plan?schema=gone", "was not found"),
        ("/plan?epsilon=1e-9", "between 0.001 and 20"),
        ("/plan?epsilon=oops", "not a number"),
        ("/plan?prior=nan&columns=smoker", "a number must be finite"),
        ("/plan?n=" + "9" * 5000, "4000"),
        ("/plan?columns=smoker,,sex", "single commas"),
        ("/plan?columns=smoker&prior=1.0,2", "Prior"),
        ("/plan?columns=smokre", "did you mean 'smoker'"),
        ("/plan?guess=typical=7", "typical"),
        ("/plan?guess=left_out=0.3&columns=smoker", "left_out"),
        ("/plan?kind=mean&column=smoker", "declared as a category"),
        ("/plan?kind=regress&formula=hours+~+aeg&delta=1e-6", "aeg"),
        ("/audit?n=151", "150"),
        ("/audit?prior=1,1,1,1,1,1", "5 values"),
        ("/audit?mechanism=../x", "must be one of"),
        ("/distribution?mechanism=gaussian", "must be one of"),
        ("/distribution?first=61", "from 0 to 60"),
        ("/distribution?first=0&second=0", "move one of the first two"),
        ("/distribution?epsilon=nan", "epsilon"),
        ("/distribution?alpha=1,2", "must be one number"),
        ("/audit?prior=1,1,1&n=15&epsilon=0.01", "from ε = 0.05 on"),
        ("/ledger?dataset=surveys", "survey"),
    ],
)
def test_limits_and_mistakes_are_said(inside: Browser, path: str, word: str) -> None:
    for headers in ({}, {"HX_Request": "true"}):
        answer = inside.get(under_example(path), **headers)
        assert 400 <= answer.status < 500
        assert word in html.unescape(answer.text)
        assert "Traceback" not in answer.text


HOSTILE = "\"><script>alert(1)</script>'{{7*7}}${1}&lt;"


def test_hostile_names_are_escaped_everywhere(inside: Browser) -> None:
    named = inside.get("/plan?columns=" + quote(HOSTILE))
    assert named.status == 400
    quoted = json.dumps(HOSTILE)
    schema = f'n = "public"\n[columns]\n{quoted} = {{values = [{quoted}, "x"], label = {quoted}}}\n'
    column = '"' + HOSTILE.replace('"', '""') + '"'
    csv = column + "\n" + f"{column}\nx\n" * 20
    fields = inside.form(csv.encode(), name="<img src=x onerror=alert(1)>.csv", schema=schema)
    fields |= {"columns": HOSTILE, "label": HOSTILE, "epsilon": "1"}
    own = {"source": fields["source"], "schema": fields["schema"]}
    pages = [
        named,
        inside.get("/release"),
        inside.get("/release?" + urlencode(own)),
        inside.get("/schema?" + urlencode(own)),
        inside.get("/schema"),
        inside.declare("[columns]\n" + quoted + " = 5"),
        inside.get("/plan?" + urlencode({"schema": fields["schema"]})),
        inside.get("/release/review?" + urlencode(fields)),
        inside.get("/plan?epsilon=" + quote(HOSTILE)),
        inside.get("/ledger?dataset=" + quote(HOSTILE)),
    ]
    done = inside.confirm(fields)
    result = inside.follow(done)
    assert result.status == 200
    report = inside.get("/release/download/html?" + urlsplit(done.headers["Location"]).query)
    for page in [*pages, result, report]:
        assert "<script>alert" not in page.text
        assert "<img src=x" not in page.text
        assert "7*7" not in page.text or "{{7*7}}" in page.text  # text, and no template


# ---- release -------------------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Browser]:
    """A studio whose ledger has ε = 1 for the dataset survey."""
    ledger = f"sqlite:///{tmp_path / 'ledger.db'}"
    with discreet.Ledger(ledger) as book:
        book.create("survey", epsilon=1)
    with running(ledger=ledger) as browser:
        yield browser.enter()


def test_only_what_stands_out_of_many_codes(small: Browser, tmp_path: Path) -> None:
    with discreet.Ledger(f"sqlite:///{tmp_path / 'ledger.db'}") as book:
        book.create("codes", epsilon=2, relation="add-remove")
    schema = schema_of("", visits="{values = {from = 0, to = 999999999}}")
    asked = {**small.asked("levels", schema=schema), "epsilon": "2", "dataset": "codes"}
    asked["options"] = "expected_false=1"
    review = small.get("/release/review?" + urlencode(asked))
    assert review.status == 200, html.unescape(review.text)
    done = small.confirm(asked)
    result = small.follow(done)
    assert "1,000,000,000 declared" in result.text
    assert "everything else" in result.text
    listed = small.get("/release/review?" + urlencode({**asked, "options": ""}))
    assert (listed.status, "too many to be listed" in listed.text) == (400, True)


def test_from_a_file_to_a_report_and_no_further(small: Browser, tmp_path: Path) -> None:
    fields = small.form()
    review = small.get("/release/review?" + urlencode(fields))
    assert 'id="asked">ε = 0.4<' in review.text
    assert spent(small) == 0
    done = small.confirm(fields)
    result = small.follow(done)
    assert spent(small) == Fraction(2, 5)  # the price that was shown
    for words in (
        "Smokers",
        "account for sampling and for the noise of privacy",
        "ε = 0.4 (replace-one)",
        "factor of at most 1.492",
    ):
        assert words in result.text

    query = urlsplit(done.headers["Location"]).query
    stored = small.get(f"/release/download/json?{query}")
    assert stored.headers["Content-Disposition"].startswith("attachment")
    release = Release.from_json(stored.text)
    assert sum(release.counts) == 100
    report = small.get(f"/release/download/html?{query}")
    assert "<title>Smokers</title>" in report.text

    # Python with the same request id is the same request: same bytes, no charge, and the file is not opened.
    again = discreet.proportions(
        tmp_path / "absent.csv",
        "smoker",
        schema=discreet.Schema.from_toml(SMOKERS),
        epsilon="0.4",
        mechanism="lattice",
        charge=discreet.Charge(small.settings.ledger or "", "survey", fields["request"]),
    )
    assert again.to_json().encode() == stored.body
    assert again.receipt is not None
    assert again.receipt.repeated

    # Neither a second click, nor a reload, nor a way back charges again; other content is refused.
    with ThreadPoolExecutor(4) as pool:
        repeats = list(pool.map(lambda _: small.confirm(fields), range(4)))
    assert {answer.status for answer in repeats} == {303}
    assert small.get(f"/release/download/json?{query}").body == stored.body
    assert "it was charged before" in small.get("/release/review?" + urlencode(fields)).text
    assert small.confirm({**fields, "epsilon": "0.1"}).status == 409
    assert spent(small) == Fraction(2, 5)

    # What does not fit is refused before and at the charge.
    greedy = {**small.form(), "epsilon": "0.7"}
    assert "does not allow it" in small.get("/release/review?" + urlencode(greedy)).text
    refused = small.confirm(greedy)
    assert refused.status == 409
    assert "left ε = 0.6. Nothing was charged" in refused.text
    assert spent(small) == Fraction(2, 5)
    assert "History of survey" in small.get("/ledger?dataset=survey").text


@pytest.mark.parametrize(
    ("change", "schema", "word"),
    [
        ({"prior": "1e-300"}, SMOKERS, "Prior: a number must be finite"),
        ({"prior": "1e300"}, SMOKERS, "Prior: a number must be finite"),
        ({"prior": "1e-6"}, SMOKERS, "between 0.001 and 1,000,000"),
        ({"mechanism": "ehds"}, SMOKERS.replace('"public"', "1000001"), "20 values and 1,000,000 records"),
        ({"mechanism": "ehd"}, "n = 100\n[columns]\nsmoker = {values = {from = 0, to = 20}}", "20 values"),
        ({}, "n = 100\n[columns]\nsmoker = {values = {from = 0, to = 200}}", "201 combinations"),
    ],
)
def test_what_would_take_minutes_or_fail_after_the_charge_is_refused(
    inside: Browser, change: dict[str, str], schema: str, word: str
) -> None:
    fields, before = inside.form(schema=schema) | change, spent(inside)
    for answer in (inside.get("/release/review?" + urlencode(fields)), inside.confirm(fields)):
        assert answer.status == 400
        assert word in html.unescape(answer.text)
    assert spent(inside) == before


def test_a_first_line_of_thousands_of_names_is_refused(inside: Browser) -> None:
    for content in (b"a," * 6000 + b"smoker\nx\n", b"a" * 200_000 * 6):
        fields = inside.form(gzip.compress(content), "wide.csv.gz")
        review = inside.get("/release/review?" + urlencode(fields))
        assert review.status == 400
        unread = inside.upload(gzip.compress(content), "wide.csv.gz")
        template = inside.follow(inside.follow(unread))
        assert template.status == 200
        for answer in (review, template):
            assert "its first line has more than" in answer.text


def test_pages_of_other_ports_and_other_charsets_are_refused(inside: Browser) -> None:
    for site, status in (("same-origin", 200), ("none", 200), ("same-site", 403), ("cross-site", 403)):
        assert inside.get("/evidence", Sec_Fetch_Site=site).status == status
    for charset, status in (("utf-8", 303), ("UTF-8", 303), ("unicode_escape", 415), ("punycode", 415)):
        kind = f"multipart/form-data; boundary=B; charset={charset}"
        assert inside.upload(Content_Type=kind).status == status


def sent_by(page: Answer) -> dict[str, str]:
    """The hidden fields of a page, as a browser sends them."""
    hidden = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page.text)
    return {name: html.unescape(value) for name, value in hidden if name != "csrf"}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_question_from_the_form_to_the_report(
    inside: Browser, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    fields = inside.asked(kind)
    dataset, before = fields["dataset"], spent(inside, fields["dataset"])
    form = inside.get("/release?" + urlencode(fields))
    for name, value in KINDS[kind].items():
        if name not in ("kind", "dataset", "family", "parents"):
            assert f'name="{name}" type="text"' in form.text
            assert f'value="{html.escape(value)}"' in form.text
    assert form.field("kind") == fields["kind"]
    review = inside.get("/release/review?" + urlencode(fields))
    assert 'id="asked">ε = 0.4' in review.text
    assert spent(inside, dataset) == before
    sent = sent_by(review)
    assert sent == fields

    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(lambda _: inside.confirm(sent), range(3)))
    assert {answer.status for answer in answers} == {303}
    assert spent(inside, dataset) - before == Fraction(2, 5)
    query = urlsplit(answers[0].headers["Location"]).query
    result = inside.get(f"/release/result?{query}")
    assert (result.status, 'id="receipt"' in result.text) == (200, True)
    stored = inside.get(f"/release/download/json?{query}").text
    report = inside.get(f"/release/download/html?{query}")
    assert "<title>Visits</title>" in report.text
    shown = html.unescape(result.text)
    for spec in re.findall(r'<div class="spec" hidden>(.*?)</div>', result.text, re.DOTALL):
        assert "NaN" not in spec
    # The page shows what the answer says of itself.
    made = load_answer(stored)
    assert made.words().headline in shown
    assert str(made.guarantee) in shown
    for table in filter(None, (made.page().screen, *made.tables())):
        assert all(f">{text}</t" in shown for row in (table.header, *table.cells) for text in row)
    if "delta" in fields:
        assert "at most δ = 1e-6" in shown
        assert made.guarantee.exact_delta == Fraction(1, 10**6)
    history = html.unescape(inside.get(f"/ledger?dataset={dataset}").text)
    assert f"/release/result?{urlencode({'dataset': dataset, 'request': fields['request']})}" in history
    assert ReleaseForm.read(fields).asks.title + " – " in history
    assert "Visits" in history

    # The copied code is the same request: the stored bytes, no charge, and the file is not opened.
    monkeypatch.chdir(tmp_path)
    python, command = (
        html.unescape(text) for text in re.findall(r"<pre [^>]*><code>(.*?)</code>", review.text, re.DOTALL)
    )
    scope: dict[str, Any] = {}
    exec(python, scope)
    assert scope["answer"].to_json() == stored
    assert scope["answer"].receipt.repeated
    capsys.readouterr()
    download = re.search(r'href="(/schema/download[^"]*)"', review.text)
    assert download is not None
    Path("schema.toml").write_text(inside.get(download[1]).text)
    assert run_command(command.strip() + " --json", capsys).strip() == json.dumps(
        json.loads(stored), indent=2
    )
    assert spent(inside, dataset) - before == Fraction(2, 5)


@pytest.mark.parametrize(
    ("kind", "change", "status", "word", "field"),
    [
        ("levels", {"epsilon": ""}, 400, "Privacy budget ε is missing", "epsilon"),
        ("levels", {"epsilon": "oops"}, 400, "not a number", "epsilon"),
        ("levels", {"epsilon": "30"}, 400, "between 0.001 and 20", "epsilon"),
        ("levels", {"dataset": "people"}, 409, "replace-one", ""),
        ("levels", {"dataset": ""}, 400, "which dataset", ""),
        ("levels", {"mechanism": "guess"}, 400, "Mechanism must be one of: auto", "mechanism"),
        ("levels", {"mechanism": "ehdl"}, 400, "no differential privacy guarantee", ""),
        ("levels", {"columns": ""}, 400, "say which column", "columns"),
        ("levels", {"columns": "visit"}, 400, "did you mean 'visits'", "columns"),
        ("levels", {"columns": ",".join(f"c{i}" for i in range(30))}, 400, "at most 20 here", "columns"),
        ("levels", {"by": "sex"}, 400, "is private", "by"),
        ("levels", {"by": "visits"}, 400, "a column other than", "by"),
        ("levels", {"prior": "1,2"}, 400, "prior", "prior"),
        ("levels", {"prior": "1," * 3000}, 400, "at most 4000", ""),
        ("levels", {"prior": ",".join("1" * 102)}, 400, "at most 100 here", "prior"),
        ("levels", {"options": "gama=1"}, 400, "'gama' is unknown", "options"),
        ("levels", {"options": "x=" + "1," * 90 + "nan"}, 400, "finite", "options"),
        ("levels", {"schema": "gone"}, 400, "was not found", ""),
        ("levels", {"schema": ""}, 400, "the schema is missing", ""),
        ("mean", {"column": "sex"}, 400, "declared as a category", "column"),
        ("mean", {"by": "who"}, 400, "is not declared", ""),
        ("quantiles", {"probs": "2"}, 400, "between 0 and 1", "probs"),
        ("regress", {"dataset": "survey"}, 409, "pure ε", ""),
        ("regress", {"delta": ""}, 400, "δ", "delta"),
        ("regress", {"delta": "0.01"}, 400, "1/n", "delta"),
        ("regress", {"delta": "1e-400000000"}, 400, "δ", "delta"),
        ("regress", {"formula": ""}, 400, "Formula is missing", "formula"),
        ("regress", {"formula": "age"}, 400, "age", ""),
        ("regress", {"formula": "age ~ height"}, 400, "height", ""),
        ("regress", {"family": "cauchy"}, 400, "Family must be one of: gaussian", "family"),
        ("drawn mean", {"dataset": "survey"}, 409, "pure ε", ""),
        ("drawn mean", {"dataset": "people"}, 409, "replace-one", ""),
        ("drawn mean", {"options": "sigma=0"}, 400, "positive", ""),
        ("drawn mean", {"options": "sigma=inf"}, 400, "finite", "options"),
        ("drawn mean", {"options": "sigma=20; draws=101"}, 400, "draws at most 100 here", "options"),
        ("drawn mean", {"prior": "50"}, 400, "prior", ""),
        ("drawn mean", {"prior": ""}, 400, "Prior is missing", "prior"),
        ("drawn mean", {"prior": "1e9, 1e-9"}, 400, "differ too much", ""),
        ("drawn mean", {"method": "slowly"}, 400, "Method must be one of: direct", "method"),
        ("query", {"family": "cauchy"}, 400, "Family must be one of: beta", "family"),
        ("query", {"kind": "guess"}, 400, "'guess' is unknown", ""),
        ("query", {"delta": ""}, 400, "δ", ""),
        ("network", {"parents": "visits"}, 400, "must be name=…", "parents"),
        ("network", {"parents": "\n".join(f"c{i}=a" for i in range(30))}, 400, "at most 20 here", "parents"),
    ],
)
def test_what_does_not_fit_is_refused_and_not_charged(
    inside: Browser,
    unspent: dict[str, str],
    kind: str,
    change: dict[str, str],
    status: int,
    word: str,
    field: str,
) -> None:
    fields, before = {**unspent, **KINDS[kind], **change}, budgets(inside)
    for answer in (inside.get("/release/review?" + urlencode(fields)), inside.confirm(fields)):
        assert answer.status == status, html.unescape(answer.text)
        assert word.lower() in html.unescape(answer.text).lower()
        assert "Traceback" not in answer.text
        if field:  # it is marked, and everything that was filled in is still there
            assert re.findall(r'id="(\w+)"[^>]* aria-invalid="true"', answer.text) == [field]
            for name, value in fields.items():
                if name in ("columns", "column", "formula", "epsilon", "delta") and name != field and value:
                    assert f'value="{html.escape(value)}"' in answer.text
    assert budgets(inside) == before


@pytest.mark.parametrize(
    ("schema", "status", "word"),
    [
        (schema_of("200", head='person = "who"\nper_person = 2'), 409, "replace-person"),
        (schema_of("200", head='person = "who"\nper_person = 900'), 400, "less than 0.001 for each"),
        (schema_of(""), 409, "add-remove"),
        (schema_of("200", visits='"discover"'), 400, "leave n out"),
    ],
)
def test_a_schema_that_does_not_fit_the_question_is_refused(
    inside: Browser, schema: str, status: int, word: str
) -> None:
    fields, before = inside.asked("levels", schema=schema), budgets(inside)
    for answer in (inside.get("/release/review?" + urlencode(fields)), inside.confirm(fields)):
        assert answer.status == status, html.unescape(answer.text)
        assert word in html.unescape(answer.text)
    assert budgets(inside) == before


@pytest.mark.parametrize(
    ("kind", "schema", "status", "word"),
    [
        ("people", schema_of(head='person = "nobody"\nper_person = 1'), 400, "nobody"),
        ("levels", schema_of("199"), 400, "a different number of records"),
        ("mean", schema_of("199"), 400, "a different number of records"),
        ("drawn mean", schema_of("199"), 400, "a different number of records"),
        ("logistic", schema_of("199", visits="[0, 4]"), 400, "a different number of records"),
        (
            "groups",
            schema_of("200", "sizes = {sex = {f = 99, m = 101}}", sex='{values = ["f", "m"], public = true}'),
            400,
            "a different number of records",
        ),
        ("levels", schema_of(visits="[0, 1, 7]"), 422, "visits"),
        ("table", schema_of(sex='["f", "x"]'), 422, "sex"),
        ("groups", schema_of(sex='{values = ["f", "x"], public = true}'), 422, "sex"),
        ("logistic", schema_of(sex='["f", "x"]', visits="[0, 4]"), 422, "undeclared value"),
        ("levels", schema_of().replace("visits", "visit"), 400, "visit"),
    ],
)
def test_what_the_data_do_not_fit_is_said_with_the_price_and_not_charged(
    inside: Browser, kind: str, schema: str, status: int, word: str
) -> None:
    fields = inside.asked(kind, schema=schema)
    if "visit " in schema:
        fields["columns"] = "visit"
    before = budgets(inside)
    for answer in (inside.get("/release/review?" + urlencode(fields)), inside.confirm(fields)):
        assert answer.status == status, html.unescape(answer.text)
        assert word in html.unescape(answer.text)
    assert budgets(inside) == before


def test_values_that_do_not_fit_are_not_shown(inside: Browser) -> None:
    for kind in KINDS:
        content = NUMBERS + f"1,{SECRET},{SECRET},{SECRET}\n".encode()
        fields = inside.asked(kind, content)
        answers = [inside.get("/release/review?" + urlencode(fields)), inside.confirm(fields)]
        # A regression reads its data while it answers, after the price.
        first = 200 if kind == "regress" else 422
        assert [answer.status for answer in answers] == [first, 422], kind
        assert not any(SECRET in answer.text for answer in answers)


def test_price_and_release_read_the_data_once(inside: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    from discreet.questions._counts import ColumnCounts

    read: list[str] = []
    plain = ColumnCounts.read
    monkeypatch.setattr(ColumnCounts, "read", lambda self, data: (read.append("once"), plain(self, data))[1])
    fields = inside.form()
    assert inside.get("/release/review?" + urlencode(fields)).status == 200
    assert inside.confirm(fields).status == 303
    assert read == ["once"]
    assert "it was charged before" in inside.get("/release/review?" + urlencode(fields)).text
    assert inside.confirm(fields).status == 303
    assert read == ["once"]


def test_the_price_says_what_is_read_and_what_is_doubtful(inside: Browser) -> None:
    with warnings.catch_warnings():
        hear_warnings()
        groups = inside.get("/release/review?" + urlencode(inside.asked("groups"))).text
        noisy = inside.get(
            "/release/review?" + urlencode({**inside.asked("levels"), "epsilon": "0.002"})
        ).text
        declared = inside.asked("levels", schema=schema_of("200"))
        plain = inside.get("/release/review?" + urlencode(declared)).text
    assert "87, 113: read from the data, and published exactly" in groups
    assert groups.count("Before you spend") == 1
    assert "the released posterior says little beyond the prior" in noisy
    assert "Before you spend" not in plain
    assert "read from the data, and" not in plain


def test_tabs_take_along_what_is_asked_in_the_same_words(inside: Browser) -> None:
    fields = inside.asked("levels")
    page = inside.get("/release?" + urlencode({**fields, "by": "sex"}))
    tabs = dict(re.findall(r'<li><a href="(/release\?[^"]*)"[^>]*>([^<]+)</a></li>', page.text))
    assert set(tabs.values()) == {cls.title for _, cls in QUESTIONS.items()}
    for link, title in tabs.items():
        given = {name: value[0] for name, value in parse_qs(urlsplit(html.unescape(link)).query).items()}
        assert given["label"] == "Visits"
        assert given["schema"] == fields["schema"]
        assert given.get("by") == ("sex" if title in ("Proportions", "Mean", "Quantiles") else None)
        assert inside.get(html.unescape(link)).status == 200


def test_required_fields_say_so(inside: Browser) -> None:
    page = inside.get("/release?" + urlencode(inside.asked("regress"))).text
    for name, label in (("formula", "Formula"), ("epsilon", "Privacy budget ε"), ("delta", "δ")):
        assert f'<label for="{name}">{label} <span class="required">required' in page
        assert re.search(rf'id="{name}"[^>]* required', page)
    assert '<label for="prior">Prior of coefficients <span class="optional">' in page
    only = inside.form()  # one column: its name may be left out
    assert (
        '<label for="columns">Columns <span class="optional">'
        in inside.get("/release?" + urlencode(only)).text
    )


# ---- a question that nobody knew -------------------------------------------------------------------------


@dataclass(frozen=True)
class Greeting(Released):
    """The answer of the throw-away question below."""

    format = "test/greeting"
    text: str
    guarantee: Guarantee

    def content(self) -> dict[str, Any]:
        return {"text": self.text, "guarantee": self.guarantee.to_dict()}

    @classmethod
    def from_content(cls, content: Any) -> Greeting:
        return cls(content["text"], Guarantee.from_dict(content["guarantee"]))

    def cost(self) -> Guarantee:
        return Guarantee(Fraction(1, 8))

    def _rows(self, level: float) -> list[Row]:
        return [Row(f"row {i}", i, 1.0, i - 1.0, i + 1.0) for i in range(12)]

    def draws(self, size: int = 4000, seed: int | None = None) -> Any:
        raise InvalidInputError("a greeting has no draws")

    @property
    def warnings(self) -> tuple[str, ...]:
        return ("it is a joke",)

    def words(self) -> Words:
        return Words(f"Greetings, {self.text}", "A greeting")


@dataclass(frozen=True, kw_only=True)
class Greeted(Request):
    """What the throw-away question below asks of data."""

    who: str
    declared_size: ClassVar[None] = None

    def read(self, data: Any) -> str:
        return "read"

    def size_of(self, statistic: Any) -> Any:
        return {"odd": 1}

    def bind(self, size: Any) -> PricedRequest:
        guarantee = Guarantee(Fraction(1, 8))
        return PricedRequest(guarantee, lambda statistic: Greeting(self.who, guarantee))


@pytest.fixture
def greeting() -> Iterator[None]:
    @QUESTIONS.register
    @dataclass(frozen=True)
    class Greet(Question):
        """Greets, whatever the data are."""

        kind: ClassVar[str] = "greet"
        title: ClassVar[str] = "A greeting"
        sentence: ClassVar[str] = "Says hello."

        source: str = parameter(TEXT, "Who greets.", example="me")
        spread: float = parameter(NUMBER, "How much.", default=0.5, kw_only=True)

        def __post_init__(self) -> None:
            if self.source == "nobody":
                raise InvalidInputError("source must be somebody")

        def columns_used(self, schema: Schema) -> tuple[str, ...]:
            return tuple(schema.columns)

        def request(self, schema: Schema) -> Request:
            return Greeted(schema=schema, who=self.source)

    DOCUMENTS.register(Greeting)
    try:
        yield
    finally:
        QUESTIONS.unregister("greet")
        DOCUMENTS.unregister(Greeting.format)


@pytest.mark.usefixtures("greeting")
def test_a_new_question_has_a_tab_a_price_a_release_and_a_report(inside: Browser) -> None:
    known = {**inside.form(), "kind": "greet", "source_": "<b>Ada</b>", "label": ""}
    form = inside.get("/release?" + urlencode(known))
    assert "Says hello." in form.text
    assert 'name="source_"' in form.text
    review = inside.get("/release/review?" + urlencode(known))
    assert 'id="asked">ε = 0.125' in review.text
    assert "discreet.greet(" in review.text
    assert inside.get("/release/review?" + urlencode({**known, "source_": "nobody"})).status == 400
    assert inside.get("/release/review?" + urlencode({**known, "source_": ""})).status == 400
    done = inside.confirm(sent_by(review))
    result = inside.follow(done)
    assert "Greetings, &lt;b&gt;Ada&lt;/b&gt;" in result.text
    assert "It is a joke" in result.text
    assert result.text.count("<svg") == 1
    report = inside.get("/release/download/html?" + urlsplit(done.headers["Location"]).query)
    assert "row 11" in report.text
    assert "A greeting – source: &lt;b&gt;Ada&lt;/b&gt;" in inside.get("/ledger?dataset=survey").text


@pytest.mark.parametrize(
    ("schema", "given", "unit"),
    [
        (
            schema_of("", visits="{values = {from = 0, to = 999999}}"),
            {"columns": "visits", "options": "expected_false=1"},
            "records",
        ),
        (schema_of("60", sex='{values = ["f", "m"], missing = "exclude"}'), {"columns": "sex"}, "points"),
        (schema_of("60"), {"kind": "regress", "formula": "age ~ sex", "delta": "1e-6"}, ""),
        (schema_of(""), {"kind": "mean", "column": "age", "guess": "typical=20"}, ""),
    ],
    ids=["sparse", "exclude", "regress", "private n"],
)
def test_a_plan_is_also_python_and_a_command(
    schema: str,
    given: dict[str, str],
    unit: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    schemas = Schemas()
    kept = schemas.keep(schema, "survey")
    form = PlanForm.read({"schema": kept.identifier, "n": "60", "epsilon": "4", **given}, schemas)
    assert form.width().width_text().endswith(unit)
    monkeypatch.chdir(tmp_path)
    Path("schema.toml").write_text(kept.schema.to_toml())
    scope: dict[str, Any] = {}
    exec(form.python(), scope)
    shown = capsys.readouterr().out
    assert shown == run_command(form.command(), capsys)
    assert scope["plan"].widths == form.width().widths


def test_a_plan_is_carried_to_the_form(inside: Browser) -> None:
    """From the plan by the data to the form, whether the data are here already or uploaded."""
    kept = parse_qs(urlsplit(inside.declare(schema_of("60")).headers["Location"]).query)["schema"][0]
    plans = {
        "kind=proportions&columns=sex&n=60&epsilon=1/4&prior=0.5,+2": {
            "kind": "proportions",
            "columns": "sex",
            "prior": "0.5, 2",
        },
        "kind=regress&epsilon=1/4&formula=age+~+sex&delta=1e-7": {
            "kind": "regress",
            "formula": "age ~ sex",
            "delta": "1e-7",
        },
    }
    for plan, wanted in plans.items():
        planned = inside.get(f"/plan?schema={kept}&" + plan).text
        link = re.search(r'href="(/release[^"]*)">Release this', planned)
        assert link is not None
        page = inside.get(html.unescape(link[1]))
        assert "is kept for the form" in page.text
        chosen = re.search(r'href="(/release[^"]*)">deep/survey.csv', page.text)
        action = re.search(r'action="([^"]*)" enctype', page.text)
        assert chosen is not None
        assert action is not None
        inside_query = urlsplit(html.unescape(action[1])).query
        for form in (html.unescape(chosen[1]), None):
            if form is None:
                body = inside.upload(query=inside_query)
                form = body.headers["Location"]
            given = {name: value[0] for name, value in parse_qs(urlsplit(form).query).items()}
            assert given.pop("source")
            assert given == {"epsilon": "1/4", "schema": kept, **wanted}
            filled = inside.get(form)
            assert filled.status == 200
            assert 'value="1/4"' in filled.text
    assert inside.get("/release?kind=guess").status == 400
    assert inside.upload(query="kind=guess").status == 400


def test_a_plan_of_the_example_asks_for_the_schema_of_the_data(inside: Browser) -> None:
    planned = inside.get(f"/plan?schema={EXAMPLE}&kind=proportions&columns=smoker").text
    link = re.search(r'href="(/release[^"]*)">Release this', planned)
    assert link is not None
    assert "schema=" not in link[1]
    address = inside.upload(query=urlsplit(html.unescape(link[1])).query).headers["Location"]
    page = inside.follow(inside.get(address))
    assert "smoker = []" in page.text
    kept = inside.post("/schema", {"csrf": inside.csrf, "form": page.field("form"), "text": SMOKERS})
    ask = re.search(r'href="(/release[^"]*)">Ask a question', inside.follow(kept).text)
    assert ask is not None
    assert 'value="smoker"' in inside.get(html.unescape(ask[1])).text


def test_a_table_is_copied_as_python(inside: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    page = inside.get("/release").text
    link = re.search(r'href="(/release\?source=\w+)">visits.duckdb: odd', page)
    assert link is not None
    fields = inside.begin(parse_qs(urlsplit(link[1]).query)["source"][0], SMOKERS)
    fields |= {"columns": "smoker", "epsilon": "1", "dataset": "survey"}
    review = html.unescape(inside.get("/release/review?" + urlencode(fields)).text)
    assert "needs Python" in review
    code = re.search(r"<code>(import discreet.*?)</code>", review, re.DOTALL)
    assert code is not None
    assert inside.settings.data is not None
    monkeypatch.chdir(inside.settings.data)
    scope: dict[str, Any] = {}
    exec(code[1], scope)
    assert scope["answer"].n == 30


def test_a_double_click_is_one_charge(small: Browser) -> None:
    fields = {**small.form(), "csrf": small.csrf}
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: small.post("/release/confirm", fields), range(6)))
    assert {answer.status for answer in answers} == {303}
    assert spent(small) == Fraction(2, 5)


def test_the_id_of_a_request_belongs_to_its_file(inside: Browser) -> None:
    first, second = inside.form(), inside.form()
    before = spent(inside)
    assert inside.confirm({**first, "source": second["source"]}).status == 409
    assert inside.confirm({**first, "request": "mine"}).status == 400
    assert inside.confirm({**first, "source": "../survey.csv"}).status == 400
    assert inside.get("/release?source=../survey.csv").status == 400
    assert spent(inside) == before


def test_a_file_and_a_table_of_the_folder(inside: Browser) -> None:
    page = inside.get("/release").text
    links = {
        html.unescape(name): url for url, name in re.findall(r'href="(/release\?source=\w+)">([^<]+)<', page)
    }
    assert {"deep/survey.csv", "<b>bold.csv", "visits.duckdb: odd 'name"} <= set(links)
    assert not any("hidden" in name or "link" in name for name in links)
    for name, n in (("deep/survey.csv", 100), ("visits.duckdb: odd 'name", 30)):
        source = parse_qs(urlsplit(links[name]).query)["source"][0]
        assert "smoker" in inside.get(f"/schema?source={source}").text
        fields = inside.begin(source, SMOKERS)
        fields |= {"columns": "smoker", "epsilon": "2", "dataset": "survey"}
        assert f"{n} (public)" in inside.follow(inside.confirm(fields)).text


def test_without_a_ledger_it_must_be_acknowledged() -> None:
    with running() as browser:
        browser.enter()
        fields = {**browser.form(), "dataset": ""}
        review = browser.get("/release/review?" + urlencode(fields)).text
        assert "I know that no ledger records this release" in review
        refused = browser.confirm(fields)
        assert refused.status == 400
        assert "Nothing was released" in refused.text
        first = browser.confirm({**fields, "acknowledged": "yes"})
        query = urlsplit(first.headers["Location"]).query
        bodies = {browser.get(f"/release/download/json?{query}").body}
        assert browser.confirm({**fields, "acknowledged": "yes"}).status == 303
        bodies.add(browser.get(f"/release/download/json?{query}").body)
        assert len(bodies) == 1
        assert browser.confirm({**fields, "acknowledged": "yes", "epsilon": "2"}).status == 409
        assert "discreet studio --ledger" in browser.get("/ledger").text
        assert browser.confirm({**fields, "dataset": "x", "acknowledged": "yes"}).status == 400


@pytest.mark.parametrize(
    ("content", "name", "status"),
    [
        (f"smoker\nnever\n{SECRET}\n".encode(), "a.csv", 422),
        (f"smoker\nnever\n,{SECRET},\n".encode(), "a.csv", 400),
        (f"{SECRET}\n".encode() * 3, "a.csv", 400),
        (SECRET.encode(), "a.parquet", 400),
        (f'[{{"smoker": "{SECRET}"}}]'.encode(), "a.json", 422),
        (f'{{"smoker": "{SECRET}'.encode(), "a.jsonl", 400),
        (b"smoker\n" + b"\xff\xfe" + SECRET.encode(), "a.csv", 400),
        (b"", "a.csv", 422),
    ],
)
def test_no_data_value_and_no_place_is_in_an_error(
    inside: Browser, content: bytes, name: str, status: int
) -> None:
    fields = inside.form(content, name)
    before = spent(inside)
    for answer in (inside.get("/release/review?" + urlencode(fields)), inside.confirm(fields)):
        assert answer.status == status, html.unescape(answer.text)
        assert SECRET not in answer.text
        assert "Traceback" not in answer.text
        assert "discreet-studio-" not in answer.text  # the folder of the uploads
    assert spent(inside) == before


def test_an_unforeseen_error_shows_nothing(
    inside: Browser, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError(SECRET)

    monkeypatch.setattr("discreet._studio.pages.plan.PlanForm.width", broken)
    answer = inside.get("/plan")
    assert answer.status == 500
    assert SECRET not in answer.text
    assert SECRET not in capsys.readouterr().err


# ---- budgets -------------------------------------------------------------------------------------------


def test_a_budget_is_created_once_and_spent(tmp_path: Path) -> None:
    with running(ledger=f"sqlite:///{tmp_path / 'new.db'}") as browser:
        browser.enter()
        assert "Create a budget" in browser.get("/ledger").text
        fields = {"dataset": "panel", "relation": "replace-one", "measure": "epsilon+delta", "epsilon": "1"}
        refused: list[tuple[dict[str, str], str]] = [
            ({"delta": ""}, "needs epsilon and delta"),
            ({"delta": "2"}, "below 1"),
            ({"delta": "oops"}, "not a number"),
            ({"epsilon": "-1"}, "positive"),
            ({"epsilon": "1" * 41}, "needs epsilon"),
            ({"measure": "gold"}, "easure must be one of"),
            ({"unit": "who"}, "needs relation"),
            ({"relation": "cousins"}, "cousins"),
            ({"dataset": ""}, "printable"),
            ({"dataset": "x" * 201}, "printable"),
        ]
        for change, word in refused:
            given = {**fields, "delta": "1e-5", "csrf": browser.csrf, **change}
            answer = browser.post("/ledger/create", given)
            assert answer.status == 400, change
            assert word in html.unescape(answer.text)
            assert answer.text.count('aria-invalid="true"') == 1
            for name, text in {**fields, **change}.items():  # what was filled in is kept
                if name in ("dataset", "epsilon", "delta", "unit") and text:
                    assert f'value="{text}"' in answer.text
        given = {**fields, "delta": "1e-5"}
        assert browser.post("/ledger/create", given).status == 403
        assert browser.get("/ledger?" + urlencode(given)).status == 200
        page = browser.follow(browser.post("/ledger/create", {**given, "csrf": browser.csrf}))
        assert "budget created" in page.text
        assert "ε = 1, δ = 1e-5" in page.text
        again = browser.post("/ledger/create", {**given, "csrf": browser.csrf})
        assert (again.status, "exists already" in again.text) == (400, True)
        assert browser.confirm({**browser.form(), "dataset": "panel"}).status == 303
        assert spent(browser, "panel") == Fraction(2, 5)
        zcdp = {**fields, "dataset": "rho", "measure": "zcdp", "zcdp": "1/2", "csrf": browser.csrf}
        assert "ρ = 0.5" in browser.follow(browser.post("/ledger/create", zcdp)).text
        people = {**fields, "dataset": "people", "relation": "replace-person", "unit": "who", "delta": "1e-5"}
        page = browser.follow(browser.post("/ledger/create", {**people, "csrf": browser.csrf}))
        assert "replace-person by who" in page.text
    with running() as browser:
        refused_here = browser.enter().post("/ledger/create", {**given, "csrf": browser.csrf})
        assert (refused_here.status, "start the studio" in refused_here.text) == (400, True)


@pytest.mark.parametrize("name", ["pure", "approximate", "zcdp", "relations"])
def test_what_0_1_0_charged_is_listed_and_shown(tmp_path: Path, name: str) -> None:
    source = Path(__file__).parent / "fixtures" / "0.1.0" / "ledgers" / f"{name}.db"
    (tmp_path / "old.db").write_bytes(source.read_bytes())
    ledger = f"sqlite:///{tmp_path / 'old.db'}"
    with discreet.Ledger(ledger) as book:
        names = book.datasets()
        entries = [entry for dataset in names for entry in book.history(dataset)]
    answers = [entry for entry in entries if b'"format": "discreet/' in (entry.result or b"")]
    links: list[str] = []
    with running(ledger=ledger) as browser:
        browser.enter()
        for dataset in names:
            page = browser.get("/ledger?" + urlencode({"dataset": dataset, "verify": "1"}))
            assert "The ledger is sound" in page.text
            for entry in answers:
                if entry.dataset == dataset and entry.plan is not None:
                    assert f'<td class="words asked">{entry.plan["question"].capitalize()}' in page.text
            links += map(html.unescape, re.findall(r'href="(/release/result[^"]*)"', page.text))
        assert len(links) == len(answers) > 0
        for link in links:
            assert browser.get(link).status == 200
            assert browser.get(link.replace("result", "download/html")).status == 200


# ---- uploads -------------------------------------------------------------------------------------------


def test_an_upload_has_a_limit(inside: Browser) -> None:
    limit = inside.settings.upload_limit
    assert inside.upload(b"x" * (limit - 1000)).status == 303
    large = inside.upload(b"x" * (2 * limit))
    assert large.status == 413
    assert "up to 0.3 MB" in large.text
    seen = 0

    def endless() -> Iterator[bytes]:
        nonlocal seen
        yield b'--B\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\n'
        while seen < 100 * limit:
            seen += 50_000
            yield b"x" * 50_000

    try:  # a length that is not said; the server may hang up on us before we have sent everything
        answer = inside.send(
            "POST", "/release/upload", endless(), Content_Type="multipart/form-data; boundary=B"
        )
        assert answer.status == 413
    except (BrokenPipeError, ConnectionResetError):
        assert seen < 100 * limit


def test_uploads_are_private_named_by_us_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with running() as browser:
        browser.enter()
        assert browser.upload(name="../../evil.csv").status == 303
        assert browser.upload(name="evil.exe").status == 400
        assert browser.upload(name="").status == 400
        (kept,) = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "lock"]
        assert kept.stat().st_mode & 0o777 == 0o600
        assert kept.parent.stat().st_mode & 0o777 == 0o700
        assert kept.parent.parent == tmp_path
        assert "evil" not in kept.name
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_uploads_of_one_name_have_numbers(inside: Browser) -> None:
    """A question about one was easily put to the other: list, form and price showed the same name."""
    forms = [inside.form(content) for content in (CSV, CSV.replace(b"never", b"former"))]
    reviews = [inside.get("/release/review?" + urlencode(fields)).text for fields in forms]
    names = [re.findall(r"<td>(survey\.csv \(upload \d+\))</td>", text) for text in reviews]
    assert len({name for found in names for name in found}) == 2
    page = inside.get("/release").text
    for fields, (name,) in zip(forms, names, strict=True):
        assert re.search(rf"source={fields['source']}[^>]*>{re.escape(name)}<", page)


def test_a_workbook_is_taken_and_a_torn_one_says_nothing_of_its_cells(
    inside: Browser, tmp_path: Path
) -> None:
    pytest.importorskip("openpyxl")
    rows = [("id", "smoker"), *[(i, ("never", "former", "current")[i % 3]) for i in range(30)]]
    whole = workbook(tmp_path / "t.xlsx", {"Wave 1": rows}).read_bytes()
    found = inside.follow(inside.confirm(inside.form(whole, "survey.xlsx")))
    assert found.status == 200
    assert "30 (public)" in html.unescape(found.text)
    torn = f'<row r="40"><c r="B40"><v>{SECRET}</v></c></row>'
    for content in (
        workbook(tmp_path / "u.xlsx", {"Wave 1": rows}, torn).read_bytes(),
        workbook(tmp_path / "v.xlsx", {"Wave 1": rows}, torn + "</sheetData></worksheet>").read_bytes(),
        whole[:-40],
        b"PK\3\4" + b"\0" * 100,
    ):
        refused = inside.confirm(inside.form(content, "survey.xlsx"))
        assert refused.status == 400
        assert "well-formed" in refused.text
        assert SECRET not in refused.text
        assert "discreet-studio-" not in refused.text


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"--B",
        b"--B\r\n\r\n",
        b"--B\r\nContent-Disposition: form-data\r\n\r\nx\r\n--B--\r\n",
        b"\x00" * 500,
    ],
)
def test_malformed_forms_are_no_errors_of_ours(inside: Browser, body: bytes) -> None:
    for kind in ("multipart/form-data; boundary=B", "multipart/form-data", "application/json", "text/plain"):
        for path in ("/release/upload", "/release/confirm"):
            assert inside.send("POST", path, body, Content_Type=kind).status in (400, 403)


# ---- copied code runs ----------------------------------------------------------------------------------


def run_command(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    words = shlex.split(command)
    assert words[0] == "discreet"
    with pytest.raises(SystemExit) as stopped:
        main(words[1:])
    shown = capsys.readouterr()
    assert not stopped.value.code, shown.err
    return shown.out


def test_copied_code_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {}
    distribution = DistributionQuestion(mechanism="ehds", first="3", second="7", alpha="0.5", epsilon="1")
    exec(distribution.python(), scope)
    assert capsys.readouterr().out == run_command(distribution.command(), capsys)
    audit = AuditQuestion(mechanism="ehds", n="10", gamma="1")
    exec(audit.python(), scope)
    assert capsys.readouterr().out == run_command(audit.command(), capsys)

    Path("odd file.csv").write_text('"a; b"\n' + "'x'\n$y\n" * 50)
    schemas = Schemas()
    kept = schemas.keep('n = 100\n[columns]\n"a; b" = ["\'x\'", "$y"]\n-c = ["-", "+"]\n', "odd")
    Path("schema.toml").write_text(kept.schema.to_toml())
    texts = {"columns": "a; b", "epsilon": "1/2", "prior": "1, 2"}
    release = ReleaseForm(schema=kept.identifier, kind="proportions", texts=texts, kept_schema=kept)
    exec(release.as_python("odd file.csv", {}), scope)
    assert scope["answer"].levels == ("'x'", "$y")
    run_command(release.as_command("odd file.csv", {}), capsys)
    dashed = replace(release, texts={"columns": "-c", "epsilon": "1"}).as_command("odd file.csv", {})
    assert dashed.endswith(" -- -c\n")


def test_the_pages_show_that_code(inside: Browser) -> None:
    shown = html.unescape(inside.get(f"/plan?schema={EXAMPLE}&columns=sex&n=12").text)
    question = PlanForm.read({"columns": "sex", "n": "12"})
    assert question.python() in shown
    assert question.command() in shown
    review = html.unescape(inside.get("/release/review?" + urlencode(inside.form())).text)
    assert "discreet proportions FILE.csv schema.toml" in review
    assert "discreet.proportions(" in review


# ---- starting ------------------------------------------------------------------------------------------


def test_the_address_names_this_machine_and_a_fresh_token() -> None:
    one, two = StudioSettings(port=1), StudioSettings(port=1)
    assert one.token != two.token
    assert len(one.token) >= 32
    assert one.address == f"http://127.0.0.1:1/?token={one.token}"
    assert one.token not in repr(one)


def test_what_a_browser_is_started_with_opens_one_session(shared: Browser) -> None:
    """The command line of a browser is seen by everybody on the machine; its token is spent at once."""
    sessions = Sessions(shared.settings)
    ticket = sessions.ticket()
    assert not sessions.fits(ticket + "x")
    assert sessions.fits(ticket)
    assert not sessions.fits(ticket)
    assert sessions.fits(shared.settings.token)
    assert sessions.fits(shared.settings.token)


def test_a_port_in_use_is_said() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(InvalidInputError, match="in use by another program"):
            bind_port(taken.getsockname()[1])
    with pytest.raises(InvalidInputError, match="between 0 and 65535"):
        bind_port(70000)


def test_the_command_starts_and_ends(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "discreet._cli", "studio", "--no-browser", "--data", str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as studio:
        assert studio.stdout is not None
        address = urlsplit(studio.stdout.readline().strip())
        token = parse_qs(address.query)["token"][0]
        assert (address.scheme, address.hostname, address.path) == ("http", "127.0.0.1", "/")
        browser = Browser(StudioSettings(port=address.port or 0, token=token)).enter()
        assert browser.upload().status == 303
        studio.send_signal(signal.SIGINT)
        rest, said = studio.communicate(timeout=300)
    assert (studio.returncode, rest) == (0, "")  # the address was all of the output
    assert "The studio has ended" in said
    assert "Traceback" not in said


def test_the_command_line_stays_quick_and_says_what_is_missing() -> None:
    program = (
        "import sys\n"
        "from discreet._cli import main\n"
        "heavy = ('fastapi', 'uvicorn', 'jinja2', 'discreet._studio')\n"
        "print([name for name in heavy if name in sys.modules])\n"
        "sys.modules['fastapi'] = None\n"
        "main(['studio', '--no-browser'])\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (2, "[]\n")
    assert "pip install '.[web]'" in run.stderr


def test_vendored_files_are_those_of_the_list() -> None:
    text = (STATIC / "vendor" / "README.md").read_text("utf-8")
    listed = dict(re.findall(r"^\| (\S+\.js) \|.*`([0-9a-f]{64})` \|$", text, re.MULTILINE))
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (STATIC / "vendor").glob("*.js")
    }
    assert listed == found
    assert set(found) == {"htmx.min.js"}


class _Unopened:
    def find(self, identifier: str) -> Any:
        raise AssertionError("the data were looked for")


def test_nothing_is_read_for_a_request_of_another_file_or_a_wrong_dataset(tmp_path: Any) -> None:
    book = discreet.Ledger(tmp_path / "ledger.db")
    book.create("pure", epsilon=1)
    releases = Releases(book, _Unopened())  # type: ignore[arg-type]
    kept = Schemas().keep(schema_of("200"), "survey")
    texts = {name: text for name, text in KINDS["drawn mean"].items() if name not in ("kind", "dataset")}
    form = ReleaseForm(
        "a", kept.identifier, "draw", "pure", request=new_request("b"), texts=texts, kept_schema=kept
    )
    with pytest.raises(RequestConflictError):
        releases.price(form)
    with pytest.raises(GuaranteeMismatchError, match="δ = 0"):
        releases.price(replace(form, request=new_request("a")))


def test_the_copied_python_names_any_table() -> None:
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
    table = 'odd"; name'
    kept = Schemas().keep("[columns]\nx = ['a', 'b']\n", "x")
    form = ReleaseForm(kind="proportions", texts={"columns": "x", "epsilon": "1"}, kept_schema=kept)
    query = next(
        line for line in form.as_python("x.duckdb", {}, table).splitlines() if line.startswith("data = ")
    )
    book = duckdb.connect()
    book.execute('CREATE TABLE "odd""; name" AS SELECT 1 AS x')
    found: dict[str, Any] = {"book": book}
    exec(query, found)
    assert found["data"].fetchall() == [(1,)]


def test_the_promise_says_who_is_protected() -> None:
    assert _promise(Guarantee(Fraction(1)))["meaning"].rest == "every record but one"
    person = _promise(Guarantee(Fraction(1), relation=Relation.REPLACE_PERSON))
    assert person["meaning"].rest == "everything but the records of one person"
    assert person["meaning"].right == 74  # e/(1 + e), rounded up
