"""What a process has grown by after a million acquisitions, all of which have ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import ours
import peers
from measure import FORK, Options, Row, Work

ACQUISITIONS = 1_000_000
#: KiB that ours may grow by: half a byte for each of a million.
MOST = 512


def resident() -> int:
    """Pages of this process in memory."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1])


def grown(make: Callable[[], Work], count: int) -> int:
    """By how many KiB a forked process has grown, since the first twentieth."""
    here, there = FORK.Pipe()

    def measure() -> None:
        work = make()
        work(max(1, count // 20))
        before = resident()
        work(count)
        there.send((resident() - before) * 4)

    child = FORK.Process(target=measure)
    child.start()
    there.close()
    answer = here.recv()
    child.join()
    return answer


def of_a_million(name: str, options: Options) -> Iterator[Row]:
    """Fails, once it has said by how much, if ours grows by more than ``MOST``."""
    # A short run is to show that it runs.
    count = ACQUISITIONS if options.rounds > 3 else ACQUISITIONS // 50
    name = name if count == ACQUISITIONS else f"{name} (here {count:,})"
    our = grown(lambda: ours.acquires(ours.one()), count)
    theirs = {"limits": peers.hits, "pyrate-limiter": peers.pyrates, "throttled-py": peers.throttles}
    for peer, make in theirs.items():
        yield Row(f"{name} / {peer}", f"{our} KiB", f"{grown(make, count)} KiB", "", "")
    shm = grown(lambda: ours.acquires_three(ours.three("bench", ours.shm("growth"))), count)
    yield Row(f"{name}, three limits, shm", f"{shm} KiB", "", "", "")
    if max(our, shm) > MOST:
        raise SystemExit(f"{name}: by {our} KiB, and by {shm} in shared memory; at most {MOST} are allowed")
