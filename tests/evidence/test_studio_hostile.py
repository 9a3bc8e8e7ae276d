"""Everything a hostile page, program or file can send to a studio: nothing is charged, run, leaked or broken.

A real ``discreet studio`` process, attacked over its socket; what a browser would do with the answers is
tried in Chromium. The ledger is compared before and after, every answer and the log are searched for a value
planted in the data. Chance comes from a fixed seed.
"""

from __future__ import annotations

import contextlib
import gzip
import html
import http.client
import importlib.util
import json
import os
import random
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

import discreet
from discreet._studio.guard import StudioSettings
from discreet.answers.release import Release
from discreet.errors import InvalidInputError
from evidence.components import need
from test_studio import CSV, KINDS, NUMBERS, SCHEMAS, SMOKERS, Answer, Browser, schema_of

pytestmark = pytest.mark.slow

SECRET = "zebrafish-7351"
"""A value of a record; it may appear in no answer and in no log."""
MUTATIONS = 1000
WINDOWS_LATIN = "smoker\nnever\nfrüher\n".encode("cp1252")


@dataclass
class Target:
    """A studio in its own process."""

    settings: StudioSettings
    process: subprocess.Popen[str]
    log: Path
    uploads: Path
    answers: Counter[int] = field(default_factory=Counter)

    def browser(self) -> Browser:
        return Browser(self.settings).enter()

    def state(self) -> str:
        """Every entry of the ledger."""
        assert self.settings.ledger is not None
        with discreet.Ledger(self.settings.ledger) as book:
            return book.verify().head

    def charges(self, dataset: str) -> int:
        assert self.settings.ledger is not None
        with discreet.Ledger(self.settings.ledger) as book:
            return sum(entry.kind == "charge" for entry in book.history(dataset))

    def memory(self) -> int:
        """Largest memory of the process so far, in MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) // 1024

    def harmless(self, answer: Answer, where: str) -> None:
        """No answer is an error of ours, or shows a record, a place on the disk or in the code."""
        self.answers[answer.status] += 1
        text = answer.body.decode("utf-8", "replace")
        assert answer.status < 500, where
        assert SECRET not in text, where
        assert "Traceback" not in text, where
        assert str(self.uploads) not in text, where


@contextlib.contextmanager
def started(place: Path, *options: str) -> Iterator[Target]:
    uploads = place / "tmp"
    uploads.mkdir(exist_ok=True)
    ledger = f"sqlite:///{place / 'ledger.db'}"
    with discreet.Ledger(ledger) as book, contextlib.suppress(InvalidInputError):
        book.create("survey", epsilon=1000)
        book.create("small", epsilon=1)
        book.create("people", epsilon=1000, relation="replace-person")
        book.create("drawn", epsilon=1000, delta="0.01")
        book.create("within", epsilon=1000, relation="within-group")
    words = [sys.executable, "-m", "discreet._cli", "studio", "--no-browser", "--ledger", ledger, *options]
    log = place / "log"
    with log.open("a") as file:
        process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=file, text=True, env={**os.environ, "TMPDIR": str(uploads)}
        )
    try:
        assert process.stdout is not None
        address = urlsplit(process.stdout.readline().strip())
        token = parse_qs(address.query)["token"][0]
        settings = StudioSettings(port=address.port or 0, token=token, ledger=ledger)
        yield Target(settings, process, log, uploads)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.wait(20)
        process.stdout.close()


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    place = tmp_path_factory.mktemp("hostile")
    data = place / "data"
    data.mkdir()
    (data / "survey.csv").write_bytes(CSV)
    (place / "outside.csv").write_text(f"smoker\n{SECRET}\n")
    (data / "linked.csv").symlink_to(place / "outside.csv")
    (data / "linked").symlink_to(place)
    with started(place, "--data", str(data)) as running:
        yield running
        assert running.process.poll() is None  # still alive after everything


# ---- who asks ------------------------------------------------------------------------------------------


def test_wrong_host_origin_token_cookie_and_method(target: Target) -> None:
    inside = target.browser()
    fields = {**inside.form(), "csrf": inside.csrf}
    body = urlencode(fields).encode()
    before, port = target.state(), target.settings.port
    kind: dict[str, str | None] = {"Content-Type": "application/x-www-form-urlencoded"}
    hosts = ["evil.example", f"evil.example:{port}", f"127.0.0.1.evil.example:{port}", f"[::1]:{port}"]
    hosts += [
        f"127.1:{port}",
        f"2130706433:{port}",
        f"0.0.0.0:{port}",
        f"localhost.:{port}",
        f"localhost:{port}\t,x",
    ]
    hosts += [f"user@127.0.0.1:{port}", f"127.0.0.1:{port}/", f"127.0.0.1:0{port}", ""]
    origins = [
        "null",
        "http://evil.example",
        f"http://127.0.0.1:{port}.evil.example",
        f"https://127.0.0.1:{port}",
    ]
    origins += [
        f"http://127.0.0.1:{port + 1}",
        f"http://127.0.0.1:{port}, http://evil.example",
        "file://",
        "",
    ]
    cookie = inside.cookie
    cookies = [
        None,
        "",
        cookie[:-1],
        cookie + "x",
        cookie.upper(),
        cookie.replace("=", "=\u00e9"),
        "x=" + cookie,
    ]
    attempts: list[tuple[str, dict[str, str | None]]] = [
        *(("POST", {"Host": host}) for host in hosts),
        *(("POST", {"Origin": origin}) for origin in origins),
        *(
            ("POST", {"Origin": "null", "Sec-Fetch-Site": site})
            for site in ("same-site", "cross-site", "none")
        ),
        *(("POST", {"Cookie": shown}) for shown in cookies),
        *((method, {}) for method in ("PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "POSTS", "post")),
    ]
    for method, headers in attempts:
        answer = inside.send(method, "/release/confirm", body, **(kind | headers))
        target.harmless(answer, f"{method} {headers}")
        assert answer.status in (400, 401, 403, 405), f"{method} {headers}"
    for token in ("", "x", target.settings.token[:-1], target.settings.token + "x", cookie.partition("=")[2]):
        assert inside.get(f"/?token={token}", Cookie=None).status == 403
    for secret in ("", "x", fields["csrf"][:-1], Browser(target.settings).enter().csrf):
        assert inside.post("/release/confirm", {**fields, "csrf": secret}).status == 403
    assert inside.get("/release/confirm?" + urlencode(fields)).status == 405
    for site in ("same-site", "cross-site"):  # a page of another port, whose requests carry our cookie
        assert inside.get("/ledger", Sec_Fetch_Site=site).status == 403
    assert target.state() == before
    print(
        f"{len(attempts)} requests with a wrong host, origin, cookie or method: all refused, nothing charged"
    )
    assert inside.post("/release/confirm", fields).status == 303  # and the right one passes


def test_a_session_cannot_be_chosen_by_others(target: Target) -> None:
    name = f"discreet-studio-{target.settings.port}"
    planted = Browser(target.settings)
    planted.cookie = f"{name}=planted"
    answer = planted.get(f"/?token={target.settings.token}")
    assert "planted" not in answer.headers["Set-Cookie"]
    assert planted.get("/plan").status == 401
    one, two = target.browser(), target.browser()
    assert one.cookie != two.cookie
    fields = one.form()
    assert two.confirm(fields).status == 303  # the same person in two windows: one charge for one form
    assert one.confirm(fields).status == 303
    sent = urlencode({**fields, "csrf": two.csrf, "request": fields["request"].replace("studio-", "studio_")})
    kind: dict[str, str | None] = {"Content-Type": "application/x-www-form-urlencoded"}
    assert one.send("POST", "/release/confirm", sent.encode(), **kind).status == 403
    assert (
        one.get("//evil.example/%0d%0aSet-Cookie:x=1?token=" + target.settings.token).headers.get_all(
            "Set-Cookie", []
        )[1:]
        == []
    )


def test_no_path_leads_out(target: Target) -> None:
    inside = target.browser()
    climbs = ["../../../etc/passwd", "..%2f..%2fetc%2fpasswd", "%2e%2e/%2e%2e/etc/passwd", "....//etc/passwd"]
    climbs += [
        "..%5c..%5capp.py",
        "%00",
        "a%00.png",
        "/etc/passwd",
        "%2fetc%2fpasswd",
        "..%c0%af",
        "C:%5cboot.ini",
    ]
    climbs += [
        "linked.csv",
        "linked/outside.csv",
        "..;/app.py",
        "~root",
        "x" * 5000,
        "%ff%fe",
        "\u2025%2f"[1:],
    ]
    routes = [
        "/static/{}",
        "/static/vendor/{}",
        "/evidence/image/{}",
        "/release/download/{}",
        "/release?source={}",
    ]
    routes += [
        "/schema?source={}",
        "/schema/download?schema={}",
        "/release/result?request={}&dataset=survey",
        "/ledger?dataset={}",
        "/ledger/report?dataset={}",
    ]
    routes += ["/release/review?source={}&request={}", "/release/download/json?dataset=survey&request={}"]
    before = target.state()
    for route in routes:
        for climb in climbs:
            answer = inside.get(route.replace("{}", climb))
            target.harmless(answer, route + climb)
            assert answer.status in (400, 401, 404, 409), route + climb
            assert b"root:" not in answer.body
            assert b"import " not in answer.body
    assert "outside.csv" not in inside.get("/release").text
    assert "linked" not in inside.get("/release").text
    assert target.state() == before
    print(f"{len(routes) * len(climbs)} addresses that try to leave their folder: none does")


# ---- bytes ---------------------------------------------------------------------------------------------


def test_uploads_of_100_mb_are_refused_in_little_memory(target: Target) -> None:
    inside = target.browser()
    csrf = inside.csrf.encode()
    start = b'--B\r\nContent-Disposition: form-data; name="csrf"\r\n\r\n' + csrf + b"\r\n"
    start += b'--B\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\nsmoker\n'
    block = b"never\n" * 20_000
    kind: dict[str, str | None] = {"Content-Type": "multipart/form-data; boundary=B"}

    def blocks() -> Iterator[bytes]:
        yield start
        for _ in range(100_000_000 // len(block)):
            yield block
        yield b"\r\n--B--\r\n"

    before = target.memory()
    statuses = []
    length = sum(map(len, blocks()))
    for headers in ({"Content-Length": str(length)}, {"Transfer-Encoding": "chunked"}):
        connection = http.client.HTTPConnection("127.0.0.1", target.settings.port, timeout=30)
        connection.putrequest("POST", "/release/upload", skip_host=True)
        common = {
            "Host": target.settings.hosts[0],
            "Cookie": inside.cookie,
            "Origin": target.settings.origins[0],
        }
        for name, value in {**common, **kind, **headers}.items():
            connection.putheader(name, str(value))
        connection.endheaders(blocks(), encode_chunked="Transfer-Encoding" in headers)
        answer = connection.getresponse()
        statuses.append(answer.status)
        assert b"up to 64 MB" in answer.read()
        connection.close()
    grown = target.memory() - before
    print(f"two uploads of {length / 1e6:.0f} MB: {statuses}")
    print(f"memory of the server: {target.memory()} MB at most, {grown} MB more than before")
    assert statuses == [413, 413]
    assert grown < 100
    assert inside.get("/plan").status == 200
    assert [
        path for path in target.uploads.rglob("*") if path.is_file() and path.stat().st_size > 10**7
    ] == []


def test_half_open_requests_block_nobody(target: Target) -> None:
    inside = target.browser()
    host = f"Host: {target.settings.hosts[0]}\r\n"
    known = f"{host}Cookie: {inside.cookie}\r\nOrigin: {target.settings.origins[0]}\r\n"
    halves = [
        "GET /plan HT",
        f"GET /plan HTTP/1.1\r\n{host}X: ",
        f"POST /release/confirm HTTP/1.1\r\n{known}"
        "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 1000\r\n\r\ncsrf=",
        f"POST /release/upload HTTP/1.1\r\n{known}"
        "Content-Type: multipart/form-data; boundary=B\r\nContent-Length: 9000000\r\n\r\n--B\r\n",
    ]
    with contextlib.ExitStack() as stack:
        for number in range(200):
            slow = stack.enter_context(
                socket.create_connection(("127.0.0.1", target.settings.port), timeout=10)
            )
            slow.sendall(halves[number % len(halves)].encode())
        began = time.monotonic()
        assert inside.get("/ledger").status == 200
        assert inside.get("/plan").status == 200
        seconds = time.monotonic() - began
    print(f"two pages while 200 requests stand half open: {seconds:.2f} s")
    assert seconds < 10


@pytest.mark.parametrize(
    "charset", ["unicode_escape", "utf-16", "idna", "rot13", "nonsense", "utf-7", "punycode"]
)
def test_malformed_multipart(target: Target, charset: str) -> None:
    inside = target.browser()
    csrf, before = inside.csrf.encode(), target.state()
    disposition = b"Content-Disposition: form-data; name="
    named = (
        b"--B\r\n"
        + disposition
        + b'"csrf"\r\n\r\n'
        + csrf
        + b"\r\n--B\r\n"
        + disposition
        + b'"file"; filename='
    )
    end = b"\r\n\r\nsmoker\nnever\n\r\n--B--\r\n"
    bodies = [
        b"--B\r\n" + disposition + b'"csrf"\r\n\r\n\\ud800\xff\xfe\r\n--B--\r\n',
        named + b'"\\ud800.csv"' + end,
        named + b'"\xff\xfe.csv"' + end,
        named + b'"a\x00.csv"' + end,
        named + b"\"a.csv\"; filename*=utf-8''%ff%00.csv" + end,
        named + b'"' + b"a" * 5000 + b'.csv"' + end,
        named[:-20],
        b"--B\r\n" * 2000,
        b"--B\r\n" + b"X: y\r\n" * 3000 + b"\r\n",
        b"--B\r\n" + disposition + b'"csrf"\r\n\r\n' + b"x" * 5000 + b"\r\n--B--\r\n",
        b"".join(b"--B\r\n" + disposition + b'"a"\r\n\r\nx\r\n' for _ in range(50)) + b"--B--\r\n",
    ]
    for kind in (
        f"multipart/form-data; boundary=B; charset={charset}",
        "multipart/form-data; boundary=" + "B" * 300,
    ):
        for body in bodies:
            for path in ("/release/upload", "/release/confirm", "/schema"):
                answer = inside.send("POST", path, body, Content_Type=kind)
                target.harmless(answer, f"{path} {kind} {body[:80]!r}")
                assert answer.status in (303, 400, 403, 415)
    form = f"application/x-www-form-urlencoded; charset={charset}"
    for body in (b"csrf=%ud800&a=%", b"csrf=\xff\xfe\x00", b"&" * 5000, b"csrf=" + csrf + b"&request=%00%ff"):
        target.harmless(
            inside.send("POST", "/release/confirm", body, Content_Type=form), f"{charset} {body[:40]!r}"
        )
    assert target.state() == before


# ---- files ---------------------------------------------------------------------------------------------

SCRIPT = "\"><script>window.pwned=1</script><img src=x onerror=window.pwned=1>'{{7*7}}${7*7}"


def csv_of(*values: str) -> bytes:
    lines = ['"' + value.replace('"', '""') + '"' for value in values]
    return ("smoker\n" + "\n".join(lines) + "\n").encode()


FILES: dict[str, tuple[str, bytes]] = {
    "formula": ("a.csv", csv_of(f"=cmd|'/C calc'!A0 {SECRET}", "never")),
    "script": ("a.csv", csv_of(SCRIPT + SECRET, "never")),
    "NUL bytes": ("a.csv", b"smoker\nnever\n\x00" + SECRET.encode() + b"\x00\nformer\n"),
    "a million columns": (
        "a.csv",
        b",".join(b"c%d" % i for i in range(10**6)) + b"\n" + b",".join([b"x"] * 10**6),
    ),
    "a huge line": ("a.csv", b"smoker\n" + SECRET.encode() * 2_000_000 + b"\n"),
    "a huge first line": ("a.csv", SECRET.encode() * 2_000_000 + b"\nnever\n"),
    "no line end": ("a.csv", b"smoker,b" * 100_000),
    "quotes": ("a.csv", b'smoker\n"never\n' + SECRET.encode() + b"\n" * 1000),
    "UTF-16": ("a.csv", f"smoker\nnever\n{SECRET}\n".encode("utf-16")),
    "UTF-32": ("a.csv", f"smoker\nnever\n{SECRET}\n".encode("utf-32")),
    "Latin": ("a.csv", WINDOWS_LATIN + SECRET.encode()),
    "a byte order mark": ("a.csv", b"\xef\xbb\xbfsmoker\nnever\n" + SECRET.encode() + b"\n"),
    "bytes": ("a.csv", bytes(range(256)) * 4000),
    "empty": ("a.csv", b""),
    "deep JSON": ("a.json", b"[" * 100_000),
    "JSON": ("a.json", json.dumps([{"smoker": {"a": [SECRET]}}, {"smoker": None}, {"other": 1}]).encode()),
    "lines of JSON": ("a.jsonl", f'{{"smoker": "{SECRET}"}}\n{{"smoker": "never"'.encode()),
    "no Parquet": ("a.parquet", b"PAR1" + SECRET.encode() * 100 + b"PAR1"),
    "no gzip": ("a.csv.gz", SECRET.encode() * 100),
    "cut gzip": ("a.csv.gz", gzip.compress(csv_of(SECRET, "never") * 1000)[:-20]),
    "gzip of 500 MB": ("a.csv.gz", gzip.compress(b"smoker\n" + b"z" * 500_000_000, 1)),
}


TEXTS: dict[str, str] = {
    "deep arrays": "a = " + "[" * 49_000,
    "deep tables": "[columns]\na = " + "{a = " * 9_000,
    "deep JSON": '{"columns": ' * 4_000,
    "dots": "[columns]\n" + "\n".join(".".join("a" * 1_900) + " = 1" for _ in range(13)),
    "many dots": "[columns]\n" + ".".join("a" * 24_000) + " = 1",
    "many tables": "\n".join(f"[columns.c{i}.values.a]" for i in range(1_800)),
    "digits": "n = " + "9" * 49_000 + "\n[columns]\na = ['x', 'y']",
    "hexadecimal digits": "n = 0x" + "f" * 49_000 + "\n[columns]\na = ['x', 'y']",
    "a hexadecimal value": "[columns]\na = [0x" + "f" * 49_000 + ", 1]",
    "codes": "[columns]\na = {values = {from = -4611686018427387904, to = 4611686018427387904}}",
    "bins": "[columns]\na = {low = 0, high = 1, bins = 9223372036854775807}",
    "floats": "[columns]\na = {low = -1e308, high = 1e308}",
    "values": "[columns]\na = [" + ",".join(str(i) for i in range(9_000)) + "]",
    "columns": "[columns]\n" + "\n".join(f"c{i} = [0, 1]" for i in range(3_000)),
    "quotes": '[columns]\na = """' + '"' * 49_000,
    "a secret": f"[columns]\na = ['{'x' * 300}', 'y']",
}
"""Schemas that are made to cost memory or time, or to end in an error of the parser."""


