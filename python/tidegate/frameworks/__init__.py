"""Helpers for frameworks. Each file needs its own framework, and no other.

``http``            header fields, refusals and keys, for code of your own
``asgi``            ``LimitMiddleware`` of Starlette, FastAPI, Litestar and all of ASGI
``wsgi``            ``LimitMiddleware`` of Flask and all of WSGI
``fastapi``         ``limit_requests``, a dependency
``django``          ``limit_requests``, a middleware and a decorator of views
``rest_framework``  ``LimitThrottle``
``aiohttp``         ``limit_requests`` of an aiohttp server
``httpx``           ``LimitTransport``, ``AsyncLimitTransport``
``requests``        ``LimitAdapter``
``langchain``       ``LimitSetRateLimiter``

Celery and aiohttp's client need none: their pages show the few lines.
"""
