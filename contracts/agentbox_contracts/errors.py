"""
The errors that leave an adapter, one tree for every slot and every wire.

    AgentboxError
    ├── BootError
    │   ├── ManifestError          the manifest cannot be read or breaks a rule
    │   ├── UnknownAdapter         the manifest names an adapter that nothing provides
    │   ├── ContractMismatch       two sides speak different major versions of a contract
    │   └── OrchestratorRequired   the orchestrator is off or did not start
    ├── AdapterError
    │   ├── AdapterDisabled        the slot is off, or the adapter lacks this capability
    │   ├── AdapterTimeout      r  no answer within the deadline; a write may have happened
    │   ├── AdapterUnavailable  r  the store behind the adapter cannot be reached or written
    │   ├── NotFound               there is no such thing
    │   ├── InvalidInput           an argument breaks the contract; nothing was written
    │   ├── PermissionDenied       the caller may not do this
    │   ├── Conflict               the state of the thing forbids it
    │   │   ├── AlreadyClaimed     another actor holds it
    │   │   ├── StaleClaim         the claim was lost to a successor
    │   │   └── PreconditionFailed an `if_match` or `if_none_match` did not hold
    │   ├── EmbeddingError         vectors of different embedders were about to mix
    │   ├── SpawnError             the agent's command could not be started
    │   └── AdapterFailed          the adapter broke; the cause is attached
    └── RunError
        ├── MissingInput           a declared input of a run was not given
        ├── EngineMissing          the engine's program is not installed
        ├── TargetUnavailable      the target of a run cannot be reached
        ├── RunTimeout             a run went over its deadline
        └── ArtifactMissing        a run ended without a required artifact

    r: retryable
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

__all__ = [
    "AdapterDisabled",
    "AdapterError",
    "AdapterFailed",
    "AdapterTimeout",
    "AdapterUnavailable",
    "AgentboxError",
    "AlreadyClaimed",
    "ArtifactMissing",
    "BootError",
    "Conflict",
    "ContractMismatch",
    "EmbeddingError",
    "EngineMissing",
    "InvalidInput",
    "ManifestError",
    "MissingInput",
    "MissingInputError",
    "NotFound",
    "OrchestratorRequired",
    "PermissionDenied",
    "PreconditionFailed",
    "RunError",
    "RunTimeout",
    "SpawnError",
    "StaleClaim",
    "TargetUnavailable",
    "UnknownAdapter",
    "error_classes",
]


class AgentboxError(Exception):
    """
    Whatever agentbox raises.

    The class tells the program: `code` is stable across releases and wires, `status` is its HTTP status, `retryable`
    says whether the same call may succeed later. The message tells the person. Where they apply, `slot`, `method` and
    `impl` name the call, and `resource`, `id` and `actor` name what it was about.
    """

    code: ClassVar[str] = "error"
    status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        resource: str | None = None,
        id: str | None = None,
        actor: str | None = None,
        slot: str | None = None,
        method: str | None = None,
        impl: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.resource = resource
        self.id = id
        self.actor = actor
        self.slot = slot
        self.method = method
        self.impl = impl


class BootError(AgentboxError):
    """The application cannot start like this."""

    code = "boot_error"


class ManifestError(BootError):
    """The manifest cannot be read or breaks a rule; the message lists every problem with its place."""

    code = "manifest_error"


class UnknownAdapter(BootError):
    """The manifest names an adapter that nothing provides."""

    code = "unknown_adapter"


class ContractMismatch(BootError):
    """Two sides speak different major versions of a contract."""

    code = "contract_mismatch"
    status = 409


class OrchestratorRequired(BootError):
    """The orchestrator is off or did not start, and nothing runs without it."""

    code = "orchestrator_required"
    status = 503


class AdapterError(AgentboxError):
    """A call to an adapter did not do what was asked."""

    code = "adapter_error"


class AdapterDisabled(AdapterError):
    """The slot is off, or its adapter does not offer what was asked."""

    code = "adapter_disabled"
    status = 503


class AdapterTimeout(AdapterError):
    """No answer within the deadline. For a write the result is unknown: retry with the same key."""

    code = "adapter_timeout"
    status = 504
    retryable = True


class AdapterUnavailable(AdapterError):
    """The store behind the adapter cannot be reached or written now."""

    code = "adapter_unavailable"
    status = 503
    retryable = True


class NotFound(AdapterError):
    """There is no such thing."""

    code = "not_found"
    status = 404


class InvalidInput(AdapterError):
    """An argument breaks the contract. Nothing was written."""

    code = "invalid_input"
    status = 422


class PermissionDenied(AdapterError):
    """The caller may not do this."""

    code = "permission_denied"
    status = 403


class Conflict(AdapterError):
    """The state of the thing forbids what was asked."""

    code = "conflict"
    status = 409


class AlreadyClaimed(Conflict):
    """Another actor holds the bead; `actor` says who."""

    code = "already_claimed"


class StaleClaim(Conflict):
    """The claim this call relies on was lost: the fence is missing or not the current one."""

    code = "stale_claim"


class PreconditionFailed(Conflict):
    """An `if_match` or `if_none_match` did not hold."""

    code = "precondition_failed"
    status = 412


class EmbeddingError(AdapterError):
    """Vectors of different embedders were about to mix."""

    code = "embedding_error"
    status = 422


class SpawnError(AdapterError):
    """The agent's command could not be started."""

    code = "spawn_error"
    status = 422


class AdapterFailed(AdapterError):
    """The adapter broke in a way that its contract does not know. The cause is attached."""

    code = "adapter_failed"


class RunError(AgentboxError):
    """A run did not do what was asked."""

    code = "run_error"


class MissingInput(RunError):
    """A declared input of a run was not given."""

    code = "missing_input"
    status = 422


MissingInputError = MissingInput


class EngineMissing(RunError):
    """The engine's program is not installed where the run should happen."""

    code = "engine_missing"


class TargetUnavailable(RunError):
    """The target of a run cannot be reached."""

    code = "target_unavailable"
    status = 503


class RunTimeout(RunError):
    """A run went over its deadline."""

    code = "run_timeout"
    status = 504


class ArtifactMissing(RunError):
    """A run ended without an artifact that its spec requires."""

    code = "artifact_missing"


def error_classes(base: type[AgentboxError] = AgentboxError) -> Iterator[type[AgentboxError]]:
    """Every class of the tree above, *base* first, each before its subclasses."""
    yield base
    for child in base.__subclasses__():
        if child.__module__ == __name__:
            yield from error_classes(child)
