"""Pods: linked data and files in folders, by the Solid Protocol."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator
from typing import Annotated, Literal, Protocol

import attrs
from msgspec import Meta

from agentbox_contracts.contract import Adapter, Contract, Instant, Page, route

__all__ = ["CONTRACT", "Change", "Entry", "Pods", "Resource"]

PodPath = Annotated[str, Meta(min_length=1, max_length=4096)]
MediaType = Annotated[str, Meta(min_length=3, max_length=200)]
Body = Annotated[bytes, Meta(max_length=67_108_864)]
ETag = Annotated[str, Meta(min_length=1, max_length=200)]
Limit = Annotated[int, Meta(ge=1, le=1000)]


@attrs.frozen(kw_only=True)
class Resource:
    """One representation of a resource. Compare `etag` only within one media type. A write returns no body."""

    path: str
    content_type: str
    etag: str
    modified_at: Instant
    body: bytes = b""


@attrs.frozen(kw_only=True)
class Entry:
    """A member of a container; a container's path ends with a slash."""

    path: str
    content_type: str
    size: int
    modified_at: Instant


@attrs.frozen(kw_only=True)
class Change:
    """A notification: what happened to which resource."""

    type: Literal["create", "update", "delete"]
    path: str
    at: Instant


class Pods(Adapter, Protocol):
    """The port of the pods slot. Paths start with a slash, any UTF-8 segment round-trips, none leaves the root."""

    @route("GET", "/pods/{path}")
    @abstractmethod
    async def read(self, path: PodPath, *, accept: MediaType | None = None) -> Resource:
        """
        The resource, as *accept* asks where linked data can be negotiated.

        Raises:
            NotFound: There is no such resource.
            InvalidInput: It has no representation of that type.
        """

    @route("PUT", "/pods/{path}")
    @abstractmethod
    async def write(
        self,
        path: PodPath,
        body: Body,
        *,
        content_type: MediaType,
        if_match: ETag | None = None,
        if_none_match: ETag | None = None,
    ) -> Resource:
        """
        Create or replace the resource; missing containers above it are made.

        Raises:
            PreconditionFailed: *if_match* is not the current one, or *if_none_match* is `*` and it exists.
            InvalidInput: Linked data that does not parse.
        """

    @route("PATCH", "/pods/{path}")
    @abstractmethod
    async def patch(self, path: PodPath, patch: Body, *, if_match: ETag | None = None) -> Resource:
        """
        Apply an N3 Patch, wholly or not at all.

        Raises:
            NotFound: There is no such resource, and the patch deletes from it.
            Conflict: The patch's conditions do not match.
            PreconditionFailed: *if_match* is not the current one.
        """

    @route("DELETE", "/pods/{path}")
    @abstractmethod
    async def delete(self, path: PodPath, *, if_match: ETag | None = None) -> None:
        """
        Remove the resource.

        Raises:
            NotFound: There is no such resource.
            Conflict: It is a container with members.
            PreconditionFailed: *if_match* is not the current one.
        """

    @route("GET", "/pods/{path}/")
    @abstractmethod
    async def list_container(self, path: PodPath, *, limit: Limit = 100, after: str | None = None) -> Page[Entry]:
        """
        The members of a container in the order of their paths, a page at a time.

        Raises:
            NotFound: There is no such container.
        """

    @abstractmethod
    def subscribe(self, path: PodPath) -> AsyncIterator[Change]:
        """Changes to the resource, or to a container's members, from now on."""


CONTRACT = Contract(slot="pods", version="0.1.0", port=Pods)
