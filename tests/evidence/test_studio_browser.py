"""The studio in a real Chromium: every page, by mouse and by keyboard, light, dark and on a phone.

One ``discreet studio`` process with a ledger, one browser. Anything but the studio's own address is refused
and counted, and so is every message in the browser's console. Pictures of the pages go to ``out/studio``.
Without Chromium or Playwright the tests are skipped and say so, except where ``CI`` is set.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

import discreet
from discreet._documents.answer import load_answer
from discreet.answers.release import Release
from evidence.components import need
from test_studio import EXAMPLE, SMOKERS

pytestmark = pytest.mark.slow

PICTURES = Path(__file__).parents[2] / "out" / "studio"
ROWS = ["smoker,note", *(["never,a"] * 60), *(["former,b"] * 25), *(["current,c"] * 15)]
NUMBERS = [
    "who,age,visits,sex",
    *(f"{i // 2},{20 + 7 * i % 61},{i % 4},{'fm'[i % 7 > 2]}" for i in range(400)),
]
"""200 people with two records each."""
VISITS = """n = "public"

[columns]
age = {low = 0, high = 120, bins = [0, 30, 45, 60, 120]}
visits = [0, 1, 2, 3]
sex = ["f", "m"]
"""
MOVES = 20

WATCH = """
window.moves = [];
document.addEventListener("input", (event) => {
  if (event.target.id === "epsilon-slider") window.moved = performance.now();
}, true);
document.addEventListener("htmx:afterSwap", (event) => {
  if (event.detail.target.id === "plan-result") window.moves.push(performance.now() - window.moved);
});
"""


@dataclass
class Studio:
    """A running studio and what a browser did and saw in it."""

    address: str
    ledger: str
    seconds: float
    chromium: Any
    elsewhere: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    @property
    def base(self) -> str:
        parts = urlsplit(self.address)
        return f"{parts.scheme}://{parts.netloc}"

    @contextmanager
    def page(self, scheme: str = "light", width: int = 1280, height: int = 900) -> Iterator[Any]:
        """A new window that has shown the token."""
        context = self.chromium.new_context(
            color_scheme=scheme,
            viewport={"width": width, "height": height},
            permissions=["clipboard-read", "clipboard-write"],
            accept_downloads=True,
        )
        context.set_default_timeout(60_000)
        context.route("**/*", self._route)
        page = context.new_page()
        page.on(
            "console", lambda m: self.complaints.append(f"{m.type}: {m.text}") if m.type != "log" else None
        )
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("dialog", lambda dialog: self.complaints.append(f"dialog: {dialog.message}"))
        page.add_init_script(
            "document.addEventListener('securitypolicyviolation',"
            " (e) => console.error('CSP ' + e.violatedDirective + ' ' + e.blockedURI));"
        )
        try:
            page.goto(self.address)
            yield page
        finally:
            context.close()

    def _route(self, route: Any) -> None:
        if route.request.url.startswith((self.base + "/", "data:")):
            route.continue_()
        else:
            self.elsewhere.append(route.request.url)
            route.abort()

    def spent(self, dataset: str) -> tuple[Fraction, int]:
        """ε spent, and how many charges."""
        with discreet.Ledger(self.ledger) as book:
            history = book.history(dataset)
        return history[-1].spent.epsilon or Fraction(0), sum(entry.kind == "charge" for entry in history)


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    program = shutil.which("chromium")
    if program is None:
        need("no browser here: chromium not found (Debian: apt-get install chromium)")
    if importlib.util.find_spec("playwright") is None:
        need("no browser here: Playwright not found (pip install '.[slow]')")
    from playwright.sync_api import sync_playwright

    place = tmp_path_factory.mktemp("browser")
    data = place / "data"
    data.mkdir()
    (data / "survey.csv").write_text("\n".join(ROWS) + "\n")
    ledger = f"sqlite:///{place / 'ledger.db'}"
    with discreet.Ledger(ledger) as book:
        book.create("survey", epsilon=1)
        book.create("panel", epsilon=100)
        book.create("drawn", epsilon=100, delta="0.001")
        book.create("within", epsilon=100, relation="within-group")
    words = [sys.executable, "-m", "discreet._cli", "studio", "--no-browser", "--ledger", ledger]
    began = time.monotonic()
    with ExitStack() as stack:
        log = stack.enter_context((place / "log").open("w"))
        process = stack.enter_context(
            subprocess.Popen([*words, "--data", str(data)], stdout=subprocess.PIPE, stderr=log, text=True)
        )
        stack.callback(process.send_signal, signal.SIGINT)
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        seconds = time.monotonic() - began
        playwright = stack.enter_context(sync_playwright())
        chromium = playwright.chromium.launch(
            executable_path=program,
            args=[
                "--no-sandbox",
                "--disable-gpu",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--no-first-run",
            ],
        )
        stack.callback(chromium.close)
        yield Studio(address, ledger, seconds, chromium)


def until(page: Any, condition: str) -> None:
    """Waits for a condition. Playwright's own way to do so needs ``eval``, which the pages forbid."""
    from playwright.sync_api import Error

    end = time.monotonic() + 60
    while time.monotonic() < end:
        with suppress(Error):  # the page is being replaced by the next
            if page.evaluate(condition):
                return
        page.wait_for_timeout(20)
    pytest.fail(f"not so after 60 s: {condition}")


