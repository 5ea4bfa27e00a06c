"""Optional packages: which extra brings them, whether they are installed, how to install them.

`pyproject.toml` lists the packages of each extra. Code that needs some imports them late and calls `require`
first.
"""

import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import invalidate_caches
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from nexus.errors import ConfigError, NexusError

_DISTRIBUTION: Final = "nexus-runtime"


@dataclass(frozen=True, kw_only=True, slots=True)
class Extra:
    """The packages of one feature."""

    purpose: str
    modules: tuple[str, ...]
    """What is imported of them. The extra is installed if all of it can be found."""


RECOMMENDED: Final = {
    "embedding": Extra(purpose="search by meaning", modules=("onnxruntime", "tokenizers")),
    "web": Extra(purpose="web pages", modules=("trafilatura", "lxml")),
    "pdf": Extra(purpose="PDF files", modules=("pypdf",)),
    "import": Extra(purpose="mail, contacts and calendars", modules=("icalendar", "lxml", "vobject")),
    "mcp": Extra(purpose="MCP", modules=("mcp",)),
    "terminal": Extra(purpose="line editing in the terminal", modules=("prompt_toolkit",)),
}
"""What `nexus init` offers, besides the packages of the chosen provider."""
_EXTRA_OF_PROVIDER: Final = {"azure": "openai", "openrouter": "openai", "builtin": "local"}
_MODULE_OF_PROVIDER: Final = {
    "azure": "openai",
    "bedrock": "boto3",
    "builtin": "xllamacpp",
    "google": "google.genai",
    "mistral": "mistralai",
    "openrouter": "openai",
}


def is_installed(name: str) -> bool:
    """Whether the packages of a recommended extra are there."""
    return _can_import(RECOMMENDED[name].modules)


def _can_import(modules: Sequence[str]) -> bool:
    return all(find_spec(module) is not None for module in modules)


def require(
    name: str, feature: str, error: type[NexusError] = ConfigError, *, modules: Sequence[str] = ()
) -> None:
    """Raise an error that says what to install if a recommended extra is missing, or some modules of it."""
    if not _can_import(modules or RECOMMENDED[name].modules):
        raise error(f"{feature} needs packages that aren't installed", hint=hint(name))


def hint(*names: str) -> str:
    """Say how to install extras."""
    return f"Run `pip install '{requirement(names)}'`."


def requirement(names: Sequence[str]) -> str:
    """Return the requirement that brings extras."""
    return f"{_DISTRIBUTION}[{','.join(names)}]"


def extra_of_provider(kind: str) -> str:
    """Return the extra with the packages of a kind of provider."""
    return _EXTRA_OF_PROVIDER.get(kind, kind)


def has_provider(kind: str) -> bool:
    """Whether the packages of a kind of provider are there."""
    try:
        return _can_import([_MODULE_OF_PROVIDER.get(kind, kind)])
    except ModuleNotFoundError:
        return False  # `google` itself


def missing_recommended() -> list[str]:
    """List the recommended extras that are not installed."""
    return [name for name in RECOMMENDED if not is_installed(name)]


def install_command(names: Sequence[str]) -> list[str]:
    """Return the command that adds extras to this installation, however it was made."""
    wanted = requirement(names)
    receipt = Path(sys.prefix) / "uv-receipt.toml"
    if receipt.exists():
        # uv makes the environment what the new requirement says, so that has to name the earlier extras too.
        tool = tomllib.loads(receipt.read_text(encoding="utf-8"))["tool"]
        [before] = [each for each in tool["requirements"] if each["name"] == _DISTRIBUTION]
        return ["uv", "tool", "install", requirement(sorted({*before.get("extras", []), *names}))]
    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install", wanted]
    return ["uv", "pip", "install", "--python", sys.executable, wanted]


def install(names: Sequence[str]) -> bool:
    """Add extras to this installation, showing what the installer prints; whether it succeeded."""
    try:
        done = subprocess.run(install_command(names), check=False)  # noqa: S603 - our own words
    except OSError:
        return False  # uv made the environment and is no longer there
    invalidate_caches()
    return done.returncode == 0
