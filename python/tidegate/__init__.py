"""May this work start now, and how much may it use?

Limits for calls, tokens, money and slots: in one process, or in a store that many share.
"""

import os

from ._core import Acquisition, Permit, _after_fork
from .decorators import limited
from .errors import (
    AcquireTimeout,
    CapacityFull,
    ImpossibleRequest,
    InvalidRequest,
    LeaseEnded,
    QueueFull,
    StoreUnavailable,
    TidegateError,
    UnreportedUsage,
)
from .limits import (
    Budget,
    CallLimit,
    LoadBalancing,
    RateLimit,
    RateLimitAlgorithm,
    ResourceLimit,
)
from .locks import Mutex, Semaphore
from .sets import LimitPool, LimitSet

os.register_at_fork(after_in_child=_after_fork)

__all__ = [
    "AcquireTimeout",
    "Acquisition",
    "Budget",
    "CallLimit",
    "CapacityFull",
    "ImpossibleRequest",
    "InvalidRequest",
    "LeaseEnded",
    "LimitPool",
    "LimitSet",
    "LoadBalancing",
    "Mutex",
    "Permit",
    "QueueFull",
    "RateLimit",
    "RateLimitAlgorithm",
    "ResourceLimit",
    "Semaphore",
    "StoreUnavailable",
    "TidegateError",
    "UnreportedUsage",
    "limited",
]
