"""A gateway for tests: it speaks Work, and keeps what runners say."""

import asyncio
import socket
from collections import Counter, deque

import grpc
import grpc.aio

from jobgate_runner.protocol import GatewayMessage, RunnerMessage

DONE, LEASE_LOST, NOT_FOUND = 1, 2, 3


class Gateway:
    def __init__(self, lease_secs=60.0):
        self.lease_secs = lease_secs
        self.ready = deque()
        self.leases = {}
        self.attempts = Counter()
        self.acks, self.nacks, self.extends = {}, {}, []
        self.messages = []
        self.streams = []
        self.metadata = []
        self.refusal = None
        """Code and text that new streams end with, and open ones at their next message."""
        self.error_code = 0
        """Error code of all answers."""
        self.answers = asyncio.Event()
        """Cleared, it holds back answers."""
        self.answers.set()
        self.changed = asyncio.Condition()
        # Keeps the port while the gateway is away.
        self.place = socket.socket()
        self.place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self.place.bind(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.place.getsockname()[1]}"

    async def start(self):
        self.server = grpc.aio.server(options=[("grpc.max_receive_message_length", 16 << 20)])
        work = grpc.stream_stream_rpc_method_handler(
            self._work, RunnerMessage.FromString, GatewayMessage.SerializeToString
        )
        self.server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler("jobgate.v1.RunnerService", {"Work": work})]
        )
        self.server.add_insecure_port(self.address)
        await self.server.start()
        return self

    async def kill(self):
        """Ends all connections at once. Leases stay valid."""
        await self.server.stop(None)
        # Until then an ended stream takes JobCalls and answers.
        await self.until(lambda: not self.streams)

    async def stop(self):
        await self.kill()
        self.place.close()

    def give(self, *bodies, **fields):
        """Queues JobCalls and returns their call ids."""
        first = len(self.attempts) + 1
        for call_id, body in enumerate(bodies, first):
            self.attempts[call_id] = 0
            self.ready.append({"call_id": call_id, "job_id": 3, "service_id": 1, "body": body, **fields})
        for stream in self.streams:
            stream.deliver()
        return list(range(first, first + len(bodies)))

    def lose(self):
        """Takes away all leases."""
        for call_id in list(self.leases):
            del self.leases[call_id]
        for stream in self.streams:
            stream.out.clear()

    async def until(self, holds):
        async with self.changed:
            await asyncio.wait_for(self.changed.wait_for(holds), 30)

    async def paused(self):
        """Waits until no runner takes more."""
        await self.until(lambda: self.streams and not any(stream.max_in_flight for stream in self.streams))

    async def finished(self, count):
        """Waits until so many JobCalls are finished."""
        await self.until(lambda: len(self.acks) + len(self.nacks) >= count)

    def status(self, lease):
        if self.leases.get(lease.call_id) == lease.lease_token:
            return DONE
        return LEASE_LOST if lease.call_id in self.leases else NOT_FOUND

    def finish(self, lease, outcomes):
        status = self.status(lease)
        if status == DONE:
            del self.leases[lease.call_id]
            outcomes[lease.call_id] = lease
            for stream in self.streams:
                stream.out.discard(lease.call_id)
        return status

    async def _work(self, _, context):
        self.metadata.append(dict(context.invocation_metadata()))
        if self.refusal:
            await context.abort(*self.refusal)
        await Stream(self, context).serve()


class Stream:
    def __init__(self, gateway, context):
        self.gateway, self.context = gateway, context
        self.out = set()
        self.queue = asyncio.Queue()
        self.max_in_flight = 0

    async def serve(self):
        tasks = [asyncio.create_task(self._send())]
        try:
            while (message := await self.context.read()) is not grpc.aio.EOF:
                if self.gateway.refusal:
                    await self.context.abort(*self.gateway.refusal)
                if not self.gateway.streams.count(self):
                    assert message.HasField("subscribe")
                    await self.context.send_initial_metadata(())
                    self.gateway.streams.append(self)
                    self.max_in_flight = message.subscribe.max_in_flight
                if message.HasField("max_in_flight"):
                    self.max_in_flight = message.max_in_flight
                self.gateway.messages.append(message)
                tasks.append(asyncio.create_task(self._answer(message)))
                self.deliver()
                await self.notify()
            await self.queue.join()
        finally:
            for task in tasks:
                task.cancel()
            if self in self.gateway.streams:
                self.gateway.streams.remove(self)
            await self.notify()

    def deliver(self):
        calls = []
        while self.gateway.ready and len(self.out) < self.max_in_flight:
            call = self.gateway.ready.popleft()
            call_id = call["call_id"]
            self.gateway.attempts[call_id] += 1
            token = f"{call_id}-{self.gateway.attempts[call_id]}"
            self.gateway.leases[call_id] = token
            self.out.add(call_id)
            calls.append({**call, "lease_token": token, "attempt": self.gateway.attempts[call_id]})
        for call in calls:
            call["lease_secs"] = self.gateway.lease_secs
        if calls:
            self.queue.put_nowait(GatewayMessage(job_calls=calls))

    async def _answer(self, message):
        await self.gateway.answers.wait()
        if not (message.acks or message.nacks or message.extends):
            return
        statuses = {"sequence": message.sequence, "error_code": self.gateway.error_code}
        if not self.gateway.error_code:
            statuses["acks"] = [self.gateway.finish(each, self.gateway.acks) for each in message.acks]
            statuses["nacks"] = [self.gateway.finish(each, self.gateway.nacks) for each in message.nacks]
            statuses["extends"] = [self.gateway.status(each) for each in message.extends]
            self.gateway.extends.extend(message.extends)
        self.queue.put_nowait(GatewayMessage(statuses=[statuses]))
        self.deliver()
        await self.notify()

    async def notify(self):
        async with self.gateway.changed:
            self.gateway.changed.notify_all()

    async def _send(self):
        while True:
            await self.context.write(await self.queue.get())
            self.queue.task_done()
