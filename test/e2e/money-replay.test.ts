import { type Hex, parseSignature, serializeCompactSignature, signatureToCompactSignature } from "viem";
import { describe, expect, it } from "vitest";
import { accounts, type TestAccount } from "../helpers/accounts.ts";
import { highS } from "../helpers/caller-claim.ts";
import { v2PaymentHeaders } from "../helpers/clients.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { until } from "../helpers/until.ts";
import { ONE_PAID_JOB, watchLedger } from "./ledger.ts";
import {
  type Payment,
  type ProtocolName,
  paysByX402,
  SET_UPS,
  type SetUp,
  startPaidGateway,
} from "./paid-gateway.ts";
import { startPaidParts } from "./paid-parts.ts";

const parts = startBeforeAll(startPaidParts);

/** Other signatures over the same authorization. */
const SHAPES: Record<string, (signature: Hex) => string> = {
  "a high s": highS,
  "v as 0 or 1": (signature) => signature.replace(/..$/, (v) => (v === "1b" ? "00" : "01")),
  "v as 5": (signature) => signature.replace(/..$/, "05"),
  "the compact form": (signature) =>
    serializeCompactSignature(signatureToCompactSignature(parseSignature(signature))),
  "64 bytes": (signature) => signature.slice(0, -2),
  "66 bytes": (signature) => `${signature}00`,
  "one byte": () => "0x1b",
  "no byte": () => "0x",
};
const { payer } = accounts;
const payerWith = (shape: (signature: Hex) => string): TestAccount => ({
  ...payer,
  signTypedData: async (data) => shape(await payer.signTypedData(data)) as Hex,
});

/** Each protocol's way to the payment is tested with one of the two. What is decided there is the same for all protocols. */
const PROTOCOLS_OF: Readonly<Record<SetUp, readonly ProtocolName[]>> = {
  rpc_url: ["x402", "blueprintevm", "a2a"],
  "no rpc_url": ["evm", "mcp", "evm over mcp"],
};
const COPIES = 4;
const REPLAYED = { status: 409, code: "payment_replay", charged: false, retryable: false };

