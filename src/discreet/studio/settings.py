"""What a studio is started with, all of it decided before the first request."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

MEGABYTE = 1_000_000


def packaged_gallery() -> Traversable:
    """The reproduction gallery that comes with the package; it may be absent."""
    return files("discreet") / "experiments" / "gallery"


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
    gallery: Traversable = field(default_factory=packaged_gallery, repr=False)

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
