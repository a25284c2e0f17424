import asyncio
import contextlib
import itertools
import logging
import threading
import unittest

import grpc

from gateway import Gateway
from jobgate_runner import Fail, Job, Result, Retry, Runner, RunnerError

MIB = 1024 * 1024


async def eventually(holds, tries=3_000):
    """Waits for what the gateway does not know."""
    for _ in range(tries):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise TimeoutError


class RunnerTest(unittest.IsolatedAsyncioTestCase):
    async def start_gateway(self, **options):
        self.gateway = await Gateway(**options).start()
        self.addAsyncCleanup(self.gateway.stop)
        return self.gateway

    @contextlib.asynccontextmanager
    async def running(self, handler, **options):
        """A runner that is stopped gracefully at the end."""
        runner = Runner(handler, **{"address": self.gateway.address, **options})
        task = asyncio.create_task(runner.run())
        try:
            yield runner
        finally:
            runner.stop()
            await asyncio.wait_for(task, 30)


class Outcomes(RunnerTest):
    async def outcomes_of(self, handler, *bodies):
        await self.start_gateway()
        call_ids = self.gateway.give(*bodies)
        async with self.running(handler):
            await self.gateway.finished(len(bodies))
        return [self.gateway.acks.get(call_id) or self.gateway.nacks[call_id] for call_id in call_ids]

    async def test_an_output_becomes_a_result_with_its_content_type(self):
        outputs = {
            b"bytes": (b"\xff", b"\xff", "application/octet-stream"),
            b"bytearray": (bytearray(b"\xff"), b"\xff", "application/octet-stream"),
            b"text": ("grüße", "grüße".encode(), "text/plain; charset=utf-8"),
            b"dict": ({"a": [1, None]}, b'{"a": [1, null]}', "application/json"),
            b"list": ([1, "b"], b'[1, "b"]', "application/json"),
            b"text result": (Result("<p>", "text/html"), b"<p>", "text/html"),
            b"bytes result": (Result(b"\x89PNG", "image/png"), b"\x89PNG", "image/png"),
            b"largest": (bytes(MIB), bytes(MIB), "application/octet-stream"),
            b"empty": (b"", b"", "application/octet-stream"),
        }
        acks = await self.outcomes_of(lambda job: outputs[job.body][0], *outputs)
        for ack, (_, body, content_type) in zip(acks, outputs.values()):
            self.assertEqual((ack.result.body, ack.result.content_type), (body, content_type))

    async def test_a_result_has_the_status_and_headers_that_the_handler_gave_it(self):
        many = {f"A{i}": "" for i in range(100)}
        headers = {"ETag": '"7"', "X-Name": "Grüße\t1", "X-Empty": ""}
        outputs = {
            b"both": (Result("[]", "application/json", 201, headers), 201, headers),
            b"lowest": (Result(b"", status=200), 200, {}),
            b"highest": (Result("gone", status=599), 599, {}),
            b"many": (Result("", headers=many), None, many),
            b"long": (Result("", headers={"a": "b" * 16_383}), None, {"a": "b" * 16_383}),
            b"neither": ("text", None, {}),
        }
        acks = await self.outcomes_of(lambda job: outputs[job.body][0], *outputs)
        for ack, (_, status, headers) in zip(acks, outputs.values()):
            self.assertEqual(ack.status if ack.HasField("status") else None, status)
            self.assertEqual({header.name: header.value for header in ack.headers}, headers)
        kinds = [ack.result.content_type for ack in acks[1:3]]
        self.assertEqual(kinds, ["application/octet-stream", "text/plain; charset=utf-8"])

    async def test_no_output_is_an_ack_without_a_result(self):
        [ack] = await self.outcomes_of(lambda job: None, b"")
        self.assertFalse(ack.HasField("result"))

    async def test_an_output_that_cannot_be_a_result_fails_the_job_and_the_reason_says_so(self):
        outputs = {
            b"large": (bytes(MIB + 1), "The result has 1048577 bytes: at most 1048576 are allowed"),
            b"type": (Result("", "text"), "The result's content type is not a media type: text"),
            b"line": (Result("", "a/b\n"), "The result's content type is not a media type: a/b\n"),
            b"status": (Result("", status=199), "The result's status is 199: expected 200 to 599"),
            b"status above": (Result("", status=600), "The result's status is 600: expected 200 to 599"),
            b"no status": (Result("", status=0), "The result's status is 0: expected 200 to 599"),
            b"name": (Result("", headers={"a b": "c"}), "The result's headers are too many, too long"),
            b"value": (Result("", headers={"a": "b\r\nc: d"}), "The result's headers are "),
            b"letter": (Result("", headers={"a": "€"}), "The result's headers are "),
            b"many": (Result("", headers={f"A{i}": "" for i in range(101)}), "The result's headers are "),
            b"long": (Result("", headers={"a": "b" * 16_384}), "The result's headers are "),
            b"number": (7, "The handler returned int, which cannot be sent: "),
            b"object": (
                {"a": object()},
                "The handler returned dict, which cannot be sent: Object of type object",
            ),
            b"surrogate": ("\udc80", "The handler returned str, which cannot be sent: 'utf-8' codec"),
        }
        nacks = await self.outcomes_of(lambda job: outputs[job.body][0], *outputs)
        for nack, (_, reason) in zip(nacks, outputs.values()):
            self.assertEqual(nack.WhichOneof("outcome"), "fail")
            self.assertTrue(nack.fail.reason.startswith(reason), nack.fail.reason)

    async def errors_become_outcomes(self, is_async):
        class Unprintable(Exception):
            def __str__(self):
                raise ValueError("no text")

        errors = {
            b"error": (ValueError("no input"), "retry", "no input"),
            b"empty": (ValueError(), "retry", "ValueError"),
            b"unicode": (ValueError("größer ✓"), "retry", "größer ✓"),
            b"surrogate": (ValueError("file \udc80"), "retry", "file ?"),
            b"long": (ValueError("x" * 10_000), "retry", "x" * 4_096),
            b"unprintable": (Unprintable(), "retry", "Unprintable"),
            b"exit": (SystemExit(3), "retry", "3"),
            b"cancelled": (asyncio.CancelledError(), "retry", "CancelledError"),
            b"fail": (Fail("bad input"), "fail", "bad input"),
            b"empty fail": (Fail(), "fail", "Fail"),
            b"retry": (Retry("busy"), "retry", "busy"),
            b"stop": (StopIteration(), "retry", None),
        }

        def handler(job):
            raise errors[job.body][0]

        async def async_handler(job):
            handler(job)

        nacks = await self.outcomes_of(async_handler if is_async else handler, *errors)
        for nack, (_, outcome, reason) in zip(nacks, errors.values()):
            self.assertEqual(nack.WhichOneof("outcome"), outcome)
            if reason is not None:
                self.assertEqual(getattr(nack, outcome).reason, reason)
            self.assertFalse(nack.retry.HasField("delay"))

    async def test_an_error_in_a_thread_is_a_retry_with_its_message_and_fail_a_dead_letter(self):
        await self.errors_become_outcomes(False)

    async def test_an_error_in_a_task_is_a_retry_with_its_message_and_fail_a_dead_letter(self):
        await self.errors_become_outcomes(True)

    async def test_an_error_is_logged_with_its_traceback_unless_the_handler_meant_it(self):
        errors = {b"bug": KeyError("lost"), b"fail": Fail("bad input"), b"retry": Retry("busy")}

        def handler(job):
            raise errors[job.body]

        with self.assertLogs("jobgate_runner", "WARNING") as logs:
            await self.outcomes_of(handler, *errors)
        [failed] = [line for line in logs.output if "JobCall" in line]
        self.assertRegex(failed, r"^WARNING:jobgate_runner:JobCall \d+ failed\nTraceback(.|\n)*KeyError: 'lost'$")

    async def test_retry_may_have_a_delay(self):
        def handler(job):
            raise Retry("busy", delay_secs=float(job.body))

        nacks = await self.outcomes_of(handler, b"0", b"1.5", b"86400", b"-1", b"nan")
        delays = [nack.retry.delay.ToMilliseconds() for nack in nacks if nack.retry.HasField("delay")]
        self.assertEqual(delays, [0, 1_500, 86_400_000])
        self.assertIn("Retry needs a delay_secs from 0 to 86400 (a day): got nan", nacks[4].retry.reason)

    async def test_a_job_has_everything_of_its_job_call(self):
        await self.start_gateway()
        [call_id] = self.gateway.give(b"\x00\xff", metadata={"X-WEBHOOK-PATH": "/hooks/ü"})
        jobs = []
        async with self.running(jobs.append):
            await self.gateway.finished(1)
        [job] = jobs
        self.assertEqual((job.call_id, job.job_id, job.service_id, job.attempt), (call_id, 3, 1, 1))
        self.assertEqual((job.body, job.metadata), (b"\x00\xff", {"X-WEBHOOK-PATH": "/hooks/ü"}))


