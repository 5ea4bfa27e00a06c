"""Turns a minute of a recording into words, as a program of its own that runs in the sandbox.

The recording comes on standard input; JSON goes to standard output. It imports nothing of Nexus, to start
fast. Usage: speech.py ENGINE MODEL LANGUAGE MEDIA_TYPE START_S WINDOW_S SITE…
"""

import importlib
import io
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

RATE: Final = 16_000
FORMATS: Final = {
    "audio/aac": ("aac", "aac"),
    "audio/amr": ("amr", "amr"),
    "audio/flac": ("flac", "flac"),
    "audio/mp4": ("mov", "m4a"),
    "audio/mpeg": ("mp3", "mp3"),
    "audio/ogg": ("ogg", "ogg"),
    "audio/wav": ("wav", "wav"),
    "audio/webm": ("matroska", "webm"),
}
"""What decodes each type, and how names of such files end. Nothing else is tried: a list of files is none."""
_CUT_WITHIN: Final = 0.25
"""The part of a window, at its end, in which it is cut where it is quietest."""
_LOOK: Final = RATE // 5


class UnreadableError(Exception):
    """Why a recording can't be transcribed, in words for whoever sent it."""


def decode(data: bytes, media_type: str, start_s: float, window_s: float) -> tuple[Any, bool, float]:
    """Return the samples of a window, whether the recording ends in it, and how long it says that it is.

    What comes behind damage is left out.
    """
    import numpy

    try:
        container = _load("av").open(io.BytesIO(data), format=FORMATS[media_type][0])
    except Exception as error:  # whatever a parser raises over what a stranger recorded
        raise UnreadableError("it is damaged, or in a format that can't be read") from error
    if not container.streams.audio:
        raise UnreadableError("it has no sound")
    length_s = max(0.0, (container.duration or 0) / 1_000_000)
    first, last = round(start_s * RATE), round((start_s + window_s) * RATE)
    pieces: list[Any] = []
    seen = 0
    is_over = True
    for piece in _resample(container):
        begin, seen = seen, seen + len(piece)
        if seen > first:
            pieces.append(piece[max(0, first - begin) : max(0, last - begin)])
        if seen > last:
            is_over = False
            break
    if not seen:
        raise UnreadableError("it is damaged, or has no sound")
    samples = numpy.concatenate([*pieces, numpy.zeros(0, numpy.float32)]).astype(numpy.float32)
    return numpy.nan_to_num(samples, posinf=0, neginf=0).clip(-1, 1), is_over, length_s


def _load(module: str) -> Any:
    """Import what has no types, or isn't installed everywhere."""
    return importlib.import_module(module)


def _resample(container: Any) -> Iterator[Any]:
    resampler = _load("av").AudioResampler(format="flt", layout="mono", rate=RATE)
    try:
        for frame in container.decode(audio=0):
            frame.pts = None  # times may be wrong, or missing
            yield from (each.to_ndarray()[0] for each in resampler.resample(frame))
        yield from (each.to_ndarray()[0] for each in resampler.resample(None))
    except Exception:  # as above: what was decoded until then is kept
        return


def find_pause(samples: Any) -> int:
    """Return where a window is quietest, near its end."""
    import numpy

    begin = round(len(samples) * (1 - _CUT_WITHIN))
    tail = samples[begin : begin + (len(samples) - begin) // _LOOK * _LOOK]
    loudness = numpy.square(tail.reshape(-1, _LOOK)).mean(axis=1)
    if not len(loudness):
        return len(samples)
    # The last one of those that are as quiet: the window stays long.
    place = len(loudness) - 1 - int(numpy.argmin(loudness[::-1]))
    return begin + place * _LOOK + _LOOK // 2


def hear_moonshine(samples: Any, model: str, language: str) -> str:
    """Transcribe with Moonshine's English model, which is in its package."""
    moonshine = _load("moonshine_voice")
    transcriber = _load("moonshine_voice.transcriber").Transcriber
    folder = Path(str(moonshine.__file__)).parent / "assets" / "tiny-en"
    with transcriber(str(folder), moonshine.ModelArch.TINY) as engine:
        found = engine.transcribe_without_streaming(samples.tolist(), RATE)
    return " ".join(line.text.strip() for line in found.lines if line.text.strip())


def hear_whisper(samples: Any, model: str, language: str) -> str:
    """Transcribe with Whisper."""
    whisper = _load("faster_whisper")
    engine = whisper.WhisperModel(model, device="cpu", compute_type="int8", local_files_only=True)
    parts, _ = engine.transcribe(
        samples, language=language or None, beam_size=1, condition_on_previous_text=False
    )
    return " ".join(part.text.strip() for part in parts if part.text.strip())


def main() -> None:
    engine, model, language, media_type, start, window, *site = sys.argv[1:]
    # Libraries may print.
    answers = os.dup(1)
    os.dup2(2, 1)
    sys.path += site
    start_s = float(start)
    try:
        samples, is_over, length_s = decode(sys.stdin.buffer.read(), media_type, start_s, float(window))
        samples = samples if is_over else samples[: find_pause(samples)]
        hear = {"moonshine": hear_moonshine, "whisper": hear_whisper}[engine]
        words = hear(samples, model, language) if len(samples) >= _LOOK else ""
        until_s = start_s + len(samples) / RATE
        result = {"words": words, "until_s": until_s, "is_over": is_over, "length_s": length_s}
    except UnreadableError as error:
        result = {"error": str(error)}
    except MemoryError:
        result = {"error": "it takes too much memory"}
    os.write(answers, json.dumps(result).encode())


if __name__ == "__main__":
    main()
