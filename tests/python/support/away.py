"""What other processes and threads of tests run."""

from __future__ import annotations

import os
import threading
import time
from typing import Any

import transload


def answer(connection: Any) -> None:
    """Sends the object of each message back, and its process; until None comes."""
    while (message := connection.recv()) is not None:
        connection.send(transload.serialize([transload.deserialize(message), os.getpid()], families=("host",)))


class Slow:
    """Both ways it runs Python for a while."""

    def __getstate__(self) -> Any:
        return {"a": sum(1 for _ in range(100))}

    def __setstate__(self, state: Any) -> None:
        self.a = sum(1 for _ in range(100))


class Sleeps:
    """Rebuilding it takes so many seconds."""

    begun = threading.Event()

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __setstate__(self, state: Any) -> None:
        self.begun.set()
        time.sleep(state["seconds"])
        self.seconds = state["seconds"]


transload.trust(Slow, Sleeps)