class Concurrency(RunnerTest):
    async def test_blocking_handlers_run_at_once_in_threads_up_to_the_concurrency(self):
        await self.start_gateway()
        barrier = threading.Barrier(3)
        self.gateway.give(*[b""] * 9)
        async with self.running(lambda job: str(barrier.wait(30)), concurrency=3):
            await self.gateway.finished(9)
        self.assertEqual(len(self.gateway.acks), 9)

    async def test_async_handlers_run_at_once_as_tasks_and_other_kinds_of_async_callables_too(self):
        class Handler:
            async def __call__(self, job):
                return threading.current_thread().name

        async def function(job):
            return threading.current_thread().name

        for handler in (Handler(), function, lambda job: function(job)):
            await self.start_gateway()
            self.gateway.give(b"")
            async with self.running(handler):
                await self.gateway.finished(1)
            self.assertEqual(self.gateway.acks[1].result.body.decode(), threading.current_thread().name)

    async def test_outcomes_that_are_ready_together_share_a_message(self):
        await self.start_gateway()
        running, go = [], asyncio.Event()

        async def handler(job):
            running.append(job)
            await go.wait()

        self.gateway.give(*[b""] * 40)
        async with self.running(handler, concurrency=40):
            await eventually(lambda: len(running) == 40)
            go.set()
            await self.gateway.finished(40)
        self.assertEqual(max(len(message.acks) for message in self.gateway.messages), 15)

    async def test_no_more_than_the_concurrency_run_after_a_reconnection(self):
        await self.start_gateway(lease_secs=1)
        running, most, go = set(), [], asyncio.Event()

        async def handler(job):
            running.add(job)
            most.append(len(running))
            await go.wait()
            running.discard(job)

        self.gateway.give(*[b""] * 6)
        async with self.running(handler, concurrency=2):
            await eventually(lambda: len(running) == 2)
            await self.gateway.kill()
            await self.gateway.start()
            await self.gateway.until(lambda: {3, 4} <= {extend.call_id for extend in self.gateway.extends})
            go.set()
            await self.gateway.finished(6)
        self.assertEqual(max(most), 2)


