"""Laps in turns: every contender runs once in each round, so whatever disturbs the machine
disturbs all of them, and a ratio is taken inside its round."""

from __future__ import annotations

import asyncio
import statistics
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from multiprocessing import get_context

FORK = get_context("fork")

#: Does so many operations; raises if one was refused.
Work = Callable[[int], None]

#: Does so many, and says how many seconds each took.
Each = Callable[[int], list[float]]


@dataclass
class Contender:
    name: str
    #: Does so many operations, and says how many seconds they took.
    lap: Callable[[int], float]
    close: Callable[[], None] = lambda: None

    def calibrated(self, seconds: float) -> int:
        """How many operations fill a lap; finding it is also the warm-up."""
        count = 1
        while True:
            # Of three: a thread that was held up once is no lap.
            took = min(self.lap(count) for _ in range(3))
            if took * 4 >= seconds:
                return max(1, int(count * seconds / took))
            count *= 2


def alone(name: str, work: Work) -> Contender:
    """By the time of this thread: whatever else the machine does is not counted."""

    def lap(count: int) -> float:
        before = time.thread_time()
        work(count)
        return time.thread_time() - before

    return Contender(name, lap)


def by_the_clock(name: str, work: Work) -> Contender:
    """For what waits for other threads or processes."""

    def lap(count: int) -> float:
        before = time.perf_counter()
        work(count)
        return time.perf_counter() - before

    return Contender(name, lap)


def in_a_loop(name: str, work: Callable[[int], Awaitable[None]]) -> Contender:
    loop = asyncio.new_event_loop()

    async def run(count: int) -> None:
        await work(count)

    made = alone(name, lambda count: loop.run_until_complete(run(count)))
    made.close = loop.close
    return made


def on_threads(name: str, threads: int, work: Work) -> Contender:
    """So many threads of this process, each with its part of the operations."""

    def lap(count: int) -> float:
        part = max(1, count // threads)
        crew = [threading.Thread(target=work, args=(part,)) for _ in range(threads)]
        before = time.perf_counter()
        for thread in crew:
            thread.start()
        for thread in crew:
            thread.join()
        return (time.perf_counter() - before) * count / (part * threads)

    return Contender(name, lap)


def in_processes(name: str, processes: int, work: Callable[[int], Work]) -> Contender:
    """So many forked processes, each with its part; `work` is told which it is."""
    pipes = []
    for number in range(processes):
        here, there = FORK.Pipe()
        FORK.Process(target=_serve, args=(there, work, number), daemon=True).start()
        there.close()
        pipes.append(here)

    def lap(count: int) -> float:
        part = max(1, count // processes)
        for pipe in pipes:
            pipe.send(part)
        answers = [pipe.recv() for pipe in pipes]
        if failed := [answer for answer in answers if isinstance(answer, str)]:
            raise RuntimeError(f"{name}: {failed[0]}")
        # The clock is the machine's: from the first that began to the last that ended.
        began, ended = min(began for began, _ in answers), max(ended for _, ended in answers)
        return (ended - began) * count / (part * processes)

    def close() -> None:
        for pipe in pipes:
            pipe.send(None)
            pipe.close()

    return Contender(name, lap, close)


def _serve(pipe, work, number) -> None:
    does = None
    while (count := pipe.recv()) is not None:
        try:
            does = does or work(number)
            began = time.perf_counter()
            does(count)
            pipe.send((began, time.perf_counter()))
        except Exception as error:
            pipe.send(repr(error))


@dataclass
class Options:
    rounds: int = 15
    lap: float = 0.03

    @property
    def samples(self) -> int:
        """How many are timed in a round where each is timed by itself."""
        return round(self.lap * 10_000)


@dataclass
class Row:
    name: str
    ours: str
    theirs: str
    ratio: str
    spread: str

    def __str__(self) -> str:
        return f"| {self.name} | {self.ours} | {self.theirs} | {self.ratio} | {self.spread} |"

    @classmethod
    def left_out(cls, name: str, why: str) -> Row:
        return cls(name, f"left out: {why}", "", "", "")

    @classmethod
    def of(cls, label: str, ours: list[float], theirs: list[float]) -> Row:
        """Of the seconds of each round."""
        ratios = [one / other for one, other in zip(ours, theirs)]
        return cls(
            label,
            shown(statistics.median(ours)),
            shown(statistics.median(theirs)),
            digits(statistics.median(ratios)),
            f"{digits(min(ratios))}-{digits(max(ratios))}",
        )


@dataclass
class Compared:
    """The first contender beside each of the others."""

    contenders: list[Contender]
    figures: list[list[float]] = field(default_factory=list)

    def rows(self, name: str, options: Options) -> list[Row]:
        try:
            self._in_turns(options)
        finally:
            for contender in self.contenders:
                contender.close()
        ours = [figures[0] for figures in self.figures]
        if len(self.contenders) == 1:
            return [Row(name, shown(statistics.median(ours)), "", "", f"{shown(min(ours))}-{shown(max(ours))}")]
        return [self._row(name, ours, position) for position in range(1, len(self.contenders))]

    def _in_turns(self, options: Options) -> None:
        laps = [contender.calibrated(options.lap) for contender in self.contenders]
        for turn in range(options.rounds):
            figures = [0.0] * len(laps)
            for step in range(len(laps)):
                position = (turn + step) % len(laps)
                figures[position] = self.contenders[position].lap(laps[position]) / laps[position]
            self.figures.append(figures)

    def _row(self, name: str, ours: list[float], position: int) -> Row:
        label = name if position == 1 else "..."
        theirs = [figures[position] for figures in self.figures]
        return Row.of(f"{label} / {self.contenders[position].name}", ours, theirs)


#: What is told of times: the median, and what one in a hundred exceeds.
PARTS = {"p50": 0.5, "p99": 0.99}


def percentiles(name: str, options: Options, ours: dict[str, Each], theirs: dict[str, Each]) -> list[Row]:
    """Each of ours (by what its label ends with) beside each of theirs, in turns: percentiles of each round."""
    everyone = [*ours.values(), *theirs.values()]
    for each in everyone:
        each(max(1, options.samples // 10))
    rounds = []
    for turn in range(options.rounds):
        rounds.append([[]] * len(everyone))
        for step in range(len(everyone)):
            position = (turn + step) % len(everyone)
            rounds[-1][position] = sorted(everyone[position](options.samples))
    return [
        Row.of(
            f"{name}{our}: {label} / {peer}",
            [times[mine][int(part * len(times[mine]))] for times in rounds],
            [times[other][int(part * len(times[other]))] for times in rounds],
        )
        for mine, our in enumerate(ours)
        for other, peer in enumerate(theirs, len(ours))
        for label, part in PARTS.items()
    ]


def digits(number: float) -> str:
    return f"{number:.2f}" if number >= 0.1 else f"{number:.2g}" if number >= 1e-4 else f"{number:.0e}"


def shown(seconds: float) -> str:
    for unit, one in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= one:
            return f"{seconds / one:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"
