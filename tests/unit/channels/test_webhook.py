"""Signed requests in, signed requests out."""

import hashlib
import hmac
import json
from typing import Any

import pytest

from nexus.channels.adapter import Delivery, DeliveryError, Message, MessageError
from nexus.channels.webhook import Webhook
from nexus.errors import AccessError, ConfigError
from nexus.testing.adapter import RecordingInbox

_SECRET = "a secret that both know"
_BODY = json.dumps({"id": "7", "thread": "t", "sender": "hana", "text": "Hello"}).encode()


def _hook(now_s: float = 1_000.0, **settings: Any) -> Webhook:
    return Webhook("alerts", secret=_SECRET, now_s=lambda: now_s, **settings)


async def _heard(hook: Webhook, headers: dict[str, str], body: bytes) -> Message | None:
    inbox = RecordingInbox()
    hook._inbox = inbox  # pyright: ignore[reportPrivateUsage] - what `run` does, without its waiting
    await hook.receive(headers, body)
    return inbox.messages[0] if inbox.messages else None


async def test_a_signed_request_is_taken_in() -> None:
    message = await _heard(_hook(), {"nexus-signature": _hook().sign(_BODY)}, _BODY)
    assert message == Message(id="7", thread="t", sender="hana", text="Hello")


@pytest.mark.parametrize(
    "signature",
    [
        "",
        "t=1000,v1=" + "0" * 64,
        "t=1000",
        "sha256=" + hmac.new(_SECRET.encode(), _BODY, hashlib.sha256).hexdigest(),
        _hook().sign(_BODY + b" "),
        Webhook("alerts", secret="another", now_s=lambda: 1_000.0).sign(_BODY),
    ],
)
async def test_a_wrong_signature_is_refused(signature: str) -> None:
    with pytest.raises(AccessError):
        await _heard(_hook(), {"nexus-signature": signature}, _BODY)


async def test_a_recorded_request_is_refused_later() -> None:
    signature = _hook(now_s=1_000.0).sign(_BODY)
    assert await _heard(_hook(now_s=1_299.0), {"nexus-signature": signature}, _BODY)
    with pytest.raises(AccessError):
        await _heard(_hook(now_s=1_301.0), {"nexus-signature": signature}, _BODY)
    with pytest.raises(AccessError):
        await _heard(_hook(now_s=600.0), {"nexus-signature": signature}, _BODY)


async def test_the_form_of_another_service() -> None:
    hook = _hook(
        signature="body",
        header="X-Hub-Signature-256",
        fields={
            "thread": "issue.number",
            "sender": "comment.user.login",
            "text": "comment.body",
            "sender_name": "=GitHub",
        },
    )
    sent = {"issue": {"number": 12}, "comment": {"body": "It's broken", "user": {"login": "hana"}}}
    body = json.dumps(sent).encode()
    headers = {"x-hub-signature-256": hook.sign(body), "x-github-delivery": "d-1"}
    message = await _heard(hook, headers, body)
    assert message is not None
    id_ = message.id
    assert message == Message(id=id_, thread="12", sender="hana", sender_name="GitHub", text="It's broken")
    # A recorded request under another delivery id is the same message.
    again = await _heard(hook, {**headers, "x-github-delivery": "d-2"}, body)
    assert again == message
    other = body.replace(b"12", b"13")
    next_ = await _heard(hook, {**headers, "x-hub-signature-256": hook.sign(other)}, other)
    assert next_ is not None
    assert next_.id != id_


@pytest.mark.parametrize("field", ["id", "sender"])
def test_nothing_is_taken_from_headers_which_are_not_signed(field: str) -> None:
    with pytest.raises(ConfigError, match="the signature doesn't cover"):
        _hook(fields={field: "header:X-GitHub-Delivery"})


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"\xff", b'{"text": 1}', b"[" * 100_000])
async def test_a_signed_request_that_is_no_message(body: bytes) -> None:
    with pytest.raises(MessageError):
        await _heard(_hook(), {"nexus-signature": _hook().sign(body)}, body)


async def test_without_a_url_nothing_can_be_sent() -> None:
    with pytest.raises(DeliveryError) as raised:
        await _hook().deliver(Delivery(key="k", thread="t", text="Hello"))
    assert raised.value.final


def test_a_body_that_is_no_json_is_refused_early() -> None:
    with pytest.raises(ConfigError):
        _hook(body="{text}")