def drawn(page: Any) -> None:
    """Waits until the figures that follow on their own are there."""
    until(page, "!document.getElementById('more') || document.querySelector('#more svg') !== null")


def put(page: Any, name: str, value: str) -> None:
    """Fills a field; one that is rarely used is shown first."""
    if not page.is_visible(f"#{name}"):
        page.click("summary:has-text('More options')")
    if page.locator(f"select#{name}").count():
        page.select_option(f"#{name}", value)
    else:
        page.fill(f"#{name}", value)


def upload(
    page: Any,
    studio: Studio,
    name: str = "survey.csv",
    content: str = "\n".join(ROWS) + "\n",
    schema: str = SMOKERS,
) -> None:
    """Uploads data, declares their schema, and opens the form of a question."""
    page.goto(studio.base + "/release")
    page.set_input_files("#file", {"name": name, "mimeType": "text/csv", "buffer": content.encode()})
    page.get_by_role("button", name="Upload").click()
    declare(page, schema)


def declare(page: Any, schema: str) -> None:
    """Writes a schema over the template, and goes on to the question."""
    page.wait_for_selector("#text")
    page.wait_for_load_state("load")
    page.fill("#text", schema)
    page.get_by_role("button", name="Keep the schema").click()
    page.wait_for_selector("#public-title")
    page.get_by_role("link", name="Ask a question").click()
    page.wait_for_selector("#question")
    page.wait_for_load_state("load")


def fill(page: Any, dataset: str, epsilon: str, label: str = "Smokers, spring") -> None:
    page.fill("#columns", "smoker")
    page.fill("#epsilon", epsilon)
    page.select_option("#dataset", dataset)
    page.fill("#label", label)
    page.get_by_role("button", name="See the price").click()
    page.wait_for_selector("#price-title, .notice.bad")


GROUPED = VISITS.replace('["f", "m"]', '{values = ["f", "m"], public = true}')
RATES = VISITS.replace("[0, 1, 2, 3]", "[0, 10]")
DRAWN = {"epsilon": "0.8", "delta": "1e-6"}
MEAN = {"family": "gaussian", "column": "age", "prior": "50, 30", "options": "sigma=20", **DRAWN}
ASKED: dict[str, tuple[str, dict[str, str], str, str]] = {
    "bins": ("Proportions", {"columns": "age", "epsilon": "0.5"}, "panel", VISITS),
    "table": ("Proportions", {"columns": "visits,sex", "epsilon": "0.5"}, "panel", VISITS),
    "groups": ("Proportions", {"columns": "visits", "by": "sex", "epsilon": "0.5"}, "within", GROUPED),
    "average": ("Mean", {"column": "age", "epsilon": "0.5"}, "panel", VISITS),
    "survival": ("Survival", {"time": "age", "event": "sex", "epsilon": "0.5"}, "panel", VISITS),
    "quantiles": ("Quantiles", {"column": "age", "probs": "0.1,0.5,0.9", "epsilon": "0.5"}, "panel", VISITS),
    "regression": ("Regression", {"formula": "age ~ sex", **DRAWN}, "drawn", VISITS),
    "network": ("Network", {"parents": "visits=sex", "epsilon": "0.5"}, "panel", VISITS),
    "mean": ("Posterior draw", MEAN, "drawn", VISITS),
    "rate": (
        "Posterior draw",
        {"family": "poisson", "column": "visits", "prior": "2, 1", **DRAWN},
        "drawn",
        RATES,
    ),
    "query": ("Posterior draw", {"column": "age", **DRAWN}, "drawn", VISITS),
    "logistic": ("Posterior draw", {"column": "sex ~ age + visits", **DRAWN}, "drawn", RATES),
}
"""Tab, fields, dataset and schema of a question of each kind."""


