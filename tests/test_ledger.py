"""The ledger: arithmetic, refusals, retries, crashes, races, damage. The long versions are in evidence/."""

from __future__ import annotations

import json
import os
import pickle
import sqlite3
import stat
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

import shorthand
from discreet import Guarantee, Ledger
from discreet._cli import app
from discreet._declarations import Relation
from discreet.errors import (
    BudgetExceededError,
    CorruptLedgerError,
    DataError,
    FileError,
    GuaranteeMismatchError,
    InvalidInputError,
    LedgerError,
    NotPrivateError,
    PrivacyWarning,
    RequestConflictError,
    UnknownDatasetError,
)
from discreet.ledger import Budget, book, budgets
from discreet.ledger import _chain as chain
from discreet.ledger import _store as store
from discreet.privacy.composition import compose
from discreet.privacy.curves import Gaussian
from effort import processor_seconds
from evidence import drivers

HALF = Guarantee(Fraction(1, 2))
PLAN = {"question": "smoking"}


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "l.db", timeout=5) as opened:
        opened.create("survey", epsilon=1)
        yield opened


def test_receipts_are_found_by_id_and_by_document(ledger: Ledger) -> None:
    ledger.create("panel", epsilon=1)
    made = [
        ledger.spend(name, Guarantee(Fraction(1, 4)), lambda name=name: f"of {name}", plan={}, request_id="q")
        for name in ("survey", "panel")
    ]
    assert [ledger.receipt(name, "q") for name in ("survey", "panel")] == made
    assert [ledger.receipt_of(document) for document in ("of survey", b"of panel")] == made
    assert ledger.receipt("survey", "other") is None
    assert ledger.receipt_of("of") is None
    with pytest.raises(UnknownDatasetError):
        ledger.receipt("surveys", "q")


def file_of(ledger: Ledger) -> Path:
    return ledger._store.path


def raw(ledger: Ledger, *statements: str) -> list[Any]:
    """SQL behind the ledger's back."""
    connection = sqlite3.connect(file_of(ledger))
    try:
        rows: list[Any] = []
        for statement in statements:
            rows = connection.execute(statement).fetchall()
        connection.commit()
        return rows
    finally:
        connection.close()


UNSEALED = "DROP TRIGGER discreet_entries_no_update", "DROP TRIGGER discreet_entries_no_delete"


def state(ledger: Ledger) -> list[str]:
    """Every hash: equal before and after means that nothing was written."""
    return [entry.hash for name in ledger.datasets() for entry in ledger.history(name)]


class TestSpend:
    def test_a_charge_and_its_receipt(self, ledger: Ledger) -> None:
        receipt = ledger.spend("survey", HALF, lambda: "café", plan=PLAN, request_id="q1")
        assert receipt.result == "café".encode()
        assert (receipt.dataset, receipt.sequence, receipt.request_id) == ("survey", 2, "q1")
        assert (receipt.charged, receipt.spent) == (Budget(Fraction(1, 2)), Budget(Fraction(1, 2)))
        assert (receipt.cap, receipt.repeated) == (Budget(Fraction(1)), False)
        assert receipt.plan_hash == chain.digest('{"question":"smoking"}')
        assert receipt.guarantee == HALF.to_dict()
        account = ledger.show("survey")
        assert (account.spent, account.remaining) == (Budget(Fraction(1, 2)), Budget(Fraction(1, 2)))
        assert (account.entries, account.head) == (2, receipt.hash)
        _, entry = ledger.history("survey")
        assert (entry.result, entry.request_id, entry.plan) == (receipt.result, "q1", PLAN)
        assert json.loads(json.dumps(receipt.to_dict()))["charged"] == {"epsilon": "1/2"}
        with pytest.raises(AttributeError):
            receipt.result = b"other"  # type: ignore[misc]

    def test_sums_are_exact(self, ledger: Ledger) -> None:
        for _ in range(3):
            ledger.spend("survey", Guarantee(Fraction(1, 3)), lambda: "", plan=PLAN)
        assert ledger.show("survey").remaining == Budget(Fraction(0))
        ledger.create("tenths", epsilon=0.3)
        for _ in range(3):  # 0.1 + 0.1 + 0.1 > 0.3 in floats
            ledger.spend("tenths", Guarantee(Fraction("0.1")), lambda: "", plan=PLAN)
        tiny = Guarantee(Fraction(1, 10**40))
        with pytest.raises(BudgetExceededError):
            ledger.spend("tenths", tiny, lambda: "", plan=PLAN)

    def test_over_the_cap_nothing_is_computed_and_nothing_changes(self, ledger: Ledger) -> None:
        ledger.spend("survey", HALF, lambda: "x", plan=PLAN)
        before = state(ledger)
        asked = Guarantee(Fraction(1, 2) + Fraction(1, 10**30))
        with pytest.raises(BudgetExceededError, match=r"survey.*cap ε = 1; spent ε = 0.5; asked") as refused:
            ledger.spend("survey", asked, lambda: pytest.fail("computed"), plan=PLAN)
        error = refused.value
        assert (error.cap, error.spent) == (Budget(Fraction(1)), Budget(Fraction(1, 2)))
        assert error.asked == Budget(asked.exact_epsilon)
        assert state(ledger) == before
        copy = pickle.loads(pickle.dumps(error))  # as it comes back from a worker process
        assert (copy.cap, str(copy)) == (error.cap, str(error))

    def test_the_budget_is_compared_again_after_computing(self, ledger: Ledger) -> None:
        def slow() -> str:
            ledger.spend("survey", Guarantee(Fraction(1)), lambda: "", plan=PLAN, request_id="quicker")
            return "late"

        with pytest.raises(BudgetExceededError):
            ledger.spend("survey", HALF, slow, plan=PLAN)
        assert len(ledger.history("survey")) == 2

    def test_no_lock_is_held_while_computing(self, ledger: Ledger) -> None:
        def look() -> str:
            raw(ledger, "CREATE TABLE other (x)")  # needs the write lock
            return "x"

        ledger.spend("survey", HALF, look, plan=PLAN)

    def test_a_computation_that_fails_costs_nothing(self, ledger: Ledger) -> None:
        def dies() -> str:
            raise ConnectionError("the cluster has gone")

        before = state(ledger)
        with pytest.raises(ConnectionError):
            ledger.spend("survey", HALF, dies, plan=PLAN, request_id="q1")
        with pytest.raises(InvalidInputError, match="bytes or text"):
            ledger.spend("survey", HALF, lambda: 3, plan=PLAN)  # type: ignore[arg-type, return-value]
        assert state(ledger) == before
        assert ledger.spend("survey", HALF, lambda: "x", plan=PLAN, request_id="q1").repeated is False

    def test_nothing_leaves_before_the_commit(self, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
        """At every step but the last the file holds no charge; at the last it does."""
        charged = {}

        def step(label: str) -> None:
            charged[label] = raw(ledger, "SELECT count(*) FROM discreet_entries WHERE kind = 'charge'")[0][0]

        monkeypatch.setattr(book, "_step", step)
        ledger.spend("survey", HALF, lambda: "x", plan=PLAN)
        assert charged == {**dict.fromkeys(drivers.STEPS, 0), "committed": 1}
        assert list(charged) == list(drivers.STEPS)


class TestRetry:
    def test_same_id_and_plan_return_the_stored_bytes(self, ledger: Ledger) -> None:
        first = ledger.spend("survey", HALF, lambda: "x", plan={"a": 1, "b": [1.5]}, request_id="q1")
        again = ledger.spend(
            "survey", HALF, lambda: pytest.fail("computed"), plan={"b": (1.5,), "a": 1}, request_id="q1"
        )
        assert again.repeated
        assert (again.result, again.hash, again.sequence) == (first.result, first.hash, first.sequence)
        assert ledger.show("survey").spent == Budget(Fraction(1, 2))
        recalled = ledger.recall("survey", "q1", plan={"a": 1, "b": [1.5]})
        assert recalled is not None
        assert recalled.result == b"x"
        assert ledger.recall("survey", "q2", plan=PLAN) is None

    def test_it_also_works_when_nothing_is_left(self, ledger: Ledger) -> None:
        whole = Guarantee(Fraction(1))
        ledger.spend("survey", whole, lambda: "x", plan=PLAN, request_id="q1")
        assert ledger.spend("survey", whole, lambda: "y", plan=PLAN, request_id="q1").result == b"x"

    def test_another_plan_or_guarantee_is_refused(self, ledger: Ledger) -> None:
        ledger.spend("survey", HALF, lambda: "x", plan=PLAN, request_id="q1")
        before = state(ledger)
        for guarantee, plan in ((HALF, {"question": "age"}), (Guarantee(Fraction(1, 4)), PLAN)):
            with pytest.raises(RequestConflictError, match=r"request_id='q1'.*another plan.*row 2"):
                ledger.spend("survey", guarantee, lambda: pytest.fail("computed"), plan=plan, request_id="q1")
        with pytest.raises(RequestConflictError):
            ledger.recall("survey", "q1", plan={"question": "age"})
        assert state(ledger) == before

    def test_ids_belong_to_a_dataset(self, ledger: Ledger) -> None:
        ledger.create("other", epsilon=1)
        ledger.spend("survey", HALF, lambda: "x", plan=PLAN, request_id="q1")
        assert ledger.spend("other", HALF, lambda: "y", plan=PLAN, request_id="q1").result == b"y"

    def test_without_an_id_every_call_is_new(self, ledger: Ledger) -> None:
        ids = {ledger.spend("survey", HALF, lambda: "x", plan=PLAN).request_id for _ in range(2)}
        assert len(ids) == 2
        assert all(len(name) == 32 for name in ids)

    def test_the_slower_of_two_equal_requests_gets_the_result_of_the_quicker(self, ledger: Ledger) -> None:
        def slow() -> str:
            ledger.spend("survey", HALF, lambda: "quick", plan=PLAN, request_id="q1")
            return "slow"

        receipt = ledger.spend("survey", HALF, slow, plan=PLAN, request_id="q1")
        assert (receipt.result, receipt.repeated) == (b"quick", True)
        assert ledger.show("survey").spent == Budget(Fraction(1, 2))

    def test_a_storm_of_retries_from_threads(self, ledger: Ledger) -> None:
        results: list[bytes] = []
        start = threading.Barrier(8)

        def work() -> None:
            start.wait()
            results.extend([drivers.spend(ledger, f"q{i}", Fraction(1, 10)) for i in range(5)])

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(results), len(set(results))) == (40, 5)
        assert ledger.show("survey").spent == Budget(Fraction(1, 2))
        ledger.verify()


