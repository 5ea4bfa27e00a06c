"""Whatever the API's own document allows or forbids is answered as described, and never without the token."""

from collections.abc import Iterator
from typing import Any, cast

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import checks
from schemathesis.generation import GenerationMode

from acceptance.agents import environment
from acceptance.running import Served, serving
from nexus.home import Home
from nexus.testing import ModelServer, echo

EXAMPLES = 5
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


@pytest.fixture
def served(home: Home) -> Iterator[Served]:
    with ModelServer() as server:
        server.always(echo)
        env = environment(server, NEXUS_ENGINE_LEASE_MS="20000", NEXUS_GATEWAY_RATE_PER_S="100000")
        with serving(home, env) as served:
            yield served


def test_every_operation_answers_as_described_and_only_with_the_token(home: Home, served: Served) -> None:
    token = {"authorization": f"Bearer {home.token()}"}
    document = httpx.get(f"{served.url}/api/openapi.json", headers=token).raise_for_status().json()
    schema: Any = schemathesis.openapi.from_dict(document)
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) > 30
    for operation in operations:
        modes = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
        cases: Any = st.one_of(*(operation.as_strategy(generation_mode=mode) for mode in modes))

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
            answer = case.call(base_url=served.url, headers=token, timeout=60)
            case.validate_response(answer, checks=ALWAYS)

        answered()
