"""Notifications reach a push service encrypted, each thing once, and stop when a browser leaves."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import apsw
import pytest

from nexus import clock
from nexus.broker.tools.web.download import PublicNetwork
from nexus.errors import UsageError
from nexus.gateway import push
from nexus.gateway.push import Notifier, Sender
from nexus.ledgers import Ledgers, events, sql
from nexus.ledgers.connection import connect
from nexus.ledgers.events import NewEvent
from nexus.ledgers.runtime import approvals, requests
from nexus.ledgers.runtime import push as subscriptions
from nexus.ledgers.runtime.push import Keys
from nexus.request import Agent, Event, Request
from push_service import PushService


@pytest.fixture
def service() -> Iterator[PushService]:
    with PushService() as made:
        yield made


@pytest.fixture
async def notifier(opened: Ledgers) -> AsyncIterator[Notifier]:
    async with push.client() as client:
        yield Notifier(opened, Sender(opened.home, "https://nexus.example"), client)


async def _subscribe(opened: Ledgers, service: PushService, name: str = "one", session: str = "") -> None:
    keys = push.parse_subscription(**service.subscription(name))
    now = clock.timestamp(clock.now() - timedelta(minutes=1))
    await opened.runtime.write(subscriptions.subscribe, keys, session=session, browser="Test", now=now)


async def _scheduled(opened: Ledgers, text: str, channel: str = "web") -> None:
    def work(connection: Any) -> None:
        thread = events.ensure_thread(connection, channel=channel, external_id="trip / plans")
        new = NewEvent(channel=channel, content=text, sender="nexus", thread_id=thread, direction="outbound")
        events.append(connection, [new])

    await opened.events.write(work)


async def _request(opened: Ledgers, id_: str, channel: str) -> None:
    request = Request(
        request_id=id_, event=Event(content="", channel=channel), agent=Agent(session_label="main")
    )
    await opened.runtime.write(requests.create, request=request)


async def test_a_scheduled_message_is_decrypted_by_the_browser_and_sent_once(
    opened: Ledgers, service: PushService, notifier: Notifier
) -> None:
    await _subscribe(opened, service)
    await _scheduled(opened, "Water the plants.\n" + "And the cactus. " * 30)
    await _scheduled(opened, "Elsewhere", channel="telegram")
    assert await notifier.once() == 1
    assert await notifier.once() == 0
    (told,) = service.messages
    assert told["title"] == "Nexus"
    assert told["body"].startswith("Water the plants. And the cactus.")
    assert len(told["body"]) == 180
    assert told["url"] == "/chat/trip%20%2F%20plans"
    (claims,) = service.claims
    assert (claims["aud"], claims["sub"]) == (service.origin, "https://nexus.example")
    assert 0 < claims["exp"] - time.time() <= 24 * 3600
    assert service.headers[0]["content-encoding"] == "aes128gcm"
    assert service.headers[0]["ttl"] == "86400"


async def test_an_approval_that_waits_says_what_will_run(
    opened: Ledgers, service: PushService, notifier: Notifier
) -> None:
    await _subscribe(opened, service)
    await _request(opened, "req_1", "web")
    await opened.runtime.write(
        approvals.ask,
        request_id="req_1",
        execution_id="exe_1",
        call_key="call_1",
        tool="bash",
        arguments={"command": "rm -r build"},
    )
    assert await notifier.once() == 1
    (told,) = service.messages
    assert (told["title"], told["body"]) == ("Allow bash?", "rm -r build")


class _Held(apsw.VFSFile):
    """A file whose log is written to the disk when the test says so."""

    written, may_commit = threading.Event(), threading.Event()

    def xSync(self, flags: int) -> None:  # noqa: N802 - as apsw calls it
        self.written.set()
        assert self.may_commit.wait(60)
        super().xSync(flags)


class _Holding(apsw.VFS):
    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - as apsw calls it
        path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        return (_Held if path.endswith("-wal") else apsw.VFSFile)("", name, flags)


async def test_what_is_committed_only_after_it_was_looked_for_is_told(
    opened: Ledgers, service: PushService
) -> None:
    await _subscribe(opened, service)
    await _scheduled(opened, "The log begins", channel="telegram")
    # Whoever opens the log later as root touches it, which is reported, too.
    for ledger in (opened.events, opened.runtime) * 16:
        await asyncio.gather(*(ledger.read(sql.value, "SELECT 1") for _ in range(8)))
    looks: list[int] = []
    filesystem = _Holding("holding", "")

    def now() -> datetime:
        looks.append(len(looks))
        return clock.now()

    def write(text: str) -> None:
        with (
            closing(
                connect(opened.events.path, "events", opened.settings, writes=True, vfs="holding")
            ) as own,
            own,
        ):
            thread = events.ensure_thread(own, channel="web", external_id="trip")
            new = NewEvent(
                channel="web", content=text, sender="nexus", thread_id=thread, direction="outbound"
            )
            events.append(own, [new])

    async with push.client() as client:
        notifying = asyncio.create_task(Notifier(opened, Sender(opened.home), client, now).run())
        async with asyncio.timeout(30):
            while not looks:
                await asyncio.sleep(0.01)
            before = len(looks)
            writing = threading.Thread(target=write, args=["Water the plants."])
            writing.start()
            assert _Held.written.wait(60)
            # It is in the log, and is looked for before it can be read.
            while len(looks) == before:
                await asyncio.sleep(0.01)
            _Held.may_commit.set()
            await asyncio.to_thread(writing.join)
            while not service.messages:
                await asyncio.sleep(0.01)
        notifying.cancel()
    assert filesystem
    assert [told["body"] for told in service.messages] == ["Water the plants."]


async def test_a_workers_result_is_told_but_not_that_of_a_guest(
    opened: Ledgers, service: PushService, notifier: Notifier
) -> None:
    await _subscribe(opened, service)
    for number, channel in enumerate(("web", "telegram")):
        await _worker(opened, number, channel)
    assert await notifier.once() == 1
    (told,) = service.messages
    assert (told["title"], told["body"], told["url"]) == (
        "A worker has finished",
        "Look into it on web",
        "/chat/main",
    )


async def test_a_browser_that_is_gone_is_forgotten_and_one_that_fails_is_tried_again(
    opened: Ledgers, service: PushService, notifier: Notifier
) -> None:
    await _subscribe(opened, service)
    await _scheduled(opened, "First")
    service.status = 503
    assert await notifier.once() == 0
    (browser,) = await opened.runtime.read(subscriptions.subscriptions)
    assert browser.failure == "The push service answered 503"
    service.status = 201
    assert await notifier.once() == 1
    (browser,) = await opened.runtime.read(subscriptions.subscriptions)
    assert browser.failure is None
    assert browser.last_sent_at
    service.status = 410
    await _scheduled(opened, "Second")
    await notifier.once()
    assert await opened.runtime.read(subscriptions.subscriptions) == []


async def test_every_browser_is_told_and_none_of_what_came_before_it(
    opened: Ledgers, service: PushService, notifier: Notifier
) -> None:
    await _scheduled(opened, "Before")
    keys = push.parse_subscription(**service.subscription("first"))
    later = clock.timestamp(clock.now() + timedelta(seconds=1))
    await opened.runtime.write(subscriptions.subscribe, keys, session="", browser="", now=later)
    assert await notifier.once() == 0
    told = push.Notification(title="Hello", body="There", url="/", tag="x")
    browsers = await opened.runtime.read(subscriptions.subscriptions)
    two = [browsers[0], replace(browsers[0], endpoint=service.subscription("second")["endpoint"])]
    assert await notifier.send(two, told)
    assert [each["body"] for each in service.messages] == ["There", "There"]


async def test_a_login_that_ends_takes_its_browser_along(opened: Ledgers, service: PushService) -> None:
    await _subscribe(opened, service, "one", session="mine")
    await _subscribe(opened, service, "two", session="other")
    await opened.runtime.write(subscriptions.forget_login, "mine")
    (left,) = await opened.runtime.read(subscriptions.subscriptions)
    assert left.session == "other"
    await opened.runtime.write(subscriptions.forget_login, None)
    assert await opened.runtime.read(subscriptions.subscriptions) == []


@pytest.mark.parametrize(
    "changed",
    [
        {"endpoint": "http://192.168.0.7/push"},
        {"endpoint": "file:///etc/passwd"},
        {"endpoint": ""},
        {"p256dh": "AAAA"},
        {"auth": "not base64!"},
    ],
)
async def test_what_is_no_subscription_is_refused(service: PushService, changed: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="not a push subscription"):
        push.parse_subscription(**{**service.subscription(), **changed})


@pytest.mark.parametrize(
    "endpoint",
    [
        *("http://127.0.0.1:8080/admin", "https://127.0.0.1/x", "https://localhost/x", "https://[::1]/x"),
        *("https://10.0.0.1/x", "https://169.254.169.254/latest", "http://push.example/x"),
    ],
)
def test_a_hosted_home_names_no_push_service_of_its_host(service: PushService, endpoint: str) -> None:
    with pytest.raises(UsageError, match="not a push subscription"):
        push.refuse_internal(Keys(**{**service.subscription(), "endpoint": endpoint}))


async def test_a_hosted_home_reaches_no_private_address_by_a_name(
    opened: Ledgers, service: PushService
) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    await _subscribe(opened, service)
    (browser,) = await opened.runtime.read(subscriptions.subscriptions)
    named = replace(browser, endpoint=browser.endpoint.replace("127.0.0.1", "push.example"))
    told = push.Notification(title="Nexus", body="Hello", url="/", tag="test")
    for allowed, reached in ((frozenset[str](), False), (frozenset({"127.0.0.1"}), True)):
        network = PublicNetwork(allowed=allowed, resolve=resolve)
        async with push.client(is_hosted=True, network=network) as client:
            assert await Notifier(opened, Sender(opened.home), client).send([named], told) is reached
        assert len(service.messages) == int(reached)


async def test_the_key_of_the_home_is_private_and_stays(opened: Ledgers) -> None:
    first = Sender(opened.home).public_key
    assert Sender(opened.home).public_key == first
    assert (opened.home.root / "push.pem").stat().st_mode & 0o077 == 0


async def _worker(opened: Ledgers, number: int, channel: str) -> None:
    await _request(opened, f"req_root{number}", channel)
    await _request(opened, f"req_work{number}", channel)

    def work(connection: Any) -> None:
        connection.execute(
            "INSERT INTO dispatches (id, parent_request_id, root_request_id, parent_session_label, "
            "parent_execution_id, call_id, worker_request_id, worker_session_label, execution_id, task, "
            "status, ended_at) VALUES (?, ?, ?, 'main', ?, 'call', ?, 'worker', ?, ?, 'done', ?)",
            (
                f"dsp_{number}",
                f"req_root{number}",
                f"req_root{number}",
                f"exe_m{number}",
                f"req_work{number}",
                f"exe_w{number}",
                f"Look into it on {channel}",
                clock.timestamp(clock.now()),
            ),
        )

    await opened.runtime.write(work)
