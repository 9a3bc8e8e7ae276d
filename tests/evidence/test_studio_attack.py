"""A studio in a real Chromium beside pages of strangers: on another host, another port, and under a name that
leads to this machine. What these send is neither charged nor read; what data, files and budgets are called is
text wherever it is shown.
"""

from __future__ import annotations

import functools
import html
import http.server
import importlib.util
import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

import discreet
from evidence.components import need
from test_studio import CSV, SMOKERS, Browser, running

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::discreet.errors.PrivacyWarning")]

SCRIPT = "\"><script>window.pwned=1</script><img src=x onerror=window.pwned=1>'<svg onload=window.pwned=1>"
STRANGERS = ("http://stranger.test:{}", "http://127.0.0.1:{}")
"""Another site, and another port of this machine, to which browsers send the same cookies."""


@dataclass
class Attacked:
    """A studio, a browser that is signed in, and pages of a stranger."""

    inside: Browser
    context: Any
    folder: Path
    port: int
    reached: list[str] = field(default_factory=list)

    @property
    def base(self) -> str:
        return self.inside.settings.origins[0]

    def state(self) -> str:
        assert self.inside.settings.ledger is not None
        with discreet.Ledger(self.inside.settings.ledger) as book:
            return book.verify().head

    def charges(self, dataset: str = "survey") -> list[Any]:
        assert self.inside.settings.ledger is not None
        with discreet.Ledger(self.inside.settings.ledger) as book:
            return [entry for entry in book.history(dataset) if entry.kind == "charge"]

    def put(self, name: str, text: str) -> None:
        (self.folder / name).write_text(f"<!DOCTYPE html><title>A stranger</title>{text}", "utf-8")

    def uploaded(self, page: Any, content: bytes, name: str, schema: str = SMOKERS) -> None:
        """Upload a file by the page, declare its schema and open the form of a question."""
        page.goto(f"{self.base}/release")
        page.set_input_files("#file", {"name": name, "mimeType": "text/csv", "buffer": content})
        page.get_by_role("button", name="Upload").click()
        page.wait_for_selector("#text")
        page.wait_for_load_state("load")
        page.fill("#text", schema)
        page.get_by_role("button", name="Keep the schema").click()
        page.get_by_role("link", name="Ask a question").click()
        page.wait_for_selector("#question")
        page.wait_for_load_state("load")

    def priced(self, page: Any, epsilon: str, dataset: str = "survey") -> None:
        page.fill("#columns", "smoker")
        page.fill("#epsilon", epsilon)
        page.select_option("#dataset", dataset)
        page.get_by_role("button", name="See the price").click()
        page.wait_for_selector("#price-title")

    def released(self, page: Any) -> None:
        page.get_by_role("button", name="Release and spend").click()
        page.wait_for_selector("#receipt")


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    program = shutil.which("chromium")
    if program is None or importlib.util.find_spec("playwright") is None:
        need("no browser here: chromium or Playwright not found")
    from playwright.sync_api import sync_playwright

    place = tmp_path_factory.mktemp("attacked")
    (folder := place / "stranger").mkdir()
    reached: list[str] = []

    class Pages(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            reached.append(self.path)

    ledger = f"sqlite:///{place / 'ledger.db'}"
    with discreet.Ledger(ledger) as book:
        for name in ("survey", "panel", SCRIPT):
            book.create(name, epsilon=1000)
        book.create("words", epsilon=1000, delta="0.01", relation="add-remove")
    with ExitStack() as stack:
        server = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), functools.partial(Pages, directory=str(folder))
        )
        stack.callback(server.server_close)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        stack.callback(server.shutdown)
        inside = stack.enter_context(running(ledger=ledger)).enter()
        playwright = stack.enter_context(sync_playwright())
        names = "MAP stranger.test 127.0.0.1, MAP rebound.test 127.0.0.1"
        chromium = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-gpu", f"--host-resolver-rules={names}"]
        )
        stack.callback(chromium.close)
        context = chromium.new_context()
        context.set_default_timeout(60_000)
        context.new_page().goto(inside.settings.address)
        yield Attacked(inside, context, folder, server.server_address[1], reached)


