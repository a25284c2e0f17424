import { describe, expect, it } from "vitest";
import { parseRoute, type Route, routeJobIndex } from "../../src/core/route.ts";
import { Fail } from "../../src/runner/job.ts";
import { accounts } from "../helpers/accounts.ts";
import { payingFetch } from "../helpers/clients.ts";
import type { JobHandler } from "../helpers/runner.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { startPaidGateway } from "./paid-gateway.ts";
import { startPaidParts } from "./paid-parts.ts";

const ROUTE = "GET /weather/{city}/{day...}";
const INDEX = routeJobIndex(parseRoute(ROUTE) as Route);

/** Handlers of the runner, by the path at which the job was bought. The runner acks all other jobs at once. */
const handlers = new Map<string, JobHandler>();

const parts = startBeforeAll(startPaidParts);
const gateway = startBeforeAll(() =>
  startPaidGateway({
    parts,
    setUp: "rpc_url",
    handle: (call) => handlers.get(call.metadata["X-HTTP-PATH"] ?? "")?.(call),
    // A runner keeps one job for ever.
    edit: (config) => `${config.replace("[runner]", "[runner]\ndrain_secs = 0.2")}
[[jobs]]
route = "${ROUTE}"
price_wei = "1000000000000000"
forward_headers = ["accept-language"]
[[jobs]]
route = "POST /echo/{how}"
job_index = 5
price_wei = "1000000000000000"
answer = "result"
max_wait_secs = 2
`,
  }),
);

/** The official client. */
const pay = (path: string, init: RequestInit = {}) =>
  payingFetch({ account: accounts.payer, network: `eip155:${parts.anvil.chainId}`, spendControls: false })(
    `${gateway.jobgate.x402Url}${path}`,
    init,
  );

describe("A runner", () => {
  it("Gets method, canonical path, query as sent, decoded parameters and headers of a job bought at its route", async () => {
    const path = "/weather/S%c3%a3o%20Paulo/%74oday/a%2Bb?units=%4Detric&units=k";
    const answer = await pay(path, { headers: { "accept-language": "pt" } });
    expect(answer.status).toBe(202);
    const { call_id } = (await answer.json()) as { readonly call_id: number };
    const [call] = await gateway.runner.waitFor(1);
    expect(call).toMatchObject({ callId: BigInt(call_id), jobId: BigInt(INDEX) });
    expect(call?.body).toHaveLength(0);
    expect(call?.metadata).toMatchObject({
      "X-HTTP-METHOD": "GET",
      "X-HTTP-PATH": "/weather/S%C3%A3o%20Paulo/today/a+b",
      "X-HTTP-QUERY": "units=%4Detric&units=k",
      "X-HTTP-PARAM-CITY": "São Paulo",
      "X-HTTP-PARAM-DAY": "today/a+b",
      "X-HTTP-ACCEPT-LANGUAGE": "pt",
    });
  });
});

describe("A path or query string that is too long for runners", () => {
  it("Is refused before anything is charged, and is offered nothing", async () => {
    const settles = parts.facilitator.counts.settle;
    const { headers: payment } = await gateway.sign();
    for (const target of [`/weather/a/${"b".repeat(8_193)}`, `/weather/a/b?${"c".repeat(8_193)}`])
      for (const headers of [payment, {}]) {
        const answer = await fetch(`${gateway.jobgate.x402Url}${target}`, { headers });
        expect(answer.status).toBe(431);
        expect(await answer.json()).toMatchObject({ code: "headers_too_large", charged: false });
      }
    expect(parts.facilitator.counts.settle).toBe(settles);
  });
});

describe("A job that answers with its result", () => {
  const buy = (path: string, headers: Record<string, string> = {}) =>
    pay(path, { method: "POST", body: "work", headers });

  it("Makes its paid request wait, without a preference, and a resend gets the result too", async () => {
    handlers.set("/echo/back", ({ body }) => ({ body: body.slice().reverse(), contentType: "text/x-back" }));
    const answer = await buy("/echo/back");
    expect([answer.status, await answer.text()]).toEqual([200, "krow"]);
    expect(answer.headers.get("content-type")).toBe("text/x-back");
    expect(answer.headers.get("x-call-id")).toMatch(/^\d+$/);
    for (const name of ["payment-response", "x-access-token", "link"])
      expect(answer.headers.has(name)).toBe(true);
    expect(answer.headers.has("preference-applied")).toBe(false);
  });

  it("Is answered 202 with links when its time is up, and at once when it fails", async () => {
    handlers.set("/echo/never", () => new Promise(() => {}));
    const late = await buy("/echo/never");
    expect(late.status).toBe(202);
    expect(await late.json()).toMatchObject({ status: "accepted", links: { result: expect.any(String) } });
    handlers.set("/echo/fails", () => {
      throw new Fail("no");
    });
    expect((await buy("/echo/fails")).status).toBe(202);
  });

  it("Waits as long as the client prefers, if it does", async () => {
    const start = performance.now();
    const answer = await buy("/echo/never", { prefer: "wait=1" });
    expect(answer.status).toBe(202);
    expect(answer.headers.get("preference-applied")).toBe("wait=1");
    expect(performance.now() - start).toBeGreaterThan(900);
  });

  it("Lets one buyer wait for more than 20 results at once", async () => {
    let started = 0;
    let finish = () => {};
    const all = new Promise<void>((resolve) => {
      finish = resolve;
    });
    handlers.set("/echo/many", async ({ body }) => {
      if (++started === 21) finish();
      await all;
      return { body };
    });
    const answers = await Promise.all(
      Array.from({ length: 21 }, () => buy("/echo/many", { prefer: "wait=50" })),
    );
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
  });
});
