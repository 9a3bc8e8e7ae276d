"""The ledger of privacy budgets: how much each dataset may spend, and every charge so far.

``budgets`` prices guarantees in exact rationals, ``_chain`` defines entries and the rules that a sequence of
them must obey, ``_store`` connects to SQLite and PostgreSQL, ``book`` has the :class:`Ledger`, and
``charging`` charges a release to it.
"""

from discreet.ledger._chain import Entry
from discreet.ledger.book import Account, Ledger, Price, Receipt, Verification
from discreet.ledger.budgets import Budget

__all__ = ["Account", "Budget", "Entry", "Ledger", "Price", "Receipt", "Verification"]
