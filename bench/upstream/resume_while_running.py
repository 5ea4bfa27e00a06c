"""DBOS: `resume_workflow` on a workflow that is running runs its body a second time beside the first.

    python bench/upstream/resume_while_running.py

The update behind it excludes only workflows that have ended. So a running one goes back to ENQUEUED, and a
queue of another process starts it again while the first body goes on, as after an operator's resume or a
mistaken recovery. A condition on the owner or on the state would prevent it. Exits with 1 where no two bodies
ran at the same time.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dbos import DBOS

_TAKES_S = 4.0


@DBOS.workflow(name="slow")
def slow(evidence: str) -> None:
    note(evidence, "begins")
    time.sleep(_TAKES_S)
    note(evidence, "ends")


def note(evidence: str, what: str) -> None:
    with Path(evidence).open("a") as file:
        file.write(f"{time.monotonic():.2f} executor {DBOS.executor_id}: the body {what}\n")


def serve(url: str, executor: str, evidence: str, role: str) -> None:
    """Start the workflow, or resume the one that runs in the other process."""
    DBOS(
        config={
            "name": "resume",
            "system_database_url": url,
            "executor_id": executor,
            "application_version": "1",
            "log_level": "CRITICAL",
        }
    )
    DBOS.launch()
    if role == "start":
        DBOS.register_queue("work")
        handle = DBOS.enqueue_workflow("work", slow, evidence)
        Path(evidence + ".id").write_text(handle.workflow_id)
        time.sleep(_TAKES_S + 2)
    else:
        while "begins" not in (Path(evidence).read_text() if Path(evidence).exists() else ""):
            time.sleep(0.1)
        DBOS.resume_workflow(Path(evidence + ".id").read_text())
        time.sleep(_TAKES_S + 2)
    DBOS.destroy()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        url, evidence = f"sqlite:///{Path(folder) / 'dbos.sqlite'}", str(Path(folder) / "evidence")
        words = [sys.executable, __file__, url]
        first = subprocess.Popen([*words, "one", evidence, "start"])
        second = subprocess.Popen([*words, "two", evidence, "resume"])
        first.wait()
        second.wait()
        told = Path(evidence).read_text()
    print(told, end="")
    overlap = told[: told.index("ends")].count("begins") > 1
    began = told.count("begins")
    print(f"{began} bodies began; {'two ran at the same time' if overlap else 'never two at the same time'}")
    sys.exit(not overlap)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        serve(*sys.argv[1:])
    else:
        main()
