"""Functions over many items, and workers, that run within limits.

Their files in reading order: ``given`` (what can be given as limits), ``worker`` (the base class),
``outcome`` (how a call ended, told across processes), ``seats`` (where a worker sits: a thread, a
process, a Ray actor), ``crew`` (threads that take calls), ``tasks`` (the same in an event loop),
``handle`` (``start``), ``retry``, ``granted``, ``plan`` and ``mapping`` (``map``).

Deliberately absent: scheduling (calls are taken in order of arrival, by whoever is free), results
that are kept for later, workers of other machines than through Ray.
"""

from .crew import Workers
from .granted import Granted, acquired
from .handle import start
from .mapping import map
from .retry import Retry
from .tasks import AsyncWorkers
from .worker import Worker

__all__ = ["AsyncWorkers", "Granted", "Retry", "Worker", "Workers", "acquired", "map", "start"]