# ---- pages of strangers --------------------------------------------------------------------------------


@pytest.mark.parametrize("where", STRANGERS)
def test_no_page_of_a_stranger_asks_or_reads(attacked: Attacked, where: str) -> None:
    """It even knows the secret of the form: a plain form, three ways of fetch, frames, scripts, windows."""
    inside, base, origin = attacked.inside, attacked.base, where.format(attacked.port)
    page = attacked.context.new_page()
    page.goto(f"{base}/release")
    secret = page.input_value("input[name=csrf]")
    fields = {**inside.form(), "csrf": secret}
    body = urlencode(fields)
    hidden = "".join(f'<input name="{k}" value="{html.escape(v)}">' for k, v in fields.items())
    kind = "application/x-www-form-urlencoded"
    for encoding in (kind, "text/plain", "multipart/form-data"):
        attacked.put(
            f"form-{encoding[-4:]}.html",
            f'<form method="post" enctype="{encoding}" action="{base}/release/confirm">{hidden}</form>'
            "<script>document.forms[0].submit()</script>",
        )
    attacked.put("quiet.html", "")
    before, pages = attacked.state(), attacked.context
    answers = []
    page.on("response", lambda answer: answers.append((answer.url, answer.status)))
    for encoding in (kind, "text/plain", "multipart/form-data"):
        with page.expect_response(lambda answer: "/release/confirm" in answer.url) as sent:
            page.goto(f"{origin}/form-{encoding[-4:]}.html")
        assert sent.value.status == 403
    page.goto(f"{origin}/quiet.html")
    read = page.evaluate(
        """async ([base, body, kind]) => {
          const found = [];
          for (const [path, method] of [["/release", "GET"], ["/ledger?dataset=survey", "GET"],
              ["/release/confirm", "POST"]])
            for (const mode of ["cors", "no-cors"])
              for (const type of [kind, "text/plain"]) {
                const more = method === "GET" ? {} : {body, headers: {"content-type": type}};
                try {
                  const answer = await fetch(base + path, {method, mode, credentials: "include", ...more});
                  found.push((await answer.text()).length);
                } catch (error) { found.push(0); }
              }
          return found;
        }""",
        [base, body, kind],
    )
    assert read == [0] * 12
    shown = page.evaluate(
        """async (base) => {
          const loaded = [];
          const tried = (name, source) => new Promise((done) => {
            const one = document.createElement(name);
            one.onload = () => { loaded.push(name + " " + one.src); done(); };
            one.onerror = done;
            one.src = base + source;
            document.body.append(one);
            setTimeout(done, 1500);
          });
          await tried("img", "/static/studio.css");
          await tried("script", "/static/studio.js");
          await tried("script", "/release");
          return loaded;
        }""",
        base,
    )
    assert shown == []
    frame = page.evaluate(
        """async (base) => {
          const one = document.createElement("iframe");
          one.src = base + "/release";
          document.body.append(one);
          await new Promise((done) => setTimeout(done, 1500));
          try { return one.contentDocument ? one.contentDocument.body.innerText : ""; }
          catch (error) { return ""; }
        }""",
        base,
    )
    assert "Upload" not in frame
    assert not any("Upload" in (one.text_content("body") or "") for one in page.frames[1:])
    with pages.expect_page() as opening:
        page.evaluate("(base) => { window.other = window.open(base + '/release'); }", base)
    opened = opening.value
    opened.wait_for_load_state("load")
    assert opened.evaluate("window.opener") is None
    assert page.evaluate(
        "(() => { try { return window.other.closed || !window.other.document; } "
        "catch (error) { return true; } })()"
    )
    opened.close()
    page.close()
    assert attacked.state() == before
    assert not any("/release/result" in url for url, _ in answers)


