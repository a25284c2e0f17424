import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { encodeJobCall } from "../../src/delivery/job-call-codec.ts";
import { YOUNG_MS } from "../../src/store/contract/payment-journal.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { accounts } from "../helpers/accounts.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { paymentIntent } from "../store/store-fixtures.ts";
import { jobCall } from "../x402/payment-fixtures.ts";
import { ACCEPTED } from "./expected-answers.ts";
import { type Answer, type Payment, startPaidGateway } from "./paid-gateway.ts";
import { startPaidParts } from "./paid-parts.ts";

const UNDECIDED = 10_000;
const OF_ONE_PAYER = 256;
const WEBHOOKS = `
[webhooks]
bind_address = "127.0.0.1:0"
[[webhooks.endpoints]]
path = "/hooks/a"
job_id = 30
`;

const parts = startBeforeAll(startPaidParts);
const gateway = startBeforeAll(() =>
  startPaidGateway({
    parts,
    setUp: "rpc_url",
    asProcess: true,
    maxPending: 100,
    edit: (config) => config + WEBHOOKS,
  }),
);

/**
 * Fills the journal with payments begun over a minute ago whose payers moved the money away: their authorizations are
 * valid for another hour, and unused.
 */
async function fillJournal(): Promise<void> {
  const { folder } = gateway.jobgate;
  gateway.jobgate.kill("SIGTERM");
  await gateway.jobgate.exited;
  const store = await openSqliteStore({
    path: join(folder, "jobgate.db"),
    maxPending: UNDECIDED,
    encodeJobCall,
    clock: () => Date.now() - 2 * YOUNG_MS,
  });
  const network = `eip155:${parts.anvil.chainId}`;
  const asset = parts.usdc.address.toLowerCase();
  const fromBlock = String(await parts.anvil.client.getBlockNumber());
  const begun = await Promise.all(
    Array.from({ length: UNDECIDED }, (_, number) => {
      const { key, ...intent } = paymentIntent(number);
      const payer =
        number < OF_ONE_PAYER
          ? accounts.otherPayer.address.toLowerCase()
          : `0x${number.toString(16).padStart(40, "0")}`;
      const validBefore = Math.floor(Date.now() / 1000) + 3_600;
      return store.beginPayment(
        { ...intent, key: { ...key, network, asset, payer }, fromBlock, validBefore },
        jobCall,
      );
    }),
  );
  await store.close();
  expect(begun.filter(({ kind }) => kind === "begun")).toHaveLength(UNDECIDED);
  await gateway.startAgain({ asProcess: true });
}

/** The facilitator shares the chain's node with the reconciler: on a slow machine its answer may come too late. */
async function sendUntilVerified(payment: Payment, body = "work"): Promise<Answer> {
  for (;;) {
    const answer = await gateway.send(payment, { body });
    if (answer.code !== "facilitator_unavailable") return answer;
  }
}

const callWebhook = async () =>
  (await fetch(`${gateway.jobgate.webhooksUrl}/hooks/a`, { method: "POST", body: "alert" })).status;

/** Reloads with another limit, and waits until it applies. */
async function limitUndecided(most: number): Promise<void> {
  const reloads = () => gateway.jobgate.logs.filter((line) => line.includes("configuration reloaded")).length;
  const before = reloads();
  const config = await readFile(gateway.jobgate.configPath, "utf8");
  await gateway.jobgate.reload(config.replace("[x402]\n", `[x402]\nmax_undecided = ${most}\n`));
  await expect.poll(reloads).toBe(before + 1);
}

it("10,000 undecided payments: other buyers and webhooks are served, new ones are decided, limits refuse before any charge", async () => {
  await fillJournal();
  expect((await gateway.journal.totals()).payments.intent).toBe(UNDECIDED);

  for (let number = 0; number < 20; number++) {
    const body = `other buyer ${number}`;
    const answer = await gateway.sendUntilDecided(await gateway.sign(), { body, timeoutMs: 250_000 });
    expect(answer).toMatchObject(ACCEPTED);
    expect(await callWebhook()).toBe(202);
    await gateway.waitForJobs(body);
  }

  // The reconciler comes round to a payment that gets undecided behind all the others.
  const body = "undecided, too";
  const payment = await gateway.sign();
  gateway.facilitatorProxy.add({ path: "/settle", fault: { kind: "cut" } });
  expect(await sendUntilVerified(payment, body)).toMatchObject({ status: 503, code: "settlement_unknown" });
  gateway.facilitatorProxy.clear();
  await parts.usdc.transferWithAuthorization(payment.signed);
  expect(await gateway.sendUntilDecided(payment, { body, timeoutMs: 300_000 })).toMatchObject(ACCEPTED);
  await gateway.waitForJobs(body);

  const ofOtherPayer = await gateway.sign({ account: accounts.otherPayer });
  expect(await sendUntilVerified(ofOtherPayer)).toMatchObject({
    status: 429,
    code: "too_many_open_payments",
    charged: false,
    retryable: true,
    retryAfter: "30",
  });
  await limitUndecided(UNDECIDED);
  expect(await sendUntilVerified(await gateway.sign())).toMatchObject({
    status: 503,
    code: "too_many_undecided",
    charged: false,
    retryable: true,
    retryAfter: "30",
  });
  // A refused payment is not in the journal, so nothing can settle it.
  expect(await callWebhook()).toBe(202);
  expect((await gateway.journal.totals()).payments.intent).toBe(UNDECIDED);
});
