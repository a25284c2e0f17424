"""A runner for jobgate that returns the reversed body of each JobCall."""

import os
import random
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc

from jobgate.v1 import runner_pb2 as pb
from jobgate.v1 import runner_pb2_grpc

ADDRESS = os.environ.get("JOBGATE_RUNNER", "127.0.0.1:8403")
TOKEN = os.environ.get("RUNNER_TOKEN")
METADATA = [("authorization", f"Bearer {TOKEN}")] if TOKEN else []
MAX_IN_FLIGHT = 8
DEADLINE_SECS = 10

channel = grpc.insecure_channel(
    ADDRESS,
    options=[
        ("grpc.keepalive_time_ms", 15_000),
        ("grpc.keepalive_timeout_ms", 5_000),
        ("grpc.max_reconnect_backoff_ms", 500),
        ("grpc.max_receive_message_length", -1),
    ],
)
stub = runner_pb2_grpc.RunnerServiceStub(channel)
stopping = threading.Event()


class Failed(Exception):
    """No attempt can succeed."""


def work(call):
    """Runs the job. Errors are retried, except Failed."""
    if call.body.startswith(b"fail"):
        raise Failed("asked to fail")
    if call.body.startswith(b"retry") and call.attempt == 1:
        raise RuntimeError("asked to retry")
    if call.body.startswith(b"sleep:"):
        time.sleep(int(call.body[len(b"sleep:") :]) / 1000)
    return call.body[::-1]


def keep_lease(call, done, lost):
    """Renews the lease at half its length until the work is done or the lease is lost."""
    lease = dict(call_id=call.call_id, lease_token=call.lease_token)
    interval = max((call.lease_expires_at.ToNanoseconds() / 1e9 - time.time()) / 2, 0.1)
    while not done.wait(interval):
        try:
            reply = stub.Extend(pb.ExtendRequest(leases=[lease]), metadata=METADATA, timeout=DEADLINE_SECS)
        except grpc.RpcError:
            continue
        if reply.statuses != [pb.LEASE_STATUS_DONE]:
            return lost.set()


def handle(call):
    """Runs one delivery and finishes it. Unfinished deliveries come again."""
    say(f"delivery {call.call_id} {call.attempt}")
    lease = dict(call_id=call.call_id, lease_token=call.lease_token)
    done, lost = threading.Event(), threading.Event()
    threading.Thread(target=keep_lease, args=(call, done, lost), daemon=True).start()
    try:
        result = dict(body=work(call), content_type="text/plain")
        finish, one = stub.Ack, pb.AckRequest(acks=[dict(lease, result=result)])
    except Failed as error:
        finish, one = stub.Nack, pb.NackRequest(nacks=[dict(lease, fail=dict(reason=str(error)))])
    except Exception as error:
        finish, one = stub.Nack, pb.NackRequest(nacks=[dict(lease, retry=dict(reason=str(error)))])
    finally:
        done.set()
    if lost.is_set():
        return say(f"lease of {call.call_id} lost", sys.stderr)
    try:
        statuses = finish(one, metadata=METADATA, timeout=DEADLINE_SECS).statuses
        if statuses == [pb.LEASE_STATUS_DONE]:
            say(f"finished {call.call_id}")
        else:
            say(f"{call.call_id} was finished too late", sys.stderr)
    except grpc.RpcError as error:
        say(f"{call.call_id} is not finished: {error.details()}", sys.stderr)


def say(line, stream=sys.stdout):
    stream.write(line + "\n")
    stream.flush()


def subscribe_for_ever(pool):
    wait_secs = 0.1
    while not stopping.is_set():
        request = pb.SubscribeRequest(subscriber="runner-python", max_in_flight=MAX_IN_FLIGHT)
        calls = stub.Subscribe(request, metadata=METADATA)
        try:
            calls.initial_metadata()  # arrives once connected
            if calls.is_active():
                say("subscribed")
                wait_secs = 0.1
            for call in calls:
                if not stopping.is_set():
                    pool.submit(handle, call)
            reason = "the stream ended"
        except grpc.RpcError as error:
            reason = error.details()
        say(f"not subscribed: {reason}", sys.stderr)
        stopping.wait(random.uniform(0, wait_secs))
        wait_secs = min(wait_secs * 2, 5)


def main():
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    pool = ThreadPoolExecutor(MAX_IN_FLIGHT)
    threading.Thread(target=subscribe_for_ever, args=(pool,), daemon=True).start()
    # The time-out is needed: a signal that another thread gets does not wake this one.
    while not stopping.wait(0.5):
        pass
    # The stream stays open: its end would give our work to another runner.
    pool.shutdown()
    channel.close()


if __name__ == "__main__":
    main()
