"""A CloudEvents endpoint, whoever wrote it: events go there, and nothing comes back."""

from __future__ import annotations

from typing import Any

import msgspec

from agentbox.adapters._http import Client, HttpSettings
from agentbox_contracts.contract import Contract, Secret
from agentbox_contracts.errors import AdapterUnavailable, InvalidInput, PermissionDenied

__all__ = ["BATCH", "CLOUDEVENT", "Endpoint"]

CLOUDEVENT = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"
RENAMED = {"session_id": "sessionid", "execution_id": "executionid"}
"""CloudEvents allows small letters and digits in a name, and nothing else."""
REFUSALS = (400, 413, 415, 422)


class Endpoint(Client):
    """Any 2xx is an acknowledgement. What is refused for what it is, is InvalidInput; all else may pass."""

    def __init__(self, contract: Contract, settings: HttpSettings, *, batch: bool, token: Secret | None) -> None:
        super().__init__(contract, settings)
        self._batch = batch
        self._own_token = token

    async def open(self) -> dict[str, Any]:
        """Make the pool. There is nothing to ask."""
        await self.connect()
        return {}

    async def send_events(self, bodies: list[bytes]) -> None:
        """Send *bodies* in one batch, or one by one where the endpoint takes no batches."""
        clouds = [_cloud(body) for body in bodies]
        if self._batch:
            await self.send(self.url, b"[%b]" % b",".join(clouds), {"Content-Type": BATCH})
            return
        for cloud in clouds:
            await self.send(self.url, cloud, {"Content-Type": CLOUDEVENT})

    def _headers(self) -> dict[str, str]:
        return {} if self._own_token is None else {"Authorization": f"Bearer {self._own_token.reveal()}"}

    def _raise(self, status: int, body: bytes) -> None:
        told = f"{self.url} answered {status}: {body[:200].decode(errors='replace').strip()}"
        if status in (401, 403):
            raise PermissionDenied(told)
        raise InvalidInput(told) if status in REFUSALS else AdapterUnavailable(told)


def _cloud(body: bytes) -> bytes:
    """An event of the spool by the names that CloudEvents allows."""
    try:
        members = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidInput(f"the event was damaged in the spool and is not JSON: {error}") from None
    return msgspec.json.encode({RENAMED.get(name, name): value for name, value in members.items()})
