"""The durable budget: what each dataset may spend, what it has spent, and on what.

``budgets`` prices guarantees in exact rationals, ``chain`` says what an entry is and when a sequence of them
is sound, ``store`` talks to SQLite and PostgreSQL, ``statements`` are what a ledger tells, ``book`` is the
:class:`Ledger` made of them, and ``charging`` is what a release does with it.
"""

from discreet.ledger.book import Ledger
from discreet.ledger.budgets import Budget
from discreet.ledger.chain import Entry
from discreet.ledger.statements import Account, Price, Receipt, Verification

__all__ = ["Account", "Budget", "Entry", "Ledger", "Price", "Receipt", "Verification"]
