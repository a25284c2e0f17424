import { execFile } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { beforeAll, describe, expect, it } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import type { Fault, ProxiedRequest } from "../helpers/fault.ts";
import { freePort } from "../helpers/free-port.ts";
import { type FaultProxy, startFaultProxy } from "../helpers/http-proxy.ts";
import { startPostgres } from "../helpers/postgres.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { AMOUNT, startPaidParts } from "./paid-parts.ts";
import { preparePython } from "./python.ts";
import { type Replica, startReplica, startRoamingRunner } from "./replicas.ts";

const NODE = fileURLToPath(new URL("../../examples/buyer-node/buy.js", import.meta.url));

/** Less than a dollar: the official clients pay no more by themselves. */
const PRICE_WEI = "100000000000000";
const PRICE = AMOUNT / 10n;

let python: Awaited<ReturnType<typeof preparePython>>;
beforeAll(async () => {
  python = await preparePython("buyer-python");
});

/** Programs that sign a new payment for each try, under one identifier: with fetch, and with requests. */
const BUYERS = {
  Node: () => [process.execPath, NODE],
  Python: () => [python.python, join(python.cwd, "buy.py")],
} as const;
type Buyer = keyof typeof BUYERS;

async function buy(buyer: Buyer, origin: string, body: string): Promise<void> {
  const [command, program] = BUYERS[buyer]() as [string, string];
  const env = { ...process.env, PAYER_KEY: accounts.payer.privateKey };
  await promisify(execFile)(command, [program, origin, "", body], { env, timeout: 600_000 });
}

const parts = startBeforeAll(startPaidParts);
const isForJob = ({ method }: ProxiedRequest) => method === "POST";
const isPaid = ({ headers }: ProxiedRequest) => "payment-signature" in headers;

interface Shop {
  /** Proxy between the buyers and the gateways. */
  readonly front: FaultProxy;
  readonly facilitator: FaultProxy;
  readonly replicas: readonly Replica[];
  /** Bodies that runners got, by call ID. */
  readonly delivered: ReadonlyMap<number, string>;
  stop(): Promise<void>;
}

/** Sells through one process on SQLite, or through two replicas on Postgres, of which each gets every other request. */
async function startShop(replicated: boolean): Promise<Shop> {
  const postgres = replicated ? await startPostgres() : undefined;
  const storeUrl = (await postgres?.createDatabase()) ?? "sqlite:jobgate.db";
  const facilitator = await startFaultProxy({ target: parts.facilitator.url });
  const frontPort = await freePort();
  const terms = {
    publicUrl: `http://127.0.0.1:${frontPort}`,
    facilitatorUrl: facilitator.url,
    priceWei: PRICE_WEI,
  };
  const replicas = await Promise.all(
    (replicated ? [1, 2] : [1]).map(() => startReplica(parts, storeUrl, terms)),
  );
  const origins = replicas.map(({ x402Url }) => new URL(x402Url).origin);
  let next = 0;
  const turn = (): Fault => ({ kind: "reroute", target: origins[next++ % origins.length] as string });
  const balancer = await startFaultProxy({ target: origins[0] as string, rules: [{ fault: turn }] });
  const front = await startFaultProxy({ target: balancer.url, port: frontPort });
  const delivered = new Map<number, string>();
  const runner = startRoamingRunner(replicas, 0, ({ callId, body }) => {
    delivered.set(Number(callId), Buffer.from(body).toString());
  });
  return {
    front,
    facilitator,
    replicas,
    delivered,
    async stop() {
      await runner.stop();
      await Promise.all(replicas.map((replica) => replica.stop()));
      await Promise.all([front.stop(), balancer.stop(), facilitator.stop()]);
      await postgres?.stop();
    },
  };
}

describe.each([
  ["One process on SQLite", false],
  ["Two replicas on Postgres", true],
] as const)("%s", (_name, replicated) => {
  const shop = startBeforeAll(() => startShop(replicated));

  /** Kills the process that answered and starts it again; of two, the other one gets the next request anyway. */
  const crash = () => (replicated ? undefined : shop.replicas[0]?.crash());

  /** Buys once, and checks the chain: one charge, one job, however often the buyer signed. */
  async function expectOneCharge(buyer: Buyer, body: string): Promise<void> {
    const balances = () =>
      Promise.all([accounts.payer, accounts.payTo].map(({ address }) => parts.usdc.balanceOf(address)));
    const [payerBefore = 0n, sellerBefore = 0n] = await balances();
    shop.front.forget();
    await buy(buyer, shop.front.url, body);
    shop.front.clear();
    shop.facilitator.clear();
    const signatures = shop.front.requests.filter(isPaid).map(({ headers }) => headers["payment-signature"]);
    expect(new Set(signatures).size).toBe(signatures.length);
    expect(signatures.length).toBeGreaterThan(1);
    const jobs = () => [...shop.delivered.values()].filter((delivered) => delivered === body).length;
    await expect.poll(jobs).toBe(1);
    const [payerAfter = 0n, sellerAfter = 0n] = await balances();
    expect([payerBefore - payerAfter, sellerAfter - sellerBefore]).toEqual([PRICE, PRICE]);
  }

  it.each(["Node", "Python"] as const)(
    "A program in %s is charged once when each answer to it is lost once, and its next request meets another process",
    async (buyer) => {
      // Five tries: 402 · 402, paid · 402 · 402, paid · 402, paid. Only the last one gets its answers.
      let answers = 0;
      const loses = new Set([1, 3, 4, 6]);
      shop.front.add({
        when: isForJob,
        fault: () => {
          answers += 1;
          if (!loses.has(answers)) return { kind: "pass" };
          return {
            kind: "change",
            change: async () => {
              await crash();
              throw new Error("the answer is lost");
            },
          };
        },
      });
      await expectOneCharge(buyer, `lost answers to ${buyer}`);
      expect(answers).toBe(8);
    },
  );

  it.each(["Node", "Python"] as const)(
    "A program in %s is charged once when it is cut off while its payment is being settled",
    async (buyer) => {
      let isTriedAgain = () => {};
      const triedAgain = new Promise<void>((resolve) => {
        isTriedAgain = resolve;
      });
      shop.facilitator.add({
        path: "/settle",
        times: 1,
        fault: async () => {
          shop.front.resetConnections();
          await (replicated ? triedAgain : crash());
          return { kind: "pass" };
        },
      });
      let paid = 0;
      shop.front.add({
        when: isPaid,
        fault: () => {
          paid += 1;
          if (paid === 1) return { kind: "no-answer" };
          return {
            kind: "change",
            change: (answer) => {
              isTriedAgain();
              return answer;
            },
          };
        },
      });
      await expectOneCharge(buyer, `cut off ${buyer}`);
    },
  );
});