def test_a_name_that_comes_to_lead_here_is_refused(attacked: Attacked) -> None:
    """DNS rebinding: the browser takes the studio for a page of the stranger, and the studio does not."""
    port, before = attacked.inside.settings.port, attacked.state()
    page = attacked.context.new_page()
    for path in ("/", "/release", f"/?token={attacked.inside.settings.token}"):
        answer = page.goto(f"http://rebound.test:{port}{path}")
        assert answer.status == 400
        assert "Wrong host" in page.content()
        assert attacked.inside.settings.token not in page.content()
    assert attacked.context.cookies(f"http://rebound.test:{port}") == []
    page.close()
    assert attacked.state() == before


def test_no_secret_is_in_an_address_a_script_or_a_store(attacked: Attacked) -> None:
    page = attacked.context.new_page()
    page.goto(f"{attacked.base}/release")
    (cookie,) = attacked.context.cookies(attacked.base)
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    assert page.evaluate("document.cookie") == ""
    kept = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])")
    assert "<" not in kept  # no page
    assert attacked.inside.csrf not in kept
    for path in ("/release", "/plan", "/ledger", "/schema"):
        page.goto(attacked.base + path)
        text, url = page.content(), page.url
        assert attacked.inside.settings.token not in text + url
        assert cookie["value"] not in text + url
        links = page.evaluate(
            "[...document.querySelectorAll('a, link, img, script')].map((e) => e.href || e.src)"
        )
        assert not any("csrf" in str(link) or "token" in str(link) for link in links)
    page.close()


# ---- names that are scripts ----------------------------------------------------------------------------


def test_whatever_things_are_called_is_text(attacked: Attacked) -> None:
    """A file, a budget, a column, its label and unit, levels, groups, discovered values, messages."""
    inside, base, noticed = attacked.inside, attacked.base, list[str]()
    column = SCRIPT.replace('"', "'")
    name = json.dumps(column)
    levels = json.dumps([SCRIPT, "never"])
    quoted = '"' + SCRIPT.replace('"', '""') + '"'
    rows = (f'"{column}",x,w\n' + f"{quoted},1,{quoted}\nnever,2,{quoted}\n" * 300).encode()
    public = f"{{values = {levels}, label = {json.dumps(SCRIPT)}, public = true}}"
    x = f"{{low = 0, high = 3, label = {json.dumps(SCRIPT)}, unit = {json.dumps(SCRIPT)}}}"
    schema = f'n = "public"\n[columns]\n{name} = {public.replace(", public = true", "")}\nx = {x}\n'
    known = {**inside.opened(rows, f"../../{SCRIPT}.csv", schema), "dataset": SCRIPT, "label": SCRIPT}
    found = {**inside.opened(rows, "words.csv", '[columns]\nw = {values = "discover"}\n'), "dataset": "words"}
    asked: list[dict[str, str]] = [
        {**known, "kind": "proportions", "columns": column, "epsilon": "2"},
        {**known, "kind": "mean", "column": "x", "by": column, "epsilon": "2"},
        {**known, "kind": "quantiles", "column": "x", "epsilon": "2"},
    ]
    fields = [one | {"request": inside.begin(one["source"], schema)["request"]} for one in asked]
    fields.append({**found, "kind": "proportions", "columns": "w", "epsilon": "2", "delta": "1e-6"})
    addresses = ["/release", "/schema", "/ledger?" + urlencode({"dataset": SCRIPT, "verify": "1"})]
    for number, one in enumerate(fields):
        addresses += ["/release?" + urlencode(one), "/release/review?" + urlencode(one)]
        done = inside.confirm(one)
        assert done.status == 303, html.unescape(done.text)
        query = urlsplit(done.headers["Location"]).query
        addresses += [f"/release/result?{query}"]
        report = inside.get(f"/release/download/html?{query}").text
        (attacked.folder / f"report-{number}.html").write_text(report, "utf-8")
    for mistaken in ({"columns": SCRIPT}, {"epsilon": SCRIPT}, {"dataset": SCRIPT + "x"}, {"by": SCRIPT}):
        addresses.append("/release/review?" + urlencode(fields[0] | mistaken))
    addresses += [
        f"/{at}?" + urlencode({"q": SCRIPT, "columns": SCRIPT, "formula": SCRIPT, "of": SCRIPT})
        for at in ("plan", "audit", "distribution", "plan/split", "evidence")
    ]
    page = attacked.context.new_page()
    page.on("dialog", lambda dialog: noticed.append(dialog.message))
    page.on("pageerror", lambda error: noticed.append(str(error)))
    page.on("console", lambda m: noticed.append(m.text) if "Content Security" in m.text else None)
    shown = 0
    reports = [one.as_uri() for one in attacked.folder.glob("report-*.html")]
    assert len(reports) == 4
    for address in [*(base + path for path in addresses), *reports]:
        page.goto(address)
        page.wait_for_timeout(100)
        shown += "window.pwned=1" in page.inner_text("body")
        if page.evaluate("window.pwned !== undefined"):
            noticed.append(f"run at {address}")
    page.close()
    print(f"{len(addresses) + 4} pages, {shown} of which show a planted name: {len(noticed)} scripts run")
    assert shown > 15
    assert noticed == []


