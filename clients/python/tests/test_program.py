"""Programs that call `run`, in processes of their own."""

import asyncio
import os
import signal
import sys
import tempfile
import unittest

from gateway import Gateway

IMPORTS = "import asyncio, multiprocessing, os, subprocess, sys, threading, time\nfrom jobgate_runner import run\n"
SLOW = """
def work(job):
    print("started", flush=True)
    sys.stdin.readline()
    return "finished"
"""


class ProgramTest(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.gateway = await Gateway().start()
        self.addAsyncCleanup(self.gateway.stop)

    async def start(self, program):
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            IMPORTS + program,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "JOBGATE_RUNNER": self.gateway.address, "PYTHONWARNINGS": "error::RuntimeWarning"},
        )
        self.addAsyncCleanup(self.end, process)
        return process

    async def end(self, process):
        if process.returncode is None:
            process.kill()
        await process.communicate()

    async def started(self, process):
        self.assertEqual(await process.stdout.readline(), b"started\n", await self.errors_of(process))

    async def errors_of(self, process):
        return (await process.stderr.read()).decode() if process.stdout.at_eof() else ""

    async def result_of(self, program, signal_number=signal.SIGTERM):
        """Runs one job with a program, stops the program, and returns the result."""
        process = await self.start(program)
        self.gateway.give(b"body")
        await self.gateway.finished(1)
        process.send_signal(signal_number)
        _, errors = await asyncio.wait_for(process.communicate(), 30)
        self.assertEqual(process.returncode, 0, errors.decode())
        self.assertNotIn("Traceback", errors.decode())
        [ack] = self.gateway.acks.values()
        return ack.result.body.decode()

    async def test_a_first_sigterm_or_sigint_lets_a_blocking_handler_finish(self):
        for count, number in enumerate((signal.SIGTERM, signal.SIGINT), 1):
            process = await self.start(SLOW + "run(work)")
            self.gateway.give(b"")
            await self.started(process)
            process.send_signal(number)
            await self.gateway.paused()
            process.stdin.write(b"\n")
            _, errors = await asyncio.wait_for(process.communicate(), 30)
            self.assertEqual((process.returncode, errors), (0, b""))
            self.assertEqual(len(self.gateway.acks), count)

    async def test_a_second_signal_ends_the_program_at_once(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            process = await self.start(SLOW + "run(work)")
            self.gateway.give(b"")
            await self.started(process)
            process.send_signal(number)
            await self.gateway.paused()
            process.send_signal(number)
            self.assertEqual(await asyncio.wait_for(process.wait(), 30), -number)

    async def test_a_handler_may_start_processes(self):
        programs = {
            "subprocess": 'return subprocess.run(["echo", "-n", job.body], capture_output=True).stdout',
            "spawn": 'with multiprocessing.get_context("spawn").Pool(1) as pool: return pool.apply(bytes.decode, [job.body])',
        }
        for name, line in programs.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "program.py")
                with open(path, "w") as file:
                    file.write(IMPORTS + f"def work(job):\n    {line}\n")
                self.gateway.acks.clear()
                program = f"sys.path.insert(0, {folder!r})\nimport program\nrun(program.work)"
                self.assertEqual(await self.result_of(program), "body")

    async def test_a_runner_may_start_in_a_forked_process(self):
        program = """
import signal
signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
child = os.fork()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
run(lambda job: job.body)
"""
        self.assertEqual(await self.result_of(program), "body")

    async def test_threads_and_tasks_of_the_program_do_not_hold_up_its_end(self):
        program = """
threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
async def work(job):
    asyncio.create_task(asyncio.sleep(3600))
    return job.body
run(work)
"""
        self.assertEqual(await self.result_of(program), "body")

    async def test_run_works_in_a_thread_until_the_program_ends(self):
        program = """
thread = threading.Thread(target=run, args=(lambda job: job.body,), daemon=True)
thread.start()
import signal
signal.sigwait({signal.SIGTERM})
"""
        program = "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})\n" + program
        self.assertEqual(await self.result_of(program), "body")

    async def test_nothing_is_printed_without_an_error(self):
        process = await self.start("run(lambda job: job.body)")
        self.gateway.give(b"a", b"b")
        await self.gateway.finished(2)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(await asyncio.wait_for(process.communicate(), 30), (b"", b""))
