"""Runs a handler for the JobCalls of a gateway, over one Work stream at a time."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import random
import signal
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc.aio

from .job import Fail, Job, Output, Retry, encodable, to_ack, to_nack
from .protocol import LEASE_STATUS_DONE, WORK, Ack, GatewayMessage, Nack, RunnerMessage

PAUSE_SECS = 0.5  # At most before the next stream; before an outcome is sent again.
LEASE_SECS = (0.2, 10.0)  # A lease is lost after the second at the earliest: answers may be late.
CHANNEL_OPTIONS = [
    ("grpc.keepalive_time_ms", 15_000),
    ("grpc.http2.ping_timeout_ms", 5_000),  # Its default of a minute would outlast grpc.keepalive_timeout_ms.
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.max_receive_message_length", -1),
    ("grpc.enable_http_proxy", 0),
]
REFUSALS = ("UNAUTHENTICATED", "PERMISSION_DENIED", "INVALID_ARGUMENT", "UNIMPLEMENTED")
Handler = Callable[[Job], Output | Awaitable[Output]]
log = logging.getLogger("jobgate_runner")


class RunnerError(Exception):
    """The gateway refuses this runner, and would again."""


class Delivery(Job):
    """A job in hand, until the gateway has answered its outcome."""

    def __init__(self, call: Any, on_progress: Callable[[], object]) -> None:
        metadata = dict(call.metadata)
        super().__init__(call.call_id, call.job_id, call.service_id, call.body, metadata, call.attempt)
        self.lease = {"call_id": call.call_id, "lease_token": call.lease_token}
        self.lease_secs = max(call.lease_secs, LEASE_SECS[0])
        self.renewed_at = time.monotonic()
        self.due_at = self.renewed_at + self.lease_secs / 2
        """When to send the outcome, or else an extension."""
        self.extend: dict[str, Any] = dict(self.lease)
        self.outcome: Any = None
        self._on_progress = on_progress

    def progress(self, percent: float, text: str = "") -> None:
        self.extend["progress"] = {"percent": int(min(max(percent, 0), 100)), "text": encodable(text)[:200]}
        self.due_at = 0
        self._on_progress()


class Runner:
    """Runs a `def` handler in threads, and an `async def` handler in tasks that a lost lease cancels."""

    def __init__(
        self,
        handler: Handler,
        *,
        address: str | None = None,
        token: str | None = None,
        ca: str | os.PathLike[str] | None = None,
        cert: str | os.PathLike[str] | None = None,
        key: str | os.PathLike[str] | None = None,
        subscriber: str | None = None,
        concurrency: int = 8,
        job_ids: Iterable[int] = (),
    ) -> None:
        self._handler = handler
        self._is_async = any(map(inspect.iscoroutinefunction, (handler, type(handler).__call__)))
        self._address = address or os.environ.get("JOBGATE_RUNNER") or "127.0.0.1:8403"
        token = token or os.environ.get("JOBGATE_RUNNER_TOKEN")
        self._metadata = [("authorization", f"Bearer {token}")] if token else []
        files = [path and Path(path).read_bytes() for path in (ca, key, cert)]
        self._credentials = [grpc.ssl_channel_credentials(*files)] if ca else []
        subscriber = subscriber or f"{socket.gethostname()}/{os.getpid()}"
        self._subscribe = {"subscriber": subscriber, "max_in_flight": concurrency, "job_ids": list(job_ids)}
        self._places = asyncio.Semaphore(concurrency)
        self._threads = ThreadPoolExecutor(concurrency, "jobgate-runner")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._told, self._stopping, self._changed = "", False, asyncio.Event()
        self._held: dict[Delivery, asyncio.Task[None]] = {}

    def stop(self) -> None:
        """Makes `run` finish the jobs in hand and return. Any thread may call it."""
        self._stopping = True
        self._wake()

    def _wake(self) -> None:
        if loop := self._loop:
            with suppress(RuntimeError):  # The loop is closed: `run` has ended meanwhile.
                loop.call_soon_threadsafe(self._changed.set)

    async def run(self) -> None:
        """Runs jobs until `stop`. Raises RunnerError if the gateway refuses this runner."""
        self._loop = asyncio.get_running_loop()
        open_channel = grpc.aio.secure_channel if self._credentials else grpc.aio.insecure_channel
        try:
            async with open_channel(self._address, *self._credentials, CHANNEL_OPTIONS) as channel:
                await self._keep_connected(channel)
        finally:
            tasks = list(self._held.values())
            for delivery in list(self._held):
                self._lose(delivery, "the runner ended")
            await asyncio.gather(*tasks)
            self._threads.shutdown(wait=False)
            self._loop = None

    async def _keep_connected(self, channel: Any) -> None:
        open_stream = channel.stream_stream(WORK, RunnerMessage.SerializeToString, GatewayMessage.FromString)
        while self._held or not self._stopping:
            reason = await self._work(open_stream)
            if self._held or not self._stopping:
                (log.debug if reason == self._told else log.warning)("disconnected: %s", reason)
                self._told = reason
                await asyncio.sleep(random.uniform(0, PAUSE_SECS))

    async def _work(self, open_stream: Any) -> str:
        """Works on one stream until it ends, and returns why it did."""
        self._sent: dict[int, list[Delivery]] = {}
        for delivery in self._held:
            delivery.due_at = 0
        stream = open_stream(self._messages(), metadata=self._metadata)
        try:
            await stream.initial_metadata()
            if not stream.done():
                self._told = ""  # Each lost connection is told.
                log.info("connected to %s", self._address)
            async for message in stream:
                for call in message.job_calls:
                    delivery = Delivery(call, self._wake)
                    self._held[delivery] = asyncio.create_task(self._handle(delivery))
                for statuses in message.statuses:
                    self._answered(statuses)
                self._changed.set()
            return "the gateway ended the stream"
        except grpc.aio.AioRpcError as error:
            reason = f"{error.code().name}: {error.details()}"
            if error.code().name in REFUSALS:
                advice = "Check the token, the options, and the version of jobgate."
                raise RunnerError(f"{self._address} refuses this runner: {reason} {advice}") from error
            return reason
        finally:
            self._sent = {}  # Ends _messages.
            self._changed.set()

    async def _messages(self) -> AsyncIterator[Any]:
        """Yields the messages of one stream. What is ready together shares one."""
        sent, sequence, is_paused = self._sent, 0, False
        while self._sent is sent and (self._held or not self._stopping or not sequence):
            now = time.monotonic()
            for delivery in list(self._held):
                if now - delivery.renewed_at > max(delivery.lease_secs, LEASE_SECS[1]):
                    self._lose(delivery, "it ran out")
            # As many results of the largest size fit into one message.
            due = [delivery for delivery in self._held if delivery.due_at <= now][:15]
            pauses = self._stopping and not is_paused
            if sequence and not (due or pauses):
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), 0.1)
                self._changed.clear()
                continue
            for delivery in due:
                delivery.due_at = now + min(delivery.lease_secs / 2, LEASE_SECS[1])
            acks, nacks, extends = ([d for d in due if isinstance(d.outcome, p)] for p in (Ack, Nack, type(None)))
            sequence += 1
            sent[sequence] = acks + nacks + extends
            is_paused = is_paused or pauses
            yield RunnerMessage(
                subscribe=self._subscribe if sequence == 1 else None,
                max_in_flight=0 if pauses else None,
                sequence=sequence,
                acks=[delivery.outcome for delivery in acks],
                nacks=[delivery.outcome for delivery in nacks],
                extends=[{**delivery.extend, "charge_so_far": delivery.charged} for delivery in extends],
            )

    def _answered(self, answer: Any) -> None:
        """Reads the answer to one message."""
        outcomes, now = len(answer.acks) + len(answer.nacks), time.monotonic()
        statuses = [*answer.acks, *answer.nacks, *answer.extends]
        for index, delivery in enumerate(self._sent.pop(answer.sequence)):
            is_done = answer.error_code == 0 and statuses[index] == LEASE_STATUS_DONE
            if answer.error_code == grpc.StatusCode.UNAVAILABLE.value[0]:
                delivery.due_at = now + PAUSE_SECS
            elif is_done and index < outcomes:
                self._held.pop(delivery, None)
            elif is_done:
                delivery.renewed_at = now
            elif index < outcomes or answer.error_code or not delivery.outcome:  # Else the outcome decides.
                self._lose(delivery, answer.error_message or "another runner may have the JobCall")

    async def _handle(self, delivery: Delivery) -> None:
        try:
            async with self._places:
                output = self._handler(delivery) if self._is_async else await self._call_in_thread(delivery)
                output = await output if inspect.isawaitable(output) else output
            outcome = to_ack({**delivery.lease, "charge": delivery.charged}, output)
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            is_meant = isinstance(error, (Fail, Retry)) or delivery.lost.is_set()
            (log.debug if is_meant else log.warning)("JobCall %d failed", delivery.call_id, exc_info=True)
            outcome = to_nack(delivery.lease, error)
        delivery.outcome, delivery.due_at = outcome, 0
        self._changed.set()

    async def _call_in_thread(self, job: Job) -> Any:
        def call() -> Any:
            try:
                return None if job.lost.is_set() else self._handler(job)
            except StopIteration as error:  # A future cannot carry it.
                raise RuntimeError("the handler raised StopIteration") from error

        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    def _lose(self, delivery: Delivery, reason: str) -> None:
        """Stops the handler of a delivery, and drops its outcome."""
        if task := self._held.pop(delivery, None):
            log.warning("lease of JobCall %d is lost: %s", delivery.call_id, reason)
            delivery.lost.set()
            task.cancel()


def run(handler: Handler, **options: Any) -> None:
    """Runs a handler, with the options of Runner, until SIGTERM or SIGINT. A second one ends the program."""
    asyncio.run(_run_until_signal(Runner(handler, **options)))


async def _run_until_signal(runner: Runner) -> None:
    def stop() -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        runner.stop()

    with suppress(NotImplementedError, RuntimeError):  # On Windows, and in other threads than the main one.
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop)
    await runner.run()
