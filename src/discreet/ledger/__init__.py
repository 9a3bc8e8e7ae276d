"""The durable budget: what each dataset may spend, what it has spent, and on what.

``budgets`` prices guarantees in exact rationals, ``chain`` says what an entry is and when a sequence of them
is sound, ``store`` talks to SQLite and PostgreSQL, ``book`` is the :class:`Ledger` made of them with what it
tells, and ``charging`` is what a release does with it.
"""

from discreet.ledger._chain import Entry
from discreet.ledger.book import Account, Ledger, Price, Receipt, Verification
from discreet.ledger.budgets import Budget

__all__ = ["Account", "Budget", "Entry", "Ledger", "Price", "Receipt", "Verification"]
