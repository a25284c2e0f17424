import asyncio
import sys
import time

from jobgate_runner import Fail, Job, run


def sleep_secs(job: Job) -> float:
    """Prints the delivery and does all but the sleep."""
    print(f"delivery {job.call_id} {job.attempt}\n", end="", flush=True)  # one write: threads share the output
    if job.body.startswith(b"fail"):
        raise Fail("asked to fail")
    if job.body.startswith(b"retry") and job.attempt == 1:
        raise RuntimeError("asked to retry")
    return int(job.body[len(b"sleep:") :]) / 1000 if job.body.startswith(b"sleep:") else 0


def work(job: Job) -> bytes:
    time.sleep(sleep_secs(job))
    return job.body[::-1]


async def async_work(job: Job) -> bytes:
    await asyncio.sleep(sleep_secs(job))
    return job.body[::-1]


run(async_work if sys.argv[1:] == ["asyncio"] else work)
