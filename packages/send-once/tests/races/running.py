"""Starting racing processes at the same moment, and counting what they sent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import send_once

TESTS = Path(__file__).resolve().parent.parent
NODE_SCRIPT = Path(__file__).with_name("foreign.mjs")


@dataclass(frozen=True, slots=True)
class Race:
    """What a race ended with: sends by key number, and how often each outcome was told."""

    sends: Counter[int]
    told: Counter[str]

    def sent_each_of(self, keys: int) -> bool:
        return self.sends == Counter(range(keys))


def race(
    store: str,
    addresses: Sequence[str],
    effects: Path,
    *,
    processes: int,
    threads: int,
    keys: int,
    forks: int = 0,
    node_processes: int = 0,
) -> Race:
    """Race `processes` Python and `node_processes` Node processes for `keys` keys; each takes its
    ledger's name from `addresses` in turn."""
    effects.touch()
    with ExitStack() as stack:
        start_fd, gun_fd = os.pipe()
        stack.callback(os.close, start_fd)
        runners = []
        for number in range(processes + node_processes):
            spec = {
                "store": store,
                "address": addresses[number % len(addresses)],
                "effects": str(effects),
                "threads": threads,
                "keys": keys,
                "forks": forks,
                "start_fd": start_fd,
            }
            runners.append(stack.enter_context(_start(spec, gun_fd, node=number >= processes)))
        for runner in runners:
            assert runner.stdout is not None
            assert runner.stdout.readline().strip() == "ready"
        os.close(gun_fd)
        told: Counter[str] = Counter()
        for runner in runners:
            assert runner.stdout is not None
            told.update(json.loads(runner.stdout.read() or '{"a process died": 1}'))
    return Race(Counter(int(line) for line in effects.read_text().split()), told)


def _start(spec: dict[str, object], gun_fd: int, *, node: bool) -> subprocess.Popen[str]:
    """The process inherits only the reading end: for all of them it ends when ours is closed."""
    start_fd = int(str(spec["start_fd"]))
    os.set_inheritable(gun_fd, False)
    program = ["node", str(NODE_SCRIPT)] if node else [sys.executable, "-m", "races.racer"]
    path = os.pathsep.join((str(Path(send_once.__file__).parent.parent), str(TESTS)))
    return subprocess.Popen(
        [*program, json.dumps(spec)],
        stdout=subprocess.PIPE,
        text=True,
        pass_fds=(start_fd,),
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
    )
