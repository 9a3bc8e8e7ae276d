"""Reading any document from a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from discreet._documents.answer import load_answer
from discreet._documents.base import read_text
from discreet.errors import FileError


def load(path: str | os.PathLike[str]) -> Any:
    """Read an answer, or the document of a study, from a JSON file.

    Parameters
    ----------
    path : path
        A file that ``answer.save``, ``Study.report`` or ``discreet run`` wrote, in this version, 0.1 or 0.2.

    Returns
    -------
    Answer or StudyResult

    Raises
    ------
    FileError
        If the file cannot be read.
    CorruptReleaseError
        If the document was damaged, edited or forged.

    Examples
    --------
    >>> import os, tempfile
    >>> import discreet
    >>> smokers = discreet.proportions(["no"] * 70 + ["yes"] * 30, schema=("no", "yes"), epsilon=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "smokers.json")
    ...     smokers.save(path)
    ...     load(path) == smokers
    True
    """
    try:
        text = read_text(Path(path))
    except OSError as error:
        raise FileError(f"path={str(path)!r} cannot be read: {error.strerror}") from None
    return load_answer(text)
