import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { createOperatorClient } from "../../../src/commands/operator-client.ts";
import { ChannelState } from "../../../src/gen/jobgate/v1/operator_pb.ts";
import { newAccount } from "../../helpers/accounts.ts";
import { channelClient, readChannels } from "../../helpers/channels.ts";
import { startEmbeddedJobgate } from "../../helpers/embedded-jobgate.ts";
import { startRunner } from "../../helpers/runner.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { until } from "../../helpers/until.ts";
import {
  channelOf,
  KEPT,
  newPayer,
  PRICE,
  readBought,
  startChannelParts,
  startChannelShop,
  untilOffered,
} from "./harness.ts";

const parts = startBeforeAll(startChannelParts);

it("After a change of the authorizer, channels that name the one before are claimed, in transactions of their own", async () => {
  const folder = await mkdtemp(join(tmpdir(), "jobgate-channels-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const later = newAccount();
  let config = "";
  const shop = await startChannelShop(parts, {
    keys: "claim_every_secs = 3600",
    start(options) {
      config = options.config;
      return startEmbeddedJobgate({ config, folder });
    },
  });
  onTestFinished(() => shop.facilitator.stop());
  // One after the other: the chain gives transactions of one account that are sent at once the same nonce.
  const { fetch: before } = channelClient({ anvil: parts.anvil, payer: await newPayer(parts) });
  const { fetch: after } = channelClient({ anvil: parts.anvil, payer: await newPayer(parts) });
  const first = channelOf(await shop.buy(before, "one", KEPT));
  await shop.runner.stop();
  await shop.jobgate.stop();

  const keys = [later, shop.authorizer].map(({ privateKey }) => `{ private_key = "${privateKey}" }`);
  config = config.replace(/^authorizer = .*$/m, `authorizer = [${keys.join(", ")}]`).replace("3600", "1");
  const jobgate = await startEmbeddedJobgate({ config, folder });
  const runner = await startRunner({ address: jobgate.runnerAddress });
  onTestFinished(async () => {
    await runner.stop();
    await jobgate.stop();
  });
  const url = `${jobgate.x402Url}/x402/jobs/1/${KEPT}`;
  await untilOffered(url);
  const second = channelOf(await readBought(await after(url, { method: "POST", body: "two" })));
  for (const id of [first, second])
    await until(async () => (await readChannels(parts.anvil, "channels", id))[1] === PRICE);
  const claimed = shop.facilitator.calls.flatMap(({ paymentPayload }) =>
    paymentPayload?.payload.type === "claim"
      ? [(paymentPayload.payload as { readonly claims: readonly { voucher: { channel: object } }[] }).claims]
      : [],
  );
  for (const claims of claimed)
    expect(
      new Set(claims.map(({ voucher }) => Reflect.get(voucher.channel, "receiverAuthorizer"))).size,
    ).toBe(1);
});

it("While a channel's authorizer has no key, a refund is answered 503, and operators are told which key is missing", async () => {
  const folder = await mkdtemp(join(tmpdir(), "jobgate-channels-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  let config = "";
  const shop = await startChannelShop(parts, {
    keys: "claim_every_secs = 3600",
    start(options) {
      config = options.config;
      return startEmbeddedJobgate({ config, folder });
    },
  });
  onTestFinished(() => shop.facilitator.stop());
  let sent = "";
  const { fetch: buy } = channelClient({
    anvil: parts.anvil,
    payer: await newPayer(parts),
    fetch(input, init) {
      const request = new Request(input, init);
      sent = request.headers.get("payment-signature") ?? "";
      return fetch(request);
    },
  });
  const id = channelOf(await shop.buy(buy, "one", KEPT));
  await shop.runner.stop();
  await shop.jobgate.stop();

  const other = `authorizer = { private_key = "${newAccount().privateKey}" }`;
  const jobgate = await startEmbeddedJobgate({ config: config.replace(/^authorizer = .*$/m, other), folder });
  onTestFinished(async () => void (await jobgate.stop()));
  const payment = JSON.parse(Buffer.from(sent, "base64").toString());
  const { channelConfig, voucher } = payment.payload;
  const asked = { ...payment, payload: { type: "refund", channelConfig, voucher } };
  const refund = await fetch(`${jobgate.x402Url}/x402/jobs/1/${KEPT}`, {
    headers: { "payment-signature": Buffer.from(JSON.stringify(asked)).toString("base64") },
  });
  expect({ status: refund.status, ...((await refund.json()) as object) }).toMatchObject({
    status: 503,
    code: "facilitator_unavailable",
    charged: false,
  });
  const operator = createOperatorClient({ address: { url: jobgate.operatorUrl } });
  for (const decide of [operator.claimChannels, operator.refundChannel])
    await expect(decide({ id, by: "Ada", note: "moved" })).rejects.toThrow(
      /lacks the key of the channel's authorizer/,
    );
  expect(await operator.getChannel({ id })).toMatchObject({ channel: { state: ChannelState.OPEN } });
});
