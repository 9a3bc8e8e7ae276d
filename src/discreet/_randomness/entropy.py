"""Sources of randomness: the operating system, or a seed for simulations that are not private."""

from __future__ import annotations

import hashlib
import secrets
from typing import Any, Protocol, final

from discreet.errors import NotPrivateError


class Source(Protocol):
    """A source of independent uniform integers and bytes."""

    def below(self, bound: int) -> int:
        """Draw an integer, uniform on {0, …, bound − 1}."""
        ...

    def bytes(self, count: int) -> bytes:
        """Draw ``count`` independent uniform bytes."""
        ...


@final
class OSEntropy:
    """Uniform integers from the operating system's cryptographic generator.

    It has no state, so a forked process cannot repeat the numbers of its parent.
    """

    __slots__ = ()

    def below(self, bound: int) -> int:
        return secrets.randbelow(bound)

    def bytes(self, count: int) -> bytes:
        return secrets.token_bytes(count)


@final
class SeededEntropy:
    """A reproducible stream (SHAKE-256 in counter mode) for tests and experiments. Not private."""

    def __init__(self, seed: int) -> None:
        self._key = f"discreet seeded stream {int(seed)}".encode()
        self._block = 0
        self._pool = 0
        self._bits = 0

    def _take(self, bits: int) -> int:
        while self._bits < bits:
            block = hashlib.shake_256(self._key + b"/%d" % self._block).digest(512)
            self._pool |= int.from_bytes(block, "little") << self._bits
            self._bits += 4096
            self._block += 1
        value = self._pool & ((1 << bits) - 1)
        self._pool >>= bits
        self._bits -= bits
        return value

    def below(self, bound: int) -> int:
        if bound <= 0:
            raise ValueError("bound must be positive")
        bits = (bound - 1).bit_length()
        while True:
            value = self._take(bits)
            if value < bound:
                return value

    def bytes(self, count: int) -> bytes:
        key = self._key + b"/block %d" % self._block
        self._block += 1
        return hashlib.shake_256(key).digest(count)


OS_ENTROPY = OSEntropy()


def private_source(entropy: Any = None) -> OSEntropy:
    """Return the source of a private draw: the operating system, never a seeded stream."""
    if entropy is None or type(entropy) is OSEntropy:
        return OS_ENTROPY
    raise NotPrivateError(
        f"entropy={type(entropy).__name__} object: a private draw takes its randomness from the operating "
        "system only, because whoever knows a seed can subtract the noise. Leave the argument out; for a "
        "reproducible, non-private experiment use simulate(counts, size=…, seed=…)"
    )
