"""Limit sets and pools of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Optional, Union

from . import _core
from .errors import InvalidRequest
from .limits import Budget, CallLimit, Limit, LoadBalancing, RateLimit, ResourceLimit, parse

_MODES = {"thread": None, "asyncio": None, "process": "shm:python"}
_LIMITS = (RateLimit, Budget, CallLimit, ResourceLimit)


class LimitSet(_core.Set):
    """Limits that are taken together, all or nothing.

    >>> from tidegate import LimitSet, RateLimit, ResourceLimit
    >>> limits = LimitSet([RateLimit("tokens", 1_000, "per_minute"), ResourceLimit("slots", 2)])
    >>> with limits.acquire({"tokens": 400}) as acquired:
    ...     acquired.update(usage={"tokens": 310})
    >>> acquired.reclaimed
    {'tokens': 90}

    :param limits: limits, or lines such as ``"10/minute"``.
    :param name: what the set is called in its store; sets of one name in one store share what
        they have used. Needed for every store but the set's own memory.
    :param store: ``"shm:NAME"``, ``"file:PATH"``, ``"redis://..."``, ``"postgres://..."``,
        ``"mysql://..."``; ``None`` for memory of its own.
    :param mode: in place of ``store``: ``"thread"`` and ``"asyncio"`` are memory of its own,
        ``"process"`` is ``"shm:python"``, shared memory of this user's processes.
    :param config: anything (a region, an account): every acquisition has it.
    :param strict_updates: a rate of which an acquisition reports no use raises
        ``UnreportedUsage`` at its end; else it was used as taken.
    :param max_waiting: how many acquisitions may wait at once.
    :raises InvalidRequest: limits that make no sense together.
    :raises StoreUnavailable: the store cannot be reached.
    """

    limits: tuple[Limit, ...]
    name: Optional[str]
    store: Optional[str]
    config: Optional[Mapping[str, Any]]
    _again: dict[str, Any]

    def __new__(
        cls,
        limits: Union[Limit, str, Iterable[Union[Limit, str]]],
        *,
        name: Optional[str] = None,
        store: Optional[str] = None,
        mode: Optional[str] = None,
        config: Optional[Mapping[str, Any]] = None,
        strict_updates: bool = False,
        max_waiting: Optional[int] = None,
    ) -> "LimitSet":
        store = _store(store, mode)
        if store is not None and not name:
            raise InvalidRequest(f"a set in {store.split(':')[0]}: needs a name; who says the same shares it")
        given = [limits] if isinstance(limits, (str, *_LIMITS)) else limits
        described = tuple(parse(limit) if isinstance(limit, str) else limit for limit in given)
        made = super().__new__(
            cls,
            [limit for limit in described if not limit.is_infinite],
            infinite=[limit.name for limit in described if limit.is_infinite],
            rates=[limit.name for limit in described if isinstance(limit, RateLimit)],
            name=name,
            store=store,
            config=config,
            strict_updates=strict_updates,
            max_waiting=max_waiting,
        )
        made.limits, made.name, made.store, made.config = described, name, store, config
        made._again = dict(
            name=name, store=store, config=config, strict_updates=strict_updates, max_waiting=max_waiting
        )
        return made

    def __reduce__(self) -> Any:
        if self.store is None or self.store.startswith("memory:"):
            raise TypeError(
                "a set in memory is of one process; give it a name and a store that processes "
                "share, such as 'shm:NAME' or 'redis://...'"
            )
        return _again, (type(self), self.limits, self._again)

    def __repr__(self) -> str:
        names = ", ".join(limit.name for limit in self.limits)
        return f"<{type(self).__name__} {self.name or '(unnamed)'}: {names}>"


def _store(store: Optional[str], mode: Optional[str]) -> Optional[str]:
    if mode is None:
        return store
    if store is not None:
        raise ValueError("a store or a mode, not both")
    if mode == "ray":
        raise ValueError("Ray's nodes share a server: store='redis://...' (or postgres, mysql)")
    if mode not in _MODES:
        raise ValueError(f"no mode {mode!r}; there are {', '.join(_MODES)}")
    return _MODES[mode]


def _again(cls: type[LimitSet], limits: tuple[Limit, ...], words: dict[str, Any]) -> LimitSet:
    return cls(limits, **words)


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

    _sets: tuple[LimitSet, ...]

    def __new__(
        cls,
        sets: Union[Sequence[LimitSet], Mapping[str, LimitSet]],
        *,
        load_balancing: Union[LoadBalancing, str] = LoadBalancing.ROUND_ROBIN,
        weights: Optional[Sequence[int]] = None,
        balancer: Optional[Callable[[Sequence[int], int], Sequence[int]]] = None,
        offset: int = 0,
    ) -> "LimitPool":
        if isinstance(sets, Mapping):
            members = list(sets.items())
        else:
            members = [(str(position), member) for position, member in enumerate(sets)]
        if weights is not None and len(weights) != len(members):
            raise ValueError(f"{len(weights)} weights for {len(members)} sets")
        made = super().__new__(
            cls,
            members,
            weights=[1] * len(members) if weights is None else list(weights),
            balance=LoadBalancing(load_balancing).value,
            balancer=balancer,
            offset=offset,
        )
        made._sets = tuple(member for _, member in members)
        return made

    def __getitem__(self, position: int) -> LimitSet:
        if isinstance(position, str):
            raise TypeError("a pool is indexed by position; its sets have no names here")
        return self._sets[position]

    def __len__(self) -> int:
        return len(self._sets)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)} sets>"
