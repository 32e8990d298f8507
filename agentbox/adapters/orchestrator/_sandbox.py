"""A command inside bubblewrap: what it sees, and what it can write. Standard library only."""

# ruff: noqa: PTH109, PTH112, PTH113, PTH114, PTH118, PTH120
# The keeper does without pathlib: whatever it loads, every supervisor carries.

from __future__ import annotations

import os

__all__ = ["PROCESSES", "CannotEnclose", "enclosed"]

PROCESSES = 2
"""How many of the processes in the agent's tree are bubblewrap's own."""

CHANNEL = 3
# Bubblewrap tells of no success: the last program before the command does, once all is set up.
SHIM = rb"printf '\000' >&3; exec 3>&-; exec " + b'"$@"'
PRIVATE = ("/tmp", "/var/tmp", "/run")  # noqa: S108 - they are made anew for each agent
KERNELS = ("/dev", "/proc")


class CannotEnclose(Exception):
    """The command cannot be put into a sandbox; the message says why."""


def enclosed(program: bytes, argv: list[bytes], folder: str, *, has_network: bool, keeps_tmpdir: bool) -> list[bytes]:
    """
    What to execute to have *program* run in a sandbox, the first word being the path of bubblewrap.

    The working directory is its workspace. It sees nothing of *folder*, which holds all agents and the way to the
    keeper. Raises CannotEnclose.
    """
    cwd = os.getcwd()
    hidden = [*(path for path in PRIVATE if os.path.isdir(path) and not os.path.islink(path)), folder]
    _check_workspace(cwd, folder)
    _check_visible(os.fsdecode(program), cwd, hidden)
    mounts = [("--tmpfs", path) for path in hidden] + [("--bind", cwd, cwd)]
    token = os.path.join(os.path.dirname(folder), "host.token")  # with it, a host would start anything
    if os.path.isfile(token):
        mounts.append(("--ro-bind", os.devnull, token))
    words = [_bubblewrap(), "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev"]
    words += ["--proc", "/proc", *(["--share-net"] if has_network else ())]
    for mount in sorted(mounts, key=lambda mount: len(mount[-1])):  # what lies within another is put there after it
        words += mount
    words += [] if keeps_tmpdir else ["--setenv", "TMPDIR", "/tmp"]  # noqa: S108
    words += ["--chdir", cwd, "--", "/bin/sh", "-c"]
    return [*map(os.fsencode, words), SHIM, b"sh", program, *argv[1:]]


def _check_workspace(cwd: str, folder: str) -> None:
    if cwd == "/" or cwd in PRIVATE or _is_within(cwd, [*KERNELS, folder]):
        raise CannotEnclose(f"the folder {cwd!r} cannot be the workspace of a sandbox: name a cwd of the agent's own")


def _check_visible(program: str, cwd: str, hidden: list[str]) -> None:
    for path in (program, os.path.realpath(program)):
        if _is_within(path, hidden) and not _is_within(path, [cwd]):
            raise CannotEnclose(f"{path!r} is not there in the sandbox, which has a {_above(path, hidden)} of its own")


def _is_within(path: str, folders: list[str]) -> bool:
    return bool(_above(path, folders))


def _above(path: str, folders: list[str]) -> str:
    return next((folder for folder in folders if path == folder or path.startswith(f"{folder}/")), "")


def _bubblewrap() -> str:
    for folder in os.environ.get("PATH", os.defpath).split(":"):
        candidate = os.path.join(folder, "bwrap")
        if os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return candidate
    raise CannotEnclose("the sandbox needs bubblewrap, and there is no 'bwrap' on the host's PATH: install it")
