import { describe, expect, it } from "vitest";
import { parseRoute, type Route, routeJobIndex } from "../../src/core/route.ts";
import { accounts } from "../helpers/accounts.ts";
import { payingFetch } from "../helpers/clients.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { startPaidGateway } from "./paid-gateway.ts";
import { startPaidParts } from "./paid-parts.ts";

const ROUTE = "GET /weather/{city}/{day...}";
const INDEX = routeJobIndex(parseRoute(ROUTE) as Route);

const parts = startBeforeAll(startPaidParts);
const gateway = startBeforeAll(() =>
  startPaidGateway({
    parts,
    setUp: "rpc_url",
    edit: (config) => `${config}
[[jobs]]
route = "${ROUTE}"
price_wei = "1000000000000000"
forward_headers = ["accept-language"]
`,
  }),
);

describe("A runner", () => {
  it("Gets method, canonical path, query as sent, decoded parameters and headers of a job bought at its route", async () => {
    const pay = payingFetch({
      account: accounts.payer,
      network: `eip155:${parts.anvil.chainId}`,
      spendControls: false,
    });
    const path = "/weather/S%c3%a3o%20Paulo/%74oday/a%2Bb?units=%4Detric&units=k";
    const answer = await pay(`${gateway.jobgate.x402Url}${path}`, { headers: { "accept-language": "pt" } });
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
  it("Is refused before anything is charged", async () => {
    const settles = parts.facilitator.counts.settle;
    const { headers } = await gateway.sign();
    for (const target of [`/weather/a/${"b".repeat(4_097)}`, `/weather/a/b?${"c".repeat(4_097)}`]) {
      const answer = await fetch(`${gateway.jobgate.x402Url}${target}`, { headers });
      expect(answer.status).toBe(431);
      expect(await answer.json()).toMatchObject({ code: "headers_too_large", charged: false });
    }
    expect(parts.facilitator.counts.settle).toBe(settles);
  });
});