class Charges(RunnerTest):
    METERED = {"X-X402-PAYMENT-SCHEME": "upto", "X-X402-PAYMENT-AMOUNT": "1000"}

    async def test_the_last_charge_goes_with_extensions_and_the_ack(self):
        await self.start_gateway()
        go = threading.Event()

        def handler(job):
            job.charge(200)
            job.charge(250)
            job.progress(50)
            go.wait(30)
            job.charge(basis_points=2_500)

        self.gateway.give(b"", metadata=self.METERED)
        async with self.running(handler):
            await self.gateway.until(lambda: self.gateway.extends)
            go.set()
            await self.gateway.finished(1)
        self.assertEqual(self.gateway.extends[0].charge_so_far.units, "250")
        self.assertEqual(self.gateway.acks[1].charge.basis_points, 2_500)

    async def test_a_charge_is_at_most_the_ceiling_and_only_of_a_metered_job(self):
        await self.start_gateway()
        charges = {b"too much": 1_001, b"nothing": 0}
        self.gateway.give(*charges, metadata=self.METERED)
        self.gateway.give(b"fixed", metadata={"X-X402-PAYMENT-SCHEME": "exact"})
        self.gateway.give(b"webhook")
        async with self.running(lambda job: job.charge(charges.get(job.body, 7))):
            await self.gateway.finished(4)
        acks = [self.gateway.acks[call_id] for call_id in (1, 2, 3, 4)]
        self.assertEqual([ack.charge.units for ack in acks], ["1000", "0", "", ""])
        self.assertEqual([ack.HasField("charge") for ack in acks], [True, True, False, False])

    def test_refuses_what_is_no_charge(self):
        job = Job(1, 1, 1, b"", {}, 1)
        for amounts in [{}, {"units": -1}, {"units": 1, "basis_points": 1}, {"basis_points": 10_001}]:
            with self.assertRaises(ValueError):
                job.charge(**amounts)


