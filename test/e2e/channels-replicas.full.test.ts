import { expect, onTestFinished, test } from "vitest";
import { channelClient, readChannels } from "../helpers/channels.ts";
import { startEmbeddedJobgate } from "../helpers/embedded-jobgate.ts";
import { startPostgres } from "../helpers/postgres.ts";
import { startRunner } from "../helpers/runner.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { until } from "../helpers/until.ts";
import {
  type Bought,
  channelOf,
  KEPT,
  newPayer,
  PRICE,
  readBought,
  startChannelParts,
  startChannelShop,
} from "../parts/channels/harness.ts";

const VOUCHERS = 6;

const postgres = startBeforeAll(startPostgres);
const parts = startBeforeAll(startChannelParts);

test("Vouchers of one channel that two gateways get at once buy one call each, and both gateways have one base", async () => {
  const store = await postgres.createDatabase();
  let config = "";
  const shop = await startChannelShop(parts, {
    edit(toml) {
      config = toml.replace("sqlite:jobgate.db", store);
      return config;
    },
  });
  const other = await startEmbeddedJobgate({ config });
  const runner = await startRunner({ address: other.runnerAddress });
  onTestFinished(async () => {
    await runner.stop();
    await other.stop();
    await shop.stop();
  });
  let sent: Request | undefined;
  const { fetch } = channelClient({
    ...{ anvil: parts.anvil, payer: await newPayer(parts) },
    fetch: async (input, init) => {
      const request = new Request(input, init);
      if (request.headers.has("payment-signature")) sent = request.clone() as Request;
      return globalThis.fetch(request);
    },
  });
  const urls = [shop.urlOf(KEPT), `${other.x402Url}/x402/jobs/1/${KEPT}`] as const;
  const id = channelOf(await readBought(await fetch(urls[0], { method: "POST", body: "deposit" })));

  /** Sends the client's last voucher to each gateway, with a body of its own. */
  async function sendToBoth(voucher: number): Promise<readonly Bought[]> {
    const headers = { "payment-signature": sent?.headers.get("payment-signature") ?? "" };
    return Promise.all(
      urls.flatMap((url, gateway) =>
        [1, 2].map(async (one) =>
          readBought(
            await globalThis.fetch(url, { method: "POST", headers, body: `${voucher} ${gateway} ${one}` }),
          ),
        ),
      ),
    );
  }

  for (let voucher = 1; voucher <= VOUCHERS; voucher++) {
    // A client buys through either gateway in turn, and the same voucher comes to both, with other bodies, before it and after it.
    const [, answers] = await Promise.all([
      fetch(urls[voucher % 2] as string, { method: "POST", body: `client ${voucher}` }).then(readBought),
      sendToBoth(voucher),
    ]);
    expect(answers.map(({ status }) => status)).not.toContain(500);
    const again = await sendToBoth(voucher);
    expect(again.filter(({ status }) => status === 202).length).toBeLessThanOrEqual(1);
  }
  const base = 1n + BigInt(VOUCHERS);
  await until(async () => (await readChannels(parts.anvil, "channels", id))[1] === base * PRICE);
  const bodies = [...shop.runner.calls, ...runner.calls].map(({ body }) => Buffer.from(body).toString());
  expect(bodies.length).toBe(Number(base));
  expect(new Set(bodies).size).toBe(bodies.length);
});
