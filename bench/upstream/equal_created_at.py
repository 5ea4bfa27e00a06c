"""DBOS on SQLite with Python 3.11: `created_at` has whole seconds, so a queue does not keep its order.

    python bench/upstream/equal_created_at.py

Twenty workflows are enqueued one after the other under one partition key of a queue that runs one at a time
for each key. They should run in that order. On Python before 3.12 DBOS's default for the column is
`strftime('%s', 'now') * 1000`: all that is enqueued within a second has the same `created_at`, and the tie is
broken by the workflow's id. DBOS's own ids sort by time, which hides it; ids that the caller gives, such as
idempotency keys, don't. Exits with 1 where the order was kept.
"""

import sys
import tempfile
import time
import uuid
from pathlib import Path

from dbos import DBOS, SetEnqueueOptions, SetWorkflowID, WorkflowHandle

_COUNT = 20
_ran: list[int] = []


@DBOS.workflow()
def note(number: int) -> None:
    _ran.append(number)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'dbos.sqlite'}"
        DBOS(config={"name": "order", "system_database_url": url, "log_level": "CRITICAL"})
        DBOS.launch()
        queue = DBOS.register_queue("by_session", partition_concurrency=1)
        # They wait together from the beginning of a second on, so that it is not chance.
        time.sleep(1 - time.time() % 1)
        handles: list[WorkflowHandle[None]] = []
        for number in range(_COUNT):
            with SetWorkflowID(str(uuid.uuid4())), SetEnqueueOptions(queue_partition_key="session"):
                handles.append(queue.enqueue(note, number))
        for handle in handles:
            handle.get_result()
        stamps = {status.created_at for status in DBOS.list_workflows()}
        DBOS.destroy()
    print(
        f"Python {sys.version.split()[0]}: {_COUNT} workflows, {len(stamps)} different values of created_at"
    )
    print(f"enqueued as {list(range(_COUNT))}")
    print(f"ran as      {_ran}")
    sys.exit(_ran == sorted(_ran))


if __name__ == "__main__":
    main()