def ask(
    page: Any,
    studio: Studio,
    tab: str,
    fields: dict[str, str],
    dataset: str,
    schema: str = VISITS,
    upto: str = "",
) -> None:
    """A new upload and its form of another kind, filled in, up to the price, or to the result."""
    upload(page, studio, "visits.csv", "\n".join(NUMBERS) + "\n", schema)
    page.get_by_role("link", name=tab, exact=True).click()
    page.wait_for_selector(f".tabs a[aria-current]:text-is('{tab}')")
    page.wait_for_load_state("load")
    for name, value in fields.items():
        put(page, name, value)
    page.select_option("#dataset", dataset)
    page.fill("#label", f"{tab}, spring")
    if upto == "form":
        return
    page.get_by_role("button", name="See the price").click()
    page.wait_for_selector("#price-title, .notice.bad")
    if upto == "result":
        page.get_by_role("button", name="Release and spend").click()
        page.wait_for_selector("#receipt")


# ---- plan ----------------------------------------------------------------------------------------------


def test_the_slider_answers_at_once(studio: Studio) -> None:
    print(f"discreet studio printed its address after {studio.seconds:.2f} s")
    with studio.page() as page:
        drawn(page)
        page.evaluate(WATCH)
        page.focus("#epsilon-slider")
        seen = []
        for move in range(MOVES):
            before = page.evaluate("window.moves.length")
            page.keyboard.press("ArrowRight" if move % 10 < 5 else "ArrowLeft")
            until(page, f"window.moves.length > {before}")
            seen.append((page.input_value("#epsilon"), page.text_content("[data-epsilon]")))
            page.wait_for_timeout(50)
        far = page.evaluate(
            """async () => {
              const slider = document.getElementById("epsilon-slider");
              for (const value of [-2, 0.95, -0.4, 0.3, -1.25]) {
                const before = window.moves.length;
                slider.value = value;
                slider.dispatchEvent(new Event("input", { bubbles: true }));
                while (window.moves.length === before) await new Promise((r) => setTimeout(r, 5));
              }
              return window.moves;
            }"""
        )
        assert all(shown == wanted for wanted, shown in seen)
        assert len({wanted for wanted, _ in seen}) >= 5
        drawn(page)
    seconds = sorted(value / 1000 for value in far)
    print(
        f"{len(seconds)} moves of the slider: median {1000 * statistics.median(seconds):.0f} ms, "
        f"worst {1000 * seconds[-1]:.0f} ms from the event to the figures on the page"
    )
    assert len(seconds) >= MOVES + 5


def test_all_figures_follow_and_code_can_be_copied(studio: Studio) -> None:
    with studio.page() as page:
        page.goto(studio.base + f"/plan?schema={EXAMPLE}&columns=sex&n=40")
        page.wait_for_selector("#more svg")
        assert "points" in page.inner_text("#width")
        page.click("summary:has-text('Copy as')")
        for button, word in (
            ("Copy as Python", "discreet.plan("),
            ("Copy as CLI", "discreet plan proportions"),
        ):
            page.get_by_role("button", name=button).click()
            page.wait_for_selector("button:has-text('Copied')")
            copied = page.evaluate("navigator.clipboard.readText()")
            assert word in copied
            assert copied in page.locator(".copies").text_content()
            page.wait_for_timeout(50)


def test_back_and_forward_restore_the_plan(studio: Studio) -> None:
    with studio.page() as page:
        page.goto(studio.base + f"/plan?schema={EXAMPLE}")
        states = []
        for name, value in (("epsilon", "2"), ("n", "90"), ("within", "9 points")):
            page.fill(f"#{name}", value)
            page.keyboard.press("Tab")
            page.wait_for_url(f"**{urlencode({name: value})}*")
            page.wait_for_selector("[data-epsilon]:text-is('2')")
            states.append((page.url, page.input_value(f"#{name}")))

        def restored(index: int, name: str, value: str) -> None:
            page.wait_for_url(states[index][0])
            until(page, f"document.getElementById('{name}').value === '{value}'")

        page.go_back()
        restored(1, "within", "")
        assert page.input_value("#n") == "90"
        page.go_back()
        restored(0, "n", "3000")
        assert page.input_value("#epsilon") == "2"
        assert abs(float(page.input_value("#epsilon-slider")) - 0.3) < 0.03
        page.wait_for_selector("#plan-result >> text=3,000 records")
        page.go_forward()
        restored(1, "n", "90")
        page.go_forward()
        restored(2, "within", "9 points")
        page.wait_for_selector("#wanted")


