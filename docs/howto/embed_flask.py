"""agentbox in a Flask application: blocking calls, handlers read `current_app.adapters`."""

from typing import Any

from flask import Flask, Response, current_app, jsonify, request

import agentbox.sync
from agentbox.sync import SyncAdapter, SyncApp
from agentbox_contracts.errors import AgentboxError
from agentbox_contracts.wire import encode, problem_of


def beads() -> SyncAdapter:
    found: SyncAdapter = current_app.adapters.beads  # type: ignore[attr-defined]
    return found


def create_web(app: SyncApp) -> Flask:
    web = Flask(__name__)
    app.attach(web)

    @web.post("/epics")
    def create_epic() -> Response:
        epic = beads().create_epic(title=request.get_json()["title"])
        return Response(encode(epic), status=201, mimetype="application/json")

    @web.post("/beads/<bead_id>/claim")
    def claim(bead_id: str) -> Response:
        bead = beads().claim(bead_id, actor=request.get_json()["actor"])
        return Response(encode(bead), mimetype="application/json")

    @web.errorhandler(AgentboxError)
    def problem(error: AgentboxError) -> tuple[Any, int]:
        return jsonify(problem_of(error)), error.status

    return web


if __name__ == "__main__":
    with agentbox.sync.open_app() as app:
        create_web(app).run(port=8000)
