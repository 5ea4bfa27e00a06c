"""Traces are sent to a collector once, when all of their work has ended."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, cast

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from gateways import app_for_gateway
from nexus.gateway.spans import Exporter, collector
from nexus.home import Home
from nexus.testing import ModelServer


class Collector(HTTPServer):
    """Keeps what it is sent."""

    def __init__(self) -> None:
        self.received: list[Any] = []
        self.status = 200
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1/traces"

    @property
    def spans(self) -> list[Any]:
        return [
            span
            for request in self.received
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        sink = cast("Collector", self.server)
        body = self.rfile.read(int(self.headers["content-length"]))
        if sink.status == 200:
            request = ExportTraceServiceRequest()
            request.ParseFromString(body)
            sink.received.append(request)
        self.send_response(sink.status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the library names it
        pass


@pytest.fixture
def sink() -> Iterator[Collector]:
    with Collector() as sink:
        thread = threading.Thread(target=sink.serve_forever, daemon=True)
        thread.start()
        yield sink
        sink.shutdown()
        thread.join()


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