class Unwritable(Guarantee):
    """A guarantee whose terms no JSON text holds."""

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "loss": float("inf")}


class TestUnits:
    def test_pure(self, ledger: Ledger) -> None:
        approximate = Guarantee(Fraction(1, 10), exact_delta=Fraction(1, 10**9))
        with pytest.raises(GuaranteeMismatchError, match="needs a guarantee with δ = 0"):
            ledger.spend("survey", approximate, lambda: "", plan=PLAN)

    def test_approximate(self, ledger: Ledger) -> None:
        ledger.create("a", epsilon=1, delta="2e-6")
        one = Guarantee(Fraction(1, 4), exact_delta=Fraction(1, 10**6))
        for _ in range(2):
            ledger.spend("a", one, lambda: "", plan=PLAN)
        assert ledger.show("a").remaining == Budget(Fraction(1, 2), Fraction(0))
        with pytest.raises(BudgetExceededError, match="δ"):
            ledger.spend("a", one, lambda: "", plan=PLAN)
        ledger.spend("a", HALF, lambda: "", plan=PLAN)
        assert ledger.show("a").remaining == Budget(Fraction(0), Fraction(0))

    def test_zcdp(self, ledger: Ledger) -> None:
        ledger.create("z", zcdp="1/4")
        assert ledger.spend("z", HALF, lambda: "", plan=PLAN).charged == Budget(zcdp=Fraction(1, 8))
        gauss = Guarantee(Fraction(3), exact_delta=Fraction(1, 10**6), curve=Gaussian(Fraction(1, 50)))
        assert ledger.spend("z", gauss, lambda: "", plan=PLAN).charged == Budget(zcdp=Fraction(1, 100))
        cheaper = Guarantee(Fraction(1, 100), curve=Gaussian(Fraction(1, 50)))  # ε²/2 is less than its ρ
        assert ledger.price("z", cheaper).asked == Budget(zcdp=Fraction(1, 20_000))
        with pytest.raises(GuaranteeMismatchError, match="ρ of zCDP"):
            ledger.price("z", Guarantee(Fraction(1), exact_delta=Fraction(1, 100)))

    def test_a_curve_is_priced_by_what_it_knows(self, ledger: Ledger) -> None:
        gauss = Guarantee(None, curve=Gaussian(Fraction(1, 50)))
        ledger.create("z", zcdp=1)
        assert ledger.spend("z", gauss, lambda: "", plan=PLAN).charged == Budget(zcdp=Fraction(1, 100))
        ledger.create("a", epsilon=5, delta="1e-5")
        with pytest.raises(GuaranteeMismatchError, match=r"to_dp\(delta\)"):
            ledger.spend("a", gauss, lambda: "", plan=PLAN)
        pair = gauss.to_dp("1e-6")
        assert ledger.spend("a", pair, lambda: "", plan=PLAN).charged == Budget(
            pair.exact_epsilon, Fraction(1, 10**6)
        )
        ledger.verify()

    def test_no_guarantee_no_price(self, ledger: Ledger) -> None:
        for bad in (Guarantee(None), Guarantee(Fraction(1), exact_delta=Fraction(1))):
            with pytest.raises(NotPrivateError):
                ledger.spend("survey", bad, lambda: pytest.fail("computed"), plan=PLAN)

    def test_relations_do_not_mix(self, ledger: Ledger) -> None:
        add = Guarantee(Fraction(1, 4), Relation.ADD_REMOVE)
        with pytest.raises(GuaranteeMismatchError, match=r"add-remove.*replace-one"):
            ledger.spend("survey", add, lambda: pytest.fail("computed"), plan=PLAN)
        ledger.create("people", epsilon=1, relation="add-remove")
        ledger.spend("people", add, lambda: "", plan=PLAN)
        with pytest.raises(GuaranteeMismatchError):
            ledger.price("people", HALF)

    def test_two_keys_of_people_do_not_add_up(self, ledger: Ledger) -> None:
        """A patient with ten visits has ½ + 10·½ and not ½ + ½."""
        patient, visit = (HALF.for_unit(unit) for unit in ("patient", "visit"))
        ledger.create("hospital", epsilon=6, relation="replace-person")
        assert ledger.show("hospital").unit is None
        ledger.spend("hospital", patient, lambda: "", plan=PLAN)
        assert ledger.show("hospital").to_dict()["unit"] == "patient"
        before = state(ledger)
        for other in (visit, HALF, Guarantee(Fraction(1, 2), Relation.REPLACE_PERSON)):
            with pytest.raises(GuaranteeMismatchError, match=r"'patient'.*for_unit"):
                ledger.spend("hospital", other, lambda: pytest.fail("computed"), plan=PLAN)
            with pytest.raises(GuaranteeMismatchError):
                ledger.price("hospital", other)
        assert state(ledger) == before
        bounded = visit.for_unit("patient", at_most=10, note="a patient has at most ten visits")
        ledger.spend("hospital", bounded, lambda: "", plan=PLAN)
        assert ledger.show("hospital").spent == Budget(Fraction(11, 2))
        ledger.create("visits", epsilon=6, relation="replace-person", unit="visit")
        with pytest.raises(GuaranteeMismatchError):
            ledger.price("visits", patient)
        with pytest.raises(GuaranteeMismatchError):
            ledger.price("visits", visit, patient)
        with pytest.raises(InvalidInputError, match="unit"):
            ledger.create("records", epsilon=6, unit="visit")
        ledger.verify()

    def test_two_keys_in_one_price_do_not_add_up_either(self, ledger: Ledger) -> None:
        ledger.create("hospital", epsilon=6, relation="replace-person")
        with pytest.raises(GuaranteeMismatchError):
            ledger.price("hospital", HALF.for_unit("patient"), HALF.for_unit("visit"))

    def test_a_charge_without_a_unit_is_taken_for_that_of_the_first_that_names_one(
        self, ledger: Ledger
    ) -> None:
        ledger.create("people", epsilon=2, relation="replace-person")
        ledger.spend("people", Guarantee(Fraction(1, 2), Relation.REPLACE_PERSON), lambda: "", plan=PLAN)
        with pytest.warns(PrivacyWarning, match="assumed to be for the unit 'patient'"):
            ledger.spend("people", HALF.for_unit("patient"), lambda: "", plan=PLAN)
        ledger.spend("people", HALF.for_unit("patient"), lambda: "", plan=PLAN)
        ledger.verify()

    def test_a_budget_within_groups_takes_whole_records_and_not_the_reverse(self, ledger: Ledger) -> None:
        within = HALF.within_group("the region of every record is public")
        with pytest.raises(GuaranteeMismatchError, match=r"within-group.*replace-one"):
            ledger.spend("survey", within, lambda: pytest.fail("computed"), plan=PLAN)
        ledger.create("regions", epsilon=1, relation="within-group")
        for guarantee in (within, HALF):
            ledger.spend("regions", guarantee, lambda: "", plan=PLAN)
        assert ledger.show("regions").remaining == Budget(Fraction(0))
        ledger.verify()

    def test_times_tell_no_running_time(self, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
        """A computation that ends in the next hour, or that a later one overtakes, shows neither."""

        class Clock(datetime):
            at = datetime(2030, 1, 1, 12, 59, 58, 123456, tzinfo=UTC)

            @classmethod
            def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
                return cls.at

        def slow() -> str:
            Clock.at = datetime(2030, 1, 1, 13, 7, tzinfo=UTC)
            return ""

        monkeypatch.setattr(book, "datetime", Clock)
        ledger.spend("survey", Guarantee(Fraction(1, 4)), slow, plan=PLAN)
        ledger.spend("survey", Guarantee(Fraction(1, 4)), lambda: "", plan=PLAN)
        earlier = datetime(2030, 1, 1, 11, 30, tzinfo=UTC)
        ledger.spend("survey", Guarantee(Fraction(1, 4)), lambda: "", plan=PLAN, begun=earlier)
        times = [entry.time for entry in ledger.history("survey")][1:]
        assert times == ["2030-01-01T12:00+00:00", *["2030-01-01T13:00+00:00"] * 2]
        assert ledger.verify().notes == ()

    def test_price_spends_nothing(self, ledger: Ledger) -> None:
        before = state(ledger)
        assert ledger.price("survey", HALF, HALF).fits
        price = ledger.price("survey", HALF, HALF, Guarantee(Fraction(1, 10**9)))
        assert (price.fits, price.asked) == (False, Budget(1 + Fraction(1, 10**9)))
        assert state(ledger) == before

    def test_numbers_that_no_text_holds_are_refused(self, ledger: Ledger) -> None:
        ledger.create("large", epsilon="1e6")
        before = state(ledger)
        with pytest.raises(InvalidInputError, match="digits"):
            ledger.spend("large", Guarantee(Fraction(1, 3**9000)), lambda: "", plan=PLAN)
        assert state(ledger) == before

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (Fraction(1), "1"),
            (Fraction(1, 2), "0.5"),
            (Fraction(1, 10**6), "1e-6"),
            (Fraction(1, 10**9), "1e-9"),
            (Fraction(0), "0"),
            (Fraction(1, 3), "1/3 (≈ 0.333333)"),
            (Fraction(1, 3**60), "≈ 2.35898e-29"),
            (Fraction(10**400), "≈ very large"),
        ],
    )
    def test_readable(self, value: Fraction, text: str) -> None:
        assert budgets.readable(value) == text


