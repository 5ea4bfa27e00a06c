"""What a function takes: read from its signature, described as JSON Schema, checked when it is called."""

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, get_type_hints

from nexus.errors import UsageError

if TYPE_CHECKING:
    from pydantic import BaseModel

_OPEN = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def describe(function: Callable[..., Any]) -> dict[str, Any]:
    """The arguments of a function, or of a class's constructor, as the JSON Schema of an object."""
    schema: dict[str, Any] = {"properties": {}, "required": [], **_build_model(function).model_json_schema()}
    for described in (schema, *schema["properties"].values()):
        described.pop("title", None)  # the name again
    return schema


def read(function: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as the function takes them; UsageError where they don't fit."""
    from pydantic import ValidationError

    try:
        model = _build_model(function).model_validate(dict(given))
    except ValidationError as error:
        problems = [f"`{'.'.join(map(str, each['loc']))}`: {each['msg']}" for each in error.errors()]
        raise UsageError("; ".join(problems)) from None
    return {name: getattr(model, name) for name in type(model).model_fields}


def _build_model(function: Callable[..., Any]) -> "type[BaseModel]":
    from pydantic import ConfigDict, create_model

    hints = get_type_hints(function.__init__ if inspect.isclass(function) else function, include_extras=True)
    fields: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in _OPEN:
            continue
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            raise UsageError(f"`{name}` can't be given by its name", hint="Remove the `/` behind it.")
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        fields[name] = (hints.get(name, str), default)
    name = getattr(function, "__name__", "function")
    return create_model(name, __config__=ConfigDict(extra="forbid", arbitrary_types_allowed=True), **fields)
