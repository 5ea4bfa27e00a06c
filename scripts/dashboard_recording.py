"""Make docs/assets/dashboard.svg, half a minute of the dashboard, from pictures of scripts/screenshots.py.

    python scripts/screenshots.py SHOTS
    python scripts/dashboard_recording.py SHOTS        (needs pillow)

One picture after the other in a single SVG that holds them, so a README shows it without any other file.
"""

# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownMemberType=false

import base64
import io
import sys
from pathlib import Path

from PIL import Image

_ROOT = Path(__file__).parents[1]
_WIDTH = 960
_SECONDS = 5.0
_FRAMES = {
    "chat-light": "Ask about anything that was said",
    "recall-light": "See why each memory was found, and what replaced it",
    "review-light": "Correct what isn't true",
    "usage-light": "See what every model call cost",
    "automations-light": "See which automations run, and when",
    "exam-light": "Examine the memory on your own life",
}


def main() -> None:
    shots = Path(sys.argv[1])
    count, height = len(_FRAMES), 0
    images: list[str] = []
    for number, (name, caption) in enumerate(_FRAMES.items()):
        with Image.open(shots / f"{name}.png") as shot:
            height = round(shot.height * _WIDTH / shot.width)
            small = shot.convert("RGB").resize((_WIDTH, height), Image.Resampling.LANCZOS)
        held = io.BytesIO()
        small.save(held, "WEBP", quality=82, method=6)
        data = base64.b64encode(held.getvalue()).decode()
        delay = number * _SECONDS
        # The first one lies below the others and stays, so the picture is never empty.
        group = f'<g class="frame" style="animation-delay:{delay:g}s">' if number else "<g>"
        images.append(
            f"{group}"
            f'<image width="{_WIDTH}" height="{height}" href="data:image/webp;base64,{data}"/>'
            f'<rect y="{height}" width="{_WIDTH}" height="44" fill="#16202e"/>'
            f'<text x="{_WIDTH // 2}" y="{height + 28}">{caption}</text></g>'
        )
    # Each stays until the next one, above it, is there.
    shown = 100 / count + 2
    Path(_ROOT / "docs/assets/dashboard.svg").write_text(
        f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height + 44}"
  role="img" aria-labelledby="title">
<title id="title">The dashboard: {"; ".join(_FRAMES.values())}</title>
<style>
text {{ font: 17px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #fff; text-anchor: middle; }}
.frame {{ opacity: 0; animation: show {count * _SECONDS:g}s infinite; }}
@keyframes show {{
  0% {{ opacity: 0; }} 2%, {shown:.2f}% {{ opacity: 1; }} {shown + 0.01:.2f}%, 100% {{ opacity: 0; }}
}}
@media (prefers-reduced-motion: reduce) {{ .frame {{ animation: none; }} }}
</style>
{chr(10).join(images)}
</svg>
""",
        encoding="utf-8",
    )


main()
