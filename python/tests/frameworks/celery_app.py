"""What the workers of `test_celery.py` run."""

import os

from celery import Celery

from tidegate import AcquireTimeout, CallLimit, LimitSet, ResourceLimit

app = Celery(broker=os.environ["BROKER"])
app.conf.update(task_ignore_result=True, worker_prefetch_multiplier=0, broker_connection_retry_on_startup=True)

limits = LimitSet(
    [CallLimit(4, "per_day"), ResourceLimit("at once", 1)], name="celery", store=os.environ["STORE"]
)


def note(word):
    """A line for the test, written at once."""
    file = os.open(os.environ["NOTES"], os.O_APPEND | os.O_CREAT | os.O_WRONLY)
    os.write(file, f"{word} {os.environ['WORKER']}\n".encode())
    os.close(file)


@app.task(rate_limit="1/h")
def theirs():
    note("theirs")


@app.task(bind=True, max_retries=None)
def ours(self):
    try:
        acquired = limits.acquire(timeout=60)
    except AcquireTimeout as refused:
        note("refused")
        raise self.retry(countdown=refused.retry_after)
    with acquired:
        # Fails if another task is here.
        mine = os.environ["NOTES"] + ".inside"
        os.close(os.open(mine, os.O_CREAT | os.O_EXCL))
        note("ours")
        os.unlink(mine)
