"""What the command line says when something went wrong."""

from __future__ import annotations

import sys

from agentbox._manifest_problems import InvalidManifest
from agentbox.cli._output import one_line
from agentbox.plugins import missing
from agentbox_contracts.errors import (
    AgentboxError,
    AlreadyClaimed,
    Conflict,
    EmbeddingError,
    ManifestError,
    NotFound,
    StaleClaim,
    UnknownAdapter,
)

__all__ = ["complain", "tell"]

FAILED = 1
REFUSED = 2


def tell(error: Exception) -> int:
    """Say on standard error what *error* means, and return the exit code for it."""
    if isinstance(error, InvalidManifest):
        _tell_problems(error)
    elif isinstance(error, AgentboxError):
        complain(error.message + _remedy(error))
    elif isinstance(error, ModuleNotFoundError) and not f"{error.name}".startswith("agentbox"):
        complain(missing("this command", error).message)
    elif isinstance(error, OSError) and error.strerror:
        what = f"{error.filename}: " if error.filename else ""
        complain(f"{what}{error.strerror}; --debug shows where this happened")
    else:
        complain(f"this is a bug, {type(error).__name__}: {error}; run it again with --debug and report what it shows")
    return REFUSED if isinstance(error, (ManifestError, UnknownAdapter)) else FAILED


def _remedy(error: AgentboxError) -> str:
    """What to do next, for the errors whose message speaks to programs as well."""
    if isinstance(error, NotFound) and error.slot == "orchestrator":
        return "; 'agentbox agents ps --all' lists those there are"
    if isinstance(error, Conflict) and error.slot == "orchestrator" and 'stdin="pipe"' in error.message:
        return "; start it with 'agentbox agents spawn --stdin' to send to it"
    if isinstance(error, NotFound) and error.slot == "beads" and error.method != "sync":
        return "; 'agentbox beads tree' lists those that are open"
    if isinstance(error, NotFound) and error.slot == "memory":
        return "; 'agentbox memory ls' lists the keys, with --namespaces the namespaces"
    if isinstance(error, EmbeddingError) and "is bound to" in error.message:
        return "; choose its embedder in the manifest, or 'agentbox memory reembed NAMESPACE --to EMBEDDER' changes it"
    if isinstance(error, AlreadyClaimed):
        return "; name the holder with --actor to act for it, or take another with 'agentbox beads claim --next'"
    if isinstance(error, StaleClaim):
        return "; give the current fence with --fence, 'agentbox beads show' has it"
    return ""


def complain(message: str) -> None:
    """One sentence on standard error."""
    sys.stderr.write(f"agentbox: {one_line(message)}\n")


def _tell_problems(error: InvalidManifest) -> None:
    if len(error.problems) == 1:
        complain(str(error.problems[0]))
        return
    complain(f"the manifest has {len(error.problems)} problems, which 'agentbox validate' lists too:")
    for problem in error.problems:
        sys.stderr.write(f"  {one_line(str(problem))}\n")