@pytest.mark.parametrize("what", TEXTS)
def test_hostile_schemas(target: Target, what: str) -> None:
    inside = target.browser()
    before, began, memory = target.state(), time.monotonic(), target.memory()
    answer = inside.declare(TEXTS[what])
    target.harmless(answer, what)
    assert answer.status == 400, what
    assert target.state() == before
    print(f"{what}: {time.monotonic() - began:.1f} s, {target.memory() - memory} MB more")
    assert target.memory() - memory < 500


@pytest.mark.parametrize("what", FILES)
def test_hostile_files(target: Target, what: str) -> None:
    inside = target.browser()
    name, content = FILES[what]
    before, began, memory = target.state(), time.monotonic(), target.memory()
    uploaded = inside.upload(content, name)
    target.harmless(uploaded, what)
    source = parse_qs(urlsplit(uploaded.headers["Location"]).query)["source"][0]
    # The template has the names of the columns, which are the first line; they are text there.
    names = inside.get(f"/schema?source={source}")
    assert names.status == 200
    assert "<script>" not in names.text
    assert len(names.body) < 10**6
    known = inside.begin(source, 'n = "public"\n[columns]\nsmoker = ["never", "former"]\n')
    fields = {**known, "kind": "proportions", "columns": "smoker", "epsilon": "0.4", "dataset": "survey"}
    review = inside.get("/release/review?" + urlencode(fields))
    target.harmless(review, what)
    confirmed = inside.confirm(fields)
    target.harmless(confirmed, what)
    assert confirmed.status in (400, 422), what
    assert "Nothing was" in confirmed.text
    assert target.state() == before
    print(f"{what}: {time.monotonic() - began:.1f} s, {target.memory() - memory} MB more")
    assert target.memory() - memory < 1500


