"""Signatures of documents: who has the curator's public key can tell that a document is theirs.

Ed25519 over the canonical form of a document, in which spaces, line ends and the order of parts do not
matter. A signature is a small file beside the document; keys are files in PEM. A private key can be read by
its owner alone, stands in no document and no ledger, and its words are in no error.
"""

from __future__ import annotations

import base64
import json
import os
import stat
from pathlib import Path
from typing import Any

from discreet._json import Unreadable, read_json
from discreet.documents.base import canonical, parse
from discreet.errors import CorruptReleaseError, FileError, InvalidInput, missing_extra

_PURPOSE = b"discreet document, signature 1\n"
"""Signed before the document, so that no signature made for something else can be taken for one of these."""
_ALGORITHM = "Ed25519"
_LONGEST = 10_000


def make_key(path: Path) -> Path:
    """A new private key at ``path``, for its owner alone (0600), and its public half at ``path``.pub."""
    serialization, ed25519 = _cryptography()
    made = ed25519.Ed25519PrivateKey.generate()
    pem, public = serialization.Encoding.PEM, path.with_name(path.name + ".pub")
    private = made.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    shown = made.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    for name in (path, public):
        if os.path.lexists(name):  # a link to nowhere too
            raise FileError(f"{str(name)!r} exists already; a key is never replaced: choose another name")
    for name, content, mode in ((path, private, 0o600), (public, shown, 0o644)):
        with os.fdopen(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    return public


def sign(text: str, key: Path) -> str:
    """The signature of a document, as the text of the file that goes with it."""
    if os.name == "posix" and stat.S_IMODE(key.stat().st_mode) & 0o077:
        raise InvalidInput(f"the key {str(key)!r} can be read by others: chmod 600 {key.name}")
    serialization, ed25519 = _cryptography()
    private = _loaded(
        key, lambda pem: serialization.load_pem_private_key(pem, None), ed25519.Ed25519PrivateKey
    )
    value = base64.b64encode(private.sign(_signed(text))).decode()
    return json.dumps({"format": "discreet/signature", "algorithm": _ALGORITHM, "signature": value}) + "\n"


def check_signature(text: str, signature: str, key: Path) -> None:
    """Refuses a document that the owner of the public key has not signed as it is."""
    serialization, ed25519 = _cryptography()
    public = _loaded(key, serialization.load_pem_public_key, ed25519.Ed25519PublicKey)
    try:
        found = read_json(signature, _LONGEST)
        if (found["format"], found["algorithm"], len(found)) != ("discreet/signature", _ALGORITHM, 3):
            raise ValueError  # a part more would be read as signed
        value = base64.b64decode(found["signature"], validate=True)
    except (Unreadable, LookupError, TypeError, ValueError):
        raise CorruptReleaseError("this is not a signature of discreet") from None
    try:
        public.verify(value, _signed(text))
    except Exception:  # InvalidSignature, of a library that need not be there
        raise CorruptReleaseError(
            "the signature does not fit: the document was changed after it was signed, or somebody else "
            "signed it"
        ) from None


def _signed(text: str) -> bytes:
    return _PURPOSE + canonical(parse(text))


def _loaded(path: Path, load: Any, kind: type) -> Any:
    """The key in a file; what else the file holds is not said."""
    try:
        with path.open("rb") as file:
            key = load(file.read(_LONGEST))
    except OSError:
        raise
    except Exception:  # of cryptography, whose words are its own affair
        key = None
    if not isinstance(key, kind):
        wanted = "private" if "Private" in kind.__name__ else "public"
        raise InvalidInput(f"{str(path)!r} holds no {wanted} key as discreet key makes it")
    return key


def _cryptography() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise missing_extra("cryptography", "sign") from None
    return serialization, ed25519
