"""Word error rate of the engines that transcribe voice notes.

The samples of moonshine-voice (read English), and ten sentences with names and numbers that espeak-ng speaks.
Each is transcribed by the product's own code, in the sandbox, from Ogg with Opus as messengers send it.
Numbers count by their digits: "480" for "four hundred and eighty" has errors.

    pip install -e '.[voice]' && apt-get install espeak-ng
    python bench/voice.py --write
"""

import argparse
import asyncio
import hashlib
import importlib
import io
import re
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import report

from nexus import attachments
from nexus.attachments import Attachment
from nexus.config import Config, VoiceConfig
from nexus.errors import UsageError
from nexus.home import Home
from nexus.voice import transcribe

SAMPLES: Final = {
    "beckett.wav": "Ever tried. Ever failed. No matter. Try again. Fail again. Fail better.",
    "two_cities.wav": (
        "It was the best of times, it was the worst of times, it was the age of wisdom, it was the "
        "age of foolishness, it was the epoch of belief, it was the epoch of incredulity, it was the "
        "season of light, it was the season of darkness, it was the spring of hope, it was the winter "
        "of despair, we had everything before us, we had nothing before us, we were all going direct "
        "to heaven, we were all going direct the other way, in short, the period was so far like the "
        "present period, that some of its noisiest authorities insisted on its being received, for "
        "good or for evil, in the superlative degree of comparison only."
    ),
}
SENTENCES: Final = (
    "Please remind me to call Anna Novak at half past four on Friday.",
    "The door code is seven three nine two.",
    "My flight to Lisbon leaves at six fifteen from gate twelve.",
    "Tell Jonas that the invoice is four hundred and eighty euros.",
    "Doctor Keller moved the appointment to the third of December.",
    "We need two litres of milk, six eggs and a loaf of bread.",
    "Martha and Peter are coming to dinner on Saturday at eight.",
    "The train to Berlin takes five hours and twenty minutes.",
    "Write to Samuel that I will be ten minutes late.",
    "The new phone number of Clara ends with fifty five nineteen.",
)
_NUMBERS: Final = {
    **dict(
        zip(
            ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
            range(10),
            strict=True,
        )
    ),
    **dict(
        zip(("ten", "eleven", "twelve", "fifteen", "twenty", "fifty"), (10, 11, 12, 15, 20, 50), strict=True)
    ),
    **dict(zip(("nineteen", "eighty"), (19, 80), strict=True)),
}
"""Those of the sentences."""


def list_words(text: str) -> list[str]:
    """The words of a text without signs and case, numbers in digits, each digit by itself."""
    words = re.findall(r"[a-z]+|[0-9]", text.lower())
    return [part for word in words for part in (str(_NUMBERS[word]) if word in _NUMBERS else [word])]


def count_errors(said: list[str], heard: list[str]) -> int:
    """The fewest words to change, add or leave out."""
    row = list(range(len(heard) + 1))
    for number, word in enumerate(said, start=1):
        above, row = row, [number]
        for place, other in enumerate(heard, start=1):
            row.append(min(above[place] + 1, row[-1] + 1, above[place - 1] + (word != other)))
    return row[-1]


def encode_opus(wav: bytes) -> bytes:
    """A recording as messengers send it: Ogg with Opus, one channel."""
    av: Any = importlib.import_module("av")
    written = io.BytesIO()
    with av.open(io.BytesIO(wav)) as source, av.open(written, "w", format="ogg") as target:
        stream = target.add_stream("libopus", rate=48_000, layout="mono")
        resampler = av.AudioResampler(format="flt", layout="mono", rate=48_000, frame_size=960)
        for frame in [*source.decode(audio=0), None]:
            for part in resampler.resample(frame):
                target.mux(stream.encode(part))
        target.mux(stream.encode(None))
    return written.getvalue()


def load_recordings() -> dict[str, list[tuple[str, bytes]]]:
    """What was said, with the recordings, by set."""
    folder = Path(str(importlib.import_module("moonshine_voice").__file__)).parent / "assets"
    spoken = [
        (text, subprocess.run(["espeak-ng", "--stdout", text], capture_output=True, check=True).stdout)
        for text in SENTENCES
    ]
    return {
        "samples of the package": [(text, (folder / name).read_bytes()) for name, text in SAMPLES.items()],
        "espeak-ng, names and numbers": spoken,
    }


async def measure(home: Home, model: str) -> list[dict[str, Any]]:
    """A row for each set."""
    config = Config(voice=VoiceConfig(model=model))
    rows: list[dict[str, Any]] = []
    for name, recordings in load_recordings().items():
        words = errors = 0
        seconds = 0.0
        for text, wav in recordings:
            data = encode_opus(wav)
            digest = hashlib.sha256(data).hexdigest()
            note = Attachment(name="a.ogg", media_type="audio/ogg", size_bytes=len(data), sha256=digest)
            attachments.keep(home, note, data)
            began = time.monotonic()
            try:
                heard = await transcribe(home, config, note)
            except UsageError as error:
                print(f"  not transcribed: {error.message}")
                heard = ""
            seconds += time.monotonic() - began
            print(f"  {text}\n  {heard}\n")
            words += len(list_words(text))
            errors += count_errors(list_words(text), list_words(heard))
        rows.append(
            {
                "model": model,
                "set": name,
                "recordings": len(recordings),
                "words": words,
                "errors": errors,
                "word_error_rate": round(errors / words, 3),
                "seconds": round(seconds, 1),
            }
        )
        print(rows[-1])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", action="append", default=[], help="as in [voice]; several times for more")
    parser.add_argument("--write", action="store_true", help="write the results to bench/RESULTS.md")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            row
            for model in options.model or ["moonshine/tiny-en"]
            for row in asyncio.run(measure(Home(Path(folder)), model))
        ]
    if options.write:
        report.write_section("bench/voice.py", describe(rows))


def describe(rows: list[dict[str, Any]]) -> str:
    """The section of RESULTS.md."""
    lines = ["## Voice notes\n", f"`python bench/voice.py`. {report.machine()}\n"]
    lines += [
        "| model | set | recordings | words | errors | word error rate | s |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += ["| " + " | ".join(map(str, row.values())) + " |" for row in rows]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