class Leases(RunnerTest):
    async def test_a_lease_is_extended_until_its_job_is_finished(self):
        await self.start_gateway(lease_secs=1)
        go = threading.Event()
        self.gateway.give(b"")
        async with self.running(lambda job: go.wait(30) and None):
            await self.gateway.until(lambda: len(self.gateway.extends) >= 3)
            go.set()
            await self.gateway.finished(1)
        self.assertEqual(list(self.gateway.acks), [1])

    async def test_progress_is_sent_at_once_and_the_last_one_with_each_extension(self):
        await self.start_gateway(lease_secs=1)
        go = threading.Event()

        def handler(job):
            job.progress(40.7, "half \udc80" + "x" * 300)
            go.wait(30)

        self.gateway.give(b"")
        async with self.running(handler):
            # The lease may be extended before the handler runs.
            await self.gateway.until(lambda: sum(each.HasField("progress") for each in self.gateway.extends) >= 2)
            go.set()
        for extend in itertools.dropwhile(lambda each: not each.HasField("progress"), self.gateway.extends):
            self.assertEqual(extend.progress.percent, 40)
            self.assertEqual(extend.progress.text, ("half ?" + "x" * 300)[:200])

    async def test_a_lost_lease_cancels_an_async_handler_and_drops_its_outcome(self):
        await self.start_gateway(lease_secs=1)
        cancelled = asyncio.Event()

        async def handler(job):
            if job.body == b"quick":
                return None
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.assertTrue(job.lost.is_set())
                cancelled.set()
                return b"too late"

        self.gateway.give(b"")
        async with self.running(handler):
            await self.gateway.until(lambda: self.gateway.leases)
            with self.assertLogs("jobgate_runner", "WARNING") as logs:
                self.gateway.lose()
                await asyncio.wait_for(cancelled.wait(), 30)
            self.gateway.give(b"quick")
            await self.gateway.finished(1)
        self.assertEqual(list(self.gateway.acks), [2])
        self.assertEqual(logs.output, ["WARNING:jobgate_runner:lease of JobCall 1 is lost: another runner may have the JobCall"])

    async def test_a_lost_lease_is_told_to_a_blocking_handler_and_its_outcome_is_dropped(self):
        await self.start_gateway(lease_secs=1)
        self.gateway.give(b"slow")
        async with self.running(lambda job: job.lost.wait(30) and None if job.body == b"slow" else None):
            await self.gateway.until(lambda: self.gateway.leases)
            self.gateway.lose()
            self.gateway.give(b"quick")
            await self.gateway.finished(1)
        self.assertEqual(list(self.gateway.acks), [2])

    async def test_an_outcome_whose_lease_is_lost_is_logged(self):
        await self.start_gateway()
        go = asyncio.Event()

        async def handler(job):
            await go.wait()

        self.gateway.give(b"")
        async with self.running(handler):
            await self.gateway.until(lambda: self.gateway.leases)
            self.gateway.lose()
            with self.assertLogs("jobgate_runner", "WARNING") as logs:
                go.set()
                await eventually(lambda: logs.output)
        self.assertEqual(
            logs.output,
            ["WARNING:jobgate_runner:lease of JobCall 1 is lost: another runner may have the JobCall"],
        )

    async def test_outcomes_are_sent_again_while_the_store_is_away(self):
        await self.start_gateway()
        self.gateway.error_code = grpc.StatusCode.UNAVAILABLE.value[0]
        self.gateway.give(b"", b"")
        async with self.running(lambda job: None):
            await self.gateway.until(lambda: sum(len(message.acks) for message in self.gateway.messages) >= 4)
            self.gateway.error_code = 0
            await self.gateway.finished(2)
        self.assertEqual(sorted(self.gateway.acks), [1, 2])

    async def test_an_answer_that_refuses_a_message_is_logged(self):
        await self.start_gateway()
        self.gateway.error_code = grpc.StatusCode.INVALID_ARGUMENT.value[0]
        self.gateway.give(b"")
        with self.assertLogs("jobgate_runner", "WARNING"):
            async with self.running(lambda job: None):
                await self.gateway.until(lambda: any(message.acks for message in self.gateway.messages))


