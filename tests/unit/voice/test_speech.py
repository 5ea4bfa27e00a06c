"""The program that turns recordings into words: with a real engine, and on what strangers send."""

import hashlib
import importlib
import io
import struct
from importlib.util import find_spec
from pathlib import Path

import numpy
import pytest

from nexus import attachments
from nexus.attachments import Attachment
from nexus.config import Config, VoiceConfig
from nexus.errors import UsageError
from nexus.home import Home
from nexus.voice import speech, transcribe
from unit.voice.test_voice_notes import note

needs_engine = pytest.mark.skipif(
    find_spec("moonshine_voice") is None or find_spec("av") is None,
    reason="needs `pip install 'nexus-runtime[voice]'`",
)


async def hear(
    home: Home, data: bytes, media_type: str, told: list[str] | None = None, minutes: int = 1
) -> str:
    digest = hashlib.sha256(data).hexdigest()
    kept = Attachment(name="voice", media_type=media_type, size_bytes=len(data), sha256=digest)
    attachments.keep(home, kept, data)
    config = Config(voice=VoiceConfig(max_minutes=minutes))
    return await transcribe(home, config, kept, (told if told is not None else []).append)


def test_a_window_is_cut_where_it_is_quiet() -> None:
    loud = numpy.ones(speech.RATE * 10, numpy.float32)
    pause = slice(round(speech.RATE * 8.6), round(speech.RATE * 9.2))
    loud[pause] = 0
    assert pause.start < speech.find_pause(loud) < pause.stop
    short = numpy.ones(3, numpy.float32)
    assert speech.find_pause(short) == 3


@needs_engine
async def test_speech_is_transcribed(home: Home) -> None:
    folder = Path(str(importlib.import_module("moonshine_voice").__file__)).parent / "assets"
    heard = await hear(home, (folder / "beckett.wav").read_bytes(), "audio/wav")
    assert heard.startswith("Ever tried. Ever failed. No matter. Try again.")


@needs_engine
@pytest.mark.parametrize(
    ("data", "media_type", "reason"),
    [
        (b"OggS" + bytes(range(256)) * 40, "audio/ogg", "it is damaged, or"),
        (note()[:30], "audio/wav", "it is damaged, or"),
        (b"ffconcat version 1.0\nfile /etc/passwd\n", "audio/mpeg", "it is damaged, or"),
        (b"#EXTM3U\nhttp://127.0.0.1/a.mp3\n", "audio/ogg", "it is damaged, or"),
        (note(seconds=1.0), "audio/wav", "no speech was recognized in it"),
        (note(), "application/x-unknown", "it is damaged, or"),
    ],
)
async def test_what_is_no_speech_is_said_to_be_none(
    home: Home, data: bytes, media_type: str, reason: str
) -> None:
    with pytest.raises(UsageError, match=reason):
        await hear(home, data, media_type)


@needs_engine
async def test_an_endless_recording_ends(home: Home) -> None:
    """A header that promises hours, over minutes of silence: no more than asked for is decoded."""
    samples = bytes(8000 * 150)
    told: list[str] = []
    size = struct.pack("<I", 0xFFFF_FFF0)
    header = (
        b"RIFF" + size + b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 8000, 1, 8) + b"data" + size
    )
    with pytest.raises(UsageError, match="no speech was recognized"):
        await hear(home, header + b"\x80" * len(samples), "audio/wav", told, minutes=1)
    assert told[0] == "transcribing voice"
    assert len(told) <= 3


@needs_engine
def test_a_recording_is_decoded_by_parts() -> None:
    data = note(seconds=3.0)
    whole, is_over, length_s = speech.decode(data, "audio/wav", 0, 60)
    assert is_over
    assert length_s == pytest.approx(3.0)
    first, is_first_over, _ = speech.decode(data, "audio/wav", 0, 1.25)
    second, _, _ = speech.decode(data, "audio/wav", 1.25, 60)
    assert not is_first_over
    assert numpy.array_equal(whole, numpy.concatenate([first, second]))
    with pytest.raises(speech.UnreadableError):
        speech.decode(io.BytesIO(b"").read(), "audio/wav", 0, 1)