def test_scripts_are_text_in_page_document_and_report(target: Target, tmp_path: Path) -> None:
    """Level names, a file name, a label and a column of markup, released, shown and opened in Chromium."""
    inside = target.browser()
    levels = [SCRIPT, "=cmd|'/C calc'!A0", "$accent", "</div></script>"]
    content = csv_of(*(levels * 20)).replace(b"smoker", b'"<svg onload=window.pwned=1>"', 1)
    column = "<svg onload=window.pwned=1>"
    declared = f"{{values = {json.dumps(levels)}, label = {json.dumps(SCRIPT)}}}"
    schema = f'n = "public"\n[columns]\n{json.dumps(column)} = {declared}\n'
    fields = {
        **inside.opened(content, "<img src=x onerror=window.pwned=1>.csv", schema),
        "kind": "proportions",
        "columns": column,
        "epsilon": "3",
        "dataset": "survey",
        "label": SCRIPT,
    }
    review = "/release/review?" + urlencode(fields)
    done = inside.confirm(fields)
    assert done.status == 303, html.unescape(done.text)
    query = urlsplit(done.headers["Location"]).query
    stored = inside.get(f"/release/download/json?{query}").text
    assert list(Release.from_json(stored).levels) == levels
    report = inside.get(f"/release/download/html?{query}")
    shown = [
        f"/release?source={fields['source']}&schema={fields['schema']}",
        review,
        f"/release/result?{query}",
        "/release",
        "/ledger?dataset=survey",
    ]
    shown += [
        f"/schema?source={fields['source']}",
        "/schema",
        f"/plan?schema={fields['schema']}",
        "/plan?" + urlencode({"schema": fields["schema"], "columns": f"{SCRIPT},$ink"}),
    ]
    shown += [
        f"/{page}?" + urlencode({"epsilon": SCRIPT, "dataset": SCRIPT})
        for page in ("plan", "audit", "ledger")
    ]
    for text in [report.text, *(inside.get(path).text for path in shown)]:
        assert "<script>window" not in text
        assert "<img src=x" not in text
        assert "<svg onload" not in text
        assert "$49" not in text
    program = shutil.which("chromium")
    if program is None or importlib.util.find_spec("playwright") is None:
        need("nothing was opened in a browser: chromium or Playwright not found")
    from playwright.sync_api import sync_playwright

    saved = tmp_path / "report.html"
    saved.write_text(report.text, "utf-8")
    base, noticed = target.settings.origins[0], []
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        window = chromium.new_page()
        window.on("dialog", lambda dialog: noticed.append(dialog.message))
        window.on("pageerror", lambda error: noticed.append(str(error)))
        window.on("console", lambda m: noticed.append(m.text) if "Content Security" in m.text else None)
        window.goto(target.settings.address)
        for address in [*(base + path for path in shown), saved.as_uri()]:
            window.goto(address)
            window.wait_for_timeout(150)
            if window.evaluate("window.pwned !== undefined"):
                noticed.append(f"run at {address}")
        window.goto(base + f"/release/result?{query}")
        window.wait_for_selector("figure svg")
        assert "$accent" in window.text_content("figure svg")  # a level of that name is no colour
        chromium.close()
    print(f"{len(shown) + 1} pages with planted markup in Chromium: {len(noticed)} scripts run or complaints")
    assert noticed == []


