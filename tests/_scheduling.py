"""Which tests one worker runs after another, because they share something that is dear to make."""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

__all__ = ["Scheduling"]

TOGETHER = (
    "tests/contract/test_network_",  # a class makes all its calls in all troubles once
    "tests/e2e/test_demo.py",
    "tests/e2e/test_stranger.py",
    "tests/integration/memory/test_minilm.py",
    "tests/integration/test_host.py",
)


class Scheduling(LoadScopeScheduling):  # type: ignore[misc]
    """What belongs together goes to one worker, the largest group first; any other test to whoever is free."""

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.rpartition("::")[0] if nodeid.startswith(TOGETHER) else nodeid
