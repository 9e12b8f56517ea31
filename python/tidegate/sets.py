"""Limit sets and pools of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Optional, Union

from . import _core, _opened, _ray
from ._core import ManualClock
from .errors import InvalidRequest
from .limits import Balancer, Limit, LoadBalancing, RateLimit, lines, parse

#: Which sets are tried first as their weights say.
_WEIGHING = (LoadBalancing.WEIGHTED, LoadBalancing.LEAST_LOADED)

_MODES = {"thread": None, "asyncio": None, "process": "shm:python"}


class LimitSet(_core.Set):
    """Limits that are taken together, all or nothing.

    >>> from tidegate import LimitSet, RateLimit, ResourceLimit
    >>> limits = LimitSet([RateLimit("tokens", 1_000, "per_minute"), ResourceLimit("slots", 2)])
    >>> with limits.acquire({"tokens": 400}) as acquired:
    ...     acquired.update(usage={"tokens": 310})
    >>> acquired.reclaimed
    {'tokens': 90}

    :param limits: limits, or strings such as ``"10/minute"`` and ``"2/minute; 100/hour"``; several of
        them are limits of the names ``calls/minute``, ``calls/hour`` ..., a single one is ``calls``.
    :param name: what the set is called in its store; sets of one name in one store share what
        they have used. Needed for every store but the set's own memory. In ``memory:`` and
        ``file:`` they share their limits, too: those of the set that was opened last.
    :param store: ``"memory:"`` (this process's, shared by name), ``"shm:NAME"``, ``"file:PATH"``,
        ``"redis://..."``, ``"postgres://..."``, ``"mysql://..."``; ``None`` for memory of its own. A server
        (``"http://..."``) is none, since it has limits of its own: a :class:`tidegate.Client` asks it.
    :param mode: in place of ``store``: ``"process"`` is ``"shm:python"``, shared memory of this user's
        processes. ``"ray"`` is that where Ray has one node; where it has more it needs a server's
        ``store`` beside it.
        ``"thread"`` and ``"asyncio"`` change nothing, since every set in memory serves both; they are
        there for code that comes from concurry.
    :param config: anything (a region, an account): every acquisition has it.
    :param strict_updates: a rate of which an acquisition reports no use raises
        ``UnreportedUsage`` at its end; else it was used as taken.
    :param max_waiting: how many acquisitions may wait at once; default: 10,000.
    :param clock: without a ``store``: what it takes the time from, for tests; a pool goes by the clock
        of its sets.
    :raises ValueError: a ``store`` that is no URL of a store; an unknown ``mode``; a ``mode`` beside a
        ``store``; ``mode="ray"`` without Ray, or where its nodes share no memory.
    :raises InvalidRequest: two limits of one name, or a limit that no set can have (a negative
        capacity, a burst of a window); a ``store`` without a ``name``, or with a ``clock``;
        ``max_waiting`` below 0; 10,000 names are open in this process.
    :raises StoreUnavailable: the store cannot be reached, or is a file that another process has open.
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
            raise InvalidRequest(
                f"a set in {_opened.scheme(store)}: needs name='...'; sets of the same name and store "
                "share what they have used"
            )
        listed = [limits] if isinstance(limits, (str, Limit)) else limits
        given: list[Union[Limit, str]] = []
        for limit in listed:
            given.extend(lines(limit) if isinstance(limit, str) else [limit])
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
        _opened.check_portable("a set", self.store)
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


def _check_whole(name: str, number: Any, least: int, most: int) -> None:
    if not hasattr(number, "__index__") or not least <= number <= most:
        raise InvalidRequest(f"{name}: whole numbers of {least} to {most} are needed, not {number!r}")


def _balance(said: Union[LoadBalancing, str, None], weighs: bool, is_called: bool) -> LoadBalancing:
    """How it is balanced; what would have no effect is refused.

    :raises ValueError: it would; an unknown word.
    """
    if said is not None and is_called:
        raise ValueError("a load_balancing or a balancer, not both")
    if said is None:
        balance = LoadBalancing.WEIGHTED if weighs and not is_called else LoadBalancing.ROUND_ROBIN
    else:
        balance = LoadBalancing(said)
    if weighs and balance not in _WEIGHING:
        who = "a balancer" if is_called else f"load_balancing={balance.value!r}"
        raise ValueError(f"{who} goes by no weights; leave out the weights, or write load_balancing='weighted'")
    return balance


class LimitPool(_core.Pool):
    """Limit sets that can serve the same work: regions, accounts, endpoints.

    :param sets: the sets, or sets by name; in a list their names are ``"0"``, ``"1"`` ...
    :param load_balancing: which set is tried first; the next if that one has no room. Default:
        ``"weighted"`` where ``weights`` are given, else ``"round_robin"``.
    :param weights: 1 to 2^32 - 1 for each set: one of weight 3 takes three times as much as one of 1.
        Only of ``"weighted"`` and ``"least_loaded"``.
    :param balancer: in place of ``load_balancing``: a function that says the order (``Balancer``).
    :param offset: where round-robin begins, so that workers do not all begin at the first: 0 to
        2^64 - 1.
    :raises InvalidRequest: ``weights`` or ``offset`` out of range; no sets; sets whose limits of one
        name differ in ``places``, ``strict_updates``, ``refund_on_failure``, or in whether they are
        infinite.
    :raises ValueError: an unknown ``load_balancing``; ``weights`` beside one that ignores them, or
        beside a ``balancer``; a ``balancer`` beside a ``load_balancing``.
    """

    _sets: dict[str, LimitSet]
    _words: dict[str, Any]

    def __init__(
        self,
        sets: Union[Sequence[LimitSet], Mapping[str, LimitSet]],
        *,
        load_balancing: Union[LoadBalancing, str, None] = None,
        weights: Optional[Sequence[int]] = None,
        balancer: Optional[Balancer] = None,
        offset: int = 0,
    ) -> None:
        if not isinstance(sets, Mapping):
            sets = {str(position): member for position, member in enumerate(sets)}
        _check_whole("offset", offset, 0, 2**64 - 1)
        balance = _balance(load_balancing, weights is not None, balancer is not None)
        if weights is not None:
            if isinstance(weights, Mapping):
                raise TypeError(f"weights is a list of whole numbers, one for each set in order, not {weights!r}")
            if len(weights) != len(sets):
                raise InvalidRequest(f"{len(weights)} weights for {len(sets)} sets")
            for weight in weights:
                _check_whole("weights", weight, 1, 2**32 - 1)
        super().__init__(
            list(sets.items()),
            weights=[1] * len(sets) if weights is None else list(weights),
            balance=balance.value,
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
        """A set, by its position.

        :raises IndexError: the pool has no such position.
        :raises TypeError: a name; :meth:`member` takes one.
        """
        if isinstance(position, str):
            raise TypeError(f"the sets of a pool have positions; write pool.member({position!r}) for a name")
        return list(self._sets.values())[position]

    def member(self, name: str) -> LimitSet:
        """A set, by its name.

        :raises InvalidRequest: the pool has no such member.
        """
        try:
            return self._sets[name]
        except KeyError:
            raise InvalidRequest(f"no member {name!r}; there are {', '.join(self._sets)}") from None

    def __len__(self) -> int:
        return len(self._sets)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {', '.join(self._sets)}>"
