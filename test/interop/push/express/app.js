// A runner that jobs are pushed to. It prints what it gets and finishes, and misbehaves as the job asks.
import assert from "node:assert/strict";
import { writeSync } from "node:fs";
import { HTTP } from "cloudevents";
import express from "express";
import { Webhook } from "standardwebhooks";

/** Longer than a lease. */
const STALL_MS = 15_000;
const webhook = new Webhook(process.env.PUSH_SECRET);
// Written before the next statement, so that no line is lost with the process.
const say = (line) => writeSync(1, `${line}\n`);

const app = express();
app.post("/jobs", express.raw({ type: "*/*" }), (request, response) => {
  const { headers, body } = request;
  let event;
  try {
    webhook.verify(body, headers);
    event = HTTP.toEvent({ headers, body: body.toString() });
    assert.equal(event.type, "jobgate.job");
    assert.equal(event.source, "/services/1");
    assert.equal(event.subject, "3");
    assert.equal(headers["x-chain-call-id"], event.id);
  } catch (error) {
    say(`bad ${error}`);
    response.status(400).send("bad request");
    return;
  }
  const attempt = Number(event.attempt);
  say(`delivery ${event.id} ${attempt}`);
  const finish = () => {
    say(`finished ${event.id} ${attempt}`);
    response.type("application/json").send(body);
  };
  const asked = attempt === 1 ? JSON.parse(body.toString()).do : "";
  if (asked === "fail") response.status(500).send("asked to fail");
  else if (asked === "put off") response.status(429).set("retry-after", "1").send("asked to wait");
  else if (asked === "stall") setTimeout(finish, STALL_MS);
  else if (asked === "die") process.exit(1);
  else finish();
});
app.listen(Number(process.env.PORT), "127.0.0.1");