def test_a_mistake_is_said_and_mended(studio: Studio) -> None:
    with studio.page() as page:
        page.fill("#n", "many")
        page.keyboard.press("Tab")
        page.wait_for_selector(".notice.bad >> text=must be a whole number")
        assert page.get_attribute("#n", "aria-invalid") == "true"
        assert "must be a whole number" in page.inner_text("#n-problem")
        assert studio.complaints.pop().startswith(
            "error: Failed to load resource"
        )  # the browser's own, for 400
        page.fill("#n", "50")
        page.keyboard.press("Tab")
        page.wait_for_selector("text=50 records")
        assert page.get_attribute("#n", "aria-invalid") is None
        assert page.locator("#n-problem").count() == 0
        page.goto(studio.base + f"/plan?kind=regress&schema={EXAMPLE}")
        drawn(page)
        page.fill("#formula", "hours ~ age + smoker")
        page.keyboard.press("Tab")
        page.wait_for_selector("#plan-result >> text=smoker: former (rather than never)")


# ---- release -------------------------------------------------------------------------------------------


def test_from_an_upload_to_a_report(studio: Studio) -> None:
    with studio.page() as page:
        upload(page, studio)
        page.get_by_role("button", name="smoker").click()
        until(page, "document.getElementById('columns').value === 'smoker'")
        fill(page, "survey", "0.4")
        assert page.inner_text("#asked") == "ε = 0.4"
        assert studio.spent("survey") == (0, 0)
        review = page.url
        page.get_by_role("button", name="Release and spend").dblclick()
        page.wait_for_selector("#receipt")
        assert studio.spent("survey") == (Fraction(2, 5), 1)
        drawn(page)
        shown = page.inner_text("#posterior-title >> xpath=..")
        page.reload()
        page.wait_for_selector("#receipt")
        assert page.inner_text("#posterior-title >> xpath=..") == shown

        with page.expect_download() as downloading:
            page.get_by_role("link", name="Download the release (JSON)").click()
        text = Path(downloading.value.path()).read_text("utf-8")
        release = Release.from_json(text)
        assert release.guarantee.exact_epsilon == Fraction(2, 5)
        assert sum(release.counts) == len(ROWS) - 1
        with page.expect_download() as downloading:
            page.get_by_role("link", name="Download the report (HTML)").click()
        assert downloading.value.suggested_filename.endswith(".html")
        report = Path(downloading.value.path()).read_text("utf-8")
        assert "<title>Smokers, spring</title>" in report
        for value, mean in zip(release.levels, release.mean(), strict=True):
            assert re.search(rf"<td>{value}</td><td>{100 * mean:.1f}\d* %</td>", report)
        assert "<script" not in report

        # Back to the price and once more: the stored result, and no second charge.
        page.goto(review)
        assert "it was charged before" in page.inner_text("#asked")
        page.get_by_role("button", name="Show the result again").click()
        page.wait_for_selector("#receipt")
        page.go_back()
        page.go_forward()
        page.wait_for_selector("#receipt")
        assert studio.spent("survey") == (Fraction(2, 5), 1)

        # More than is left: refused before, and nothing is charged.
        upload(page, studio)
        fill(page, "survey", "0.7")
        assert "The budget does not allow it" in page.inner_text("main")
        assert page.get_by_role("button", name="Release and spend").count() == 0
        assert studio.spent("survey") == (Fraction(2, 5), 1)
        page.get_by_role("link", name="Change the question").click()
        page.wait_for_selector("#columns")
        assert page.input_value("#epsilon") == "0.7"
        assert page.input_value("#columns") == "smoker"


