"""agentbox in a plain script: record the work, let an agent do it, close it with what the agent said."""

import asyncio
import sys

import agentbox
from agentbox_contracts.orchestrator import AgentSpec


async def main() -> None:
    async with agentbox.open_app() as app:
        beads, orchestrator = app.adapters.beads, app.adapters.orchestrator
        epic = await beads.create_epic(title="Say hello")
        task = await beads.create_child(parent_id=epic.id, title="Print one line")

        claimed = await beads.claim(task.id, actor="script", lease_seconds=60)
        agent = await orchestrator.spawn(
            AgentSpec(command=sys.executable, args=("-c", "print('hello from an agent')"), bead_id=task.id)
        )
        async for event in orchestrator.stream(agent.id):
            if event.type == "stdout":
                print(event.text, end="")

        ended = await orchestrator.status(agent.id)
        closed = await beads.close(
            task.id, outcome="done" if ended.exit_code == 0 else "failed", actor="script", fence=claimed.fence
        )
        print(f"{closed.title}: {closed.outcome}")


if __name__ == "__main__":
    asyncio.run(main())
