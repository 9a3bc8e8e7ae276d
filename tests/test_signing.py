"""Signatures of documents: what is accepted, what is refused, and who can read the key."""

from __future__ import annotations

import json
import os
import stat
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import discreet
from discreet.cli import main
from discreet.cli.console import CORRUPT, FILE, OK, USAGE
from discreet.documents.signing import check_signature, make_key, sign
from discreet.errors import CorruptReleaseError, FileError, InvalidInput

needs_extra = pytest.mark.skipif(find_spec("cryptography") is None, reason="the extra sign is not installed")


@pytest.fixture(scope="module")
def document() -> str:
    return discreet.release({"a": 5, "b": 7}, levels=("a", "b"), epsilon=1).to_json()


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    path = tmp_path_factory.mktemp("keys") / "curator.key"
    return path, make_key(path)


@needs_extra
def test_a_key_is_for_its_owner_alone(keys: tuple[Path, Path], tmp_path: Path, document: str) -> None:
    private, public = keys
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    assert "PRIVATE" in private.read_text()
    assert "PRIVATE" not in public.read_text()
    with pytest.raises(FileError, match="never replaced"):
        make_key(private)
    open_to_all = tmp_path / "open.key"
    open_to_all.write_bytes(private.read_bytes())
    os.chmod(open_to_all, 0o640)
    with pytest.raises(InvalidInput, match="can be read by others"):
        sign(document, open_to_all)


@needs_extra
def test_a_mask_of_the_shell_does_not_open_the_key(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make_key(tmp_path / "k")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "k").stat().st_mode) == 0o600


@needs_extra
@pytest.mark.parametrize("name", ["k", "k.pub"])
def test_no_key_is_written_through_a_link(name: str, tmp_path: Path) -> None:
    """Also one to nowhere, of which nothing exists; and no half of a pair is left."""
    (tmp_path / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileError, match="never replaced"):
        make_key(tmp_path / "k")
    assert [one.name for one in tmp_path.iterdir()] == [name]


@needs_extra
def test_a_file_that_appears_meanwhile_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "k").write_text("older")
    monkeypatch.setattr("os.path.lexists", lambda path: False)
    with pytest.raises(FileExistsError):
        make_key(tmp_path / "k")
    assert (tmp_path / "k").read_text() == "older"


@needs_extra
def test_what_was_signed_for_something_else_does_not_fit(document: str, keys: tuple[Path, Path]) -> None:
    """The bytes that are signed begin with what they are for."""
    import base64

    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    from discreet.documents.base import canonical

    private = load_pem_private_key(keys[0].read_bytes(), None)
    for start, accepted in ((b"", False), (b"discreet document, signature 1\n", True)):
        value = base64.b64encode(private.sign(start + canonical(json.loads(document)))).decode()  # type: ignore[union-attr,call-arg]
        found = {"format": "discreet/signature", "algorithm": "Ed25519", "signature": value}
        if accepted:
            check_signature(document, json.dumps(found), keys[1])
            with pytest.raises(CorruptReleaseError):
                check_signature(document, json.dumps({**found, "algorithm": "none"}), keys[1])
            found["signer"] = "the board"  # nobody has signed that
        with pytest.raises(CorruptReleaseError):
            check_signature(document, json.dumps(found), keys[1])


@needs_extra
def test_signed_documents_are_accepted_however_they_are_laid_out(
    document: str, keys: tuple[Path, Path]
) -> None:
    private, public = keys
    signature = sign(document, private)
    check_signature(document, signature, public)
    parts = dict(reversed(json.loads(document).items()))
    check_signature(json.dumps(parts), signature, public)
    assert "PRIVATE" not in signature


def _with(document: str, **changes: Any) -> str:
    return json.dumps({**json.loads(document), **changes})


@needs_extra
def test_what_was_changed_is_refused(document: str, keys: tuple[Path, Path], tmp_path: Path) -> None:
    private, public = keys
    signature = sign(document, private)
    parts = json.loads(document)
    changed = [_with(document, version=2), _with(document, checksum="sha256:0"), _with(document, format="x")]
    changed += [_with(document, release={**parts["release"], name: "changed"}) for name in parts["release"]]
    for other in changed:
        with pytest.raises(CorruptReleaseError, match="does not fit"):
            check_signature(other, signature, public)
    stranger = make_key(tmp_path / "stranger")
    with pytest.raises(CorruptReleaseError, match="somebody else"):
        check_signature(document, signature, stranger)


@needs_extra
@pytest.mark.parametrize(
    "signature",
    ["", "{}", "[]", "null", '{"format": "discreet/signature"}', "x" * 20_000]
    + [
        json.dumps({"format": "discreet/signature", "algorithm": algorithm, "signature": value})
        for algorithm, value in (("none", ""), ("Ed25519", 5), ("Ed25519", "ä"), ("Ed25519", "AAAA"))
    ],
)
def test_hostile_signatures(document: str, signature: str, keys: tuple[Path, Path]) -> None:
    with pytest.raises(CorruptReleaseError):
        check_signature(document, signature, keys[1])


@needs_extra
def test_files_that_hold_no_key(document: str, keys: tuple[Path, Path], tmp_path: Path) -> None:
    private, public = keys
    odd = tmp_path / "odd"
    odd.write_text("SECRET-MARKER")
    odd.chmod(0o600)
    for wrong in (odd, public):
        wrong.chmod(0o600)
        with pytest.raises(InvalidInput, match="holds no private key") as raised:
            sign(document, wrong)
        assert "MARKER" not in str(raised.value)
        assert raised.value.__cause__ is None
    for wrong in (odd, private):
        with pytest.raises(InvalidInput, match="holds no public key"):
            check_signature(document, sign(document, private), wrong)


@needs_extra
def test_from_the_command_line(
    document: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r.json").write_text(document, encoding="utf-8")

    def run(*arguments: str) -> int:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        return int(ended.value.code or 0)

    assert run("show", "r.json", "--verify", "k.pub") == FILE  # no signature
    assert run("key", "k") == OK
    assert run("key", "k") == FILE
    assert run("sign", "r.json", "--key", "k.pub") == USAGE
    assert not Path("r.json.sig").exists()
    assert run("sign", "r.json", "--key", "k") == OK
    assert run("sign", "r.json", "--key", "k") == FILE
    capsys.readouterr()
    assert run("show", "r.json", "--verify", "k.pub") == OK
    assert "Signed: by the owner of the key 'k.pub'" in capsys.readouterr().out
    assert run("show", "r.json", "--json", "--verify", "k.pub") == OK
    other = discreet.release({"a": 6, "b": 6}, levels=("a", "b"), epsilon=2).to_json()
    Path("r.json").write_text(other, encoding="utf-8")
    capsys.readouterr()
    assert run("show", "r.json", "--verify", "k.pub") == CORRUPT
    shown = capsys.readouterr()
    assert "does not fit" in shown.err
    assert shown.out == ""


def test_without_the_extra_it_says_what_to_install(
    document: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives", None)
    key = tmp_path / "k"
    with pytest.raises(InvalidInput, match=r"pip install '.\[sign\]'"):
        make_key(key)
    assert not key.exists()
    with pytest.raises(InvalidInput, match="cryptography is not installed"):
        check_signature(document, "{}", key)
