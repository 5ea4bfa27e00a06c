"""Which model each role gets: what is asked, and what Enter answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from nexus.cli.init_choice import Earlier
from nexus.cli.init_questions import Asking
from nexus.cli.terminal import printable
from nexus.config import Config
from nexus.errors import UsageError

_QUESTIONS: Final = {
    "manager": "Model you talk to",
    "worker": "Model for workers (`same`: same as above)",
    "fast": "Model for small decisions (`same`: the workers' model)",
    "writer": "Model that writes the memory after each turn (`none`: off)",
}
ROLES: Final = tuple(_QUESTIONS)
_NOBODY: Final = {"worker": "same", "fast": "same", "writer": "none"}


@dataclass(frozen=True, kw_only=True)
class Questions:
    """The questions about the models of one provider."""

    settings: Config
    name: str
    """The section of the provider."""
    asking: Asking
    proposed: Mapping[str, str]
    served: Sequence[str]
    """What the server was seen to have; nothing where that is not known."""
    earlier: Earlier | None
    writer_follows: bool
    """Whether the manager's model is proposed for the writer."""

    def models(self, wished: Mapping[str, str]) -> dict[str, str]:
        """The model of each role. What config.toml says of a role is the default, where it still fits."""
        models: dict[str, str] = {}
        manager = ""
        for role in ROLES:
            current = self._current(role)
            nobody = _NOBODY.get(role, "")
            answer = wished.get(role) or self._answer(role, manager)
            manager = manager or answer
            if role == "manager" or answer != (current or nobody):
                models[role] = "" if answer == nobody else _full(answer, self.name, self.settings)
        if not models["manager"]:
            hint = f"Pass `--model`, such as `--model {self.name}/NAME`."
            raise UsageError("No model given", hint=hint)
        return models

    def _current(self, role: str) -> str:
        return "".join(getattr(self.settings.models, role)[:1])

    def _answer(self, role: str, manager: str) -> str:
        default = self._default(role, manager)
        while True:
            answer = self.asking.text(_QUESTIONS[role], default)
            if not self._is_unknown(role, answer):
                return answer
            question = f"The server doesn't list a model named {printable(answer)!r}. Use it anyway?"
            if self.asking.yes(question, default=False):
                return answer

    def _default(self, role: str, manager: str) -> str:
        nobody, current = _NOBODY.get(role, ""), self._current(role)
        before = self.earlier.model(role, self.name) if self.earlier else None
        if before is not None:
            return before or nobody
        fits = role != "manager" and (current.startswith(f"{self.name}/") or not self.asking.is_person)
        follows = manager if role == "writer" and self.writer_follows else ""
        return (current if fits else "") or follows or self.proposed.get(role) or nobody

    def _is_unknown(self, role: str, answer: str) -> bool:
        """Whether a person names what the server, whose models were just shown, does not have."""
        if not self.asking.is_person or not self.served or answer == _NOBODY.get(role):
            return False
        section, _, model = _full(answer, self.name, self.settings).partition("/")
        return section == self.name and model not in self.served


def _full(model: str, name: str, settings: Config) -> str:
    """`provider/model`: what is typed may leave the provider out, and a model's own name may have a slash."""
    head, slash, _ = model.partition("/")
    return model if slash and head in {name, *settings.providers} else f"{name}/{model}"
