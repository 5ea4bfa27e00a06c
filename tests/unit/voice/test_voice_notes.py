"""Voice notes, from a channel to the answer: transcribed once, remembered and forgotten as one message."""

import asyncio
import io
import json
import math
import smtplib
import struct
import wave
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from email.message import EmailMessage
from email.policy import SMTP
from functools import partial
from typing import Any

import pytest

import discord_server
import mail_servers
import slack_server
from apps import settings
from discord_server import DiscordServer
from memory_writers import quiet, rows
from new_homes import with_engine
from nexus.app import App
from nexus.attachments import Attachment, File, detect_type
from nexus.channels.adapter import File as Sent
from nexus.channels.adapter import Message
from nexus.config import ChannelConfig, Config, ProviderConfig, VoiceConfig
from nexus.home import Home
from nexus.ledgers import forgetting
from nexus.testing import Hold, ModelServer, Turn
from nexus.voice import find_problem
from slack_server import SlackServer
from telegram_server import TOKEN, TelegramServer
from transcription_server import TranscriptionServer


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        server.always("At noon.")
        yield server


@pytest.fixture
def speech() -> Iterator[TranscriptionServer]:
    made = TranscriptionServer()
    yield made
    made.close()


def note(pitch: int = 440, seconds: float = 0.1) -> bytes:
    """A recording of a tone, as a file."""
    file = io.BytesIO()
    with wave.open(file, "wb") as written:
        written.setnchannels(1)
        written.setsampwidth(2)
        written.setframerate(8000)
        samples = (int(9_000 * math.sin(place * pitch / 1_273)) for place in range(int(8000 * seconds)))
        written.writeframes(b"".join(struct.pack("<h", each) for each in samples))
    return file.getvalue()


def spoken(server: ModelServer, speech: TranscriptionServer, **more: Any) -> Config:
    """Settings with a provider that transcribes, and a channel whose owner is `me`."""
    config = settings(server)
    here = ProviderConfig(kind="openai", base_url=speech.url, api_key="env:SPEECH_KEY")
    desk = ChannelConfig(kind="webhook", secret="env:HOOK", owner=("me",))
    return replace(
        config,
        providers={**config.providers, "speech": here},
        channels={"desk": desk, **more},
        voice=VoiceConfig(model="speech/whisper-1", language="en"),
    )


@pytest.fixture(autouse=True)
def _secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPEECH_KEY", "sk-speech")
    monkeypatch.setenv("HOOK", "0123456789abcdef" * 2)
    monkeypatch.setenv("BOT_TOKEN", TOKEN)


def sent(data: bytes, id_: str = "1", text: str = "", name: str = "voice.wav", sender: str = "me") -> Message:
    file = Sent(name=name, media_type="audio/wav", data=data)
    return Message(id=id_, thread="t", sender=sender, text=text, files=(file,))


@asynccontextmanager
async def app_of(home: Home, config: Config) -> AsyncGenerator[App]:
    async with App(with_engine(home), config, memory_socket=True) as app:
        yield app


async def test_a_voice_note_on_telegram_is_answered(
    home: Home, server: ModelServer, speech: TranscriptionServer
) -> None:
    telegram = TelegramServer()
    speech.said[note()] = "When is the dentist?"
    telegram.files["v1"] = note()
    bot = ChannelConfig(kind="telegram", secret="env:BOT_TOKEN", url=telegram.url, owner=("7",))
    try:
        async with app_of(home, spoken(server, speech, telegram=bot)):
            id_ = telegram.write(voice={"file_id": "v1", "duration": 1, "mime_type": "audio/ogg"})
            while "At noon." not in telegram.texts():
                await asyncio.sleep(0.02)
    finally:
        telegram.close()
    [answer] = [each for each in telegram.sent if each.get("text") == "At noon."]
    assert answer["reply_parameters"]["message_id"] == id_
    assert "When is the dentist?" in server.requests[0].last_user
    [asked] = speech.asked
    assert asked["model"] == "whisper-1"
    assert asked["language"] == "en"
    assert asked["key"] == "Bearer sk-speech"
    assert asked["name"] == "recording.wav"