def test_a_schema_is_declared_mended_and_used(studio: Studio) -> None:
    with studio.page() as page:
        page.goto(studio.base + "/release")
        page.get_by_role("link", name="survey.csv").last.click()
        page.wait_for_selector("#text")
        assert "smoker = []" in page.input_value("#text")
        assert "60" not in page.input_value("#text")
        page.fill("#text", '[columns]\nsmoker = ["never"]\n')
        page.get_by_role("button", name="Keep the schema").click()
        page.wait_for_selector("#text-problem >> text=at least two")
        assert studio.complaints.pop().startswith("error: Failed to load resource")  # the browser's own
        assert page.input_value("#text") == '[columns]\nsmoker = ["never"]\n'
        page.fill("#text", SMOKERS)
        page.get_by_role("button", name="Keep the schema").click()
        page.wait_for_selector("#public-title")
        assert "never, former, current" in page.inner_text("main")
        with page.expect_download() as downloading:
            page.get_by_role("link", name="Download the schema (TOML)").click()
        saved = Path(downloading.value.path()).read_text("utf-8")
        assert discreet.Schema.from_toml(saved) == discreet.Schema.from_toml(SMOKERS)
        page.goto(studio.base + "/schema")
        page.set_input_files(
            "#file", {"name": "mine.toml", "mimeType": "text/plain", "buffer": VISITS.encode()}
        )
        page.get_by_role("button", name="Upload").click()
        page.wait_for_selector("#public-title")
        page.get_by_role("link", name="Plan", exact=True).last.click()
        page.wait_for_selector("text=mine.toml (3 columns")


def test_a_mistake_in_a_question_keeps_the_form(studio: Studio) -> None:
    with studio.page() as page:
        upload(page, studio)
        fill(page, "panel", "much")
        assert page.get_attribute("#epsilon", "aria-invalid") == "true"
        assert "not a number" in page.inner_text("#epsilon-problem")
        assert [page.input_value(f"#{name}") for name in ("columns", "epsilon", "dataset")] == [
            "smoker",
            "much",
            "panel",
        ]
        assert studio.complaints.pop().startswith("error: Failed to load resource")  # the browser's own
        page.fill("#epsilon", "0.2")
        page.get_by_role("button", name="See the price").click()
        page.wait_for_selector("#price-title")


@pytest.mark.parametrize("kind", ASKED)
def test_every_kind_of_question_from_an_upload_to_a_report(studio: Studio, kind: str) -> None:
    tab, fields, dataset, schema = ASKED[kind]
    with studio.page() as page:
        spent, charges = studio.spent(dataset)
        ask(page, studio, tab, fields, dataset, schema)
        assert page.inner_text("#asked").startswith(f"ε = {fields['epsilon']}")
        assert studio.spent(dataset) == (spent, charges)
        page.get_by_role("button", name="Release and spend").dblclick()
        page.wait_for_selector("#receipt")
        spent += Fraction(fields["epsilon"])
        assert studio.spent(dataset) == (spent, charges + 1)
        drawn(page)
        if kind != "logistic":  # draws of coefficients have no drawing
            assert page.locator("figure svg line").count() > 1
        shown = page.inner_text("#posterior-title >> xpath=..")
        page.reload()
        page.wait_for_selector("#receipt")
        assert page.inner_text("#posterior-title >> xpath=..") == shown
        with page.expect_download() as downloading:
            page.get_by_role("link", name="Download the release (JSON)").click()
        made = load_answer(Path(downloading.value.path()).read_text("utf-8"))
        tables = tuple(filter(None, (made.page().screen, *made.tables())))
        assert all(text in shown for table in tables for row in table.cells for text in row)
        with page.expect_download() as downloading:
            page.get_by_role("link", name="Download the report (HTML)").click()
        assert f"<title>{tab}, spring</title>" in Path(downloading.value.path()).read_text("utf-8")
        assert studio.spent(dataset) == (spent, charges + 1)


def test_names_of_columns_go_to_the_field_in_use(studio: Studio) -> None:
    with studio.page() as page:
        upload(page, studio, "visits.csv", "\n".join(NUMBERS) + "\n", VISITS)
        for name in ("visits", "sex"):
            page.click(f"button[data-fill={name}]")
        until(page, "document.getElementById('columns').value === 'visits,sex'")
        page.focus("#by")
        page.click("button[data-fill=sex]")
        until(page, "document.getElementById('by').value === 'sex'")
        page.get_by_role("link", name="Regression", exact=True).click()
        page.wait_for_selector("#formula")
        page.wait_for_load_state("load")
        page.focus("#formula")
        for name in ("age", "sex", "visits"):
            page.click(f"button[data-fill={name}]")
        until(page, "document.getElementById('formula').value === 'age ~ sex + visits'")


def test_a_budget_is_created(studio: Studio) -> None:
    with studio.page() as page:
        page.goto(studio.base + "/ledger")
        page.click("summary:has-text('Create a budget')")
        page.fill("#new-dataset", "spring")
        page.select_option("#measure", "epsilon+delta")
        page.fill("#cap-epsilon", "2")
        page.fill("#cap-delta", "1e-5")
        page.get_by_role("button", name="Create the budget").dblclick()
        page.wait_for_selector("text=History of spring")
        assert studio.spent("spring") == (0, 0)


