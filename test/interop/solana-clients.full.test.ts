import { beforeAll, expect, it } from "vitest";
import { listenHttp } from "../helpers/http-listener.ts";
import { startJobgate } from "../helpers/jobgate-process.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { PRICE, startSolanaParts, startSolanaShop } from "../parts/solana/harness.ts";
import { type ClientName, preparePythonClients, sendBy } from "./api-clients.ts";

beforeAll(preparePythonClients);
const parts = startBeforeAll(startSolanaParts);
const api = startBeforeAll(() =>
  listenHttp({
    handler(request, response) {
      response.writeHead(200, { "content-type": "text/plain" }).end(`answer to ${request.url}`);
    },
  }),
);
const shop = startBeforeAll(() =>
  // A process of its own: undici, by which jobgate calls APIs, would carry the facilitator's requests too, and refuses
  // the content-length that @solana/kit sets.
  startSolanaShop(parts, {
    start: startJobgate,
    more: `
[mcp]
enabled = true
[[apis]]
name = "weather"
url = "${api.url}"
[[jobs]]
job_index = 2
route = "GET /weather/{city}"
api = "weather"
charge = "before"
mode = "public_paid"
price = "$0.01"
`,
  }),
);

/** The seed of the payer. */
const account = { privateKey: `0x${"02".repeat(32)}` } as const;
const buy = (client: ClientName, path: string, method: "GET" | "POST") =>
  sendBy(client, { url: shop.jobgate.x402Url, account, solanaRpcUrl: parts.cluster.rpcUrl }, [
    { method, path },
  ]);

it.each(["fetch", "axios", "httpx", "requests"] as const)("%s buys a job on Solana", async (client) => {
  const { length } = shop.runner.calls;
  const received = await parts.cluster.balanceOf(parts.seller, parts.mint);
  const [answer] = await buy(client, "/x402/jobs/1/0", "POST");
  expect(answer?.status).toBe(202);
  await shop.runner.waitFor(length + 1);
  expect(shop.runner.calls.at(-1)?.metadata).toMatchObject({ "X-X402-PAYER": parts.payer });
  expect(await parts.cluster.balanceOf(parts.seller, parts.mint)).toBe((received ?? 0n) + PRICE);
});

it.each(["fetch", "axios", "httpx", "requests", "mcp"] as const)(
  "%s buys the answer of a route on Solana",
  async (client) => {
    const received = await parts.cluster.balanceOf(parts.seller, parts.mint);
    const [answer] = await buy(client, `/weather/Paris?by=${client}`, "GET");
    expect(answer).toMatchObject({ status: 200 });
    expect(answer?.body.toString()).toBe(`answer to /weather/Paris?by=${client}`);
    expect(await parts.cluster.balanceOf(parts.seller, parts.mint)).toBe((received ?? 0n) + PRICE);
  },
);