# ---- chance --------------------------------------------------------------------------------------------


def mutated(chance: random.Random, fields: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Fields with one to three of them changed, dropped, doubled, cut or put in another's place."""
    fields = list(fields)
    for _ in range(chance.randint(1, 3)):
        if not fields:
            break
        known = ("source", "schema", "request", "csrf")  # without these nothing else is looked at: less often
        told = [place for place, (name, _) in enumerate(fields) if name not in known]
        at = chance.choice(told) if told and chance.random() < 0.8 else chance.randrange(len(fields))
        name, value = fields[at]
        odd = [
            "",
            " ",
            "\0",
            "-1",
            "0",
            "nan",
            "inf",
            "1e999",
            "9" * 60,
            SCRIPT,
            "../x",
            "\ud7ff\u202e",
            "%s%n",
            "a" * 4100,
            "1e308",
            "-1e308, 1e308",
            ",".join(map(str, range(300))),
            "0, 1, nan, inf",
            "1000000000",
            "2,1",
        ]
        other = chance.choice(fields)[1]
        how = chance.randrange(7)
        if how == 0:
            fields[at] = name, chance.choice(odd)
        elif how == 1:
            del fields[at]
        elif how == 2:
            fields.insert(at, (name, other))
        elif how == 3:
            fields[at] = name, value[: chance.randrange(len(value) + 1)]
        elif how == 4:
            fields[at] = name, other
        elif how == 5:
            cut = chance.randrange(len(value) + 1)
            fields[at] = name, value[:cut] + chance.choice(odd) + value[cut:]
        else:
            fields[at] = name + chance.choice(["", "[]", "\0", "x"]), value
    return fields


def garbled(chance: random.Random, raw: bytes) -> bytes:
    """Bytes with some changed, left out, doubled, or cut off."""
    data = bytearray(raw)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data))
        how = chance.randrange(4)
        if how == 0:
            data[at] = chance.randrange(256)
        elif how == 1:
            del data[at : at + chance.randint(1, 30)]
        elif how == 2:
            data[at:at] = data[at : at + chance.randint(1, 30)]
        else:
            del data[max(at, len(data) // 2) :]
        if not data:
            break
    return bytes(data)


def raw_answer(target: Target, raw: bytes) -> Answer | None:
    """Sends bytes as they are; None if the server hangs up or waits for more of them."""
    with socket.create_connection(("127.0.0.1", target.settings.port), timeout=10) as connection:
        connection.sendall(raw)
        connection.shutdown(socket.SHUT_WR)
        response = http.client.HTTPResponse(connection)
        try:
            response.begin()
            return Answer(response.status, response.headers, response.read())
        except (http.client.HTTPException, OSError):
            return None


def test_a_thousand_mutations(target: Target) -> None:
    """Only forms that arrive complete, from our page and confirmed are charged, each once."""
    chance = random.Random(20261115)
    inside = target.browser()
    csrf = inside.csrf
    assert target.settings.ledger is not None
    unfit = b"smoker,note\n" + b"never,a\nformer,b\n" * 50 + f"{SECRET},c\n".encode()
    good = inside.form(CSV) | {"dataset": "survey", "mechanism": "lattice"}
    bad = inside.form(unfit) | {"dataset": "survey"}  # its data never fit the declaration
    others = []
    for content in (NUMBERS, NUMBERS + f"7,{SECRET},{SECRET},{SECRET}\n".encode()):
        source = inside.opened(content, "visits.csv", schema_of())["source"]
        for kind, fields_of_kind in KINDS.items():
            known = inside.begin(source, SCHEMAS.get(kind, schema_of()))
            others.append({**known, "dataset": "survey", "label": "Visits", **fields_of_kind})
    counts: Counter[str] = Counter()
    allowed: set[str] = set()
    unheard: set[str] = set()
    datasets = ("survey", "people", "drawn", "within")
    with discreet.Ledger(target.settings.ledger) as book:
        known = {dataset: len(book.history(dataset)) for dataset in datasets}
    for number in range(MUTATIONS):
        base = chance.choice([good, good, good, bad, bad, *others])
        fresh = f"studio-{chance.getrandbits(128):032x}" + base["request"][-9:]
        fields = [*({**base, "request": fresh}).items(), ("csrf", csrf)]
        kind = chance.choice(["form", "form", "review", "plan", "audit", "schema", "header", "raw"])
        counts[kind] += 1
        headers: dict[str, str | None] = {"Content-Type": "application/x-www-form-urlencoded"}
        where = f"{number} {kind}"
        if kind in ("review", "plan", "audit"):
            if kind == "review":
                path = "/release/review?" + urlencode(mutated(chance, fields))
            else:
                some = [("n", "20"), ("epsilon", "0.5"), ("prior", "1, 1"), ("mechanism", "lattice")]
                if kind == "plan":
                    some = [
                        *some,
                        ("columns", "smoker"),
                        ("schema", good["schema"]),
                        ("guess", "typical=0.3"),
                    ]
                    some[2] = "prior", "1, 1, 1"
                path = f"/{kind}?" + urlencode(mutated(chance, some))
            answer: Answer | None = inside.get(path)
        elif kind == "schema":
            declared = garbled(chance, chance.choice([SMOKERS, schema_of(), *SCHEMAS.values()]).encode())
            answer = inside.declare(declared.decode("utf-8", "replace"), base["source"])
        elif kind == "form":
            sent = mutated(chance, fields)
            answer = inside.send("POST", "/release/confirm", urlencode(sent).encode(), **headers)
            last = dict(sent)
            if answer.status == 303 and last.get("csrf") == csrf:
                allowed.add(last["request"])
        elif kind == "header":
            spoilt = chance.choice(["Host", "Origin", "Cookie", "Content-Type"])
            usual = {
                "Host": target.settings.hosts[0],
                "Origin": target.settings.origins[0],
                "Cookie": inside.cookie,
            }
            text = garbled(chance, {**usual, **headers}[spoilt].encode()).decode("latin-1")
            value = "".join(c for c in text if c.isprintable())
            if usual.get(spoilt) == value:
                value = ""
            answer = inside.send(
                "POST", "/release/confirm", urlencode(fields).encode(), **headers | {spoilt: value}
            )
            if spoilt == "Content-Type" and answer.status == 303:
                allowed.add(fresh)
            elif (
                spoilt == "Cookie" and answer.status == 303
            ):  # such as a second, empty cookie after the first
                assert inside.cookie in value, where
                allowed.add(fresh)
            else:
                assert answer.status != 303, where
        else:
            body = urlencode(fields).encode()
            head = f"POST /release/confirm HTTP/1.1\r\nHost: {target.settings.hosts[0]}\r\n"
            head += f"Cookie: {inside.cookie}\r\nOrigin: {target.settings.origins[0]}\r\n"
            head += f"Content-Type: {headers['Content-Type']}\r\nContent-Length: {len(body)}\r\n"
            spoilt_bytes = garbled(chance, (head + "Connection: close\r\n\r\n").encode() + body)
            answer = raw_answer(target, spoilt_bytes)
            if answer is None and csrf.encode() in spoilt_bytes and inside.cookie.encode() in spoilt_bytes:
                # We may have hung up on the answer to a complete request, whose id may have been changed too.
                unheard |= {fresh, *re.findall(r"request=([^&\s]*)", spoilt_bytes.decode("latin-1"))}
            elif answer is not None and answer.status == 303:
                allowed.add(parse_qs(urlsplit(answer.headers["Location"]).query)["request"][0])
        if answer is None:
            counts["no answer"] += 1
        else:
            target.harmless(answer, where)
            counts[f"status {answer.status}"] += 1
    with discreet.Ledger(target.settings.ledger) as book:
        new = [entry for dataset in datasets for entry in book.history(dataset)[known[dataset] :]]
        book.verify()
    charged = {entry.request_id for entry in new}
    print(f"{MUTATIONS} mutated requests: {dict(sorted(counts.items()))}")
    print(f"charges by dataset: {dict(Counter(entry.dataset for entry in new))}")
    print(
        f"{len(new)} charges, of forms that were complete and confirmed: {len(charged & (allowed | unheard))}"
    )
    assert allowed <= charged <= allowed | unheard
    assert len(new) == len(charged)


# ---- once ----------------------------------------------------------------------------------------------


def test_eight_submissions_at_once_are_one_charge(target: Target) -> None:
    windows = [target.browser() for _ in range(8)]
    fields = windows[0].form() | {"dataset": "small"}
    secrets = [window.csrf for window in windows]
    start = threading.Barrier(8)

    def send(number: int) -> Answer:
        start.wait()
        return windows[number].post("/release/confirm", {**fields, "csrf": secrets[number]})

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(send, range(8)))
    assert {answer.status for answer in answers} == {303}
    query = urlsplit(answers[0].headers["Location"]).query
    assert len({window.get(f"/release/download/json?{query}").body for window in windows}) == 1
    assert target.charges("small") == 1
    before = target.state()
    others = [
        SMOKERS.replace('"public"', "100"),
        SMOKERS.replace(', "current"', ""),
        SMOKERS + 'note = ["a", "b", "c"]\n',
    ]
    changes = [{"epsilon": "0.1"}, {"prior": "2"}, {"columns": "note"}]
    changes += [{"schema": windows[1].begin(fields["source"], text)["schema"]} for text in others[:2]]
    changes[2]["schema"] = windows[1].begin(fields["source"], others[2])["schema"]
    for change in changes:
        again = windows[1].confirm({**fields, **change})
        target.harmless(again, str(change))
        assert again.status == 409, change
    assert target.state() == before
    print("8 submissions at once: 1 charge; the same id with other content: refused 5 times of 5")


def test_what_is_charged_is_what_the_command_line_charges(target: Target) -> None:
    """The same question from the page and from ``discreet proportions``: plan and price are equal."""
    inside = target.browser()
    schema = (
        'n = "public"\n[columns]\nsmoker = {values = ["never", "former", "current"], other = "current"}\n'
    )
    fields = inside.form(schema=schema) | {"prior": "1, 2, 3", "epsilon": "1/3", "mechanism": "auto"}
    assert inside.confirm(fields).status == 303
    file, declared = target.uploads / "same.csv", target.uploads / "same.toml"
    file.write_bytes(CSV)
    declared.write_text(schema)
    words = ["proportions", str(file), str(declared), "smoker", "--prior", "1,2,3", "--epsilon", "1/3"]
    words += ["--ledger", str(target.settings.ledger), "--dataset", "survey"]
    run = subprocess.run(
        [sys.executable, "-m", "discreet._cli", *words], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert target.settings.ledger is not None
    with discreet.Ledger(target.settings.ledger) as book:
        page, command = book.history("survey")[-2:]
    assert page.request_id == fields["request"]
    assert (page.plan, page.plan_hash, page.charged) == (command.plan, command.plan_hash, command.charged)
    assert page.guarantee == command.guarantee
    assert page.charged.epsilon == Fraction(1, 3)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "levels"])
