"""Questions bound to data: the data are read once, the question is priced, charged and answered.

A retry returns the stored document and opens no data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from discreet._data import is_database, of_columns
from discreet._data import source_label as source_label
from discreet._data.files import is_files
from discreet._documents.answer import Answer, load_answer
from discreet._text import amount
from discreet.errors import DataError, InvalidInputError, PrivacyWarning, warn
from discreet.ledger.charging import Charge
from discreet.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    from discreet.questions._request import PricedRequest, Request
    from discreet.questions.base import Question
    from discreet.schema import Schema


LARGE_EPSILON = 10
"""The curator is warned of any ε above this."""
LARGEST_DELTA = Fraction(1, 1000)
"""A question with a δ above this is refused unless it is acknowledged."""
_large_delta_allowed: ContextVar[bool] = ContextVar("large_delta_allowed", default=False)
_warned_uncounted = False


@contextmanager
def acknowledge_large_delta() -> Iterator[None]:
    """Allow a δ above 1/1000, or of 1/n or more, in this block; such a δ may reveal a record."""
    before = _large_delta_allowed.set(True)
    try:
        yield
    finally:
        _large_delta_allowed.reset(before)


def cautions(question: Question, request: Request) -> tuple[str, ...]:
    """Return warnings for the curator that follow from the question and the schema alone."""
    if question.epsilon is None or (epsilon := question.exact_epsilon) <= LARGE_EPSILON:
        return request.cautions
    large = amount(epsilon)
    return (
        *request.cautions,
        f"epsilon={large} protects very little: the odds of any statement about a person may change by a "
        f"factor of e^{large}; a usual choice is between 0.1 and 3",
    )


class BoundQuestion:
    """A question bound to a schema and to data, which are read at most once for both price and answer.

    Parameters
    ----------
    question : Question
        The question.
    schema : Schema
        What is public about the data.
    data
        The records. If the schema declares their number, they are not opened before the price is known.
    """

    def __init__(self, question: Question, schema: Schema, data: Any) -> None:
        self.question, self.schema, self.data = question, schema, data

    @cached_property
    def request(self) -> Request:
        """The question under the schema, checked."""
        return self.question.request(self.schema)

    @cached_property
    def _statistic(self) -> Any:
        try:
            return self.request.read(self._records)
        except DataError as error:
            used = self.question.columns_used(self.schema)
            if error.column is not None or len(used) != 1 or self.schema.nameless:
                raise
            problem = error.problem
        raise DataError(problem, used[0])  # out here: what was handled would become its context

    @cached_property
    def _records(self) -> Any:
        """The data; a mapping of columns becomes a table of objects."""
        mapping = isinstance(self.data, Mapping)  # of columns, or of counts by value
        if mapping and any(hasattr(value, "__len__") for value in self.data.values()):
            return of_columns(self.data)
        if len(self.schema.columns) > 1 and (mapping or _is_one_column(self.data)):
            raise InvalidInputError(
                "these data are one column, and the schema declares several: give a table, or one column"
            )
        return self.data

    def put_to(self, data: Any) -> BoundQuestion:
        """Return this question bound to ``data``, for kinds that read the data while answering."""
        return BoundQuestion(self.question, self.schema, data) if self._statistic is self._records else self

    @cached_property
    def _price(self) -> PricedRequest:
        declared = self.request.declared_size
        size = self.size if declared is None else declared
        priced = self.request.bind(size)
        n = sum(size) if isinstance(size, tuple) else size
        check_delta(priced.guarantee, n or self.schema.size)
        return priced

    @property
    def size(self) -> Any:
        """The public number of records, or the sizes of groups.

        If the schema does not declare it, the data are read to find it.
        """
        return self.request.size_of(self._statistic)

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee, which is the price; known before the data are opened if their size is declared."""
        return self._price.guarantee

    def plan(self) -> dict[str, Any]:
        """Return the plan of the question, as a ledger stores it."""
        return self.question.plan(self.schema)

    def _make(self) -> Answer:
        priced = self._price  # the price first: it may need no data
        answer = priced.make(self._statistic)
        check_delta(priced.guarantee, getattr(answer, "n", None))  # which may be published with it alone
        return answer

    def answer(self, charge: Charge | None = None) -> Any:
        """Return the answer, after charging it if ``charge`` is given."""
        for caution in cautions(self.question, self.request):
            warn(caution, PrivacyWarning)
        if not isinstance(charge, Charge | None):
            raise InvalidInputError("must be discreet.Charge(ledger, dataset, id)", "charge", charge)
        if charge is None:
            return self._make().with_labels(self.schema.columns)
        made: dict[bytes, Answer] = {}

        def _document() -> str:
            answer = self._make().check_guarantee()  # before it is charged: a false claim is never stored
            text = answer.to_json()
            made[text.encode()] = answer
            return text

        with charge.pay(self.plan()) as payment:
            receipt = payment.earlier or payment.spend(self.guarantee, _document)  # the former: a retry
        answer = made.get(receipt.result) or load_answer(receipt.result.decode())
        return answer.with_receipt(receipt).with_labels(self.schema.columns)


def _is_one_column(data: Any) -> bool:
    """Return whether the data are one column without a table: values, or a series."""
    if isinstance(data, list | tuple):
        return not (is_files(data) or is_database(data))
    series = (hasattr(data, "dtype") or hasattr(data, "to_pylist")) and getattr(data, "ndim", 1) == 1
    return isinstance(data, Iterator) or (series and not hasattr(data, "columns"))  # Arrow's tables have both


def check_delta(guarantee: Guarantee, n: Any) -> None:
    """Refuse δ above 1/1000, and δ ≥ 1/n for a public n, unless it is acknowledged."""
    delta = guarantee.exact_delta
    if not (delta and guarantee.is_private) or _large_delta_allowed.get():
        return
    hint = "a larger one has to be acknowledged (acknowledge_large_delta)"
    if isinstance(n, int) and n and delta * n >= 1:
        raise InvalidInputError(
            f"is at least 1/n = {amount(Fraction(1, n))}: publishing one record chosen at random would "
            f"satisfy it. Choose delta far below 1/n; {hint}",
            "delta",
            float(delta),
        )
    if delta > LARGEST_DELTA:
        raise InvalidInputError(
            f"is above {amount(LARGEST_DELTA)}: with that probability anything may be published. Choose it "
            f"far below one over the number of records, such as 1e-6; {hint}",
            "delta",
            float(delta),
        )


def warn_uncounted() -> None:
    """Warn once per process that no ledger records the cost of a call without a charge."""
    global _warned_uncounted
    if not _warned_uncounted:
        _warned_uncounted = True
        warn(
            "no ledger records the budget that this call spends: pass "
            "charge=discreet.Charge(ledger, dataset, id), or ask through a discreet.Study",
            PrivacyWarning,
        )
