"""The page of the HTTP API, from its OpenAPI document."""

from collections.abc import Iterator
from typing import Any

from nexus.gateway.server import document
from pages import markdown

_ABOUT = """\
`nexus up` serves the API under `/api`; requests need the API token. See
[Use the API](../how-to/use-the-api.md). `GET /api/openapi.json` returns the OpenAPI document.
Every error is a [Problem](#problem)."""
_METHODS = ("get", "post", "put", "patch", "delete")


def page() -> str:
    """Every operation by subject, then the shapes of what is sent and answered."""
    found = document()
    lines = [markdown.join(markdown.front("HTTP API", "src/nexus/gateway/api", _ABOUT))]
    subject = ""
    for path, operations in found["paths"].items():
        for method in _METHODS:
            if method in operations:
                operation = operations[method]
                if operation["tags"][0] != subject:
                    subject = operation["tags"][0]
                    lines.append(f"## {subject.capitalize()}\n")
                lines += _operation(method, path, operation)
    lines.append("## Shapes\n")
    for name, schema in sorted(found["components"]["schemas"].items()):
        lines += _schema(name, schema)
    return "\n".join(lines).rstrip("\n") + "\n"


def _operation(method: str, path: str, operation: dict[str, Any]) -> Iterator[str]:
    yield f"### `{method.upper()} {path}`\n"
    yield f"{operation['description']}\n"
    for parameter in operation.get("parameters", []):
        schema = parameter["schema"]
        default = f", default `{schema['default']}`" if schema.get("default") not in {None, ""} else ""
        told = parameter.get("description", "")
        yield f"- `{parameter['name']}` ({parameter['in']}, {_type(schema)}{default}): {told}".rstrip(": ")
    body = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if body:
        yield f"- body: {_type(body['schema'])}"
    for status, answer in operation["responses"].items():
        if status.startswith("2"):
            kinds = answer.get("content", {})
            schema = kinds.get("application/json", {}).get("schema")
            yield f"- returns `{status}`: {_type(schema) if schema else ', '.join(kinds) or 'nothing'}"
    yield ""


def _schema(name: str, schema: dict[str, Any]) -> Iterator[str]:
    yield f"### {_shown(name)}\n"
    if schema.get("description"):
        yield f"{schema['description']}\n"
    fields = schema.get("properties", {}).items()
    plain = [f"`{field}` {_type(kind)}" for field, kind in fields if not kind.get("description")]
    for field, kind in fields:
        if kind.get("description"):
            yield f"- `{field}` ({_type(kind)}): {kind['description']}"
    if plain:
        yield f"- {'; '.join(plain)}"
    yield ""


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = _shown(schema["$ref"].rpartition("/")[2])
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(f"`{each}`" for each in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}" if schema.get("items") else "list"
    return schema.get("type", "anything")


def _shown(name: str) -> str:
    """The names of shapes that two rooms call alike, and of pages, as people read them."""
    rooms = {"nexus__runs__": "Answer", "nexus__memory__recall__item__": "Recall"}
    for prefix, short in rooms.items():
        if name.startswith(prefix):
            return f"{short}{name.removeprefix(prefix)}"
    return name.replace("Page_", "PageOf").rstrip("_")