def test_a_budget_is_created_from_a_question(studio: Studio) -> None:
    """What was filled in is kept, the new budget is chosen, and Enter still asks for the price."""
    with studio.page() as page:
        upload(page, studio)
        page.fill("#columns", "smoker")
        page.fill("#label", "Who smokes?")
        page.get_by_role("button", name="Create a budget").click()
        page.fill("#new-dataset", "autumn")
        page.fill("#cap-epsilon", "1")
        page.get_by_role("button", name="Create the budget").click()
        page.wait_for_selector("#columns")
        filled = [page.input_value(f"#{name}") for name in ("columns", "label", "dataset")]
        assert filled == ["smoker", "Who smokes?", "autumn"]
        page.fill("#epsilon", "0.5")
        page.press("#columns", "Enter")
        page.wait_for_url("**/release/review**")


def test_a_plan_becomes_a_release(studio: Studio) -> None:
    """What the plan page holds after a change by htmx is what the form has, once data are chosen."""
    with studio.page() as page:
        page.goto(studio.base + f"/plan?kind=mean&schema={EXAMPLE}")
        page.fill("#column", "hours")
        page.keyboard.press("Tab")
        page.wait_for_url("**column=hours*")
        page.wait_for_selector("a[href*='column=hours']:has-text('Release this')")
        page.get_by_role("link", name="Release this").click()
        page.wait_for_selector("text=is kept for the form")
        page.set_input_files(
            "#file", {"name": "work.csv", "mimeType": "text/csv", "buffer": b"hours\n40\n20\n"}
        )
        page.get_by_role("button", name="Upload").click()
        declare(page, "[columns]\nhours = [0, 80]\nage = [0, 120]\n")
        assert [page.input_value(f"#{name}") for name in ("column", "epsilon")] == ["hours", "0.5"]


def test_a_budget_is_divided(studio: Studio) -> None:
    with studio.page() as page:
        page.goto(studio.base + f"/plan?schema={EXAMPLE}&columns=sex&n=2000")
        page.get_by_role("link", name="Add to a budget").click()
        page.wait_for_selector("text=1. Proportions")
        page.get_by_role("link", name="Add another question").click()
        page.wait_for_selector("#width")
        page.fill("#n", "2000")
        page.keyboard.press("Tab")
        page.wait_for_selector("a[href*='n%3D2000'][href*='smoker']:has-text('Add to a budget')")
        page.get_by_role("link", name="Add to a budget").click()
        page.wait_for_selector("text=2. Proportions")
        page.fill("#epsilon", "1")
        page.fill("input[name=within1]", "2.4 points")
        page.get_by_role("button", name="Divide").click()
        page.wait_for_selector("#together")
        assert re.search(r"Together ε = (1|0\.99\d*) of 1", page.inner_text("#together"))
        assert page.get_by_role("link", name="Release this").count() == 2


def test_a_budget_spent_meanwhile_is_refused(studio: Studio) -> None:
    """The price was shown, then a colleague spent what was left: the confirmation is refused."""
    with discreet.Ledger(studio.ledger) as book:
        book.create("race", epsilon=1)
    with studio.page() as page:
        upload(page, studio)
        fill(page, "race", "0.6")
        with discreet.Ledger(studio.ledger) as book:
            book.spend("race", discreet.Guarantee(Fraction(1, 2)), lambda: "x", plan={"question": "other"})
        page.get_by_role("button", name="Release and spend").click()
        page.wait_for_selector("text=Nothing was charged")
        assert studio.spent("race") == (Fraction(1, 2), 1)
        assert studio.complaints.pop().startswith(
            "error: Failed to load resource"
        )  # the browser's own, for 409


# ---- the other pages -----------------------------------------------------------------------------------


