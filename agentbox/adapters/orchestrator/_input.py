"""The agent's standard input as its supervisor holds it: bounded, and never waited for. Standard library only."""

from __future__ import annotations

import binascii
import os

__all__ = ["BOUND", "Input"]

BOUND = 1024 * 1024
"""How many bytes may wait for an agent that does not read."""


class Input:
    """The writing end of a pipe, or nothing at all."""

    def __init__(self, descriptor: int | None) -> None:
        self.descriptor = -1 if descriptor is None else descriptor
        self._is_pipe = descriptor is not None
        self._waiting = bytearray()
        self._ending = False
        self.keys: set[str] = set()

    @property
    def has_waiting(self) -> bool:
        """Whether bytes wait for the agent to read."""
        return bool(self._waiting)

    def take(self, request: dict[str, object], *, is_over: bool) -> dict[str, object]:
        """Take all of the data or nothing of it; the answer says which. A key that was taken is not taken again."""
        key = request.get("key")
        if isinstance(key, str) and key in self.keys:
            return {"ok": True}
        data = binascii.a2b_base64(str(request.get("data", "")))
        if problem := self._problem(len(data), is_over):
            return problem
        self._waiting += data
        self._ending = bool(request.get("end"))
        if not self.flush():
            return _refusal("conflict", "it has closed its input")
        if isinstance(key, str):
            self.keys.add(key)
        return {"ok": True}

    def flush(self) -> bool:
        """Write as much as the agent takes now. False when it has closed its end; what waited is dropped."""
        while self._waiting and self.descriptor >= 0:
            try:
                written = os.write(self.descriptor, self._waiting[:65536])
            except BlockingIOError:
                return True
            except OSError:
                self.close()
                return False
            del self._waiting[:written]
        if self._ending:
            self.close()
        return True

    def close(self) -> None:
        """Close the pipe and drop what waits for it. A second time does nothing."""
        self._waiting.clear()
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def _problem(self, size: int, is_over: bool) -> dict[str, object] | None:
        if is_over:
            return _refusal("conflict", "it has ended")
        if not self._is_pipe:
            return _refusal("conflict", 'it was started without stdin="pipe"')
        if self.descriptor < 0 or self._ending:
            return _refusal("conflict", "its input is closed")
        if self._waiting and len(self._waiting) + size > BOUND:
            return _refusal("unavailable", f"it does not read, and {len(self._waiting)} bytes wait for it already")
        return None


def _refusal(error: str, message: str) -> dict[str, object]:
    return {"error": error, "message": message}
