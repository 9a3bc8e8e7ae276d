"""The list of planted faults fits the code: each could be planted, and names tests that are there."""

from __future__ import annotations

import ast
from collections import Counter

from faults import ROOT, faults


def test_every_fault_can_be_planted() -> None:
    listed = faults()
    assert len(listed) >= 60
    assert not [name for name, times in Counter(one.name for one in listed).items() if times > 1]
    for fault in listed:
        text = fault.path(ROOT).read_text(encoding="utf-8")
        changed = fault.planted(text)
        assert changed != text
        ast.parse(changed)
        for test in fault.tests:
            assert (ROOT / test.partition("::")[0]).is_file(), fault.name
