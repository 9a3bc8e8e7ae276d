"""Processes that spend from a ledger while they are killed or raced; the quick and slow tests share them."""

from __future__ import annotations

import os
import random
import secrets
import select
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from discreet import Guarantee, Ledger
from discreet.errors import BudgetExceededError
from discreet.ledger import book

STEPS = ("checked", "computed", "locked", "compared", "inserted", "committed")
"""Every label that ``spend`` passes, in order."""


def fork(work: Callable[[], None]) -> int:
    """The id of a child that runs ``work`` and leaves without Python's farewell; status 1 means it raised."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # threads of numerical libraries; the child uses none
        child = os.fork()
    if child:
        return child
    try:
        work()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


def status_of(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def spend(ledger: Ledger, request_id: str, cost: Fraction = Fraction(1, 10**6)) -> bytes:
    """A release whose value nobody could guess: equal bytes mean the stored release."""
    return ledger.spend(
        "survey",
        Guarantee(cost),
        lambda: secrets.token_bytes(64),
        plan={"q": request_id},
        request_id=request_id,
    ).result


@dataclass
class Killed:
    """What was seen from outside of processes that were killed."""

    trials: int = 0
    deaths: int = 0
    delivered: dict[str, bytes] = field(default_factory=dict)
    """Results that left ``spend`` in a child and reached us."""
    committed: set[str] = field(default_factory=set)
    """Requests whose child passed the commit."""
    asked: set[str] = field(default_factory=set)


def kill_at(ledger: Ledger, label: str | None, request_id: str, seen: Killed) -> None:
    """One child, killed by SIGKILL when it passes ``label``; a result counts once it reached our pipe."""
    reader, writer = os.pipe()

    def work() -> None:
        def step(passed: str) -> None:
            if passed == "committed":
                os.write(writer, b"C")
            if passed == label:
                os.kill(os.getpid(), signal.SIGKILL)

        book._step = step
        os.write(writer, b"R" + spend(ledger, request_id))

    child = fork(work)
    os.close(writer)
    content = b""
    while part := os.read(reader, 4096):
        content += part
    os.close(reader)
    status = status_of(child)
    assert status in (0, -signal.SIGKILL), f"the child failed with status {status}"
    _note(seen, request_id, content, status)


def kill_within(ledger: Ledger, delay: float, request_ids: Sequence[str], seen: Killed) -> None:
    """Children that spend at the same time, all killed ``delay`` seconds after they are ready, anywhere."""
    children = []
    for request_id in request_ids:
        reader, writer = os.pipe()

        def work(request_id: str = request_id, writer: int = writer) -> None:
            ledger.show("survey")  # connected and warm: the delay falls into the transaction
            book._step = lambda passed: os.write(writer, b"C") if passed == "committed" else None
            os.write(writer, b"!")
            os.write(writer, b"R" + spend(ledger, request_id))

        children.append((request_id, reader, fork(work)))
        os.close(writer)
    for _, reader, _ in children:
        assert os.read(reader, 1) == b"!"
    select.select([], [], [], delay)
    for _, _, child in children:
        os.kill(child, signal.SIGKILL)
    for request_id, reader, child in children:
        content = b""
        while part := os.read(reader, 4096):
            content += part
        os.close(reader)
        _note(seen, request_id, content, status_of(child))


def _note(seen: Killed, request_id: str, content: bytes, status: int) -> None:
    seen.trials += 1
    seen.deaths += status == -signal.SIGKILL
    seen.asked.add(request_id)
    if content.startswith(b"C"):
        seen.committed.add(request_id)
        content = content[1:]
    if content.startswith(b"R") and len(content) == 65:
        seen.delivered[request_id] = content[1:]


@dataclass
class Verdict:
    """The books against what was seen."""

    uncharged: int
    lost: int
    charged_not_delivered: int
    delivered_by_retry: int


def judge(ledger: Ledger, seen: Killed) -> Verdict:
    """Compares deliveries with charges, then retries every request that was not delivered."""
    ledger.verify()
    stored = {e.request_id: e.result for e in ledger.history("survey") if e.kind == "charge"}
    uncharged = sum(stored.get(request) != result for request, result in seen.delivered.items())
    lost = len(seen.committed - set(stored))
    waiting = {request for request in stored if request not in seen.delivered}
    again = sum(spend(ledger, request) == stored[request] for request in waiting)
    assert len(ledger.history("survey")) == 1 + len(stored), "a retry was charged again"
    for request in seen.asked - set(stored):  # never charged: a retry charges now
        spend(ledger, request)
    spent = ledger.show("survey").spent.epsilon
    assert spent == Fraction(len(seen.asked), 10**6), "each request is charged exactly once in the end"
    ledger.verify()
    return Verdict(uncharged, lost, len(waiting), again)


def race(ledger: Ledger, processes: int, spends: int, cost: Fraction) -> int:
    """How many spends succeeded, of children that start together and try ``spends`` times each."""
    start, go = os.pipe()
    reader, writer = os.pipe()

    def work(number: int) -> None:
        os.close(go)
        os.read(start, 1)
        won = 0
        for i in range(spends):
            try:
                spend(ledger, f"{number}-{i}", cost)
                won += 1
            except BudgetExceededError:
                pass
        os.write(writer, won.to_bytes(4, "big"))

    children = [fork(lambda number=number: work(number)) for number in range(processes)]
    os.close(start)
    os.close(go)  # the starting shot: every child reads the end of the pipe
    os.close(writer)
    content = b""
    while part := os.read(reader, 4096):
        content += part
    os.close(reader)
    assert [status_of(child) for child in children] == [0] * processes
    return sum(int.from_bytes(content[i : i + 4], "big") for i in range(0, len(content), 4))


def delays(count: int, longest: float, seed: int = 0) -> Iterator[float]:
    rng = random.Random(seed)
    return (rng.uniform(0, longest) for _ in range(count))


def duration_of(ledger: Ledger, spends: int = 50) -> float:
    """Seconds that one spend takes here, so that a random kill can be aimed at it."""
    start = time.perf_counter()
    for i in range(spends):
        spend(ledger, f"warm-{i}")
    return (time.perf_counter() - start) / spends
