"""Limits for Django: a middleware, which is a decorator of views as well."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Optional, Protocol, Union

try:
    # By its name: it has no types.
    _response: Callable[..., Any] = importlib.import_module("django.http").HttpResponse
except ImportError as missing:
    raise ImportError("tidegate.frameworks.django needs Django: pip install django") from missing

from .._core import Acquisition
from ..limits import Number
from ..sets import LimitSet
from . import http
from ._gate import Gate
from ._leaving import async_leave, leave

#: What also knows a view of a class with ``async def`` methods, before Python 3.12.
_is_async: Callable[[Any], bool] = getattr(
    importlib.import_module("asgiref.sync"), "iscoroutinefunction", inspect.iscoroutinefunction
)


class Request(Protocol):
    """What is needed of an ``HttpRequest``."""

    META: dict[str, Any]


def client_address(request: Request) -> str:
    """The key of the client that is connected: its IPv4 address, or its IPv6 network of 64 bits.

    Behind a proxy that is the proxy, unless your server puts the client's address into
    ``REMOTE_ADDR``.
    """
    return http.key_of_address(request.META.get("REMOTE_ADDR"))


def limit_requests(
    limits: LimitSet,
    *,
    key: Callable[[Any], Optional[str]] = client_address,
    requested: Union[Mapping[str, Number], Callable[[Any], Mapping[str, Number]], None] = None,
    timeout: Optional[float] = 0,
    failure_mode: str = "deny",
) -> Callable[[Callable[..., Any]], Any]:
    """A middleware, and a decorator of views: sync and async, each as it is.

    ``per_client = limit_requests(LimitSet("100/minute"))`` in a module of yours is a line of
    ``MIDDLEWARE``; ``@per_client`` above a view limits that. The request holds what it took
    until its view has returned, or its streaming response was closed. A refusal is 429 with
    ``Retry-After``; responses have the fields ``RateLimit-Policy`` and ``RateLimit``.

    :param key: of a request, whose it is; ``None`` for one that is not limited.
    :param requested: amounts by limit, or a function of the request that says them.
    :param timeout: how many seconds a request may wait for its turn before it is refused; ``None`` for as
        long as it takes, 0 or less for not at all.
    :param failure_mode: what a request gets while the store does not answer: ``"deny"``, a 503, or
        ``"admit"``.
    """
    gate: Gate[Any] = Gate(limits, key=key, requested=requested, timeout=timeout, failure_mode=failure_mode)

    def decorate(view: Callable[..., Any]) -> Any:
        if _is_async(view):

            @functools.wraps(view)
            async def async_view(request: Any, *arguments: Any, **named: Any) -> Any:
                entry = await gate.async_enter(request)
                if isinstance(entry, http.Refusal):
                    return _refused(entry)
                if entry is None:
                    return await view(request, *arguments, **named)
                try:
                    response = await view(request, *arguments, **named)
                    _told(response, gate, entry)
                except BaseException as error:
                    await async_leave(entry, error)
                    raise
                if not _closes(response, entry):
                    await async_leave(entry)
                return response

            return async_view

        @functools.wraps(view)
        def sync_view(request: Any, *arguments: Any, **named: Any) -> Any:
            entry = gate.enter(request)
            if isinstance(entry, http.Refusal):
                return _refused(entry)
            if entry is None:
                return view(request, *arguments, **named)
            try:
                response = view(request, *arguments, **named)
                _told(response, gate, entry)
            except BaseException as error:
                leave(entry, error)
                raise
            if not _closes(response, entry):
                leave(entry)
            return response

        return sync_view

    setattr(decorate, "sync_capable", True)
    setattr(decorate, "async_capable", True)
    return decorate


def _refused(refused: http.Refusal) -> Any:
    return _response(refused.body, status=refused.status, headers=refused.all_headers)


def _told(response: Any, gate: Gate[Any], acquired: Acquisition) -> None:
    """Adds to the fields that other limits have written: a list goes on."""
    for name, value in http.fields(gate.limits, acquired).items():
        response[name] = f"{response[name]},{value}" if response.has_header(name) else value


def _closes(response: Any, acquired: Acquisition) -> bool:
    """Whether it streams: then what is held ends when the server closes it."""
    if not getattr(response, "streaming", False):
        return False
    close = response.close

    def closed() -> None:
        try:
            close()
        finally:
            leave(acquired)

    response.close = closed
    return True