class Connections(RunnerTest):
    async def test_a_new_stream_begins_with_the_leases_in_hand_and_the_outcomes_without_an_answer(self):
        await self.start_gateway()
        go = asyncio.Event()

        async def handler(job):
            if job.body == b"slow":
                await go.wait()
            return job.body

        self.gateway.answers.clear()
        self.gateway.give(b"quick", b"slow")
        async with self.running(handler):
            await self.gateway.until(lambda: any(message.acks for message in self.gateway.messages))
            await self.gateway.kill()
            self.gateway.messages.clear()
            self.gateway.answers.set()
            await self.gateway.start()
            await self.gateway.until(lambda: self.gateway.messages and 1 in self.gateway.acks)
            go.set()
            await self.gateway.finished(2)
        first = self.gateway.messages[0]
        self.assertEqual([ack.call_id for ack in first.acks], [1])
        self.assertIn(2, [extend.call_id for extend in first.extends])
        self.assertEqual(sorted(self.gateway.acks), [1, 2])

    async def test_a_lease_lost_with_the_connection_cancels_its_handler(self):
        await self.start_gateway()
        started, cancelled = asyncio.Event(), asyncio.Event()

        async def handler(job):
            started.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.set()
                raise

        self.gateway.give(b"")
        async with self.running(handler):
            await asyncio.wait_for(started.wait(), 30)
            await self.gateway.kill()
            self.gateway.lose()
            await self.gateway.start()
            await asyncio.wait_for(cancelled.wait(), 30)
        self.assertEqual((self.gateway.acks, self.gateway.nacks), ({}, {}))

    async def test_a_lease_that_no_answer_extends_is_lost_while_the_stream_is_open(self):
        await self.start_gateway(lease_secs=1)
        self.gateway.answers.clear()
        self.gateway.give(b"")
        jobs = []
        async with self.running(lambda job: jobs.append(job) or job.lost.wait(30)):
            with self.assertLogs("jobgate_runner", "WARNING") as logs:
                await eventually(lambda: jobs and jobs[0].lost.is_set())
        self.assertEqual(logs.output, ["WARNING:jobgate_runner:lease of JobCall 1 is lost: it ran out"])
        self.assertEqual(len(self.gateway.metadata), 1)

    async def test_each_lost_connection_is_told_and_alike_failures_to_connect_once(self):
        await self.start_gateway()
        told = "WARNING:jobgate_runner:disconnected: UNAVAILABLE: restarting"
        with self.assertLogs("jobgate_runner", "WARNING") as logs:
            async with self.running(lambda job: None):
                for _ in range(2):
                    await self.gateway.until(lambda: self.gateway.streams)
                    self.gateway.refusal = grpc.StatusCode.UNAVAILABLE, "restarting"
                    self.gateway.give(b"")  # Its ack ends the stream.
                    attempts, before = len(self.gateway.metadata), len(logs.output)
                    await eventually(lambda: len(self.gateway.metadata) >= attempts + 3)
                    reasons = logs.output[before:]
                    # gRPC sometimes loses the status of an attempt. The next failure then differs, and is told again.
                    lost = sum(reason.endswith("INTERNAL: Internal error from Core") for reason in reasons)
                    self.assertIn(reasons.count(told), range(1, lost + 2))
                    self.assertEqual(len(reasons), reasons.count(told) + lost)
                    self.gateway.refusal = None

    async def test_a_gateway_that_answers_no_more_is_left(self):
        await self.start_gateway()
        answers = asyncio.Event()
        answers.set()

        async def pump(reader, writer):
            while data := await reader.read(65_536):
                await answers.wait()
                writer.write(data)
            writer.close()

        async def relay(reader, writer):
            from_gateway, to_gateway = await asyncio.open_connection(*self.gateway.address.split(":"))
            await asyncio.gather(pump(reader, to_gateway), pump(from_gateway, writer))

        server = await asyncio.start_server(relay, "127.0.0.1", 0)
        self.addCleanup(server.close)
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with self.running(lambda job: None, address=address):
            await self.gateway.until(lambda: self.gateway.streams)
            with self.assertLogs("jobgate_runner", "WARNING") as logs:
                answers.clear()
                await eventually(lambda: logs.output, 6_000)
            answers.set()
        self.assertIn("disconnected: UNAVAILABLE", logs.output[0])

    async def test_connections_are_logged_once_each_with_the_reason_of_their_end(self):
        await self.start_gateway()
        with self.assertLogs("jobgate_runner", "INFO") as logs:
            async with self.running(lambda job: None):
                await eventually(lambda: logs.output)
                await self.gateway.kill()
                await self.gateway.start()
                self.gateway.give(b"")
                await self.gateway.finished(1)
        connected = [line for line in logs.output if "connected to" in line]
        self.assertEqual(connected, [f"INFO:jobgate_runner:connected to {self.gateway.address}"] * 2)
        self.assertIn("WARNING:jobgate_runner:disconnected: UNAVAILABLE: ", "\n".join(logs.output))

    async def test_a_refused_runner_ends_with_an_error_that_says_what_to_do(self):
        await self.start_gateway()
        for code in ("UNAUTHENTICATED", "PERMISSION_DENIED", "INVALID_ARGUMENT", "UNIMPLEMENTED"):
            self.gateway.refusal = grpc.StatusCode[code], "No."
            with self.assertRaisesRegex(
                RunnerError, f"{self.gateway.address} refuses this runner: {code}: No. Check the token"
            ):
                await Runner(lambda job: None, address=self.gateway.address).run()

    async def test_the_options_reach_the_gateway(self):
        await self.start_gateway()
        options = {"token": "secret", "subscriber": "me", "concurrency": 3, "job_ids": (1, 2**53)}
        async with self.running(lambda job: None, **options):
            await self.gateway.until(lambda: self.gateway.streams)
        subscribe = self.gateway.messages[0].subscribe
        self.assertEqual((subscribe.subscriber, subscribe.max_in_flight), ("me", 3))
        self.assertEqual(list(subscribe.job_ids), [1, 2**53])
        self.assertEqual(self.gateway.metadata[0]["authorization"], "Bearer secret")


