"""A studio and its ledger under clients that never rest: six browsers, and two that release in Python.

Each browser uploads a file, looks at a price, releases (now and then twice, as an impatient person clicks),
reads the result and its report, and visits the other pages. At the end the results of the charges must be the
documents that the clients hold, each once.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import partial
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlencode, urlsplit

import discreet
import shorthand
from discreet._documents.answer import load_answer
from test_studio import KINDS, Browser

EPSILON = Fraction(1)
ASKED = ("levels", "bins", "table", "groups", "query", "mean")
PAGES = ("/plan?n=40", "/plan?kind=mean", "/audit", "/ledger", "/evidence")
BUDGETS = {
    "survey": {},
    "drawn": {"delta": "1/2"},
    "within": {"relation": "within-group"},
    "python": {},
}


def in_python(ledger: str, _: int) -> tuple[str, bytes]:
    records = ["yes"] * 30 + ["no"] * 20
    made = shorthand.shares(records, levels=("no", "yes"), epsilon=EPSILON, ledger=ledger, dataset="python")
    return "python", made.to_json().encode()


def in_a_browser(browser: Browser, i: int) -> tuple[str, bytes]:
    """One round: which dataset was charged, and the document."""
    kind = ASKED[i % len(ASKED)]
    fields = {**browser.asked(kind), "epsilon": str(EPSILON)}
    if "delta" in KINDS[kind]:
        fields["delta"] = "1e-7"
    query = urlencode(fields)
    shown = [browser.get(f"/release/review?{query}")]
    with ThreadPoolExecutor() as clicks:
        done = list(clicks.map(browser.confirm, [fields] * (2 if i % 5 == 0 else 1)))
    if len({(one.status, one.headers["Location"]) for one in done}) > 1:
        raise AssertionError(f"{kind}: two clicks, {[one.status for one in done]}")
    kept = urlsplit(done[0].headers["Location"]).query
    shown += [browser.follow(done[0]), browser.get(f"/release/download/html?{kept}")]
    document = browser.get(f"/release/download/json?{kept}")
    shown += [document, browser.get(PAGES[i % len(PAGES)])]
    wrong = [page.status for page in shown if page.status != 200]
    if wrong:
        raise AssertionError(f"{kind}: {wrong}")
    return fields["dataset"], document.text.encode()


def resident(process: int) -> int:
    """Memory of a process in KiB."""
    line = next(x for x in Path(f"/proc/{process}/status").read_text().splitlines() if x.startswith("VmRSS"))
    return int(line.split()[1])


def soak(minutes: float, url: str = "") -> Counter[str]:
    """What happened in so many minutes; ``wrong`` counts what must not be."""
    found = Counter[str]()
    held: dict[str, list[str]] = {dataset: [] for dataset in BUDGETS}
    spent = dict.fromkeys(BUDGETS, Fraction(0))
    lock, end = threading.Lock(), time.monotonic() + 60 * minutes

    def client(one_round: Callable[[int], tuple[str, bytes]], first: int) -> None:
        i = first
        while time.monotonic() < end:
            try:
                dataset, document = one_round(i)
                epsilon = load_answer(document.decode()).guarantee.epsilon
            except Exception:
                traceback.print_exc()
                with lock:
                    found["wrong"] += 1
                time.sleep(1)  # a server that is gone would be asked thousands of times
            else:
                with lock:
                    held[dataset].append(sha256(document).hexdigest())
                    spent[dataset] += epsilon
            i += 1

    warnings.simplefilter("ignore", discreet.errors.PrivacyWarning)
    with tempfile.TemporaryDirectory() as place:
        ledger = url or f"sqlite:///{place}/ledger.db"
        with discreet.Ledger(ledger) as book:
            for dataset, more in BUDGETS.items():
                book.create(dataset, epsilon=10**6, **more)
        words = [sys.executable, "-m", "discreet._cli", "studio", "--no-browser", "--ledger", ledger]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as studio:
            try:
                assert studio.stdout is not None
                address = urlsplit(studio.stdout.readline().strip())
                settings = SimpleNamespace(
                    hosts=[address.netloc],
                    origins=[f"http://{address.netloc}"],
                    port=address.port,
                    token=address.query.partition("=")[2],
                )
                browsers = [Browser(settings, patience=120).enter() for _ in range(6)]
                rounds = [partial(in_a_browser, browser) for browser in browsers] + 2 * [
                    partial(in_python, ledger)
                ]
                threads = [threading.Thread(target=client, args=(r, 7 * i)) for i, r in enumerate(rounds)]
                memory = []
                for thread in threads:
                    thread.start()
                while any(thread.is_alive() for thread in threads):
                    memory.append(resident(studio.pid))
                    if len(memory) % 60 == 0:
                        done = sum(map(len, held.values()))
                        print(
                            f"{len(memory) // 60} min: {done:,} releases, {memory[-1] // 1024} MiB",
                            flush=True,
                        )
                    time.sleep(1)
                studio.send_signal(signal.SIGINT)
                found["wrong"] += studio.wait(30) not in (0, 130)
            finally:
                studio.kill()  # or one that does not end would be waited for without end
        with discreet.Ledger(ledger) as book:
            book.verify()
            for dataset, documents in held.items():
                charges = [entry for entry in book.history(dataset) if entry.kind == "charge"]
                results = Counter(sha256(entry.result or b"").hexdigest() for entry in charges)
                found["releases"] += len(documents)
                found["charges not accounted for"] += (results - Counter(documents)).total()
                found["charges not accounted for"] += (Counter(documents) - results).total()
                found["charges not accounted for"] += book.show(dataset).spent.epsilon != spent[dataset]
    quarter = len(memory) // 4  # caches are full after the first
    before, after = max(memory[quarter : 2 * quarter]), max(memory[-quarter:])
    found["MiB of memory at most in the second quarter"] = before // 1024
    found["MiB in the last"] = after // 1024
    found["wrong"] += after > 1.1 * before
    return found
