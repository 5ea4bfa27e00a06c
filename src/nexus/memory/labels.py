"""Labels of a batch: they stand for entities in that batch alone; whom it names and nobody is, is made."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import apsw

from nexus import ids
from nexus.errors import UsageError
from nexus.ledgers import Ledgers
from nexus.memory.references import OWN_ID, is_known, meant

Asked = tuple[str, dict[str, Any]]

_REFERENCES: Final = ("about", "source", "target", "entity")


async def scoped(
    ledgers: Ledgers, asked: Sequence[tuple[str, Mapping[str, Any]]], phone_region: str
) -> list[Asked]:
    """The operations with ids of entities in place of labels, in the same order; new entities come last."""
    return await ledgers.identity.read(_scoped, asked=asked, phone_region=phone_region)


def _scoped(
    connection: apsw.Connection, asked: Sequence[tuple[str, Mapping[str, Any]]], phone_region: str
) -> list[Asked]:
    labels: dict[str, str] = {}
    given = [(name, dict(arguments)) for name, arguments in asked]
    for place, (name, arguments) in enumerate(given):
        if name == "entity":
            given[place] = _entity(connection, arguments, labels, phone_region)
    made: dict[str, Asked] = {}
    for _, arguments in given:
        for key in _REFERENCES:
            if isinstance(arguments.get(key), str):
                arguments[key] = _referred(connection, arguments[key], labels, made, phone_region)
        if isinstance(arguments.get("entities"), list):
            arguments["entities"] = [
                _referred(connection, str(each), labels, made, phone_region) for each in arguments["entities"]
            ]
    return [*given, *made.values()]


def _entity(
    connection: apsw.Connection, arguments: dict[str, Any], labels: dict[str, str], phone_region: str
) -> Asked:
    """An entity of a batch. One that goes by that name already gains the aliases instead."""
    label, name = arguments.get("id"), arguments.get("name")
    if not isinstance(name, str) or (isinstance(label, str) and is_known(connection, label)):
        return "entity", arguments
    known = _only(connection, name, phone_region)
    id_ = known or ids.new("ent")
    for each in (label, name):
        if isinstance(each, str):
            labels.setdefault(each, id_)
    if known is None:
        return "entity", {**arguments, "id": id_}
    listed = arguments.get("alias")
    further = cast("list[object]", listed) if isinstance(listed, list) else [listed] if listed else []
    return "alias", {"entity": id_, "alias": [name, *further], **_kept(arguments, "event", "source_type")}


def _referred(
    connection: apsw.Connection,
    reference: str,
    labels: dict[str, str],
    made: dict[str, Asked],
    phone_region: str,
) -> str:
    if reference in labels:
        return labels[reference]
    # A word in small letters is a label of a run, or an id: the memory says what it makes of it.
    if OWN_ID.fullmatch(reference) or reference.startswith("ent_"):
        return reference
    try:
        known = meant(connection, reference, phone_region)
    except UsageError:
        return reference  # more than one: the operation says so
    if known is not None:
        return known
    labels[reference] = id_ = ids.new("ent")
    made[reference] = ("entity", {"id": id_, "name": reference})
    return id_


def _only(connection: apsw.Connection, name: str, phone_region: str) -> str | None:
    try:
        return meant(connection, name, phone_region)
    except UsageError:
        return None


def _kept(arguments: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: arguments[name] for name in names if arguments.get(name) is not None}