# ---- one person, several tabs --------------------------------------------------------------------------


def test_files_of_one_name_are_told_apart(attacked: Attacked) -> None:
    """Two tabs with a file each, of one name and other records, and another budget; then back and again."""
    other = b"smoker,note\n" + b"current,c\n" * 70
    first, second = attacked.context.new_page(), attacked.context.new_page()
    before = {name: len(attacked.charges(name)) for name in ("survey", "panel")}
    attacked.uploaded(first, CSV, "survey.csv")
    attacked.uploaded(second, other, "survey.csv")
    names = [page.inner_text("p.intro strong") for page in (first, second)]
    assert names[0] != names[1]
    assert all(name.startswith("survey.csv") for name in names)
    first.goto(f"{attacked.base}/release")
    listed = first.locator("ul.list a").all_inner_texts()
    assert len(set(listed)) == len(listed)
    assert set(names) <= set(listed)
    first.go_back()
    first.wait_for_selector("#question")
    attacked.priced(first, "16")
    attacked.priced(second, "15", "panel")
    shown = [page.inner_text("#asked-title >> xpath=..") for page in (first, second)]
    assert [name in text for text in shown for name in names] == [True, False, False, True]
    attacked.released(first)
    attacked.released(second)
    documents = []
    for page, dataset in ((first, "survey"), (second, "panel")):
        charge = attacked.charges(dataset)[-1]
        assert len(attacked.charges(dataset)) == before[dataset] + 1
        query = parse_qs(urlsplit(page.url).query)
        assert query["dataset"] == [dataset]
        assert charge.request_id == query["request"][0]
        text = attacked.inside.get(f"/release/download/json?{urlsplit(page.url).query}").text
        documents.append(json.loads(text)["release"]["counts"])
    assert sum(documents[0]) == CSV.count(b"\n") - 1
    assert documents[1] == [0, 0, 70]

    # Back to the price and again, in both tabs at once: the same answers, and no other charge.
    for page in (first, second):
        page.go_back()
        page.wait_for_selector("#price-title")
        page.reload()
        assert "it was charged before" in page.inner_text("#asked")
        page.get_by_role("button", name="Show the result again").dblclick()
        page.wait_for_selector("#receipt")
    assert {name: len(attacked.charges(name)) for name in before} == {n: k + 1 for n, k in before.items()}
    first.close()
    second.close()


def test_a_form_whose_file_was_exchanged_in_its_address_is_refused(attacked: Attacked) -> None:
    """The id of a request ends with a mark of its file; the schema is the one that was priced."""
    inside = attacked.inside
    mine, other = inside.form(), inside.form(b"smoker\n" + b"current\n" * 70)
    before = attacked.state()
    page = attacked.context.new_page()
    answer = page.goto(f"{attacked.base}/release/review?" + urlencode({**mine, "source": other["source"]}))
    assert answer.status == 409
    assert "belongs to another file" in page.inner_text("main")
    page.close()
    assert attacked.state() == before
