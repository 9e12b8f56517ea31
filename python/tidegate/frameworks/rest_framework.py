"""Limits for views of Django REST framework, as a throttle.

It needs of the framework its settings and its errors.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, Optional

from ..errors import StoreUnavailable
from ..limits import Number, ResourceLimit
from ..sets import LimitSet
from . import http
from ._gate import REFUSED
from ._leaving import leave


class LimitThrottle:
    """A throttle that counts each request in one step, in whatever store its ``limits`` have.

    The framework's own reads a list from the cache, appends to it and writes it back: of
    requests that do so at the same time all are admitted.

    A subclass says ``limits``, and stands among ``throttle_classes``. A throttle is not told
    when a request ends, so it holds nothing: a ``ResourceLimit`` needs
    ``tidegate.frameworks.django.limit_requests``.
    """

    limits: LimitSet
    #: What a request gets while the store does not answer: ``"deny"``, a 503, or ``"admit"``.
    failure_mode = "deny"

    _retry_after: Optional[float] = None

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        limits = getattr(cls, "limits", None)
        if not isinstance(limits, LimitSet):
            raise TypeError(f"{cls.__name__}.limits: a LimitSet is needed, not {limits!r}")
        if any(isinstance(limit, ResourceLimit) for limit in limits.limits):
            raise TypeError(f"{cls.__name__}.limits: a throttle cannot hold a ResourceLimit; decorate the view")

    def get_key(self, request: Any, view: Any) -> Optional[str]:
        """Whose it is: the user who is logged in, else the address. ``None``: it is not limited.

        ``X-Forwarded-For`` counts where ``NUM_PROXIES`` of the settings says how many proxies
        add to it; without that it is the client's to choose.
        """
        if request.user is not None and request.user.is_authenticated:
            return f"user {request.user.pk}"
        return _client(request)

    def get_requested(self, request: Any, view: Any) -> Optional[Mapping[str, Number]]:
        """Amounts by limit; a ``RateLimit`` needs one."""
        return None

    def allow_request(self, request: Any, view: Any) -> bool:
        key = self.get_key(request, view)
        if key is None:
            return True
        try:
            acquired = self.limits.try_acquire(self.get_requested(request, view), key=key)
        except REFUSED as error:
            if self.failure_mode == "admit" and isinstance(error, StoreUnavailable):
                return True
            raise _refused(http.refusal(error)) from error
        leave(acquired)
        self._retry_after = acquired.retry_after
        return acquired.successful

    def wait(self) -> Optional[float]:
        """In how many seconds it would be granted."""
        return self._retry_after


def _refused(refused: http.Refusal) -> Exception:
    """What the framework answers with that status."""
    error: Exception = importlib.import_module("rest_framework.exceptions").APIException(refused.detail)
    setattr(error, "status_code", refused.status)
    return error


def _client(request: Any) -> str:
    proxies = importlib.import_module("rest_framework.settings").api_settings.NUM_PROXIES
    forwarded = request.META.get("HTTP_X_FORWARDED_FOR")
    if not proxies or forwarded is None:
        return http.key_of_address(request.META.get("REMOTE_ADDR"))
    addresses = forwarded.split(",")
    return http.key_of_address(addresses[-min(proxies, len(addresses))].strip())
