"""How workers are started."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from multiprocessing.context import BaseContext
from typing import Any, Literal, Optional, Union, overload

from .. import _ray
from .crew import Crew, Workers
from .given import MODES, Given, shared_pool
from .seats import Here, Seat, seat
from .tasks import AsyncWorkers
from .worker import Made, Worker


@overload
def start(
    worker: type[Worker],
    args: tuple[Any, ...] = (),
    kwargs: Optional[Mapping[str, Any]] = None,
    *,
    mode: Literal["asyncio"],
    max_workers: Optional[int] = None,
    limits: Given = None,
    on_demand: bool = False,
    max_waiting: int = 10_000,
) -> AsyncWorkers: ...


@overload
def start(
    worker: type[Worker],
    args: tuple[Any, ...] = (),
    kwargs: Optional[Mapping[str, Any]] = None,
    *,
    mode: Literal["thread", "process", "ray"] = "thread",
    max_workers: Optional[int] = None,
    limits: Given = None,
    on_demand: bool = False,
    max_waiting: int = 10_000,
    mp_context: Optional[BaseContext] = None,
    ray_options: Optional[Mapping[str, Any]] = None,
) -> Workers: ...


def start(
    worker: type[Worker],
    args: tuple[Any, ...] = (),
    kwargs: Optional[Mapping[str, Any]] = None,
    *,
    mode: str = "thread",
    max_workers: Optional[int] = None,
    limits: Given = None,
    on_demand: bool = False,
    max_waiting: int = 10_000,
    mp_context: Optional[BaseContext] = None,
    ray_options: Optional[Mapping[str, Any]] = None,
) -> Union[Workers, AsyncWorkers]:
    """``max_workers`` workers of a class, ``worker(*args, **kwargs)`` each; its methods are called
    through what this answers, and run one at a time in each worker, in order of arrival.

    :param mode: ``"thread"``; ``"process"``, a process each; ``"ray"``, a Ray actor each;
        ``"asyncio"``, coroutine methods in the loop that runs.
    :param max_workers: default: as many as ``ThreadPoolExecutor`` has threads, as there are
        processors, as Ray has, or 100 in an event loop.
    :param limits: what each has as ``self.limits``: ``None``, a limit, limits, a set, sets or a
        pool. In processes and in Ray all share them.
    :param on_demand: a worker is started when a call finds none that is free.
    :param max_waiting: how many calls may wait for a worker; one more raises ``QueueFull``.
    :param mp_context: as of ``ProcessPoolExecutor``; default: ``forkserver``.
    :param ray_options: of the actors: ``{"num_gpus": 1}``.
    :raises ValueError: a set in this process's memory for several processes; an unknown mode.
    """
    if not (isinstance(worker, type) and issubclass(worker, Worker)):
        raise TypeError(f"a class of tidegate.workers.Worker is started, not {worker!r}")
    if callable(getattr(worker, "stop", None)):
        raise TypeError(f"{worker!r} has a method stop, which is how its workers are stopped; call it otherwise")
    number = workers_of(mode, max_workers, mp_context, ray_options)
    if max_waiting < 0:
        raise ValueError(f"max_waiting is at least 0, not {max_waiting}")
    shared = shared_pool(limits, mode)

    def made(index: int) -> Made:
        return worker, tuple(args), dict(kwargs or {}), shared, index

    if mode == "asyncio":
        tasks = AsyncWorkers(lambda index: Here(made(index)), worker, number, max_waiting)
        if not on_demand:
            tasks._begin_all()
        return tasks

    def sit(index: int) -> Seat:
        return seat(mode, made(index), mp_context, ray_options)

    crew = Crew(sit, number, max_waiting)
    if not on_demand:
        crew.begin_all()
    return Workers(crew, worker)


def workers_of(
    mode: str,
    max_workers: Optional[int],
    mp_context: Optional[BaseContext],
    ray_options: Optional[Mapping[str, Any]],
) -> int:
    """How many workers there are.

    :raises ValueError: an unknown mode, what is another mode's, less than one.
    """
    if mode not in MODES:
        raise ValueError(f"no mode {mode!r}; there are {', '.join(MODES)}")
    if mp_context is not None and mode != "process":
        raise ValueError(f"mp_context is for mode='process', not {mode!r}")
    if ray_options is not None and mode != "ray":
        raise ValueError(f"ray_options are for mode='ray', not {mode!r}")
    if max_workers is not None:
        if max_workers < 1:
            raise ValueError(f"max_workers is at least 1, not {max_workers}")
        return max_workers
    if mode == "asyncio":
        return 100
    if mode == "ray":
        return max(1, int(_ray.running().cluster_resources().get("CPU", 1)))
    processors = os.cpu_count() or 1
    return processors if mode == "process" else min(32, processors + 4)
