"""People: who asks to talk to the agent, who may, and what they reach."""

from typing import cast, get_args

import apsw
from starlette.requests import Request
from starlette.responses import Response

from nexus.app import App
from nexus.errors import MissingError, UsageError
from nexus.gateway.dashboard.render import Form, get, page, post, read_form, redirect
from nexus.ledgers.identity import access
from nexus.ledgers.identity.access import Granted
from nexus.request import Memory

_OWNER = "owner"


async def list_people(request: Request, app: App) -> Response:
    """Show who asks, and who has access."""
    asking = await app.ledgers.identity.read(access.list_pairings)
    known = await app.ledgers.identity.read(access.list_grantees)
    limits = app.config.budgets
    return await page(request, "people.html", active="settings", asking=asking, known=known, limits=limits)


async def answer(request: Request, app: App) -> Response:
    """Let somebody in who asked, or not."""
    code, to = request.path_params["code"].upper(), request.path_params["to"]
    if to == "approve":
        granted = _read_grant(await read_form(request))
        approved = await app.ledgers.identity.write(access.approve, code=code, granted=granted, by=_OWNER)
        done = approved is not None
    elif to == "refuse":
        done = await app.ledgers.identity.write(access.refuse, code=code)
    else:
        raise UsageError(f"Unknown action for a code: `{to}`")
    if not done:
        raise MissingError(f"Unknown or expired code: {code}", hint="The page People lists pending requests.")
    return redirect("/people")


async def change(request: Request, app: App) -> Response:
    """Replace what somebody may reach, or take it all back."""
    id_, to = request.path_params["id"], request.path_params["to"]
    if to not in {"grant", "revoke"}:
        raise UsageError(f"Unknown action for a person: `{to}`")
    granted = _read_grant(await read_form(request)) if to == "grant" else None

    def put(connection: apsw.Connection) -> bool:
        if granted is None:
            return access.revoke(connection, id_)
        if access.find_grant(connection, id_) is None:
            return False
        access.grant(connection, id_, granted, _OWNER)
        return True

    if not await app.ledgers.identity.write(put):
        raise MissingError("This person has no access", hint="The page People lists who has.")
    return redirect("/people")


def _read_grant(given: Form) -> Granted:
    memory = given.text("memory") or "own"
    if memory not in get_args(Memory):
        raise UsageError(f"Unknown kind of memory: `{memory}`")
    return Granted(
        tools=_read_words(given, "tools"),
        directories=_read_words(given, "directories"),
        network=given.text("network") == "yes",
        sessions=_read_words(given, "sessions"),
        memory=cast("Memory", memory),
    )


def _read_words(given: Form, name: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in given.text(name).split(",") if word.strip())


ROUTES = (
    get("/people", list_people),
    post("/people/codes/{code}/{to}", answer),
    post("/people/{id}/{to}", change),
)
