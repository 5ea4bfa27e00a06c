"""Traces are sent to a collector once, when all of their work has ended."""

from collections.abc import Iterator

import pytest

from gateways import app_for_gateway
from nexus.gateway.spans import Exporter, collector
from nexus.home import Home
from nexus.testing import ModelServer
from unit.gateway.collectors import Collector, collecting


@pytest.fixture
def sink() -> Iterator[Collector]:
    with collecting() as sink:
        yield sink


async def test_a_trace_is_sent_once_as_a_tree_and_without_what_was_said(home: Home, sink: Collector) -> None:
    async with ModelServer() as server, app_for_gateway(home, server) as app:
        exporter = Exporter(app.ledgers, collector(sink.url))
        assert await exporter.once() == 0
        server.script("In the raspberry tin.")
        await (await app.send("Where is the raspberry tea?")).result()
        sink.status = 400
        assert await exporter.once() == 0, "the collector is asked again later"
        sink.status = 200
        assert await Exporter(app.ledgers, collector(sink.url)).once() == 1
        assert await exporter.once() == 0, "a restart does not send it again"
    by_id = {span.span_id: span for span in sink.spans}
    roots = [span for span in sink.spans if not span.parent_span_id]
    assert [span.name for span in roots] == ["request"]
    assert all(span.parent_span_id in by_id for span in sink.spans if span not in roots)
    assert len({span.trace_id for span in sink.spans}) == 1
    (model,) = [span for span in sink.spans if span.name == "model test/large"]
    assert by_id[model.parent_span_id].name == "execution"
    assert model.end_time_unix_nano > model.start_time_unix_nano
    told = {attribute.key: attribute.value.int_value for attribute in model.attributes}
    assert told["gen_ai.usage.output_tokens"] > 0
    assert "raspberry" not in str(sink.received)
