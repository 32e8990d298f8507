"""What a host answers with: JSON of the contract's values, and problem documents for everything that went wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from agentbox_contracts.errors import (
    AdapterFailed,
    AdapterUnavailable,
    AgentboxError,
    InvalidInput,
    NotFound,
    PermissionDenied,
)
from agentbox_contracts.wire import encode, problem_of

__all__ = ["Refusal", "answer", "problem", "told"]

JSON = "application/json"
PROBLEM = "application/problem+json"
_CLASSES: dict[int, type[AgentboxError]] = {
    401: PermissionDenied,
    403: PermissionDenied,
    404: NotFound,
    421: PermissionDenied,
    429: AdapterUnavailable,
    503: AdapterUnavailable,
}


class Refusal(Exception):
    """A request that is refused before it reaches a slot."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers


def answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """*value* as JSON."""
    return Response(encode(value), status, headers=dict(headers or {}), media_type=JSON)


def problem(error: AgentboxError, status: int | None = None, headers: Mapping[str, str] | None = None) -> Response:
    """*error* as a problem document, with the status of its class unless another is given."""
    members = problem_of(error)
    if status is not None:
        members["status"] = status
    if isinstance(error, AdapterUnavailable) and not headers:
        headers = {"Retry-After": "1"}
    return Response(encode(members), members["status"], headers=dict(headers or {}), media_type=PROBLEM)


def told(error: Exception) -> Response:
    """Any exception as a problem document. What is not the contract's says nothing of the inside."""
    if isinstance(error, AgentboxError):
        return problem(error)
    if isinstance(error, Refusal):
        return problem(_CLASSES.get(error.status, InvalidInput)(error.message), error.status, error.headers)
    return problem(AdapterFailed("the host failed; its log says why"), 500)
