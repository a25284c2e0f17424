import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { x402Client, x402HTTPClient } from "@x402/core/client";
import { beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { runHereWith } from "../../commands/operator-commands.ts";
import { localSettler } from "../../e2e/local-facilitator.ts";
import type { TestAccount } from "../../helpers/accounts.ts";
import { channelClient, readChannels } from "../../helpers/channels.ts";
import { startEmbeddedJobgate } from "../../helpers/embedded-jobgate.ts";
import type { Fault } from "../../helpers/fault.ts";
import { type FaultProxy, startFaultProxy } from "../../helpers/http-proxy.ts";
import { installPermit2, invalidatePermit2Nonce } from "../../helpers/permit2.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { until } from "../../helpers/until.ts";
import {
  type Bought,
  type ChannelShop,
  channelOf,
  DEPOSIT,
  KEPT,
  newPayer,
  newPermit2Payer,
  PRICE,
  readBought,
  startChannelParts,
  startChannelShop,
  startPermit2Parts,
  withPermit2,
} from "./harness.ts";

/** Calls that one deposit pays. */
const CALLS = 10;
/** Lifetime of a deposit that nobody makes, in seconds. */
const TTL_SECS = 12;

const parts = startBeforeAll(startPermit2Parts);

async function newBuyer({ isApproved = true } = {}) {
  const payer = await (isApproved ? newPermit2Payer : newPayer)(parts);
  return { payer, ...channelClient({ anvil: parts.anvil, payer }) };
}
type Buyer = Awaited<ReturnType<typeof newBuyer>>;

const balanceOf = ({ address }: TestAccount) => parts.usdc.balanceOf(address);
const soldBy = ({ runner }: ChannelShop) => runner.calls.map(({ body }) => Buffer.from(body).toString());

/** Buys calls, of which a deposit pays {@link CALLS}, and gets the rest back. */
async function expectChannelOf(
  shop: ChannelShop,
  { payer, fetch, scheme }: Buyer,
  { name, calls }: { readonly name: string; readonly calls: number },
) {
  const before = await balanceOf(payer);
  const bought: Bought[] = [];
  for (let call = 0; call < calls; call++) bought.push(await shop.buy(fetch, `${name} ${call}`, KEPT));
  expect(bought.map(({ status, settlement }) => [status, settlement?.transaction !== ""])).toEqual(
    bought.map((_, call) => [202, call % CALLS === 0]),
  );
  const deposited = BigInt(Math.ceil(calls / CALLS)) * DEPOSIT;
  expect(await balanceOf(payer)).toBe(before - deposited);
  const sold = BigInt(bought.length) * PRICE;
  const [id = ""] = bought.map(channelOf);
  await until(async () => (await readChannels(parts.anvil, "channels", id))[1] === sold);
  expect(await scheme.refund(shop.urlOf(KEPT))).toMatchObject({ amount: String(deposited - sold) });
  expect(await balanceOf(payer)).toBe(before - sold);
  expect(soldBy(shop).filter((body) => body.startsWith(name))).toHaveLength(bought.length);
}

describe("With a facilitator", () => {
  let proxy: FaultProxy;
  const shop = startBeforeAll(() =>
    startChannelShop(parts, {
      edit: (config) => withPermit2(config).replace("[x402]", `[x402]\nquote_ttl_secs = ${TTL_SECS}`),
      async through(target) {
        proxy = await startFaultProxy({ target });
        return proxy;
      },
      start: ({ config }) => startEmbeddedJobgate({ config, periods: { confirmationTimeoutMs: 300 } }),
    }),
  );

  const isDeposit = ({ body }: { readonly body: Buffer }) => body.includes('"type":"deposit"');
  const lie = (transaction: string): Fault => ({
    kind: "answer",
    status: 200,
    body: { success: true, transaction, network: `eip155:${parts.anvil.chainId}`, amount: String(DEPOSIT) },
  });

  /** Signs a deposit with its first voucher. @returns the nonce of the permit, and what buys with it */
  async function signedDeposit({ scheme }: Buyer) {
    const offers = await shop.offers(KEPT);
    const client = new x402Client().setSpendControls(false).register("eip155:*", scheme);
    const accepts = offers.accepts.filter((offer) => offer.scheme === "batch-settlement");
    const payload = await client.createPaymentPayload({ ...offers, accepts });
    const headers = new x402HTTPClient(client).encodePaymentSignatureHeader(payload);
    const { authorization } = Reflect.get(payload.payload, "deposit") as {
      readonly authorization: { readonly permit2Authorization: { readonly nonce: string } };
    };
    return {
      nonce: authorization.permit2Authorization.nonce,
      buy: async (body: string) =>
        readBought(await fetch(shop.urlOf(KEPT), { method: "POST", headers, body })),
    };
  }

  it("A token without EIP-3009 is deposited by Permit2, pays calls by vouchers, is deposited again, and is paid back", async () => {
    const { accepts } = await shop.offers();
    expect(accepts.map(({ scheme, extra }) => [scheme, extra.assetTransferMethod])).toEqual([
      ["exact", "permit2"],
      ["batch-settlement", "permit2"],
    ]);
    await expectChannelOf(shop, await newBuyer(), { name: "call", calls: CALLS + 1 });
  });

  it("A deposit whose payer has not approved Permit2 is refused, and moves nothing", async () => {
    const buyer = await newBuyer({ isApproved: false });
    const before = await balanceOf(buyer.payer);
    expect(await shop.buy(buyer.fetch, "not approved")).toMatchObject({
      status: 402,
      code: "payment_invalid",
    });
    expect(await balanceOf(buyer.payer)).toBe(before);
    expect(soldBy(shop)).not.toContain("not approved");
  });

  it("A permit whose nonce the payer has used elsewhere is refused before a facilitator settles it", async () => {
    const buyer = await newBuyer();
    const { nonce, buy } = await signedDeposit(buyer);
    await invalidatePermit2Nonce(parts.anvil, buyer.payer, nonce);
    proxy.add({
      path: "/verify",
      fault: { kind: "answer", status: 200, body: { isValid: true, payer: buyer.payer.address } },
    });
    onTestFinished(() => proxy.clear());
    // Claims of other channels may be settled meanwhile.
    const deposits = () =>
      proxy.requests.filter((request) => request.path === "/settle" && isDeposit(request));
    const before = deposits().length;
    expect(await buy("used before")).toMatchObject({ code: "authorization_used" });
    expect(deposits()).toHaveLength(before);
    expect(soldBy(shop)).not.toContain("used before");
  });

  it("A permit whose nonce is used elsewhere while it is settled sells nothing, whatever the facilitator says, and the channel can be paid into again", async () => {
    const buyer = await newBuyer();
    const honest = await newBuyer();
    const { settlement } = await shop.buy(honest.fetch, "honest", KEPT);
    const { nonce, buy } = await signedDeposit(buyer);
    onTestFinished(() => proxy.clear());
    proxy.add({
      ...{ path: "/settle", when: isDeposit },
      async fault() {
        await invalidatePermit2Nonce(parts.anvil, buyer.payer, nonce);
        return lie(settlement?.transaction ?? "");
      },
    });
    await until(async () => (await buy("used meanwhile")).code === "settlement_failed");
    proxy.clear();
    expect(soldBy(shop)).not.toContain("used meanwhile");
    expect(await shop.buy(buyer.fetch, "after that", KEPT)).toMatchObject({ status: 202 });
  });

  it("A deposit that is never mined sells nothing once its permit has ended, and charges nothing", async () => {
    const buyer = await newBuyer();
    const before = await balanceOf(buyer.payer);
    const endsAt = Date.now() + TTL_SECS * 1000;
    const { buy } = await signedDeposit(buyer);
    onTestFinished(() => proxy.clear());
    proxy.add({ path: "/settle", when: isDeposit, fault: lie(`0x${"ab".repeat(32)}`) });
    expect((await buy("never mined")).status).not.toBe(202);
    await until(() => Date.now() >= endsAt);
    await until(async () => {
      await parts.anvil.client.mine({ blocks: 1 });
      return (await buy("never mined")).code === "settlement_failed";
    });
    proxy.clear();
    expect(await balanceOf(buyer.payer)).toBe(before);
    expect(soldBy(shop)).not.toContain("never mined");
    expect(await shop.buy(buyer.fetch, "made", KEPT)).toMatchObject({ status: 202 });
    expect(await balanceOf(buyer.payer)).toBe(before - DEPOSIT);
  });

  it("`jobgate pay --deposit` deposits by Permit2 where the offer says so", async () => {
    const { payer } = await newBuyer();
    const before = await balanceOf(payer);
    const state = await mkdtemp(join(tmpdir(), "jobgate-pay-"));
    onTestFinished(() => rm(state, { recursive: true }));
    const pay = (body: string) =>
      runHereWith(
        ["pay", shop.urlOf(KEPT), "--max", "1000", "--no-wait", "--body", "body", "--deposit", "20000"],
        { files: { body }, env: { JOBGATE_PAYER_KEY: payer.privateKey, XDG_STATE_HOME: state } },
      );
    for (const body of ["paid first", "paid second"]) expect(await pay(body)).toMatchObject({ code: 0 });
    expect(await balanceOf(payer)).toBe(before - 20_000n);
    await until(() => soldBy(shop).includes("paid second"));
  });
});

describe("Where gas is sponsored", () => {
  // Its token has the permits of EIP-2612.
  const named = startBeforeAll(startChannelParts);
  beforeAll(() => installPermit2(named.anvil));

  it.each(["a remote facilitator", "jobgate's own"])(
    "A payer who never approved Permit2 signs the approval with the deposit for %s",
    async (settledBy) => {
      const { anvil } = named;
      const byPermit2 = (config: string) => config.replace('"eip3009"', '"permit2"');
      const settler = settledBy === "jobgate's own" ? await localSettler({ anvil }) : undefined;
      const edit = (config: string) => settler?.edit(byPermit2(config)) ?? byPermit2(config);
      const shop = await startChannelShop(named, { edit, sponsorsGas: true });
      onTestFinished(() => shop.stop());
      const payer = await newPayer(named);
      const { fetch } = channelClient({ anvil, payer });
      expect(await shop.buy(fetch, "sponsored", KEPT)).toMatchObject({ status: 202 });
      expect(await shop.buy(fetch, "next", KEPT)).toMatchObject({ status: 202 });
      await until(() => soldBy(shop).includes("next"));
      if (settler !== undefined) expect(shop.facilitator.calls).toEqual([]);
    },
  );
});

describe("With jobgate's own facilitator", () => {
  it("Deposits by Permit2 are made, claimed and paid back", async () => {
    const settler = await localSettler({ anvil: parts.anvil });
    const shop = await startChannelShop(parts, { edit: (config) => settler.edit(withPermit2(config)) });
    onTestFinished(() => shop.stop());
    await expectChannelOf(shop, await newBuyer(), { name: "own", calls: 2 });
    expect(shop.facilitator.calls).toEqual([]);
  });
});
