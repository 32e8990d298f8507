"""One script, run with manifests that say where one slot is: here, at a host, at a host of a host."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import attrs

from tests.servers.host import host

__all__ = ["Script"]

USUAL = {"beads": "off", "pods": "off", "memory": "off", "events": "off", "orchestrator": "local-process-manager"}


@attrs.frozen(kw_only=True)
class Script:
    """A script about one slot; `others` are chosen for the slots it needs besides."""

    path: Path
    slot: str
    embedded: str
    others: Mapping[str, str] = attrs.field(factory=dict)

    def printed(self, folder: Path, manifest: str) -> str:
        """What the script prints in *folder*, which it makes."""
        folder.mkdir()
        (folder / "agentbox.toml").write_text(self.whole(manifest))
        env = {name: value for name, value in os.environ.items() if not name.startswith("AGENTBOX_")}
        command = [sys.executable, "-W", "error", str(self.path)]
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def whole(self, manifest: str) -> str:
        """*manifest*, which chooses the script's slot alone, with the other slots said too."""
        chosen = {slot: impl for slot, impl in (USUAL | dict(self.others)).items() if slot != self.slot}
        lines = "".join(f'{slot} = "{impl}"\n' for slot, impl in chosen.items())
        return manifest.replace("[adapters]\n", f"[adapters]\n{lines}")

    @contextmanager
    def one_host(self, folder: Path) -> Iterator[str]:
        """The manifest of a client of a host that has the slot itself."""
        (folder / "host").mkdir()
        with host(folder / "host", self.whole(self.embedded)) as served:
            yield served.client(self.slot)

    @contextmanager
    def host_of_a_host(self, folder: Path) -> Iterator[str]:
        """The manifest of a client of a host that has the slot from another."""
        (folder / "front").mkdir()
        with self.one_host(folder) as behind, host(folder / "front", self.whole(behind)) as front:
            yield front.client(self.slot)
