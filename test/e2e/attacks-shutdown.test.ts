import { describe, expect, it } from "vitest";
import { startEmbeddedJobgate } from "../helpers/embedded-jobgate.ts";
import type { Jobgate } from "../helpers/jobgate-process.ts";
import { type Runner, startRunner } from "../helpers/runner.ts";
import { testFolder } from "../helpers/test-folder.ts";

const REQUESTS_IN_HAND = 15;
const LEASES_OUT = 15;
const CONFIG = `
service_id = 1
[store]
url = "sqlite:jobs.db"
[runner]
bind_address = "127.0.0.1:0"
lease_secs = 60
drain_secs = 0.5
[operator]
bind_address = "127.0.0.1:0"
[webhooks]
bind_address = "127.0.0.1:0"
[[webhooks.endpoints]]
path = "/hooks/load"
job_id = 1
`;

/** Sends one webhook; its call id if it was accepted. */
async function send(jobgate: Jobgate, body: string): Promise<number | undefined> {
  try {
    const response = await fetch(`${jobgate.webhooksUrl}/hooks/load`, { method: "POST", body });
    const answer = (await response.json()) as { call_id?: number };
    return response.status === 202 ? answer.call_id : undefined;
  } catch {
    // Refused while it stops: then nothing was promised.
    return undefined;
  }
}

function attemptsOf(runners: readonly Runner[]): Map<number, number[]> {
  const attempts = new Map<number, number[]>();
  for (const { callId, attempt } of runners.flatMap((runner) => runner.calls)) {
    attempts.set(Number(callId), [...(attempts.get(Number(callId)) ?? []), attempt]);
  }
  return attempts;
}

describe("Shutdown under load", () => {
  it("A stop during 15 requests and 15 leases: every accepted job is delivered, now or after the restart", async () => {
    const folder = await testFolder();
    const first = await startEmbeddedJobgate({ config: CONFIG, folder });
    const accepted = new Set<number>();
    const note = (callId: number | undefined) => void (callId !== undefined && accepted.add(callId));

    const busy = await startRunner({
      address: first.runnerAddress,
      maxInFlight: LEASES_OUT,
      handle: "leave",
    });
    for (const sent of Array.from({ length: LEASES_OUT }, (_, i) => send(first, `lease ${i}`)))
      note(await sent);
    await busy.waitFor(LEASES_OUT);

    const inHand = Array.from({ length: REQUESTS_IN_HAND }, (_, i) => send(first, `in hand ${i}`));
    first.kill("SIGTERM");
    for (const sent of inHand) note(await sent);
    await first.exited;
    expect(accepted.size).toBeGreaterThanOrEqual(LEASES_OUT);

    const second = await startEmbeddedJobgate({ config: CONFIG, folder });
    const runner = await startRunner({ address: second.runnerAddress });
    try {
      await runner.waitFor(accepted.size);
      const attempts = attemptsOf([busy, runner]);
      expect([...attempts.keys()].sort((a, b) => a - b)).toEqual([...accepted].sort((a, b) => a - b));
      for (const deliveries of attempts.values()) {
        // Delivered again only as a redelivery, and each of them finished now.
        expect(deliveries).toEqual(deliveries.map((_, index) => index + 1));
      }
      const totals = await fetch(`${second.operatorUrl}/jobgate.v1.OperatorService/GetTotals`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: "{}",
      });
      expect(await totals.json()).toMatchObject({ calls: { dead: "0" } });
    } finally {
      await runner.stop();
      await second.stop();
    }
  });
});
