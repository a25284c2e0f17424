import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import type { Runner } from "../test/helpers/runner.ts";
import type { Sandbox } from "./demo.ts";
import { printJobCall } from "./job-call.ts";
import type { Narrator } from "./narrator.ts";

const BODY = JSON.stringify({ alert: "disk is full", host: "db-1" });

/** Sends a webhook with a bad and a good signature, and checks that the runner gets one job. */
export async function sendWebhook(options: {
  readonly narrator: Narrator;
  readonly sandbox: Sandbox;
  readonly runner: Runner;
}): Promise<void> {
  const { narrator, sandbox, runner } = options;
  const before = runner.calls.length;
  const post = async (signingSecret: string): Promise<{ status: number; text: string }> => {
    const signature = `sha256=${createHmac("sha256", signingSecret).update(BODY).digest("hex")}`;
    const headers = { "content-type": "application/json", "x-signature-256": signature };
    const response = await fetch(sandbox.webhook_url, { method: "POST", headers, body: BODY });
    const text = await response.text();
    narrator.say(
      `POST ${new URL(sandbox.webhook_url).pathname}  X-Signature-256: ${signature.slice(0, 20)}…`,
    );
    narrator.say(`${response.status}: ${text}`);
    return { status: response.status, text };
  };

  narrator.step("A webhook sender signs with the wrong secret and is refused");
  assert.equal((await post("not the secret")).status, 401, "a bad signature was not refused");

  narrator.step("It signs with the right secret and is accepted");
  const { status, text } = await post(sandbox.webhook_secret);
  assert.equal(status, 202, `the webhook was refused: ${text}`);
  const { call_id: callId } = JSON.parse(text) as { call_id: number };

  narrator.step("The runner got this job too");
  const [call, ...more] = (await runner.waitFor(before + 1)).slice(before);
  assert.ok(call && more.length === 0, "expected one JobCall for the two requests");
  printJobCall(narrator, call);
  assert.equal(Number(call.callId), callId);
  assert.equal(Buffer.from(call.body).toString(), BODY);
  narrator.check("one JobCall, with exactly the signed body");
}
