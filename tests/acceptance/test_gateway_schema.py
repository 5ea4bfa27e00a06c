"""Whatever the API's own document allows or forbids is answered as described, and never without the token.

The home is that of `nexus demo`, and half of the ids and places that are asked for are those it has. More is
tried with `NEXUS_LONG=1 pytest tests/acceptance/test_gateway_schema.py`: 300 for each operation.
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import checks
from schemathesis.generation import GenerationMode

from acceptance.agents import PATIENCE_S, environment
from acceptance.running import Served, serving
from long_form import times
from nexus.home import Home
from nexus.memory.operations import OPERATIONS
from nexus.testing import ModelServer, echo

EXAMPLES = times(2, long=300)
# What must hold for every answer, whatever was sent. The library's own types are partly unknown.
ALWAYS = cast(
    "list[Any]",
    [
        checks.not_a_server_error,  # pyright: ignore[reportUnknownMemberType]
        checks.status_code_conformance,  # pyright: ignore[reportUnknownMemberType]
        checks.content_type_conformance,  # pyright: ignore[reportUnknownMemberType]
        checks.response_schema_conformance,  # pyright: ignore[reportUnknownMemberType]
    ],
)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The served home, by its API."""

    url: str
    token: dict[str, str]

    def get(self, path: str, **query: object) -> Any:
        values = {name: str(value) for name, value in query.items()}
        answer = httpx.get(f"{self.url}/api{path}", params=values, headers=self.token, timeout=PATIENCE_S)
        return answer.raise_for_status().json()

    def known(self) -> dict[str, list[Any]]:
        """What there is, by the name of the parameter or field that means it."""
        entities = [each["id"] for each in self.get("/memory/entities", limit=20)["items"]]
        facts = self.get("/memory/facts", limit=50)["items"]
        labels = [each["label"] for each in self.get("/sessions")["items"]]
        return {
            "label": labels,
            "session": labels,
            "request_id": [each["id"] for each in self.get("/requests", limit=20)["items"]],
            "execution_id": self.get("/sessions/main/executions")["ids"],
            "reference": [*entities, "Clara Holm", "mira@lumenoak.example"],
            "entity": entities,
            "about": entities,
            "source": entities,
            "target": entities,
            "event_id": [each["source_event_id"] for each in facts if each["source_event_id"]],
            "fact_id": [each["id"] for each in facts[1:]],
            "forget_id": [self.forget(facts[0]["id"])],
            "episode_id": [each["id"] for each in self.get("/memory/episodes", limit=20)["items"]],
            "candidate_id": [each["id"] for each in self.get("/memory/candidates")],
            "name": [
                each["automation"]["name"]
                for place in self.get("/automations")
                for each in place["automations"]
            ],
            "upload_id": [self.upload("a.jsonl"), self.upload("b.jsonl")],
            "operation": list(OPERATIONS),
            "version": [1, 2, 3],
        }

    def forget(self, fact_id: str) -> str:
        """A deletion with a receipt."""
        path, wanted = f"{self.url}/api/memory/forget", {"fact": fact_id}
        answer = httpx.post(path, json=wanted, headers=self.token, timeout=PATIENCE_S)
        return str(answer.raise_for_status().json()["forget_id"])

    def upload(self, name: str) -> str:
        """An export that is there to be imported."""
        path, line = f"{self.url}/api/uploads", b'{"id": "1", "text": "Hello"}'
        answer = httpx.post(path, params={"name": name}, content=line, headers=self.token, timeout=PATIENCE_S)
        return str(answer.raise_for_status().json()["id"])

    def places(self, path: str, label: str, entity: str, name: str) -> list[str]:
        """Where the second page of a list begins."""
        filled = path.format(label=quote(label, safe=""), reference=entity, name=name)
        found = self.get(filled.removeprefix("/api"), limit=2)["next"]
        return [found] if found else []


@pytest.fixture(scope="module")
def home(demo_month: Path, tmp_path_factory: pytest.TempPathFactory) -> Home:
    return Home(Path(shutil.copytree(demo_month, tmp_path_factory.mktemp("schema") / "home")))


@pytest.fixture(scope="module")
def served(home: Home) -> Iterator[Served]:
    with ModelServer() as server:
        server.always(echo)
        env = environment(server, NEXUS_GATEWAY_RATE_PER_S="100000")
        with serving(home, env) as served:
            yield served


@st.composite
def _cases(draw: st.DrawFn, operation: Any, known: dict[str, list[Any]]) -> Any:
    """What the document allows and what it forbids, with things that there are put in here and there."""
    mode = draw(st.sampled_from([GenerationMode.POSITIVE, GenerationMode.NEGATIVE]))
    case = draw(operation.as_strategy(generation_mode=mode))
    for given_values in (case.path_parameters, case.query, case.body):
        if isinstance(given_values, dict):
            fields = cast("dict[str, Any]", given_values)
            for name in [each for each in fields if known.get(each)]:
                if draw(st.booleans()):
                    found = draw(st.sampled_from(known[name]))
                    fields[name] = quote(found, safe="") if fields is case.path_parameters else found
    if known.get("cursor") and draw(st.booleans()):
        case.query = {**(case.query or {}), "cursor": known["cursor"][0]}
    return case


def _opens(operation: Any, known: dict[str, list[Any]], asked: Asked) -> None:
    """What there is can be read."""
    found = {each.name: quote(known[each.name][0], safe="") for each in operation.path_parameters}
    needed = {"recall": {"text": "Clara"}, "forget": {"entity": known["entity"][0]}}
    parts = [part for part in needed if part in operation.path]
    case = operation.Case(path_parameters=found, query=needed[parts[0]] if parts else {})
    answer = case.call(base_url=asked.url, headers=asked.token, timeout=PATIENCE_S)
    assert answer.status_code == 200, (operation.path, answer.text[:500])
    case.validate_response(answer, checks=ALWAYS)


def test_every_operation_answers_as_described_and_only_with_the_token(home: Home, served: Served) -> None:
    asked = Asked(url=served.url, token={"authorization": f"Bearer {home.token()}"})
    schema: Any = schemathesis.openapi.from_dict(asked.get("/openapi.json"))
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) > 30
    known = asked.known()
    assert all(known.values()), known
    for operation in operations:
        pages = any(parameter.name == "cursor" for parameter in operation.query)
        cursors = asked.places(operation.path, "main", known["entity"][0], "tag-errands") if pages else []
        if operation.method == "get":
            _opens(operation, known, asked)
        cases: Any = _cases(operation, {**known, "cursor": cursors})

        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        )
        @given(case=cases)
        def answered(case: Any) -> None:
            assert case.call(base_url=served.url, timeout=60).status_code in {401, 429}
            answer = case.call(base_url=served.url, headers=asked.token, timeout=60)
            case.validate_response(answer, checks=ALWAYS)

        answered()
