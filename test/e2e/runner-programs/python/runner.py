import asyncio
import sys
import time

from jobgate_runner import Fail, Job, Result, run


def sleep_secs(job: Job) -> float:
    """Prints the delivery and does all but the sleep."""
    print(f"delivery {job.call_id} {job.attempt}\n", end="", flush=True)  # one write: threads share the output
    if job.body.startswith(b"fail"):
        raise Fail("asked to fail")
    if job.body.startswith(b"retry") and job.attempt == 1:
        raise RuntimeError("asked to retry")
    return int(job.body[len(b"sleep:") :]) / 1000 if job.body.startswith(b"sleep:") else 0


def answer(job: Job) -> bytes | Result:
    asked = job.metadata
    if "X-HTTP-METHOD" not in asked:
        return job.body[::-1]
    headers = {"X-Asked": f"{asked['X-HTTP-METHOD']} {asked['X-HTTP-PATH']}?{asked['X-HTTP-QUERY']}"}
    return Result(job.body[::-1], status=int(asked["X-HTTP-PARAM-STATUS"]), headers=headers)


def work(job: Job) -> bytes | Result:
    time.sleep(sleep_secs(job))
    return answer(job)


async def async_work(job: Job) -> bytes | Result:
    await asyncio.sleep(sleep_secs(job))
    return answer(job)


run(async_work if sys.argv[1:] == ["asyncio"] else work)
