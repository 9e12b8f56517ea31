"""What the worker processes of `test_workers_of_uvicorn.py` run."""

import os

from tidegate import LimitSet
from tidegate.frameworks.asgi import LimitMiddleware


async def answer(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body"})


def marked(app):
    """Each response says whose it is, also a refusal."""

    async def mark(scope, receive, send):
        async def marking(message):
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"x-worker", str(os.getpid()).encode())]
            await send(message)

        await app(scope, receive, marking)

    return mark


app = marked(LimitMiddleware(answer, LimitSet("20/day", name="uvicorn", store=os.environ["STORE"])))
