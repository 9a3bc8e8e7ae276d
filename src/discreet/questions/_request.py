"""A request: a question bound to a schema, so that everything public about it is known.

A question names columns, a schema declares them; together they determine what is read from the data, the
price, and how the answer is made. A kind of question returns its request from
:meth:`discreet.questions.base.Question.request`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

from discreet._declarations import Relation
from discreet._documents.answer import Answer
from discreet.errors import InvalidInputError
from discreet.privacy.guarantee import Guarantee
from discreet.questions.widths import Guess, PlannedWidth
from discreet.schema import Schema


class PricedRequest(NamedTuple):
    """The guarantee of a request for a public size, and the function that makes the answer."""

    guarantee: Guarantee
    make: Callable[[Any], Answer]


@dataclass(frozen=True, kw_only=True)
class Request(ABC):
    """A question bound to a schema: what it reads from the data, its price, and how it is answered.

    Parameters
    ----------
    schema : Schema
        What is public about the data.
    """

    schema: Schema
    cautions: ClassVar[tuple[str, ...]] = ()
    """Warnings for the curator that follow from the schema alone."""

    @cached_property
    def hides_size(self) -> bool:
        """Whether the number of records is private."""
        return self.schema.hides_size

    @cached_property
    def relation(self) -> Relation:
        """The relation between neighbouring datasets that the answer protects."""
        return Relation.ADD_REMOVE if self.hides_size else Relation.REPLACE_ONE

    @abstractmethod
    def read(self, data: Any) -> Any:
        """Return the exact statistic of the data, which is private."""

    @abstractmethod
    def size_of(self, statistic: Any) -> Any:
        """Return the public size of the data, computed from their statistic.

        The size is the number of records, in all or in each group.
        """

    @property
    def declared_size(self) -> Any | None:
        """The public size if the schema declares it; the price is then known before data are opened."""
        return self.schema.size

    @abstractmethod
    def bind(self, size: Any) -> PricedRequest:
        """Return the guarantee for data of this public size, and the function that makes the answer."""

    def simulate(self, n: int, level: float, seed: int, guess: Guess) -> PlannedWidth:
        """Return the widths of an answer about n simulated records, for plans; no data are opened."""
        raise InvalidInputError(
            "no width can be planned for a question of this kind: to divide a budget, give it epsilon or "
            "weight; to see simulated answers, ask it of a Study without a ledger"
        )

    @property
    def has_width(self) -> bool:
        """Whether the width of an answer can be planned."""
        return type(self).simulate is not Request.simulate

    def price(self, size: Any = None) -> Guarantee:
        """Return the guarantee, which is the price; no data are opened.

        ``size`` is the public size of the data, which is needed if the schema does not declare it.
        """
        public_size = self.declared_size if size is None else size
        if public_size is None:
            raise InvalidInputError(
                "the price depends on the public number of records: declare n in the schema"
            )
        return self.bind(public_size).guarantee


def refuse_weight(schema: Schema, what: str) -> None:
    """Refuse a schema with survey weights for a question that has no weighted form.

    Parameters
    ----------
    schema : Schema
        What is public about the data.
    what : str
        The end of the message: which question has no weighted form, and what to do instead.

    Raises
    ------
    InvalidInputError
        If the schema declares a weight.
    """
    if schema.weight is not None:
        raise InvalidInputError(f"column {schema.weight!r} is a weight, and {what}")


@dataclass(frozen=True, kw_only=True)
class SumsRequest(Request):
    """A request that is answered by noisy sums, whose price does not depend on the number of records."""

    @property
    def declared_size(self) -> int:
        return 0

    def size_of(self, statistic: Any) -> int:
        """Return 0: the price of sums does not depend on the number of records.

        Parameters
        ----------
        statistic : object
            What :meth:`read` returned.

        Returns
        -------
        int
        """
        return 0
