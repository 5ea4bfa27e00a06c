"""What is checked before the ledgers are written anew."""

import os

import pytest

from nexus.errors import CareError
from nexus.ledgers import forgetting
from unit.ledgers.forgetting.scene import Scene

# As a file without content this takes no space, and it is larger than the disks of our machines.
_HUGE_BYTES = 8 * 2**40


async def test_too_little_disk_space_is_refused_before_anything_goes(scene: Scene) -> None:
    await scene.put("events.threads", id="thr_1", channel="c")
    target = await scene.find(lambda connection: forgetting.thread(connection, "thr_1"))
    file = scene.ledgers.home.ledger("agents")
    size_bytes = file.stat().st_size
    os.truncate(file, _HUGE_BYTES)
    try:
        with pytest.raises(CareError, match="MiB free"):
            await forgetting.forget(scene.ledgers, target, actor="test")
    finally:
        os.truncate(file, size_bytes)
    assert await scene.left("events.threads") == {"thr_1"}
    assert await scene.left("runtime.forgets") == set()
