"""Limit sets and pools of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Optional, Union

from . import _core, _opened, _ray
from ._core import ManualClock
from .errors import InvalidRequest
from .limits import Limit, LoadBalancing, RateLimit, parse

_MODES = {"thread": None, "asyncio": None, "process": "shm:python"}


class LimitSet(_core.Set):
    """Limits that are taken together, all or nothing.

    >>> from tidegate import LimitSet, RateLimit, ResourceLimit
    >>> limits = LimitSet([RateLimit("tokens", 1_000, "per_minute"), ResourceLimit("slots", 2)])
    >>> with limits.acquire({"tokens": 400}) as acquired:
    ...     acquired.update(usage={"tokens": 310})
    >>> acquired.reclaimed
    {'tokens': 90}

    :param limits: limits, or lines such as ``"10/minute"``; several lines are limits of the names
        ``calls/minute``, ``calls/hour`` ..., a single one is ``calls``.
    :param name: what the set is called in its store; sets of one name in one store share what
        they have used. Needed for every store but the set's own memory. In ``memory:`` and
        ``file:`` they share their limits, too: those that were said last.
    :param store: ``"memory:"`` (this process's, shared by name), ``"shm:NAME"``, ``"file:PATH"``,
        ``"redis://..."``, ``"postgres://..."``, ``"mysql://..."``; ``None`` for memory of its own.
    :param mode: in place of ``store``: ``"thread"`` and ``"asyncio"`` are memory of its own,
        ``"process"`` is ``"shm:python"``, shared memory of this user's processes. ``"ray"`` is
        that where Ray has one node; where it has more it needs a server's ``store`` beside it.
    :param config: anything (a region, an account): every acquisition has it.
    :param strict_updates: a rate of which an acquisition reports no use raises
        ``UnreportedUsage`` at its end; else it was used as taken.
    :param max_waiting: how many acquisitions may wait at once; 10,000 unless said.
    :param clock: in memory: what it takes the time from, for tests; a pool goes by the clock of
        its sets.
    :raises InvalidRequest: limits that make no sense together.
    :raises StoreUnavailable: the store cannot be reached.
    """

    limits: tuple[Limit, ...]
    name: Optional[str]
    store: Optional[str]
    config: Any
    _words: dict[str, Any]
    _made_on: Optional[_ray.Machine]

    def __init__(
        self,
        limits: Union[Limit, str, Iterable[Union[Limit, str]]],
        *,
        name: Optional[str] = None,
        store: Optional[str] = None,
        mode: Optional[str] = None,
        config: Any = None,
        strict_updates: bool = False,
        max_waiting: Optional[int] = None,
        clock: Optional[ManualClock] = None,
    ) -> None:
        store = _store(store, mode)
        _opened.check_clock(clock, store)
        if store is not None and not name:
            raise InvalidRequest(f"a set in {_opened.scheme(store)}: needs a name; who says the same shares it")
        given = [limits] if isinstance(limits, (str, Limit)) else list(limits)
        is_alone = sum(isinstance(limit, str) for limit in given) == 1
        described = tuple(parse(limit, is_alone=is_alone) if isinstance(limit, str) else limit for limit in given)
        super().__init__(
            [limit for limit in described if not limit.is_infinite],
            infinite=[limit.name for limit in described if limit.is_infinite],
            rates=[limit.name for limit in described if isinstance(limit, RateLimit)],
            refunded=[limit.name for limit in described if getattr(limit, "refund_on_failure", False)],
            name=name,
            store=store,
            config=config,
            strict_updates=strict_updates,
            max_waiting=max_waiting,
            clock=clock,
        )
        self.limits, self.name, self.store, self.config = described, name, store, config
        self._words = dict(
            name=name, store=store, config=config, strict_updates=strict_updates, max_waiting=max_waiting
        )
        self._made_on = _ray.machine() if mode == "ray" and store and store.startswith("shm:") else None

    def __reduce__(self) -> Any:
        if _opened.is_of_one_process(self.store):
            raise TypeError(
                "a set in memory is of one process; give it a name and a store that processes "
                "share, such as 'shm:NAME' or 'redis://...'"
            )
        return _opened.unopened, (type(self),), self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        made_on = state["_made_on"]
        if made_on is not None:
            _ray.check(made_on)
        self.__dict__.update(state)
        LimitSet.__init__(self, self.limits, **self._words)
        self._made_on = made_on

    def __repr__(self) -> str:
        names = ", ".join(limit.name for limit in self.limits)
        place = _opened.scheme(self.store)
        return f"<{type(self).__name__} {self.name or '(unnamed)'} in {place}: {names or 'no limits'}>"


def _store(store: Optional[str], mode: Optional[str]) -> Optional[str]:
    if mode is None:
        return store
    if mode == "ray":
        return _ray.store(store)
    if store is not None:
        raise ValueError("a store or a mode, not both")
    if mode not in _MODES:
        raise ValueError(f"no mode {mode!r}; there are {', '.join(_MODES)}, ray")
    return _MODES[mode]


class LimitPool(_core.Pool):
    """Limit sets that can serve the same work: regions, accounts, endpoints.

    :param sets: the sets, or sets by name.
    :param load_balancing: which set is tried first; the next if that one has no room.
    :param weights: how much each can take, beside the others.
    :param balancer: in place of ``load_balancing``: called with the load of each set that does
        not cool down and the number of the turn, it answers positions in that list in the
        order in which they are tried.
    :param offset: where round-robin begins, so that workers do not all begin at the first.
    """

    _sets: dict[str, LimitSet]
    _words: dict[str, Any]

    def __init__(
        self,
        sets: Union[Sequence[LimitSet], Mapping[str, LimitSet]],
        *,
        load_balancing: Union[LoadBalancing, str] = LoadBalancing.ROUND_ROBIN,
        weights: Optional[Sequence[int]] = None,
        balancer: Optional[Callable[[Sequence[int], int], Sequence[int]]] = None,
        offset: int = 0,
    ) -> None:
        if not isinstance(sets, Mapping):
            sets = {str(position): member for position, member in enumerate(sets)}
        if weights is not None and len(weights) != len(sets):
            raise ValueError(f"{len(weights)} weights for {len(sets)} sets")
        super().__init__(
            list(sets.items()),
            weights=[1] * len(sets) if weights is None else list(weights),
            balance=LoadBalancing(load_balancing).value,
            balancer=balancer,
            offset=offset,
        )
        self._sets = dict(sets)
        self._words = dict(load_balancing=load_balancing, weights=weights, balancer=balancer, offset=offset)

    def __reduce__(self) -> Any:
        return _opened.unopened, (type(self),), self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        LimitPool.__init__(self, self._sets, **self._words)

    def _turned(self, turns: int) -> "LimitPool":
        """The same sets, where round-robin begins so many further."""
        return LimitPool(self._sets, **{**self._words, "offset": self._words["offset"] + turns})

    def __getitem__(self, position: int) -> LimitSet:
        if isinstance(position, str):
            raise TypeError("a pool is indexed by position; its sets have no names here")
        return list(self._sets.values())[position]

    def __len__(self) -> int:
        return len(self._sets)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {', '.join(self._sets)}>"