def test_every_kind_is_charged_as_on_the_command_line(target: Target, kind: str) -> None:
    """The copied command with another request id: a charge of its own, of the same plan and price."""
    inside = target.browser()
    asked = inside.asked(kind)
    review = html.unescape(inside.get("/release/review?" + urlencode(asked)).text)
    assert inside.confirm(asked).status == 303
    copied = re.search(r"<code>discreet (.*?)</code>", review, re.DOTALL)
    assert copied is not None
    file = target.uploads / "same-numbers.csv"
    file.write_bytes(NUMBERS)
    declared = target.uploads / "same.toml"
    declared.write_text(SCHEMAS.get(kind, schema_of()))
    places = {"FILE.csv": str(file), "schema.toml": str(declared)}
    words = [places.get(word, word) for word in shlex.split(copied[1])]
    words = [word for word in words if not word.startswith("--request-id")]
    run = subprocess.run(
        [sys.executable, "-m", "discreet._cli", *words], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert target.settings.ledger is not None
    with discreet.Ledger(target.settings.ledger) as book:
        page, command = book.history(asked["dataset"])[-2:]
    assert page.request_id == asked["request"]
    assert (page.plan, page.plan_hash, page.charged) == (command.plan, command.plan_hash, command.charged)
    assert page.guarantee == command.guarantee
    assert page.charged.epsilon == Fraction(2, 5)


# ---- when things end -----------------------------------------------------------------------------------


def test_a_ledger_that_is_gone_or_locked(tmp_path: Path) -> None:
    import sqlite3

    with started(tmp_path) as target:
        inside = target.browser()
        fields = inside.form()
        book = tmp_path / "ledger.db"
        book.rename(tmp_path / "away")
        refused = inside.confirm(fields)
        assert refused.status == 503, html.unescape(refused.text)
        assert "removed or replaced" in refused.text
        assert "nothing was charged" in refused.text
        (tmp_path / "away").rename(book)
        with contextlib.closing(sqlite3.connect(book)) as other:
            other.execute("BEGIN IMMEDIATE")
            with ThreadPoolExecutor(1) as pool:  # waits for the lock, then charges once
                waiting = pool.submit(inside.confirm, fields)
                time.sleep(0.5)
                assert inside.get("/plan").status == 200
                other.rollback()
                assert waiting.result(20).status == 303
        assert target.charges("survey") == 1
        assert inside.confirm(fields).status == 303
        assert target.charges("survey") == 1


def test_a_restart_and_kill_leave_no_session_and_no_upload(tmp_path: Path) -> None:
    def kept() -> list[Path]:
        return [path for path in (tmp_path / "tmp").rglob("*") if path.is_file() and path.name != "lock"]

    with started(tmp_path) as target:
        old = target.browser()
        fields = {**old.form(), "csrf": old.csrf}
        port = target.settings.port
        assert len(kept()) == 1
        target.process.kill()
        target.process.wait()
        assert len(kept()) == 1  # nobody could remove it
    with started(tmp_path, "--port", str(port)) as target:
        again = Browser(target.settings)
        again.cookie = old.cookie
        assert again.post("/release/confirm", fields).status == 401
        assert again.get(f"/?token={old.settings.token}").status == 403
        new = target.browser()
        assert new.confirm(fields).status == 400  # the upload is gone, and with it the form
        new.upload()
        assert len(kept()) == 1  # the new one: what the killed studio left is removed
        assert target.charges("survey") == 0
        target.process.send_signal(signal.SIGHUP)  # the terminal is closed
        target.process.wait(20)
        assert kept() == []


def test_the_log_says_nothing(target: Target) -> None:
    """Last: after all of the above, the log holds no record, no token, no address and no traceback."""
    text = target.log.read_text()
    print(f"answers by status: {dict(sorted(target.answers.items()))}; {len(text)} characters of log")
    for word in (SECRET, target.settings.token, "Traceback", "/release", "internal error"):
        assert word not in text, text[-2000:]