def test_audit_ledger_and_evidence(studio: Studio) -> None:
    with studio.page() as page:
        page.get_by_role("link", name="Audit", exact=True).click()
        page.wait_for_selector("text=The claim holds")
        drawn(page)
        assert page.locator("figure svg polyline").count() >= 1
        page.select_option("#mechanism", "ehds")
        page.wait_for_url("**mechanism=ehds*")
        page.wait_for_selector('text=discreet.mechanism("ehds"', state="attached")
        drawn(page)

        page.get_by_role("link", name="Inside", exact=True).click()
        page.wait_for_selector("text=(4, 4), n = 8")
        page.focus("#first")
        page.keyboard.press("ArrowRight")
        page.wait_for_selector("text=(5, 4), n = 9")
        page.wait_for_url("**first=5*")
        drawn(page)

        page.get_by_role("link", name="Ledger", exact=True).click()
        page.get_by_role("link", name="History").first.click()
        page.wait_for_selector("#history-title")
        page.get_by_role("button", name="Verify the ledger").click()
        page.wait_for_selector("text=The ledger is sound")

        page.get_by_role("link", name="Evidence", exact=True).click()
        page.wait_for_selector(".gallery img")
        pictures = page.locator(".gallery img")
        assert pictures.count() >= 10
        page.evaluate("document.querySelectorAll('.gallery img').forEach((i) => { i.loading = 'eager'; })")
        until(page, "[...document.querySelectorAll('.gallery img')].every((i) => i.naturalWidth > 0)")
        print(f"{pictures.count()} pictures of the papers are shown")


@pytest.mark.parametrize(
    ("address", "name", "value"),
    [
        ("/audit", "mechanism", "ehds"),
        ("/plan", "n", "77"),
        (f"/plan?kind=mean&schema={EXAMPLE}", "column", "hours"),
    ],
)
def test_a_change_before_the_scripts_are_there_is_not_lost(
    studio: Studio, address: str, name: str, value: str
) -> None:
    with studio.page() as page:
        held: list[Any] = []
        page.route("**/htmx.min.js", lambda route: held.append(route))
        page.goto(studio.base + address, wait_until="commit")
        field = page.locator(f"#{name}")
        if field.evaluate("(field) => field.matches('select')"):
            field.select_option(value)
        else:
            field.fill(value)
        assert f"{name}=" not in page.url
        while not held:
            page.wait_for_timeout(20)
        held[0].continue_()
        page.wait_for_url(f"**{urlencode({name: value})}*")


def test_by_keyboard_alone(studio: Studio) -> None:
    with studio.page() as page:
        drawn(page)
        page.evaluate("document.activeElement.blur()")
        order, plain = [], []
        for _ in range(60):
            page.keyboard.press("Tab")
            name, outline = page.evaluate(
                """() => {
                  const here = document.activeElement;
                  const style = getComputedStyle(here);
                  const name = here.id || here.textContent.trim().slice(0, 30) || here.className;
                  return [name, parseFloat(style.outlineWidth) >= 2 && style.outlineStyle !== "none"];
                }"""
            )
            order.append(name)
            if not outline and name not in ("", "main"):
                plain.append(name)
            if "Copy as Python or as a command" in name:
                break
        assert order[:9] == [
            "Skip to the content",
            "discreet studio",
            "Schema",
            "Plan",
            "Release",
            "Ledger",
            "Audit",
            "Inside",
            "Evidence",
        ]
        wanted = ["epsilon-slider", "epsilon", "columns", "by", "delta", "n", "within"]
        assert [name for name in order if name in wanted] == wanted
        assert order[-1].startswith("Copy as Python or")
        assert plain == []
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Copy as Python").wait_for()
        page.focus("#epsilon-slider")
        before = float(page.input_value("#epsilon"))
        page.keyboard.press("ArrowRight")
        until(page, "document.querySelector('[data-epsilon]').textContent !== '0.5'")
        assert float(page.input_value("#epsilon")) > before
        assert (
            page.evaluate("document.activeElement.id") == "epsilon-slider"
        )  # the new figures keep the focus
        assert page.get_attribute("#epsilon-slider", "aria-valuetext") == "ε = " + page.input_value(
            "#epsilon"
        )
        page.goto(studio.base + "/release")
        page.get_by_role("link", name="survey.csv").last.focus()
        page.keyboard.press("Enter")
        page.wait_for_selector("#text, #columns")


