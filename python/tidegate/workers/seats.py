"""Where a worker sits: in this process, in a process of its own, in a Ray actor."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Mapping
from multiprocessing import connection, process, reduction
from multiprocessing.context import BaseContext
from typing import Any, NoReturn, Optional, Protocol

from .. import _ray
from ..errors import WorkerDied
from .outcome import ENDS, Outcome, portable
from .worker import Made, make

#: Seconds that a process has for its `finally` when it is ended.
_GRACE = 5.0

#: A process that is forked beside another one would keep that one's pipe open.
_starting = threading.Lock()


class Seat(Protocol):
    """Does one call at a time."""

    #: Whether its worker is gone. (What a call raises does not say it: it may be of another's worker.)
    is_gone: bool

    def call(self, name: str, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """What the worker's method answers.

        :raises WorkerDied: the worker is gone; so is the seat.
        """

    def close(self) -> None:
        """No call comes any more."""

    def end(self) -> None:
        """Ends the call that runs, if it can be ended. Any thread may say so."""


def seat(
    mode: str, made: Made, mp_context: Optional[BaseContext], ray_options: Optional[Mapping[str, Any]]
) -> Seat:
    """A seat for workers of ``mode``."""
    if mode == "process":
        return Process(made, mp_context)
    if mode == "ray":
        return Actor(made, ray_options or {})
    return Here(made)


class Here:
    """In the thread that calls."""

    is_gone = False

    def __init__(self, made: Made) -> None:
        self._worker = make(made)

    def call(self, name: str, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        return getattr(self._worker, name)(*arguments, **named)

    def close(self) -> None:
        pass

    def end(self) -> None:
        pass


class Process:
    """In a process of its own, which ends with this one, however that ends."""

    is_gone = False

    def __init__(self, made: Made, context: Optional[BaseContext]) -> None:
        # Safe beside threads; what is called must be importable.
        context = context or multiprocessing.get_context("forkserver")
        # Of two threads that wait for its end, one would be told nothing.
        self._joining = threading.Lock()
        with _starting:
            self._pipe, theirs = context.Pipe()
            begun: Any = context.Process  # type: ignore[attr-defined]
            self._process: process.BaseProcess = begun(target=_serve, args=(theirs, made))
            try:
                self._process.start()
            finally:
                theirs.close()
        try:
            self._receive().get()
        except BaseException:
            self.end()
            raise

    def _receive(self) -> Outcome:
        connection.wait([self._pipe, self._process.sentinel])
        try:
            if not self._pipe.poll():
                self._died()
            sent = self._pipe.recv_bytes()
        except (EOFError, OSError):
            self._died()
        # Apart from the pipe: what a value raises as it is loaded is no end of the process.
        outcome: Outcome = pickle.loads(sent)
        return outcome

    def _join(self) -> None:
        with self._joining:
            self._process.join()

    def _died(self) -> NoReturn:
        self.is_gone = True
        self._join()
        raise WorkerDied(f"process {self._process.pid} of a worker ended with code {self._process.exitcode}")

    def call(self, name: str, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        try:
            self._pipe.send((name, arguments, named))
        except OSError:
            self._died()
        return self._receive().get()

    def close(self) -> None:
        try:
            self._pipe.send(None)
        except OSError:
            pass
        self._join()

    def end(self) -> None:
        self._process.terminate()
        if not connection.wait([self._process.sentinel], _GRACE):
            self._process.kill()
        self._join()


class _Ended(BaseException):
    """The call is to end: its `finally` runs."""


def _serve(pipe: connection.Connection, made: Made) -> None:
    """A worker's process: answers one call after the other."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # Ctrl-C is for the process that has started this one, which ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end)
    try:
        try:
            worker = make(made)
        except Exception as error:
            pipe.send(portable(error))
            return
        pipe.send(Outcome())
        while _serve_one(pipe, worker):
            pass
    except (_Ended, EOFError, OSError):
        pass


def _serve_one(pipe: connection.Connection, worker: Any) -> bool:
    """Whether another call may come."""
    sent = pipe.recv_bytes()
    try:
        asked = pickle.loads(sent)
        if asked is None:
            return False
        answer = reduction.ForkingPickler.dumps(answered(worker, *asked))
    except Exception as error:  # A question or an answer that cannot be pickled.
        answer = reduction.ForkingPickler.dumps(portable(error))
    pipe.send_bytes(answer)
    return True


def _end(_number: int, _frame: Any) -> None:
    raise _Ended


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def answered(worker: Any, name: str, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Outcome:
    """What a method answers or raises, to be sent."""
    try:
        return Outcome(getattr(worker, name)(*arguments, **named))
    except ENDS as error:
        return portable(error)


class Actor:
    """In a Ray actor."""

    is_gone = False

    def __init__(self, made: Made, options: Mapping[str, Any]) -> None:
        self._ray = _ray.running()
        self._actor = self._ray.remote(_Host).options(**options).remote()
        try:
            self._get(self._actor.begin.remote(made)).get()
        except BaseException:
            self.end()
            raise

    def _get(self, answer: Any) -> Outcome:
        try:
            outcome: Outcome = self._ray.get(answer)
            return outcome
        except self._ray.exceptions.RayActorError as error:
            self.is_gone = True
            raise WorkerDied(f"an actor of a worker ended: {error}") from None

    def call(self, name: str, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        return self._get(self._actor.call.remote(name, arguments, named)).get()

    def close(self) -> None:
        self.end()

    def end(self) -> None:
        self._ray.kill(self._actor)


class _Host:
    """What the actor is: a worker, and how it is called."""

    def begin(self, made: Made) -> Outcome:
        try:
            self._worker = make(made)
            return Outcome()
        except Exception as error:
            return portable(error)

    def call(self, name: str, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Outcome:
        return answered(self._worker, name, arguments, named)
