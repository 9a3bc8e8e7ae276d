"""What a studio is started with, all of it decided before the first request."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from importlib.resources.abc import Traversable
from pathlib import Path

from discreet._interop import reproductions

MEGABYTE = 1_000_000


def installed_gallery() -> Traversable | None:
    """The gallery of the package of reproductions; None where that is not installed."""
    return reproductions("gallery")


@dataclass(frozen=True)
class StudioSettings:
    """The settings of one running studio.

    ``ledger``: the address of the ledger that releases are charged to, or None. ``data``: a folder whose
    files and tables may be chosen. ``port``: the one that browsers use, since Host and Origin are compared
    with it. ``token``: the secret of the printed address.
    """

    port: int
    ledger: str | None = None
    data: Path | None = None
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    upload_limit: int = 64 * MEGABYTE
    gallery: Traversable | None = field(default_factory=installed_gallery, repr=False)

    @property
    def hosts(self) -> tuple[str, ...]:
        """What the Host header may say: anything else is a name that somebody pointed at this machine."""
        return f"127.0.0.1:{self.port}", f"localhost:{self.port}"

    @property
    def origins(self) -> tuple[str, ...]:
        return tuple(f"http://{host}" for host in self.hosts)

    @property
    def address(self) -> str:
        """The one address to open."""
        return f"http://127.0.0.1:{self.port}/?token={self.token}"
