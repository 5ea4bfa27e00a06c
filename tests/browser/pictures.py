"""The script that takes pictures of the dashboard, as a module."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

_SCRIPT = Path(__file__).parents[2] / "scripts" / "screenshots.py"


def script() -> ModuleType:
    """What `python scripts/screenshots.py` runs."""
    spec = importlib.util.spec_from_file_location("screenshots", _SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["screenshots"] = module
    spec.loader.exec_module(module)
    return module