class Stops(RunnerTest):
    async def test_a_stop_takes_nothing_new_and_finishes_what_is_in_hand(self):
        await self.start_gateway()
        go = threading.Event()
        self.gateway.give(*[b""] * 5)
        async with self.running(lambda job: go.wait(30) and None, concurrency=2) as runner:
            await self.gateway.until(lambda: len(self.gateway.leases) == 2)
            runner.stop()
            await self.gateway.paused()
            go.set()
        self.assertEqual((len(self.gateway.acks), len(self.gateway.ready)), (2, 3))

    async def test_a_stop_waits_for_the_answers_of_a_gateway_that_restarts(self):
        await self.start_gateway()
        self.gateway.answers.clear()
        self.gateway.give(b"")
        async with self.running(lambda job: None) as runner:
            await self.gateway.until(lambda: any(message.acks for message in self.gateway.messages))
            await self.gateway.kill()
            runner.stop()
            self.gateway.answers.set()
            await self.gateway.start()
            await self.gateway.finished(1)

    async def test_a_runner_without_a_gateway_stops(self):
        await self.start_gateway()
        await self.gateway.kill()
        runner = Runner(lambda job: None, address=self.gateway.address)
        stopper = logging.Handler()
        stopper.emit = lambda record: threading.Thread(target=runner.stop).start()
        logging.getLogger("jobgate_runner").addHandler(stopper)
        self.addCleanup(logging.getLogger("jobgate_runner").removeHandler, stopper)
        await runner.run()
        before = Runner(lambda job: None, address=self.gateway.address)
        before.stop()
        await before.run()

    async def test_cancelling_run_cancels_its_handlers(self):
        await self.start_gateway()
        started, cancelled = asyncio.Event(), asyncio.Event()

        async def handler(job):
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

        self.gateway.give(b"")
        task = asyncio.create_task(Runner(handler, address=self.gateway.address).run())
        await started.wait()
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        self.assertTrue(cancelled.is_set())
        self.assertEqual(self.gateway.acks, {})
