import { existsSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { PaymentPayload } from "@x402/core/types";
import { BatchSettlementEvmScheme } from "@x402/evm/batch-settlement/client";
import { wrapFetchWithPaymentFromConfig } from "@x402/fetch";
import { processEnded, spawnTethered } from "../src/node/tethered-process.ts";
import type { ChannelConfig } from "../src/parts/channels/hashes.ts";
import { run } from "../test/e2e/workshop.ts";
import { newAccount } from "../test/helpers/accounts.ts";
import { type Anvil, startAnvil } from "../test/helpers/anvil.ts";
import { installChannels } from "../test/helpers/channels.ts";
import { startFacilitator } from "../test/helpers/facilitator.ts";
import { deployUsdc, type Token } from "../test/helpers/usdc.ts";
import { CONNECTIONS } from "./accepts.ts";
import { benchChannelStore } from "./channel-store.ts";
import { type PaymentTarget, startTree } from "./gateway.ts";
import { compete, cpuSeconds, type LoadResult, loadRow } from "./load.ts";
import type { GeneratedLoad } from "./load-generator.ts";
import { askOffer, type Purchase } from "./payments.ts";
import type { Tree } from "./trees.ts";
import type { VoucherBuyer, VoucherLoad } from "./voucher-load.ts";

const VOUCHERS = 400;
const WARM_UP = 100;
/** The express server sells thirty times less. */
const EXPRESS_VOUCHERS = 20;
const EXPRESS_WARM_UP = 10;
const EXPRESS = fileURLToPath(new URL("express", import.meta.url));
const GENERATOR = fileURLToPath(new URL("voucher-load.ts", import.meta.url));

/** A server that sells by vouchers. */
interface Seller extends Purchase {
  readonly pid: number;
  stop(): Promise<void>;
}

/** Measures payments by vouchers, beside durable webhook accepts of the same gateway and the official express server. */
export async function benchChannels(trees: readonly Tree[]): Promise<void> {
  await benchChannelStore();
  if (!existsSync(join(EXPRESS, "node_modules/@x402/express/package.json")))
    await run("npm", ["ci", "--no-audit", "--no-fund", "--ignore-scripts"], EXPRESS);
  const anvil = await startAnvil();
  const usdc = await deployUsdc({ anvil });
  await installChannels(anvil);
  const facilitator = await startFacilitator({ anvil, settlesChannels: true });
  const authorizer = newAccount();
  const payments: PaymentTarget = {
    facilitatorUrl: facilitator.url,
    chainId: anvil.chainId,
    asset: usdc.address,
    payTo: newAccount().address,
    tokenName: usdc.name,
    tokenVersion: usdc.version,
    rpcUrl: anvil.rpcUrl,
  };
  const rows: object[] = [];
  try {
    const express = await startExpress(payments, authorizer.privateKey);
    const official = await sell(express, {
      anvil,
      usdc,
      vouchers: EXPRESS_VOUCHERS,
      warmUp: EXPRESS_WARM_UP,
    });
    await express.stop();
    rows.push(rowOf("@x402/express", official, undefined, official));
    for (const tree of trees) {
      const edit = (config: string) =>
        config.replace(
          "[[x402.accepted_tokens]]",
          `[x402.channels]\nauthorizer = { private_key = "${authorizer.privateKey}" }\n[[x402.accepted_tokens]]`,
        );
      const { jobgate } = await startTree(tree, { payments, edit });
      const { pid } = jobgate;
      const seller = { url: `${jobgate.x402Url}/x402/jobs/1/0`, method: "POST", status: 202, pid } as const;
      const body = "x".repeat(256);
      const hook = {
        urls: [`${jobgate.webhooksUrl}/hooks/bench`],
        body,
        status: 202,
        connections: CONNECTIONS,
      };
      const [accept] = await compete([{ name: "hook", pids: [pid], target: hook }]);
      const paid = await sell(
        { ...seller, stop: async () => {} },
        { anvil, usdc, vouchers: VOUCHERS, warmUp: WARM_UP },
      );
      await jobgate.stop();
      if (accept !== undefined) rows.push(rowOf(`${tree.name}, webhook`, accept, undefined, official));
      rows.push(rowOf(`${tree.name}, voucher`, paid, accept, official));
    }
  } finally {
    await facilitator.stop();
    await anvil.stop();
  }
  console.log(`\nPayments by vouchers, ${CONNECTIONS} buyers, one request of each in flight`);
  console.table(rows);
}

function rowOf(name: string, result: LoadResult, accept: LoadResult | undefined, official: LoadResult) {
  return {
    "": name,
    ...loadRow(result),
    "µs CPU above a webhook": accept === undefined ? "" : Math.round(result.cpuMicros - accept.cpuMicros),
    "sales a CPU second, of express's": (official.cpuMicros / result.cpuMicros).toFixed(1),
  };
}

interface Sales {
  readonly anvil: Anvil;
  readonly usdc: Token;
  readonly vouchers: number;
  readonly warmUp: number;
}

/** Opens a channel for each buyer with the official client, and lets all pay at once. */
async function sell(seller: Seller, { anvil, usdc, vouchers, warmUp }: Sales): Promise<LoadResult> {
  const { url, method, status } = seller;
  const offer = await askOffer(seller);
  const accepted = offer.accepts.find(({ scheme }) => scheme === "batch-settlement");
  if (accepted === undefined) throw new Error(`${url} offers no channel`);
  const deposit = BigInt(accepted.amount) * BigInt(2 * (vouchers + warmUp) + 2);
  const buyers: VoucherBuyer[] = [];
  for (let i = 0; i < CONNECTIONS; i++) buyers.push(await openChannel({ ...seller, anvil, usdc, deposit }));
  const load: VoucherLoad = {
    ...{ url, method, status, accepted, buyers, vouchers, warmUp, chainId: anvil.chainId },
    body: method === "POST" ? "x".repeat(256) : "",
  };
  const child = spawnTethered({
    command: process.execPath,
    args: ["--import", import.meta.resolve("tsx"), GENERATOR, JSON.stringify(load)],
  });
  child.stderr.pipe(process.stderr);
  let cpuBefore = Number.NaN;
  for await (const line of createInterface({ input: child.stdout })) {
    if (line === "ready") cpuBefore = cpuSeconds(seller.pid);
    else {
      const { requests, seconds, p50, p99, cpuShare } = JSON.parse(line) as GeneratedLoad;
      const cpuMicros = ((cpuSeconds(seller.pid) - cpuBefore) / requests) * 1e6;
      await processEnded(child);
      return { perSecond: requests / seconds, p50, p99, cpuMicros, isGeneratorBound: cpuShare > 0.9 };
    }
  }
  throw new Error("the buyers ended without a result");
}

async function openChannel({
  anvil,
  usdc,
  url,
  method,
  status,
  deposit,
}: Purchase & Pick<Sales, "anvil" | "usdc"> & { readonly deposit: bigint }): Promise<VoucherBuyer> {
  const payer = newAccount();
  await usdc.mint(payer.address, deposit);
  const readContract = anvil.client.readContract.bind(anvil.client);
  type Signer = ConstructorParameters<typeof BatchSettlementEvmScheme>[0];
  const client = new BatchSettlementEvmScheme({ ...payer, readContract } as unknown as Signer, {
    depositStrategy: () => deposit,
  });
  let config: ChannelConfig | undefined;
  const watched: typeof fetch = async (input, init) => {
    const request = new Request(input, init);
    const header = request.headers.get("payment-signature");
    if (header !== null) config = configIn(header);
    return fetch(request);
  };
  const pay = wrapFetchWithPaymentFromConfig(watched, {
    schemes: [{ network: `eip155:${anvil.chainId}`, client }],
    spendControls: false,
  });
  const answer = await pay(url, { method, ...(method === "POST" && { body: "first" }) });
  if (answer.status !== status || config === undefined)
    throw new Error(`no channel was opened: ${answer.status} ${await answer.text()}`);
  const settled = answer.headers.get("payment-response") ?? "";
  const { extra } = JSON.parse(Buffer.from(settled, "base64").toString()) as {
    readonly extra: { readonly channelState: { readonly chargedCumulativeAmount: string } };
  };
  return { config, privateKey: payer.privateKey, paid: extra.channelState.chargedCumulativeAmount };
}

function configIn(header: string): ChannelConfig {
  const { payload } = JSON.parse(Buffer.from(header, "base64").toString()) as PaymentPayload;
  return payload.channelConfig as ChannelConfig;
}

/** Starts the Express app with the official middleware, which takes vouchers. */
async function startExpress(payments: PaymentTarget, authorizerKey: string): Promise<Seller> {
  const { facilitatorUrl, chainId, asset, payTo, tokenName, tokenVersion } = payments;
  const extra = { name: tokenName, version: tokenVersion };
  const price = { asset, amount: "3200", extra };
  const terms = { facilitatorUrl, network: `eip155:${chainId}`, payTo, price, authorizerKey };
  const child = spawnTethered({
    command: process.execPath,
    args: [join(EXPRESS, "app.mjs"), JSON.stringify(terms)],
  });
  child.stderr.pipe(process.stderr);
  const { value: url } = await createInterface({ input: child.stdout })[Symbol.asyncIterator]().next();
  child.stdout.resume();
  return {
    ...{ url: `${url}/paid`, method: "GET", status: 200, pid: child.pid ?? 0 },
    async stop() {
      child.kill("SIGKILL");
      await processEnded(child);
    },
  };
}
