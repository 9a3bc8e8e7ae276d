"""A studio and its ledger under clients that never rest: six browsers, and two that release in Python.

Each browser uploads a file, looks at a price, releases (now and then twice, as an impatient person clicks),
reads the result and its report, and visits the other pages. At the end every charge must be accounted for.
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
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlencode, urlsplit

import discreet
from discreet.documents.answer import load_answer
from test_studio import KINDS, Browser

EPSILON = Fraction(1)
ASKED = ("levels", "bins", "table", "groups", "query", "mean")
PAGES = ("/plan?levels=no,yes&n=40", "/plan?kind=mean&bounds=0,120", "/audit", "/ledger", "/evidence")
BUDGETS = {
    "survey": {},
    "drawn": {"delta": "1/2"},
    "within": {"relation": "within-group"},
    "python": {},
}


def in_python(ledger: str, _: int) -> tuple[str, Fraction]:
    records = ["yes"] * 30 + ["no"] * 20
    discreet.release(records, levels=("no", "yes"), epsilon=EPSILON, ledger=ledger, dataset="python")
    return "python", EPSILON


def in_a_browser(browser: Browser, i: int) -> tuple[str, Fraction]:
    """One round: what was charged, and to which dataset."""
    kind = ASKED[i % len(ASKED)]
    fields = {**browser.asked(kind), "epsilon": str(EPSILON)}
    if "delta" in KINDS[kind]:
        fields["delta"] = "1e-7"
    query = urlencode(fields)
    shown = [browser.get(f"/release/review?{query}")]
    done = [browser.confirm(fields) for _ in range(2 if i % 5 == 0 else 1)]
    kept = urlsplit(done[0].headers["Location"]).query
    shown += [browser.follow(done[0]), browser.get(f"/release/download/html?{kept}")]
    document = browser.get(f"/release/download/json?{kept}")
    shown += [document, browser.get(PAGES[i % len(PAGES)])]
    wrong = [page.status for page in shown if page.status != 200]
    if wrong:
        raise AssertionError(f"{kind}: {wrong}")
    return fields["dataset"], load_answer(document.text).guarantee.epsilon


def resident(process: int) -> int:
    """Memory of a process in KiB."""
    line = next(x for x in Path(f"/proc/{process}/status").read_text().splitlines() if x.startswith("VmRSS"))
    return int(line.split()[1])


def soak(minutes: float, url: str = "") -> Counter[str]:
    """What happened in so many minutes; ``wrong`` counts what must not be."""
    found = Counter[str]()
    charged = dict.fromkeys(BUDGETS, (0, Fraction(0)))
    lock, end = threading.Lock(), time.monotonic() + 60 * minutes

    def client(one_round: Callable[[int], tuple[str, Fraction]], first: int) -> None:
        i = first
        while time.monotonic() < end:
            try:
                dataset, epsilon = one_round(i)
            except Exception:
                traceback.print_exc()
                with lock:
                    found["wrong"] += 1
                time.sleep(1)  # a server that is gone would be asked thousands of times
            else:
                with lock:
                    number, sum_ = charged[dataset]
                    charged[dataset] = number + 1, sum_ + epsilon
            i += 1

    warnings.simplefilter("ignore", discreet.errors.PrivacyWarning)
    with tempfile.TemporaryDirectory() as place:
        ledger = url or f"sqlite:///{place}/ledger.db"
        with discreet.Ledger(ledger) as book:
            for dataset, more in BUDGETS.items():
                book.create(dataset, epsilon=10**6, **more)
        words = [sys.executable, "-m", "discreet.cli", "studio", "--no-browser", "--ledger", ledger]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as studio:
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
                    done = sum(number for number, _ in charged.values())
                    print(f"{len(memory) // 60} min: {done:,} releases, {memory[-1] // 1024} MiB", flush=True)
                time.sleep(1)
            studio.send_signal(signal.SIGINT)
            found["wrong"] += studio.wait(30) not in (0, 130)
        with discreet.Ledger(ledger) as book:
            book.verify()
            for dataset, (number, epsilon) in charged.items():
                entries = [entry for entry in book.history(dataset) if entry.kind == "charge"]
                found["releases"] += number
                found["charges not accounted for"] += abs(len(entries) - number)
                found["charges not accounted for"] += book.show(dataset).spent.epsilon != epsilon
    quarter = len(memory) // 4  # caches are full after the first
    before, after = max(memory[quarter : 2 * quarter]), max(memory[-quarter:])
    found["MiB of memory at most in the second quarter"] = before // 1024
    found["MiB in the last"] = after // 1024
    found["wrong"] += after > 1.1 * before
    return found
