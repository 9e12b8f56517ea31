"""May this work start now, and how much may it use?

Limits for calls, tokens, money and slots: in one process, or in a store that many share.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

from ._core import Acquisition, Answer, Permit, ServerGrant, ServerLease, Spent, _after_fork
from .client import AsyncClient, AsyncSpender, Client, Spender
from .decorators import limited
from .errors import (
    AcquireTimeout,
    CapacityFull,
    Conflict,
    Forbidden,
    ImpossibleRequest,
    InvalidRequest,
    LeaseEnded,
    NamespaceDeleted,
    QueueFull,
    ServerTimeout,
    ServerUnavailable,
    StoreUnavailable,
    TidegateError,
    Unauthorized,
    UnknownPolicy,
    UnreportedUsage,
    WorkerDied,
)
from .limits import (
    Balancer,
    Budget,
    CallLimit,
    LoadBalancing,
    RateLimit,
    RateLimitAlgorithm,
    ResourceLimit,
)
from .locks import Lock, Mutex, Semaphore
from .sets import LimitPool, LimitSet

if TYPE_CHECKING:
    from . import workers

os.register_at_fork(after_in_child=_after_fork)

__all__ = [
    "AcquireTimeout",
    "Acquisition",
    "Answer",
    "AsyncClient",
    "AsyncSpender",
    "Balancer",
    "Budget",
    "CallLimit",
    "CapacityFull",
    "Client",
    "Conflict",
    "Forbidden",
    "ImpossibleRequest",
    "InvalidRequest",
    "LeaseEnded",
    "LimitPool",
    "LimitSet",
    "LoadBalancing",
    "Lock",
    "Mutex",
    "NamespaceDeleted",
    "Permit",
    "QueueFull",
    "RateLimit",
    "RateLimitAlgorithm",
    "ResourceLimit",
    "Semaphore",
    "ServerGrant",
    "ServerLease",
    "ServerTimeout",
    "ServerUnavailable",
    "Spender",
    "Spent",
    "StoreUnavailable",
    "TidegateError",
    "Unauthorized",
    "UnknownPolicy",
    "UnreportedUsage",
    "WorkerDied",
    "limited",
    "workers",
]


def __getattr__(name: str) -> Any:
    # Imported when it is asked for: it needs asyncio and multiprocessing.
    if name == "workers":
        return importlib.import_module(".workers", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