class TestDatasets:
    def test_several_datasets_in_one_chain(self, ledger: Ledger) -> None:
        ledger.create("b", epsilon=2)
        ledger.spend("b", HALF, lambda: "", plan=PLAN)
        assert ledger.datasets() == ["survey", "b"]
        assert ledger.show("survey").spent == Budget(Fraction(0))
        assert ledger.verify().entries == 3

    def test_unknown_name(self, ledger: Ledger) -> None:
        for call in (
            lambda name: ledger.show(name),
            lambda name: ledger.history(name),
            lambda name: ledger.price(name, HALF),
            lambda name: ledger.set_cap(name, epsilon=2),
            lambda name: ledger.spend(name, HALF, lambda: pytest.fail("computed"), plan=PLAN),
        ):
            with pytest.raises(UnknownDatasetError, match=r"dataset='surwey'.*did you mean 'survey'"):
                call("surwey")
        with pytest.raises(UnknownDatasetError, match="create it first"):
            ledger.show("x" * 20)

    def test_the_cap_can_change_but_not_below_what_is_spent(self, ledger: Ledger) -> None:
        ledger.spend("survey", HALF, lambda: "", plan=PLAN)
        with pytest.raises(BudgetExceededError, match=r"0\.5 is spent already") as refused:
            ledger.set_cap("survey", epsilon="0.49")
        assert refused.value.spent == Budget(Fraction(1, 2))
        assert ledger.set_cap("survey", epsilon="0.5").remaining == Budget(Fraction(0))
        assert ledger.set_cap("survey", epsilon=3).remaining == Budget(Fraction(5, 2))
        assert ledger.set_cap("survey", epsilon=3).entries == 4
        assert [entry.kind for entry in ledger.history("survey")] == ["create", "charge", "cap", "cap"]
        with pytest.raises(InvalidInputError, match="cannot change to zcdp"):
            ledger.set_cap("survey", zcdp=1)
        ledger.verify()

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ({}, "give one of these three"),
            ({"epsilon": 1, "zcdp": 1}, "give one of these three"),
            ({"delta": 0.1}, "give one of these three"),
            ({"zcdp": 1, "delta": 0.1}, "give one of these three"),
            ({"epsilon": 0}, "epsilon=0 must be positive"),
            ({"epsilon": "much"}, "epsilon='much' is not a number"),
            ({"epsilon": 1, "delta": 1}, "delta=1 must be below 1"),
            ({"epsilon": 1, "delta": -1}, "delta=-1 must be positive"),
            ({"zcdp": "inf"}, "zcdp='inf' must be finite"),
            ({"epsilon": 1, "relation": "swap"}, "relation='swap' must be one of: replace-one"),
        ],
    )
    def test_bad_caps(self, values: dict[str, Any], message: str, ledger: Ledger) -> None:
        with pytest.raises(InvalidInputError, match=message):
            ledger.create("new", **values)
        assert ledger.datasets() == ["survey"]

    def test_bad_names_and_plans(self, ledger: Ledger) -> None:
        for name in ("", " x", "x\n", "x" * 201, "a\0b", None, 3):
            with pytest.raises(InvalidInputError, match="dataset="):
                ledger.create(name, epsilon=1)  # type: ignore[arg-type]
            if name is not None:
                with pytest.raises(InvalidInputError, match="request_id="):
                    ledger.spend("survey", HALF, lambda: "", plan=PLAN, request_id=name)  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError, match="exists already with the cap ε = 1"):
            ledger.create("survey", epsilon=1)
        for plan in ({"a": {1, 2}}, {"a": float("nan")}, [1], {"a": object()}):
            with pytest.raises(InvalidInputError, match="plan must"):
                ledger.spend("survey", HALF, lambda: "", plan=plan)  # type: ignore[arg-type]
        endless = Unwritable(Fraction(1, 2))
        with pytest.raises(InvalidInputError, match="guarantee must hold finite"):
            ledger.spend("survey", endless, lambda: pytest.fail("computed"), plan=PLAN)
        with pytest.raises(InvalidInputError, match="timeout=0"):
            Ledger("l.db", timeout=0)


