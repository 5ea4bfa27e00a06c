"""The arguments of the skill's scripts: any texts at all, as a shell hands them over.

A script sends its arguments as they are, each followed by a zero byte, so no shell ever has to quote them.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from nexus.errors import UsageError

_FLAG: Final = "--"


def received(body: bytes) -> list[str]:
    """The arguments that a script sent."""
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise UsageError(
            f"An argument is not UTF-8: {error}", hint="Convert it, for example with iconv."
        ) from error
    return text.removesuffix("\0").split("\0") if text else []


def flags(arguments: Sequence[str], example: str) -> tuple[list[str], dict[str, str | list[str]]]:
    """The bare arguments, and the values of the flags; a flag that comes twice has a list of values.

    Each flag has a value, `--fact TEXT` or `--fact=TEXT`: so a text may begin with dashes too.
    """
    bare: list[str] = []
    found: dict[str, str | list[str]] = {}
    rest = iter(arguments)
    for argument in rest:
        if argument.startswith(_FLAG) and len(argument) > len(_FLAG):
            name, value = _flag(argument, rest, example)
            _add(found, name, value)
        else:
            bare.append(argument)
    return bare, found


def _flag(argument: str, rest: Iterator[str], example: str) -> tuple[str, str]:
    name, equals, value = argument.removeprefix(_FLAG).partition("=")
    if equals:
        return name, value
    following = next(rest, None)
    if following is None:
        raise UsageError(f"`--{name}` needs a value", hint=f"For example: {example}")
    return name, following


def _add(found: dict[str, str | list[str]], name: str, value: str) -> None:
    earlier = found.get(name)
    if earlier is None:
        found[name] = value
    else:
        found[name] = [*([earlier] if isinstance(earlier, str) else earlier), value]
