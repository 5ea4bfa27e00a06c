"""A collector of traces for tests."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, cast

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


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
    def resources(self) -> list[dict[str, str]]:
        """Whose each batch of spans was."""
        return [
            {each.key: each.value.string_value for each in found.resource.attributes}
            for request in self.received
            for found in request.resource_spans
        ]

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


@contextmanager
def collecting() -> Generator[Collector]:
    with Collector() as sink:
        thread = threading.Thread(target=sink.serve_forever, daemon=True)
        thread.start()
        yield sink
        sink.shutdown()
        thread.join()