class TestAddresses:
    def test_paths_and_urls_name_the_same_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        with Ledger("sqlite:///a b#.db") as one:
            one.create("survey", epsilon=1)
        for address in ("a b#.db", tmp_path / "a b#.db", f"sqlite:///{tmp_path}/a b#.db"):
            with Ledger(address) as again:
                assert again.datasets() == ["survey"]
        assert stat.S_IMODE((tmp_path / "a b#.db").stat().st_mode) == 0o600

    @pytest.mark.parametrize(
        ("address", "message"),
        [
            ("", "url is empty"),
            ("sqlite://", "must be kept"),
            ("sqlite:///:memory:", "must be kept"),
            (":memory:", "must be kept"),
            ("sqlite:///l.db?mode=ro", "no options"),
            ("mysql://u:hunter2@h/d", "SQLite .* or PostgreSQL"),
            ("nonsense://x", "SQLite .* or PostgreSQL"),
            ("://", "not a database address"),
            (7, "must be a path"),
        ],
    )
    def test_bad_addresses(self, address: Any, message: str) -> None:
        with pytest.raises(InvalidInputError, match=message) as refused:
            Ledger(address)
        assert "hunter2" not in str(refused.value)

    def test_nothing_is_made_by_looking(self, tmp_path: Path) -> None:
        missing = Ledger(tmp_path / "none.db")
        for call in (missing.datasets, missing.verify, lambda: missing.show("x")):
            with pytest.raises(LedgerError, match=r"there is no ledger .*discreet ledger create"):
                call()
        with pytest.raises(LedgerError, match="is a folder"):
            Ledger(tmp_path).create("x", epsilon=1)
        with pytest.raises(LedgerError, match="cannot be opened"):
            Ledger(tmp_path / "no" / "folder.db").create("x", epsilon=1)
        assert os.listdir(tmp_path) == []
        sqlite3.connect(tmp_path / "other.db").close()
        with pytest.raises(LedgerError, match="holds no ledger"):
            Ledger(tmp_path / "other.db").datasets()

    def test_postgresql_without_its_driver(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "psycopg", None)
        with pytest.raises(LedgerError, match=r"\[postgres\]"):
            Ledger("postgresql://localhost/x")

    def test_postgresql_out_of_reach_shows_no_password(self) -> None:
        pytest.importorskip("psycopg")
        ledger = Ledger("postgresql://u:hunter2@127.0.0.1:1/none", timeout=0.2)
        with pytest.raises(LedgerError, match="cannot be reached") as failed:
            ledger.datasets()
        assert "hunter2" not in str(failed.value) + repr(ledger)

    @pytest.mark.parametrize("option", ["password", "sslpassword", "PASSWORD", "options", "passfile"])
    def test_no_secret_after_the_question_mark_is_shown(self, option: str) -> None:
        pytest.importorskip("psycopg")
        ledger = Ledger(f"postgresql://u@127.0.0.1:1/none?{option}=hunter2&host=db", timeout=0.1)
        with pytest.raises(LedgerError) as failed:
            ledger.datasets()
        assert "hunter2" not in str(failed.value) + repr(failed.value.args) + repr(ledger)
        assert "host=db" in repr(ledger)
        with pytest.raises(InvalidInputError) as refused:
            Ledger("sqlite:///l.db?password=hunter2")
        assert "hunter2" not in str(refused.value)


