"""The durable privacy budget: what each dataset may spend, what it has spent, and on what.

``budgets`` prices guarantees in exact rationals, ``_chain`` defines an entry and when a sequence of entries
is sound, ``_store`` talks to SQLite and PostgreSQL, ``book`` has the :class:`Ledger`, and ``charging`` pays
for a release.
"""

from discreet.ledger._chain import Entry
from discreet.ledger.book import Account, Ledger, Price, Receipt, Verification
from discreet.ledger.budgets import Budget

__all__ = ["Account", "Budget", "Entry", "Ledger", "Price", "Receipt", "Verification"]
