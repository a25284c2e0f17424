"""A runner that jobs are pushed to. It prints what it gets and finishes, and misbehaves as the job asks."""

import os
import sys
import time

from cloudevents.core.bindings.http import HTTPMessage, from_binary
from cloudevents.core.formats.json import JSONFormat
from flask import Flask, request
from standardwebhooks.webhooks import Webhook
from werkzeug.serving import WSGIRequestHandler

# Longer than a lease.
STALL_SECS = 15

app = Flask(__name__)
webhook = Webhook(os.environ["PUSH_SECRET"])


def say(line):
    """One write for each line, so that lines of several threads do not mix and none is lost with the process."""
    os.write(sys.stdout.fileno(), f"{line}\n".encode())


@app.post("/jobs")
def job():
    body = request.get_data()
    try:
        webhook.verify(body, dict(request.headers))
        event = from_binary(HTTPMessage(headers=dict(request.headers), body=body), JSONFormat())
        attributes = event.get_attributes()
        call_id, attempt = attributes["id"], int(attributes["attempt"])
        assert attributes["type"] == "jobgate.job" and attributes["source"] == "/services/1", attributes
        assert attributes["subject"] == "3" and request.headers["X-CHAIN-CALL-ID"] == call_id, attributes
        asked = request.get_json(force=True)["do"]
    except Exception as error:
        say(f"bad {error!r}")
        return "bad request", 400
    say(f"delivery {call_id} {attempt}")
    if attempt == 1:
        if asked == "fail":
            return "asked to fail", 500
        if asked == "put off":
            return "asked to wait", 429, {"Retry-After": "1"}
        if asked == "stall":
            time.sleep(STALL_SECS)
        if asked == "die":
            os._exit(1)
    say(f"finished {call_id} {attempt}")
    return body, 200, {"Content-Type": "application/json"}


WSGIRequestHandler.protocol_version = "HTTP/1.1"
app.run(host="127.0.0.1", port=int(os.environ["PORT"]), threaded=True)
