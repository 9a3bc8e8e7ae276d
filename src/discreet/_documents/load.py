"""Reading any document from a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from discreet._documents.answer import load_answer
from discreet._documents.base import read_text
from discreet.errors import FileError


def load(path: str | os.PathLike[str]) -> Any:
    """Read an answer, or the document of a study, from a JSON file; a forged or damaged one is refused.

    Parameters
    ----------
    path : path
        What ``answer.save``, ``Study.report`` or ``discreet run`` wrote, also by 0.1 and 0.2.

    Returns
    -------
    Answer or StudyResult

    Raises
    ------
    FileError
        The file cannot be read.
    CorruptReleaseError
        The document was damaged, edited or forged.
    """
    try:
        text = read_text(Path(path))
    except OSError as error:
        raise FileError(f"path={str(path)!r} cannot be read: {error.strerror}") from None
    return load_answer(text)
