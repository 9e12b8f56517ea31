"""What can go wrong. A refusal by ``try_acquire`` is no error: it is a falsy value.

One for each kind of error of the Rust library (``tidegate::ErrorKind``): ``Invalid`` is ``InvalidRequest``,
``Never`` ``ImpossibleRequest``, ``NotFound`` and ``Ended`` ``LeaseEnded``, ``Full`` ``CapacityFull``,
``Unavailable`` ``StoreUnavailable``; ``Busy`` is ``AcquireTimeout``, ``QueueFull``, or, where a store was
busy, ``StoreUnavailable``. Those of a server are in the list of ``Client``.
"""

from __future__ import annotations

from typing import Optional


class TidegateError(Exception):
    """The base of all errors of this package."""


class InvalidRequest(TidegateError, ValueError):
    """The request makes no sense: an unknown limit, no amount for a rate, a negative amount."""


class ImpossibleRequest(InvalidRequest):
    """The request is for more than a limit ever grants; waiting is of no use."""

    def __init__(self, message: str, limit: Optional[str] = None, capacity: Optional[float] = None) -> None:
        super().__init__(message)
        #: The limit that could never grant it.
        self.limit = limit
        #: The most that it grants at once.
        self.capacity = capacity


class AcquireTimeout(TidegateError, TimeoutError):
    """What was asked for was not granted in time."""

    def __init__(self, message: str, limit: Optional[str] = None, retry_after: Optional[float] = None) -> None:
        super().__init__(message)
        #: The limit that refused it.
        self.limit = limit
        #: In how many seconds it would be granted if nobody else asked.
        self.retry_after = retry_after


class QueueFull(TidegateError):
    """``max_waiting`` requests wait already (10,000 unless set); raise it or wait. Of a ``Client``: the
    server has no room for one more request."""


class CapacityFull(TidegateError):
    """The store, or the server's policy, has no room for one more key or lease."""


class LeaseEnded(TidegateError):
    """The acquisition has ended or expired; acquire again."""


class UnreportedUsage(TidegateError):
    """A set with ``strict_updates`` was not told how much of a rate was used."""


class StoreUnavailable(TidegateError, ConnectionError):
    """The store could not tell: it is away or busy, or its data is damaged."""


class WorkerDied(TidegateError):
    """A worker's process or actor ended in the middle of a call. The next call has a new one."""


class ServerUnavailable(TidegateError, ConnectionError):
    """The server cannot be reached, or what answers is none."""


class ServerTimeout(ServerUnavailable, TimeoutError):
    """The server gave no answer in time. What was asked may have been done."""


class UnknownPolicy(TidegateError, LookupError):
    """The server has no such policy, entity or member; the message says which."""


class NamespaceDeleted(TidegateError, LookupError):
    """The namespace is deleted; it can be restored until it is purged."""


class Conflict(TidegateError):
    """Somebody else has changed first what was to be changed, or others depend on it as it is."""


class Unauthorized(TidegateError, PermissionError):
    """The token is missing, or the server does not know it."""


class Forbidden(TidegateError, PermissionError):
    """The token is not for this policy or verb."""
