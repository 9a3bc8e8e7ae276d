"""The answers of a study in one document, with the ledger's receipt for each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from discreet._documents.answer import load_answer
from discreet._documents.base import read_document, write_document
from discreet._json import fields_as_json
from discreet.errors import CorruptReleaseError, LedgerRefusal, NotPrivateError
from discreet.ledger import Account, Budget, Receipt
from discreet.ledger._chain import covers
from discreet.ledger.budgets import price_of
from discreet.privacy.guarantee import Guarantee


@dataclass(frozen=True)
class StudyResult:
    """The answers of a study by the ids of their questions, and the account that was charged."""

    format: ClassVar[str] = "discreet/study"
    version: ClassVar[int] = 1

    title: str
    dataset: str
    questions: Mapping[str, Mapping[str, Any]]
    answers: Mapping[str, Any]
    account: Account | None = None
    schema: Mapping[str, Any] | None = None
    """What was declared about the data, as JSON values; None in documents of 0.1 and 0.2."""

    def __str__(self) -> str:
        return "\n\n".join([self.title, *(f"{name}\n{answer}" for name, answer in self.answers.items())])

    def to_json(self) -> str:
        """Return all answers as one JSON document."""
        content = {
            "title": self.title,
            "dataset": self.dataset,
            "budget": None if self.account is None else self.account.to_dict(),
            **({} if self.schema is None else {"schema": dict(self.schema)}),
            "answers": [
                {
                    "id": name,
                    "question": dict(self.questions[name]),
                    # The guarantee is in the answer, and whether it is repeated not the same next time.
                    "receipt": fields_as_json(answer.receipt, "result", "guarantee", "repeated"),
                    "answer": answer.document(),
                }
                for name, answer in self.answers.items()
            ],
        }
        return write_document(self.format, self.version, content)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read a document that :meth:`to_json` wrote; refuse an edited, malformed or newer one."""
        content = read_document(text, cls.format, cls.version)
        try:
            entries = content["answers"]
            budget = content.get("budget")
            if len({entry["id"] for entry in entries}) < len(entries):
                raise ValueError("an id occurs twice")
            columns = (content.get("schema") or {}).get("columns", {})
            read = cls(
                title=str(content["title"]),
                dataset=str(content["dataset"]),
                questions={entry["id"]: dict(entry["question"]) for entry in entries},
                answers={entry["id"]: _with_receipt(entry).with_labels(columns) for entry in entries},
                account=None if budget is None else Account.from_dict(budget),
                schema=content.get("schema"),
            )
            promised = {entry["id"]: entry["answer"]["release"]["guarantee"] for entry in entries}
            read._check_spent({name: Guarantee.from_dict(one) for name, one in promised.items()})
            return read
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CorruptReleaseError(f"a part of the study is missing or malformed: {error}") from None

    def _check_spent(self, written: Mapping[str, Guarantee]) -> None:
        """Refuse receipts below the cost of their answers, and an account that does not match them."""
        receipts = {}
        for name, answer in self.answers.items():
            receipt = answer.receipt
            try:
                paid = price_of(answer.guarantee, receipt.cap.unit).fits(receipt.charged)
            except (LedgerRefusal, NotPrivateError):
                paid = False
            if not paid:
                raise ValueError(f"{name!r} costs more than was charged")
            if receipt.sequence in receipts:
                raise ValueError(f"{name!r} has the receipt of another answer")
            if self.account is not None and not _is_for(self.account, receipt, written[name]):
                raise ValueError(f"{name!r} has another relation or unit than its account")
            receipts[receipt.sequence] = receipt.charged
        if self.account is not None and receipts:
            spent = sum(receipts.values(), self.account.cap.zero())
            if not spent.fits(self.account.spent):
                raise ValueError("its account has spent less than was charged")


def _is_for(account: Account, receipt: Receipt, written: Guarantee) -> bool:
    """Return whether a receipt is from this account, and the account accepts the guarantee."""
    return receipt.dataset == account.dataset and covers(account.scope, written)


def _with_receipt(entry: Mapping[str, Any]) -> Any:
    answer = load_answer(json.dumps(entry["answer"]))
    receipt: dict[str, Any] = dict(entry["receipt"])
    receipt |= {name: Budget.from_dict(receipt[name]) for name in ("charged", "spent", "cap")}
    receipt |= {
        "guarantee": answer.guarantee.to_dict(),
        "result": answer.to_json().encode(),
        "repeated": False,
    }
    return answer.with_receipt(Receipt(**receipt))