async def test_recordings_on_slack_and_discord_and_by_mail_are_answered(
    home: Home, server: ModelServer, speech: TranscriptionServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each with a tone of its own, on the test server of its service, and by real mail servers."""
    slack, discord = SlackServer(), DiscordServer()
    asked = {name: f"What is on in {name}?" for name in ("slack", "discord", "mail")}
    recordings = {name: note(400 + 40 * number) for number, name in enumerate(asked)}
    speech.said = {recordings[name]: text for name, text in asked.items()}
    slack.files["v.wav"], discord.files["v.wav"] = recordings["slack"], recordings["discord"]
    for name, secret in (("SLACK", slack_server.TOKEN), ("APP", slack_server.APP_TOKEN)):
        monkeypatch.setenv(f"{name}_TOKEN", secret)
    monkeypatch.setenv("DISCORD_TOKEN", discord_server.TOKEN)
    monkeypatch.setenv("MAIL_PASSWORD", mail_servers.PASSWORD)
    try:
        with mail_servers.mail_servers() as (dovecot, post):
            channels = {
                "slack": ChannelConfig(
                    kind="slack",
                    secret="env:SLACK_TOKEN",
                    app_token="env:APP_TOKEN",
                    url=slack.url,
                    owner=(slack_server.HANA,),
                ),
                "discord": ChannelConfig(
                    kind="discord", secret="env:DISCORD_TOKEN", url=discord.url, owner=(discord_server.HANA,)
                ),
                "mail": ChannelConfig(
                    kind="email",
                    address=mail_servers.AGENT,
                    secret="env:MAIL_PASSWORD",
                    imap=f"127.0.0.1:{dovecot.port}",
                    smtp=f"127.0.0.1:{post.port}",
                    tls=False,
                    auth_server=mail_servers.AUTH_SERVER,
                    owner=("me@home.example",),
                ),
            }
            async with app_of(home, spoken(server, speech, **channels)):
                file = {
                    "name": "v.wav",
                    "mimetype": "audio/wav",
                    "url_private": f"{slack.origin}/files/v.wav",
                }
                while not slack.connections or not discord.identified:
                    await asyncio.sleep(0.02)
                await asyncio.to_thread(slack.write, subtype="file_share", files=[file])
                url = f"{discord.url}/files/v.wav"
                file = {"id": "1", "filename": "v.wav", "size": 9, "url": url, "proxy_url": url}
                await asyncio.to_thread(discord.write, attachments=[file])
                await asyncio.to_thread(send_mail, post, recordings["mail"])
                while not all("At noon." in " ".join(each.texts()) for each in (slack, discord, post)):
                    await asyncio.sleep(0.02)
    finally:
        slack.close()
        discord.close()
    said = "\n".join(each.last_user for each in server.requests)
    assert [name for name, text in asked.items() if text in said] == ["slack", "discord", "mail"]


def send_mail(post: mail_servers.Post, recording: bytes) -> None:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "me@home.example", mail_servers.AGENT, "Voice"
    mail.set_content("Listen:")
    mail.add_attachment(recording, maintype="audio", subtype="wav", filename="v.wav")
    with smtplib.SMTP("127.0.0.1", post.port) as client:
        client.login("me@home.example", mail_servers.PASSWORD)
        client.sendmail("me@home.example", [mail_servers.AGENT], mail.as_bytes(policy=SMTP))


async def test_what_was_said_is_the_message_and_its_note_is_kept_as_it_came(
    home: Home, server: ModelServer, speech: TranscriptionServer
) -> None:
    speech.said[note()] = "Hana's dentist is Doctor Novak."
    async with app_of(home, spoken(server, speech)) as app:
        await app.reception.from_channel("desk", sent(note(), text="Listen:"))
        await quiet(app)
        # The service delivers it again.
        await app.reception.from_channel("desk", sent(note(), text="Listen:"))
        await quiet(app)
        said = await rows(
            app, "events", "SELECT kind, sender, content FROM events WHERE direction = 'inbound' ORDER BY seq"
        )
        people = await rows(
            app,
            "events",
            "SELECT count(DISTINCT identifier), count(*) FROM event_participants WHERE role = 'sender'",
        )
        worked_on = await rows(app, "runtime", "SELECT event_id, status FROM requests")
        [(transcript,)] = await rows(app, "events", "SELECT id FROM events WHERE kind = 'transcript'")
        found = await rows(app, "events", "SELECT event_id FROM events_fts WHERE events_fts MATCH 'novak'")
        stages = await rows(app, "runtime", "SELECT name FROM spans WHERE name = 'transcribe'")
    assert said == [
        ("message", "me", "Listen:\n\n[Voice note: voice.wav]"),
        ("transcript", "me", "Listen:\n\nHana's dentist is Doctor Novak."),
    ]
    assert people == [(1, 2)]
    assert worked_on == [(transcript, "done")]
    assert found == [(transcript,)]
    assert stages == [("transcribe",)]
    assert len(speech.asked) == 1
    assert "Listen:\n\nHana's dentist is Doctor Novak." in server.requests[0].last_user


@pytest.mark.parametrize("kind", ["message", "transcript"])
async def test_forgetting_either_part_of_a_voice_note_takes_the_other_and_the_recording(
    home: Home, server: ModelServer, speech: TranscriptionServer, kind: str
) -> None:
    speech.said[note()] = "My door code is 4711."
    async with app_of(home, spoken(server, speech)) as app:
        await app.reception.from_channel("desk", sent(note()))
        await quiet(app)
        [path] = [each for each in (home.state / "attachments").rglob("*") if each.is_file()]
        [(id_,)] = await rows(
            app, "events", f"SELECT id FROM events WHERE direction = 'inbound' AND kind = '{kind}'"
        )
        target = await forgetting.find(app.ledgers, partial(forgetting.event, wanted=id_))
        await forgetting.forget(app.ledgers, target, actor="owner")
        left = await rows(app, "events", "SELECT kind FROM events WHERE direction = 'inbound'")
        files = await rows(app, "events", "SELECT count(*) FROM attachments")
    assert not path.exists()
    assert left == []
    assert files == [(0,)]


async def test_a_run_that_is_taken_up_again_transcribes_nothing_twice(
    home: Home, server: ModelServer, speech: TranscriptionServer
) -> None:
    """The home is closed while the model answers, after the transcript was recorded."""
    speech.said[note()] = "Is it open on Sunday?"
    config = spoken(server, speech)
    async with app_of(home, config) as app:
        server.script(Turn("At noon.", faults=[Hold(gate="answer")]))
        await app.reception.from_channel("desk", sent(note()))
        while not server.requests:
            await asyncio.sleep(0.02)
    server.gate("answer").open()
    async with app_of(home, config) as app:
        await quiet(app)
        answers = await rows(app, "events", "SELECT content FROM events WHERE direction = 'outbound'")
    assert answers == [("At noon.",)]
    assert len(speech.asked) == 1


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("speech/whisper-1", "voice.wav: speech answered 400"),
        ("", "voice.wav: voice notes are not transcribed here. Set `model` below [voice]"),
        ("nobody/x", "voice.wav: nobody/x can't transcribe voice notes. Set `model` below [voice]"),
        ("whisper/huge", "voice.wav: "),
    ],
)
async def test_what_cannot_be_transcribed_is_named_with_the_reason_and_stops_nothing(
    home: Home, server: ModelServer, speech: TranscriptionServer, model: str, reason: str
) -> None:
    config = replace(spoken(server, speech), voice=VoiceConfig(model=model))
    async with app_of(home, config) as app:
        await app.reception.from_channel("desk", sent(note()))
        await quiet(app)
        [(answer,)] = await rows(app, "events", "SELECT content FROM events WHERE direction = 'outbound'")
    assert answer.startswith(f"At noon.\n\nI couldn't read {reason}")
    assert f"[Voice note not transcribed: {reason}" in server.requests[0].last_user


async def test_a_stranger_has_nothing_transcribed(
    home: Home, server: ModelServer, speech: TranscriptionServer
) -> None:
    async with app_of(home, spoken(server, speech)) as app:
        with pytest.raises(Exception, match="unknown sender"):
            await app.reception.from_channel("desk", sent(note(), sender="stranger"))
        await quiet(app)
    assert speech.asked == []
    assert server.requests == []


async def test_other_conversations_go_on_while_one_is_transcribed(
    home: Home, server: ModelServer, speech: TranscriptionServer
) -> None:
    speech.said[note()] = "Hello"
    speech.hold()
    async with app_of(home, spoken(server, speech)) as app:
        progress = await app.reception.from_channel("desk", sent(note()))
        assert progress is not None
        while not speech.asked:
            await asyncio.sleep(0.02)
        assert "transcribing voice.wav" in (await progress() or "")
        other = await app.receive("What is up?", session_label="other")
        assert (await other.run.result()).response.content == "At noon."
        speech.release()
        await quiet(app)
    assert len(server.requests) == 2


async def test_a_recording_comes_over_the_library_too(
    home: Home, server: ModelServer, speech: TranscriptionServer
) -> None:
    speech.said[note()] = "What is on today?"
    async with app_of(home, spoken(server, speech)) as app:
        receipt = await app.receive("See here.", files=[File(name="a.wav", data=note())])
        await receipt.run.result()
    assert "See here.\n\nWhat is on today?" in server.requests[0].last_user


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (note(), "audio/wav"),
        (b"OggS\0", "audio/ogg"),
        (b"\xff\xfb\x90\x00", "audio/mpeg"),
        (b"ID3\x04", "audio/mpeg"),
        (b"\xff\xf1\x50\x80", "audio/aac"),
        (b"\0\0\0\x1cftypM4A \0\0", "audio/mp4"),
        (b"\x1a\x45\xdf\xa3 webm A_OPUS", "audio/webm"),
        (b"\x1a\x45\xdf\xa3 webm V_VP8\xff", None),
        (b"\0\0\0\x1cftypisom\0\0 hdlr\0\0\0\0\0\0\0\0vide\xff", None),
        (b"\0\0\0\x18ftypheic\0\xff", None),
    ],
)
def test_a_recording_is_known_by_its_bytes_and_a_film_is_none(data: bytes, kind: str | None) -> None:
    assert detect_type(data) == kind
    attachment = Attachment(name="a", media_type=kind or "video/mp4", size_bytes=1, sha256="0")
    assert attachment.is_audio is (kind is not None)


def test_what_is_missing_is_found_before_anybody_speaks(
    server: ModelServer, speech: TranscriptionServer
) -> None:
    config = spoken(server, speech)
    assert find_problem(config) is None
    assert find_problem(replace(config, voice=VoiceConfig(model=""))) is None
    problem = find_problem(replace(config, voice=VoiceConfig(model="whisper/huge")))
    assert problem is not None
    assert "huge" in json.dumps([problem.message, problem.hint]) or "nexus-runtime[whisper]" in problem.hint