# ---- every page, in every look -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def views(studio: Studio) -> dict[str, str]:
    """An address for each page and each state worth a look."""
    with studio.page() as page:
        page.goto(studio.base + "/release")
        page.set_input_files(
            "#file", {"name": "new.csv", "mimeType": "text/csv", "buffer": "\n".join(NUMBERS).encode()}
        )
        page.get_by_role("button", name="Upload").click()
        page.wait_for_selector("#text")
        template = page.url
        page.fill("#text", GROUPED)
        page.get_by_role("button", name="Keep the schema").click()
        page.wait_for_selector("#public-title")
        declared = page.url
        upload(page, studio)
        form = page.url
        fill(page, "panel", "0.5", "A <b>label</b> with “quotes”")
        review = page.url
        page.get_by_role("button", name="Release and spend").click()
        page.wait_for_selector("#receipt")
        result = page.url
        upload(page, studio)
        fill(page, "survey", "5")
        refused = page.url
        upload(page, studio)
        fill(page, "survey", "much")
        wrong = page.url
        studio.complaints.pop()  # the browser's own, for 400
        asked = {}
        for name, (tab, fields, dataset, schema) in ASKED.items():
            ask(page, studio, tab, fields, dataset, schema, "form")
            asked[f"release-{name}-form"] = page.url
            page.get_by_role("button", name="See the price").click()
            page.wait_for_selector("#price-title")
            asked[f"release-{name}-review"] = page.url
            page.get_by_role("button", name="Release and spend").click()
            page.wait_for_selector("#receipt")
            asked[f"release-{name}-result"] = page.url
        ask(page, studio, "Posterior draw", MEAN, "panel")
        asked["release-mean-refused"] = page.url
    base = studio.base
    planned = urlencode({"kind": "mean", "schema": EXAMPLE, "column": "age", "n": "900"})
    split = urlencode({"q": planned, "epsilon": "1", "weight1": "2"})
    return {
        "schema": f"{base}/schema",
        "schema-template": template,
        "schema-declared": declared,
        "plan": f"{base}/plan?schema={EXAMPLE}",
        "plan-two": f"{base}/plan?schema={EXAMPLE}&columns=sex&n=40&within=20+points",
        "plan-mean": f"{base}/plan?kind=mean&schema={EXAMPLE}",
        "plan-survival": f"{base}/plan?kind=survival&time=age&event=sex&schema={EXAMPLE}",
        "plan-regression": f"{base}/plan?kind=regress&formula=hours+~+age&delta=1e-6&schema={EXAMPLE}",
        "plan-problem": f"{base}/plan?n=none",
        "release": f"{base}/release",
        "release-form": form,
        "release-review": review,
        "release-refused": refused,
        "release-wrong": wrong,
        "release-result": result,
        **asked,
        "release-planned": f"{base}/release?kind=mean&epsilon=0.5&column=age",
        "ledger": f"{base}/ledger?dataset=panel&verify=1",
        "audit": f"{base}/audit?n=30",
        "distribution": f"{base}/distribution?mechanism=ehdl&first=20",
        "evidence": f"{base}/evidence",
        "split": f"{base}/plan/split?{split}",
        "nowhere": f"{base}/nowhere",
    }


LOOKS = {"light": 1024, "dark": 1024, "wide": 1600, "phone": 360}
"""Width of the window in pixels."""


@pytest.mark.parametrize("look", LOOKS)
def test_every_page_in_every_look(studio: Studio, views: dict[str, str], look: str) -> None:
    """Fits the width and has no violation that axe-core finds; its picture is kept."""
    if importlib.util.find_spec("axe_playwright_python") is None:
        need("no accessibility check: axe-playwright-python not found (pip install '.[slow]')")
    from axe_playwright_python.sync_playwright import Axe

    axe = Axe()
    folder = PICTURES / look
    folder.mkdir(parents=True, exist_ok=True)
    size = {"width": LOOKS[look], "height": 800}
    wide, findings = [], []
    with studio.page("dark" if look == "dark" else "light", **size) as page:
        for name, address in views.items():
            page.goto(address)
            drawn(page)
            page.evaluate("document.querySelectorAll('img').forEach((i) => { i.loading = 'eager'; })")
            until(page, "[...document.images].every((i) => i.complete)")
            page.screenshot(path=folder / f"{name}.png", full_page=True)
            width = page.evaluate("document.documentElement.scrollWidth")
            if width > size["width"]:
                wide.append(f"{name}: {width}")
            for found in axe.run(page).response["violations"]:
                where = [node["target"] for node in found["nodes"]][:3]
                findings.append(f"{name}: {found['id']} ({found['impact']}) at {json.dumps(where)}")
    print(
        f"{look}: {len(views)} pages, {len(wide)} wider than the window; axe-core: {len(findings)} violations"
    )
    assert findings == []
    assert wide == []


def test_nothing_else_was_asked_for_and_nothing_complained(studio: Studio) -> None:
    """Last: over all the tests above."""
    assert studio.elsewhere == []
    expected = re.compile(r"error: Failed to load resource: the server responded with a status of 40[049]")
    assert [text for text in studio.complaints if not expected.match(text)] == []
