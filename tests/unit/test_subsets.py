"""The ids that a search of memory may find: asked one by one and all at once, the answer is the same."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agentbox.adapters.memory._vectors import subset

NEAR = st.sets(st.integers(1, 60))
ANYWHERE = st.sets(st.integers(1, 2**40))


@given(ids=NEAR | ANYWHERE, others=NEAR | ANYWHERE)
def test_a_mask_says_of_each_record_what_holds_says(ids: set[int], others: set[int]) -> None:
    asked = sorted(ids | others | {0, 2**40 + 1})

    passing = subset(ids).mask(np.array(asked))

    assert [record for record, passes in zip(asked, passing, strict=True) if passes] == sorted(ids)
    assert [record for record in asked if subset(ids).holds(record)] == sorted(ids)


@given(ids=NEAR, removed=NEAR, added=st.sets(st.integers(61, 90)))
def test_a_change_adds_and_removes(ids: set[int], removed: set[int], added: set[int]) -> None:
    before = subset(ids)
    before.mask(np.array([1]))

    after = before.changed(sorted(added), sorted(removed))

    assert list(after.ids()) == sorted(ids - removed | added)
    assert after.mask(np.arange(100)).nonzero()[0].tolist() == sorted(ids - removed | added)
    assert list(before.ids()) == sorted(ids)
