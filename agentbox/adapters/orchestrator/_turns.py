"""Whose turn it is to start an agent, where only so many may run: callers take turns. Standard library only."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from agentbox.adapters.orchestrator._lines import Lines
else:
    from _lines import Lines

__all__ = ["Turns"]

Request = dict[str, object]
Ticket = tuple[int, object]


class Turn:
    """A caller's request for its turn, and how many agents may run with it."""

    def __init__(self, client: Lines, request: Request) -> None:
        self.client = client
        self.request = request
        self.ticket: Ticket = (id(client), request.get("ticket"))
        self.caller = str(request.get("caller") or id(client))
        self.bound = int(str(request["bound"]))


class Turns:
    """
    Those who wait, and those whose turn it is and who have not started anything yet.

    Each caller's are in their order; between callers each has one in turn, however many it has waiting.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, deque[Turn]] = {}
        self.granted: set[Ticket] = set()

    def ask(self, client: Lines, request: Request, live: int) -> None:
        """
        Let *client* wait for its turn, which may have come, *live* agents running.

        It is refused when it would have to wait, and as many of that caller do as may.
        """
        turn = Turn(client, request)
        queue = self._waiting.setdefault(turn.caller, deque())
        queue.append(turn)
        self.grant(live)
        if not queue or queue[-1] is not turn or len(queue) <= int(str(request["most"])):
            return
        queue.pop()
        if not queue:
            del self._waiting[turn.caller]
        client.answer(request, error="unavailable", message=f"{len(queue)} of its caller's wait for their turn")

    def grant(self, live: int) -> None:
        """Tell those whose turn it is, *live* agents running."""
        while (turn := self._next(live + len(self.granted))) is not None:
            queue = self._waiting.pop(turn.caller)
            queue.popleft()
            if queue:
                self._waiting[turn.caller] = queue  # behind all others
            self.granted.add(turn.ticket)
            turn.client.answer(turn.request, ok=True)

    def use(self, client: Lines, ticket: object) -> bool:
        """Whether *client* may start an agent with *ticket*, which is good once."""
        if (id(client), ticket) not in self.granted:
            return False
        self.granted.remove((id(client), ticket))
        return True

    def leave(self, client: Lines, ticket: object) -> None:
        """Forget about one that was asked for, whether or not it was granted."""
        self._forget(lambda known: known == (id(client), ticket))

    def gone(self, client: Lines) -> None:
        """Forget about all that *client* asked for."""
        self._forget(lambda known: known[0] == id(client))

    def _next(self, busy: int) -> Turn | None:
        return next((queue[0] for queue in self._waiting.values() if busy < queue[0].bound), None)

    def _forget(self, is_meant: Callable[[Ticket], bool]) -> None:
        self.granted = {ticket for ticket in self.granted if not is_meant(ticket)}
        left = {
            caller: deque(turn for turn in queue if not is_meant(turn.ticket))
            for caller, queue in self._waiting.items()
        }
        self._waiting = {caller: queue for caller, queue in left.items() if queue}