class TestChain:
    """Damage to the tables: ``verify`` names the first bad row, and nothing is charged on top of it."""

    @pytest.fixture
    def filled(self, ledger: Ledger) -> Ledger:
        for i in range(4):
            ledger.spend(
                "survey", Guarantee(Fraction(1, 8)), lambda i=i: f"r{i}", plan={"q": i}, request_id=f"q{i}"
            )
        return ledger

    @pytest.mark.parametrize(
        "change",
        [
            'spent = \'{"epsilon":"0"}\'',
            'charged = \'{"epsilon":"0"}\'',
            'cap = \'{"epsilon":"9"}\'',
            'cap = \'{"epsilon": "1"}\'',
            "cap = 'x'",
            "cap = '[]'",
            "result = x'00'",
            "result = NULL",
            "plan = '{\"q\":9}'",
            "plan_hash = 'x'",
            "request_id = 'q9'",
            "dataset = 'other'",
            "relation = 'add-remove'",
            "guarantee = '{}'",
            "kind = 'cap'",
            "time = '2000'",
            "previous = hash",
            "hash = 'x'",
        ],
    )
    def test_an_edit_of_any_column(self, change: str, filled: Ledger) -> None:
        raw(filled, *UNSEALED, f"UPDATE discreet_entries SET {change} WHERE sequence = 3")
        with pytest.raises(CorruptLedgerError, match="broken at row 3") as found:
            filled.verify()
        assert found.value.row == 3

    def test_a_row_removed_or_moved(self, filled: Ledger) -> None:
        raw(filled, *UNSEALED, "DELETE FROM discreet_entries WHERE sequence = 3")
        with pytest.raises(CorruptLedgerError, match="row 3: the row is missing"):
            filled.verify()
        raw(filled, "UPDATE discreet_entries SET sequence = 3 WHERE sequence = 4")
        with pytest.raises(CorruptLedgerError, match="broken at row 3"):
            filled.verify()

    def test_a_damaged_newest_row_stops_spending(self, filled: Ledger) -> None:
        raw(filled, *UNSEALED, 'UPDATE discreet_entries SET spent = \'{"epsilon":"0"}\' WHERE sequence = 5')
        with pytest.raises(CorruptLedgerError, match="row 5"):
            filled.spend("survey", HALF, lambda: pytest.fail("computed"), plan=PLAN)

    def test_a_rehashed_lie_breaks_the_next_row(self, filled: Ledger) -> None:
        entry = filled.history("survey")[2]
        forged = chain.replace(entry, result=b"forged").with_hash()
        connection = sqlite3.connect(file_of(filled))
        for statement in UNSEALED:
            connection.execute(statement)
        connection.execute(
            "UPDATE discreet_entries SET result = ?, hash = ? WHERE sequence = 3", (b"forged", forged.hash)
        )
        connection.commit()
        connection.close()
        with pytest.raises(CorruptLedgerError, match="row 4: it does not continue"):
            filled.verify()

    def test_the_rules_hold_also_for_a_consistent_chain(self, filled: Ledger) -> None:
        """A chain whose hashes are all right, and whose content nobody may have charged."""
        good = filled.history("survey")

        def rebuilt(change: dict[int, dict[str, Any]]) -> Iterator[chain.Entry]:
            previous = chain.ROOT
            for entry in good:
                entry = chain.replace(entry, **change.get(entry.sequence, {}), previous=previous).with_hash()
                previous = entry.hash
                yield entry

        zero, tenth = Budget(Fraction(0)), Budget(Fraction(1, 10))
        assert len(list(chain.check_chain(rebuilt({})))) == 5
        for change, message in (
            ({3: {"charged": zero}}, "add up"),
            ({3: {"charged": tenth, "spent": good[1].spent + tenth}}, "the amount charged differs"),
            ({3: {"cap": Budget(Fraction(2))}}, "changed the cap"),
            ({3: {"request_id": "q0"}}, "charged already"),
            ({3: {"relation": "add-remove"}}, "relation"),
            ({3: {"guarantee": {**HALF.to_dict(), "relation": "add-remove"}}}, "another relation"),
            ({3: {"plan": {}}}, "plan hash"),
            ({3: {"result": None}}, "missing"),
            ({3: {"kind": "gift"}}, "kind is unknown"),
            ({3: {"kind": "create"}}, "created twice"),
            ({3: {"dataset": "b"}}, "or never"),
            ({3: {"charged": Budget(zcdp=Fraction(1))}}, "different units"),
            ({1: {"spent": tenth}}, "has spent something"),
            (
                {5: {"spent": Budget(Fraction(3)), "charged": Budget(Fraction(3)) - good[3].spent}},
                "exceeds the cap",
            ),
            ({3: {"sequence": 7}}, "the row is missing"),
        ):
            with pytest.raises(CorruptLedgerError, match=message) as found:
                list(chain.check_chain(rebuilt(change)))
            assert found.value.row == next(iter(change))

    def test_prices_in_zcdp_are_recomputed(self, ledger: Ledger) -> None:
        ledger.create("z", zcdp=1)
        ledger.spend("z", Guarantee(Fraction(1)), lambda: "", plan=PLAN)
        good = ledger.history("z")
        first = chain.replace(good[0], sequence=1, previous=chain.ROOT).with_hash()
        for rho, sound in (("1/2", True), ("0", False), ("1/3", False)):
            amount = Budget(zcdp=Fraction(rho))
            second = chain.replace(
                good[1], sequence=2, previous=first.hash, charged=amount, spent=amount
            ).with_hash()
            if sound:
                assert len(list(chain.check_chain([first, second]))) == 2
            else:
                with pytest.raises(CorruptLedgerError, match="the amount charged differs"):
                    list(chain.check_chain([first, second]))

    def test_no_amount_is_negative(self) -> None:
        for hostile in ("-3", "nan", "1e-99999999"):
            with pytest.raises(InvalidInputError):
                Budget.from_dict({"epsilon": hostile})
        with pytest.raises(InvalidInputError):
            Budget(Fraction(1)) - Budget(Fraction(2))

    def test_the_seat_belt(self, filled: Ledger) -> None:
        for statement in ("UPDATE discreet_entries SET spent = '0'", "DELETE FROM discreet_entries"):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                raw(filled, statement)
        filled.verify()

    def test_a_rollback_needs_a_hash_kept_elsewhere(self, filled: Ledger, tmp_path: Path) -> None:
        filled.close()  # a checkpoint: the file alone is the ledger
        old = file_of(filled).read_bytes()
        receipt = filled.spend("survey", HALF, lambda: "x", plan=PLAN)
        assert filled.verify(expect=receipt.hash).entries == 6
        filled.close()
        file_of(filled).write_bytes(old)
        assert filled.verify().entries == 5
        with pytest.raises(CorruptLedgerError, match="older copy"):
            filled.verify(expect=receipt.hash)
        with pytest.raises(CorruptLedgerError, match="older copy"):
            filled.verify(expect=[filled.show("survey").head, receipt.hash])

    def test_a_clock_set_back_is_a_note(self, filled: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
        class Past(datetime):
            @classmethod
            def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
                return datetime(2001, 1, 1, tzinfo=UTC)

        assert filled.verify().notes == ()
        monkeypatch.setattr(book, "datetime", Past)
        filled.spend("survey", HALF, lambda: "x", plan=PLAN)
        assert [entry.sequence for entry in filled.history("survey")] == [1, 2, 3, 4, 5, 6]
        (note,) = filled.verify().notes
        assert note.startswith("row 6: the clock had been set back")


class TestExport:
    @pytest.fixture
    def exported(self, ledger: Ledger, tmp_path: Path) -> Path:
        ledger.spend(
            "survey", Guarantee(Fraction(1, 3)), lambda: bytes(range(7)), plan={"q": "é"}, request_id="q1"
        )
        ledger.set_cap("survey", epsilon=2)
        found = ledger.export(tmp_path / "l.jsonl")
        assert found == ledger.verify()
        return tmp_path / "l.jsonl"

    def test_it_holds_the_whole_ledger(self, exported: Path, ledger: Ledger) -> None:
        header, *lines, last = exported.read_text().splitlines()
        assert json.loads(header) == {"format": "discreet/ledger", "version": 1}
        assert json.loads(last)["entries"] == 3
        entries = [chain.Entry.from_dict(json.loads(line)) for line in lines]
        assert entries == ledger.history("survey")
        assert Ledger.verify_export(exported, expect=ledger.show("survey").head).entries == 3
        with pytest.raises(CorruptLedgerError, match="older copy"):
            Ledger.verify_export(exported, expect="0" * 64)

    @pytest.mark.parametrize("stride", [11, pytest.param(1, marks=pytest.mark.slow)])
    def test_every_single_bit_counts(self, exported: Path, tmp_path: Path, stride: int) -> None:
        content = bytearray(exported.read_bytes())
        ends = [i for i, byte in enumerate(content) if byte == 10]
        flipped = tmp_path / "flipped.jsonl"
        for bit in range(0, 8 * len(content), stride):
            content[bit // 8] ^= 1 << bit % 8
            flipped.write_bytes(content)
            with pytest.raises(CorruptLedgerError) as found:
                Ledger.verify_export(flipped)
            content[bit // 8] ^= 1 << bit % 8
            line = sum(end < bit // 8 for end in ends)
            if 1 <= line <= 3 and bit // 8 not in ends:  # inside an entry: the message says which
                assert found.value.row == line
        print(f"{8 * len(content) // stride:,} single-bit flips of an export: all found")

    def test_cut_and_joined_files(self, exported: Path) -> None:
        lines = exported.read_bytes().splitlines(keepends=True)
        for wrong in (
            [],
            lines[:1],
            lines[:-1],
            lines[:3] + lines[4:],
            [*lines, b"\n"],
            [*lines, lines[-1]],
            [lines[0], lines[2], lines[1], *lines[3:]],
            [b"[" * 100_000],
            [lines[0], b"[" * 100_000 + b"\n", lines[-1]],
        ):
            exported.write_bytes(b"".join(wrong))
            with pytest.raises(CorruptLedgerError):
                Ledger.verify_export(exported)

    def test_files_that_are_in_the_way(self, exported: Path, ledger: Ledger, tmp_path: Path) -> None:
        before = exported.read_bytes()
        ledger.create("more", epsilon=1)
        with pytest.raises(FileError, match="exists already"):
            ledger.export(exported)
        assert exported.read_bytes() == before
        assert ledger.export(exported, overwrite=True).entries == 4
        with pytest.raises(FileError, match="cannot be written"):
            ledger.export(tmp_path / "none" / "l.jsonl")
        with pytest.raises(FileError, match="cannot be read"):
            Ledger.verify_export(tmp_path / "none.jsonl")
        assert not list(tmp_path.glob(".*tmp"))

    @pytest.mark.parametrize(
        "line",
        [
            b'{"delta":"1e-99999999"}',
            b"[" * 10**6,
            b'{"a":' * 400 + b"1" + b"}" * 400,
            b'{"sequence":1,"sequence":1}',
            b"x" * 10**7,
        ],
        ids=["exponent", "brackets", "nested", "twice", "long"],
    )
    def test_a_hostile_export_ends_quickly(self, line: bytes, exported: Path, tmp_path: Path) -> None:
        lines = exported.read_bytes().splitlines(keepends=True)
        hostile = tmp_path / "hostile.jsonl"
        hostile.write_bytes(lines[0] + line + b"\n" + b"".join(lines[1:]))
        with processor_seconds(5), pytest.raises(CorruptLedgerError):
            Ledger.verify_export(hostile)
        changed = lines[2].replace(b'"epsilon":"', b'"epsilon":"1e-99999999', 1)
        assert changed != lines[2]
        hostile.write_bytes(lines[0] + lines[1] + changed + b"".join(lines[3:]))
        with processor_seconds(5), pytest.raises(CorruptLedgerError):
            Ledger.verify_export(hostile)

    def test_a_damaged_ledger_is_not_exported(self, ledger: Ledger, tmp_path: Path) -> None:
        raw(ledger, *UNSEALED, "UPDATE discreet_entries SET time = 'never'")
        with pytest.raises(CorruptLedgerError, match="row 1"):
            ledger.export(tmp_path / "l.jsonl")
        assert not (tmp_path / "l.jsonl").exists()


class TestVersions:
    def test_an_older_ledger_is_brought_up_to_date(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Version 1 had no seat belt; its entries stay as they are."""
        path = tmp_path / "old.db"
        with monkeypatch.context() as past:
            past.setattr(store, "MIGRATIONS", store.MIGRATIONS[:1])
            past.setattr(store, "VERSION", 1)
            with Ledger(path) as old:
                old.create("survey", epsilon=1)
                receipt = old.spend("survey", HALF, lambda: "x", plan=PLAN, request_id="q1")
                assert raw(old, "SELECT version FROM discreet_ledger") == [(1,)]
                raw(old, "UPDATE discreet_ledger SET id = id")
                assert raw(old, "SELECT count(*) FROM sqlite_master WHERE type = 'trigger'") == [(0,)]
        with Ledger(path) as new:
            assert new.recall("survey", "q1", plan=PLAN).result == b"x"  # type: ignore[union-attr]
            assert raw(new, "SELECT version FROM discreet_ledger") == [(store.VERSION,)]
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                raw(new, "DELETE FROM discreet_entries")
            assert new.verify(expect=receipt.hash).entries == 2

    def test_a_failed_migration_changes_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fails(connection: sa.Connection) -> None:
            connection.exec_driver_sql("CREATE TABLE half (x)")
            connection.exec_driver_sql("nonsense")

        with Ledger(tmp_path / "l.db") as ledger:
            ledger.create("survey", epsilon=1)
        monkeypatch.setattr(store, "MIGRATIONS", (*store.MIGRATIONS, fails))
        monkeypatch.setattr(store, "VERSION", 3)
        with Ledger(tmp_path / "l.db") as ledger:
            with pytest.raises(LedgerError):
                ledger.datasets()
            assert raw(ledger, "SELECT version FROM discreet_ledger") == [(2,)]
            assert raw(ledger, "SELECT count(*) FROM sqlite_master WHERE name = 'half'") == [(0,)]

    def test_a_newer_ledger_is_refused(self, ledger: Ledger) -> None:
        raw(ledger, "UPDATE discreet_ledger SET version = 99")
        with Ledger(file_of(ledger)) as fresh:
            for call in (fresh.datasets, fresh.verify, lambda: fresh.create("x", epsilon=1)):
                with pytest.raises(LedgerError, match=r"version 99 .* update discreet"):
                    call()
        with pytest.raises(LedgerError, match="version 99"):  # also in the middle of a session
            ledger.spend("survey", HALF, lambda: "", plan=PLAN)


class TestTrouble:
    """A database that is locked, read-only, full or no database: a refusal, and the state is as before."""

    def test_locked(self, ledger: Ledger) -> None:
        before = state(ledger)
        holder = sqlite3.connect(file_of(ledger), isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        with Ledger(file_of(ledger), timeout=0.1) as hasty:
            with pytest.raises(LedgerError, match=r"locked.*0\.1 s.*request_id='q1'") as refused:
                hasty.spend("survey", HALF, lambda: "x", plan=PLAN, request_id="q1")
            assert refused.value.request_id == "q1"
            assert hasty.show("survey").spent == Budget(Fraction(0))  # readers are not locked out
        holder.execute("ROLLBACK")
        holder.close()
        assert state(ledger) == before

    def test_full(
        self, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("DEBUG", logger="sqlalchemy.engine")
        before = state(ledger)
        pages = raw(ledger, "PRAGMA page_count")[0][0]
        opened = store.Store.open_sqlite

        def small(self: store.Store) -> Any:
            connection = opened(self)
            connection.execute(f"PRAGMA max_page_count = {pages + 1}")
            return connection

        monkeypatch.setattr(store.Store, "open_sqlite", small)
        with Ledger(file_of(ledger)) as cramped, pytest.raises(LedgerError, match="disk is full") as refused:
            cramped.spend("survey", HALF, lambda: "SECRET" * 10_000, plan=PLAN)
        assert "INSERT INTO discreet_entries" in caplog.text
        assert "SECRET" not in str(refused.value) + caplog.text
        assert refused.value.__cause__ is None
        assert state(ledger) == before
        monkeypatch.undo()
        request = str(refused.value.request_id)
        assert ledger.spend("survey", HALF, lambda: "x", plan=PLAN, request_id=request).repeated is False

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="needs users of a Unix system")
    def test_read_only(self, ledger: Ledger, tmp_path: Path) -> None:
        before = state(ledger)
        ledger.close()
        file_of(ledger).chmod(0o444)
        for parent in (tmp_path, *tmp_path.parents[:3]):
            if parent.stat().st_uid == os.getuid():
                parent.chmod(parent.stat().st_mode | 0o055)

        def work() -> None:
            if os.getuid() == 0:
                os.setuid(65534)  # root may write anything
            for mode in (0o777, 0o555):
                with pytest.raises(LedgerError, match=r"read-only|cannot be opened"):
                    ledger.spend("survey", HALF, lambda: "x", plan=PLAN)
                if os.getuid() == tmp_path.stat().st_uid:
                    tmp_path.chmod(mode)

        assert drivers.status_of(drivers.fork(work)) == 0
        tmp_path.chmod(0o755)
        file_of(ledger).chmod(0o644)
        assert state(ledger) == before

    def test_damaged_files(self, ledger: Ledger) -> None:
        ledger.close()
        content = file_of(ledger).read_bytes()
        for wrong in (b"not a database" * 500, content[:100] + os.urandom(len(content) - 100)):
            file_of(ledger).write_bytes(wrong)
            with Ledger(file_of(ledger)) as damaged, pytest.raises(LedgerError) as found:
                damaged.verify()
            assert "damaged" in str(found.value) or isinstance(found.value, CorruptLedgerError)

    def test_a_file_that_vanishes_or_is_replaced_takes_no_charge(self, ledger: Ledger) -> None:
        path = file_of(ledger)
        ledger.spend("survey", Guarantee(Fraction(1, 8)), lambda: "x", plan=PLAN)
        ledger.close()
        ledger.show("survey")  # open again, and nothing written
        path.rename(path.with_name("moved.db"))
        for _ in range(2):
            with pytest.raises(LedgerError, match="removed or replaced"):
                ledger.spend("survey", HALF, lambda: "x", plan=PLAN)
        path.write_bytes(b"")
        with pytest.raises(LedgerError, match="removed or replaced"):
            ledger.spend("survey", HALF, lambda: "x", plan=PLAN)
        path.unlink()
        path.with_name("moved.db").rename(path)
        assert len(ledger.history("survey")) == 2
        ledger.close()
        path.unlink()
        with pytest.raises(LedgerError, match="cannot be opened"):
            ledger.spend("survey", HALF, lambda: "x", plan=PLAN)
        assert not path.exists()

    def test_another_working_folder_is_not_another_ledger(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        ledger = Ledger("l.db")
        (tmp_path / "sub").mkdir()
        monkeypatch.chdir(tmp_path / "sub")
        ledger.create("survey", epsilon=1)
        ledger.close()
        assert os.listdir() == []
        assert ledger.datasets() == ["survey"]
        ledger.close()

    def test_wal_and_full_on_every_connection(self, ledger: Ledger) -> None:
        connection = ledger._store.open_sqlite()
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
        connection.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
class TestProcesses:
    def test_a_forked_child_uses_no_connection_of_its_parent(self, ledger: Ledger) -> None:
        ledger.spend("survey", Guarantee(Fraction(1, 4)), lambda: "x", plan=PLAN)
        engine = ledger._store._engine

        def work() -> None:
            assert ledger._store._engine is None
            ledger.spend("survey", Guarantee(Fraction(1, 4)), lambda: "y", plan=PLAN)
            assert ledger._store._engine is not engine

        assert drivers.status_of(drivers.fork(work)) == 0
        ledger.spend("survey", Guarantee(Fraction(1, 4)), lambda: "z", plan=PLAN)
        assert ledger.show("survey").spent == Budget(Fraction(3, 4))
        ledger.verify()

    def test_kill_at_each_step(self, ledger: Ledger) -> None:
        seen = drivers.Killed()
        for i in range(5):
            for label in (*drivers.STEPS, None):
                drivers.kill_at(ledger, label, f"{label}-{i}", seen)
        assert seen.deaths == 5 * len(drivers.STEPS)
        verdict = drivers.judge(ledger, seen)
        assert verdict == drivers.Verdict(uncharged=0, lost=0, charged_not_delivered=5, delivered_by_retry=5)
        assert set(seen.delivered) == {f"None-{i}" for i in range(5)}

    def test_the_judge_sees_an_uncharged_release_and_a_lost_charge(self, ledger: Ledger) -> None:
        seen = drivers.Killed(delivered={"q": b"x"}, committed={"q"}, asked={"q"})
        verdict = drivers.judge(ledger, seen)
        assert (verdict.uncharged, verdict.lost) == (1, 1)

    def test_a_race_for_the_cap(self, tmp_path: Path) -> None:
        with Ledger(tmp_path / "race.db") as ledger:
            ledger.create("survey", epsilon=1)
            won = drivers.race(ledger, processes=4, spends=40, cost=Fraction(1, 100))
            assert won == 100
            assert ledger.show("survey").remaining == Budget(Fraction(0))
            assert ledger.verify().entries == 101

    def test_several_processes_make_the_same_ledger(self, tmp_path: Path) -> None:
        ledger = Ledger(tmp_path / "new.db")
        children = [
            drivers.fork(lambda i=i: ledger.create(f"d{i}", epsilon=1).spent and None) for i in range(6)
        ]
        assert [drivers.status_of(child) for child in children] == [0] * 6
        assert sorted(ledger.datasets()) == [f"d{i}" for i in range(6)]
        assert ledger.verify().entries == 6
        ledger.close()


LEVELS = ("no", "yes")


class TestRelease:
    def test_it_is_charged_and_stored(self, ledger: Ledger) -> None:
        made = shorthand.shares(
            {"no": 70, "yes": 30},
            levels=LEVELS,
            epsilon="1/2",
            ledger=ledger,
            dataset="survey",
            request_id="q1",
        )
        assert made.receipt is not None
        assert made.receipt.result.decode() == made.to_json()
        assert ledger.show("survey").spent == Budget(Fraction(1, 2))
        entry = ledger.history("survey")[-1]
        assert entry.plan is not None
        assert entry.plan["epsilon"] == "1/2"
        assert entry.guarantee == made.guarantee.to_dict()

    @pytest.mark.parametrize("n", [None, 100])
    def test_a_retry_does_not_open_the_data(self, n: int | None, ledger: Ledger) -> None:
        ask: dict[str, Any] = {
            "levels": LEVELS, "epsilon": 1, "n": n, "ledger": ledger, "dataset": "survey", "request_id": "q1"
        }  # fmt: skip
        made = shorthand.shares({"no": 70, "yes": 30}, **ask)
        again = shorthand.shares("no-such-file.csv", **ask)
        assert again == made
        assert again.receipt is not None
        assert again.receipt.repeated
        for other in ({"epsilon": "0.9"}, {"n": 99}, {"prior": 2}, {"mechanism": "lshist"}, {"other": "no"}):
            with pytest.raises(RequestConflictError):
                shorthand.shares("no-such-file.csv", **{**ask, **other})

    def test_refusals_do_not_open_the_data(self, ledger: Ledger) -> None:
        ask: dict[str, Any] = {"levels": LEVELS, "epsilon": 2, "n": 100, "ledger": ledger}
        with pytest.raises(BudgetExceededError):
            shorthand.shares("no-such-file.csv", dataset="survey", **ask)
        with pytest.raises(UnknownDatasetError):
            shorthand.shares("no-such-file.csv", dataset="surve", **{**ask, "n": None})
        with pytest.raises(InvalidInputError, match="dataset is missing"):
            shorthand.shares("no-such-file.csv", **ask)
        with pytest.raises(InvalidInputError, match="belong to a ledger"):
            shorthand.shares("no-such-file.csv", levels=LEVELS, epsilon=1, dataset="survey")

    def test_wrong_data_cost_nothing(self, ledger: Ledger) -> None:
        for n in (None, 2):
            with pytest.raises(DataError):
                shorthand.shares(
                    ["no", "maybe"], levels=LEVELS, epsilon=1, n=n, ledger=ledger, dataset="survey"
                )
        with pytest.raises(InvalidInputError, match="n=5 was declared"):
            shorthand.shares(["no"], levels=LEVELS, epsilon=1, n=5, ledger=ledger, dataset="survey")
        assert ledger.show("survey").entries == 1

    def test_an_address_will_do(self, ledger: Ledger) -> None:
        made = shorthand.shares(
            {"no": 7, "yes": 3}, levels=LEVELS, epsilon=1, ledger=file_of(ledger), dataset="survey"
        )
        assert made.receipt is not None
        assert ledger.show("survey").remaining == Budget(Fraction(0))

    def test_what_is_not_private_is_not_sold(self, ledger: Ledger) -> None:
        with pytest.raises(NotPrivateError):
            shorthand.shares(
                {"no": 7, "yes": 3},
                levels=LEVELS,
                epsilon=1,
                prior=0.1,
                mechanism="ehdl",
                ledger=ledger,
                dataset="survey",
                options={"acknowledge_not_private": True},
            )
        assert ledger.show("survey").entries == 1


def test_an_account_keeps_its_unit(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger.db") as ledger:
        ledger.create("people", epsilon=1, relation="replace-person", unit="patient")
        account = ledger.show("people")
        assert account.unit == "patient"
        assert type(account).from_dict(account.to_dict()) == account


def test_thirty_mixed_charges_together_cost_less_than_their_sum(tmp_path: Path) -> None:
    shares, sums = Guarantee(Fraction(1, 10)), Guarantee(Fraction(1, 10), exact_delta=Fraction(1, 10**9))
    noisy = Guarantee(Fraction(1, 5), exact_delta=Fraction(1, 10**8), curve=Gaussian(Fraction(1, 1000)))
    with Ledger(tmp_path / "ledger.db") as ledger:
        ledger.create("survey", epsilon=5, delta="1e-6")
        assert ledger.together("survey") is None
        for guarantee in [shares, sums, noisy] * 10:
            ledger.spend("survey", guarantee, lambda: "", plan={})
        whole, spent = ledger.together("survey"), ledger.show("survey").spent
    assert whole is not None
    assert spent.epsilon == 4
    assert whole.exact_epsilon == spent.epsilon
    assert whole.exact_delta == spent.delta
    tight = whole.epsilon_at(1e-6)
    assert tight == compose([shares, sums, noisy], 10).epsilon_at(1e-6)
    # By hand: 20 losses of ±0.1 have variance below 0.2 and drift 2 tanh(0.05), the Gaussian ones variance
    # 0.01 and drift 0.005; a normal distribution with these moments has its quantile at 1e-6 near 4.75
    # deviations.
    assert 1.5 < tight < 2.5


def test_the_sum_and_the_tight_figure_are_both_shown(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger.db") as ledger:
        ledger.create("survey", epsilon=5, delta="1e-6")
        for _ in range(30):
            ledger.spend("survey", Guarantee(Fraction(1, 10)), lambda: "", plan={})
    call = ["ledger", "show", "survey", "--ledger", str(tmp_path / "ledger.db")]
    shown = CliRunner().invoke(app, call).stdout
    assert "ε = 3" in shown
    assert "ε = 2.346 at δ = 1e-6, which leaves ε = 2.654, if prices were fixed" in shown
    told = json.loads(CliRunner().invoke(app, [*call, "--json"]).stdout)
    assert told["together"]["epsilon"] == pytest.approx(2.346, abs=1e-3)
    assert told["together"]["remaining"] == 5 - told["together"]["epsilon"]