describe.each(SET_UPS)("Replays, with %s", (setUp) => {
  const protocols = PROTOCOLS_OF[setUp];
  const gateway = startBeforeAll(() => startPaidGateway({ parts, setUp }));

  /** Each job of the journal was delivered and acked. */
  async function noJobIsLeft(): Promise<boolean> {
    const { held, ready, leased } = (await gateway.journal.totals()).calls;
    return held + ready + leased === 0;
  }

  it.each(protocols)(
    "Concurrent copies of one payment cause one settle call, one job and equal answers, also after a restart, where another body or job is refused (%s)",
    async (protocol) => {
      const { sign, send } = gateway.at(protocol);
      const payment = await sign();
      const expectChanges = await watchLedger(parts, gateway);
      const body = `many times ${setUp} ${protocol}`;

      const answers = await Promise.all(Array.from({ length: COPIES }, () => send(payment, { body })));
      const first = answers[0];
      const transaction = expect.stringMatching(/^0x[0-9a-f]{64}$/);
      const payer = accounts.payer.address.toLowerCase();
      const settlement = { success: true, payer, transaction, network: "eip155:84532" };
      const paymentReceipt = {
        status: "success",
        method: protocol === "evm over mcp" ? "evm" : protocol,
        timestamp: expect.stringMatching(/^20.*Z$/),
        reference: transaction,
      };
      expect(first).toEqual({
        status: 202,
        call_id: expect.any(Number),
        ...(protocol !== "a2a" && { receipt: expect.stringMatching(/^[0-9a-f]{64}$/) }),
        access_token: expect.stringMatching(/^[\w-]{43}$/),
        ...(paysByX402(protocol) ? { settlement } : { paymentReceipt }),
      });
      expect(answers).toEqual(Array.from({ length: COPIES }, () => first));
      await gateway.waitForJobs(body);
      await until(noJobIsLeft);

      await gateway.restart();
      expect(await send(payment, { body })).toEqual(first);
      expect(await send(payment, { body: "another body" })).toEqual(REPLAYED);
      expect(await send(payment, { body, job: 1 })).toEqual(REPLAYED);
      await until(noJobIsLeft);
      await expectChanges(ONE_PAID_JOB);
      const hash = (first?.settlement?.transaction ?? first?.paymentReceipt?.reference) as `0x${string}`;
      expect(await parts.anvil.client.getTransactionReceipt({ hash })).toMatchObject({ status: "success" });
    },
  );

  it.each(protocols)(
    "A payment sent again with another body, or for another job at the same price, is refused with 409 while it settles (%s)",
    async (protocol) => {
      const { sign, send } = gateway.at(protocol);
      const payment = await sign();
      const expectChanges = await watchLedger(parts, gateway);
      const body = `bound ${setUp} ${protocol}`;
      const others = gateway.duringSettle(() =>
        Promise.all([send(payment, { body: "another body" }), send(payment, { body, job: 1 })]),
      );
      const first = await send(payment, { body });
      expect(first).toMatchObject({ status: 202 });
      expect(await others).toEqual([REPLAYED, REPLAYED]);
      expect(await send(payment, { body })).toEqual(first);
      await gateway.waitForJobs(body);
      await expectChanges(ONE_PAID_JOB);
    },
  );

  it("Unsigned changes (letter case, resource, extensions, version) do not make another payment", async () => {
    const payment = await gateway.sign();
    const body = `unsigned parts ${setUp}`;
    const expectChanges = await watchLedger(parts, gateway);
    const first = await gateway.send(payment, { body });
    const { signature, authorization } = payment.signed;
    const inner = {
      signature: `0x${signature.slice(2).toUpperCase()}`,
      authorization: {
        ...authorization,
        from: authorization.from.toLowerCase(),
        to: authorization.to.toLowerCase(),
        nonce: `0x${authorization.nonce.slice(2).toUpperCase()}`,
      },
    };
    const edited = {
      ...payment.payload,
      payload: inner,
      resource: { url: "http://elsewhere.example/" },
      extensions: { any: { info: {}, schema: {} } },
    };
    expect(await gateway.send({ headers: v2PaymentHeaders(edited) }, { body })).toEqual(first);
    const v1 = { x402Version: 1, scheme: "exact", network: "base-sepolia", payload: payment.payload.payload };
    const inV1 = await gateway.send(
      { headers: { "x-payment": Buffer.from(JSON.stringify(v1)).toString("base64") } },
      { body },
    );
    const { call_id, receipt, access_token } = first;
    expect(inV1).toMatchObject({ status: 202, call_id, receipt, access_token });
    await gateway.waitForJobs(body);
    await expectChanges(ONE_PAID_JOB);
  });

  it.each(protocols.slice(0, 1))(
    "Two payments signed with one nonce are one payment: exactly one of them buys a job (%s)",
    async (protocol) => {
      const { sign, send } = gateway.at(protocol);
      const payment = await sign();
      const validBefore = String(Number(payment.signed.authorization.validBefore) - 1);
      const other = await sign({ again: payment, authorization: { validBefore } });
      const body = `one nonce ${setUp} ${protocol}`;
      const expectChanges = await watchLedger(parts, gateway);
      const answers = await Promise.all([send(payment, { body }), send(other, { body })]);
      expect(answers.map(({ status }) => status).sort()).toEqual([202, 409]);
      expect(answers.find(({ status }) => status === 409)).toMatchObject({
        code: "payment_replay",
        charged: false,
      });
      await gateway.waitForJobs(body);
      // One that arrives late is not verified.
      await expectChanges({ ...ONE_PAID_JOB, verifyCalls: expect.any(Number) });
    },
  );

  it.each(protocols.slice(0, 1))(
    "The same authorization with another signature buys no job, before the good one and after it (%s)",
    async (protocol) => {
      const { sign, send } = gateway.at(protocol);
      const payment = await sign();
      const expectChanges = await watchLedger(parts, gateway);
      const body = `resigned ${setUp} ${protocol}`;
      const forged: [what: string, payment: Payment][] = [];
      // What a facilitator refuses is the same with an RPC.
      const shapes = Object.entries(SHAPES).filter((_, at) => setUp === "no rpc_url" || at % 3 === 0);
      for (const [what, shape] of shapes)
        forged.push([what, await sign({ again: payment, account: payerWith(shape) })]);

      for (const [what, other] of forged) {
        const refused = { status: 402, code: "payment_invalid", charged: false };
        expect([what, await send(other, { body })]).toMatchObject([what, refused]);
      }
      expect(await send(payment, { body })).toMatchObject({ status: 202 });
      for (const [what, other] of forged) {
        const { code, call_id } = await send(other, { body });
        // With an RPC the chain shows the authorization as used, before the facilitator refuses the signature.
        const codes = setUp === "rpc_url" ? ["payment_replay"] : ["payment_replay", "payment_invalid"];
        expect([what, codes.includes(code ?? ""), call_id]).toEqual([what, true, undefined]);
      }
      await gateway.waitForJobs(body);
      await expectChanges({ ...ONE_PAID_JOB, verifyCalls: expect.any(Number) });
    },
  );
});
