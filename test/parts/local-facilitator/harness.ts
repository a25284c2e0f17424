import type { PaymentPayload, PaymentRequirements } from "@x402/core/types";
import { pino } from "pino";
import type { Hex } from "viem";
import { generatePrivateKey, type PrivateKeyAccount, privateKeyToAccount } from "viem/accounts";
import { expect } from "vitest";
import { GatewayError } from "../../../src/core/errors.ts";
import { NO_TELEMETRY } from "../../../src/core/telemetry.ts";
import { loadMethods } from "../../../src/load-parts.ts";
import { LocalFacilitator } from "../../../src/parts/local-facilitator/local-facilitator.ts";
import type { TransactionJournal, TransactionRecord } from "../../../src/parts/transactions/store/journal.ts";
import { TRANSACTIONS } from "../../../src/parts/transactions/store/module.ts";
import type { Store } from "../../../src/store/store.ts";
import type { FacilitatorRequest, SettlementAnswer } from "../../../src/x402/facilitators/facilitator.ts";
import { accounts, type TestAccount } from "../../helpers/accounts.ts";
import { type Anvil, borrowAnvil } from "../../helpers/anvil.ts";
import { signV2Payment } from "../../helpers/clients.ts";
import { type FaultProxy, startFaultProxy } from "../../helpers/http-proxy.ts";
import { openTestStore } from "../../helpers/test-store.ts";
import { deployUsdc, type Token } from "../../helpers/usdc.ts";

const AMOUNT = 1_000n;
/** Balance of each settler account at the start. */
const FUNDS_WEI = 10n ** 18n;

/** A chain for several settlers, with a proxy before its RPC. */
export interface SettlerChainHarness {
  readonly anvil: Anvil;
  readonly usdc: Token;
  readonly network: string;
  readonly rpc: FaultProxy;
  /** A payment that a payer signed, as a facilitator is asked to verify or settle it. */
  request(options?: {
    readonly validSecs?: number;
    readonly account?: TestAccount;
  }): Promise<FacilitatorRequest>;
  /** Starts a settler with its own store and new keys. */
  startSettler(options?: SettlerOptions): Promise<SettlerHarness>;
  /** Number of payments whose nonce is used. */
  settled(requests: readonly FacilitatorRequest[]): Promise<number>;
  /** Number of transactions that the account has mined. */
  minedBy(account: { readonly address: Hex }): Promise<number>;
  /** Waits until the chain's node holds this many transactions that it could mine. */
  untilPending(count: number): Promise<void>;
  /** Does something while the chain mines only when told. */
  withoutMining<Result>(deed: () => Promise<Result>): Promise<Result>;
  stop(): Promise<void>;
}

interface SettlerOptions {
  /** Default 1. */
  readonly keys?: number;
  readonly fundsWei?: bigint;
  readonly maxFeePerGasWei?: bigint;
  /** Default 300 s: longer than a busy machine takes. */
  readonly timeoutMs?: number;
  /** The store may have other processes. */
  readonly isShared?: boolean;
}

/** Fault of the next write of signed transactions. */
export type JournalFault = "refused" | "answer lost";

/** One local facilitator. */
export interface SettlerHarness {
  readonly facilitator: LocalFacilitator;
  readonly accounts: readonly PrivateKeyAccount[];
  /** Messages logged so far. */
  readonly messages: readonly string[];
  /** Numbers of transactions in each write of signed ones. */
  readonly writes: readonly number[];
  failNextWrite(fault: JournalFault): void;
  settle(request: FacilitatorRequest): Promise<SettlementAnswer>;
  sent(): Promise<TransactionRecord[]>;
  queued(): Promise<TransactionRecord[]>;
  /** Starts another facilitator with the same keys on the same journal. The caller stops it. */
  startReplica(): Promise<LocalFacilitator>;
  /** Ends the facilitator without ending its store, as a crash would, and starts another. */
  restart(): Promise<void>;
  stop(): Promise<void>;
}

export async function startSettlerChain(): Promise<SettlerChainHarness> {
  const anvil = await borrowAnvil();
  const usdc = await deployUsdc({ anvil });
  const network = `eip155:${anvil.chainId}`;
  await usdc.mint(accounts.payer.address, 1_000_000_000n);
  const rpc = await startFaultProxy({ target: anvil.rpcUrl });
  const requirements: PaymentRequirements = {
    scheme: "exact",
    network: network as PaymentRequirements["network"],
    amount: String(AMOUNT),
    asset: usdc.address,
    payTo: accounts.payTo.address,
    maxTimeoutSeconds: 300,
    extra: { name: usdc.name, version: usdc.version },
  };
  return {
    anvil,
    usdc,
    network,
    rpc,
    async request({ validSecs = 3_600, account = accounts.payer } = {}) {
      const { timestamp } = await anvil.client.getBlock();
      const { payload } = await signV2Payment({
        offer: { x402Version: 2, resource: { url: "http://127.0.0.1/" }, accepts: [requirements] },
        account,
        authorization: { validBefore: String(Number(timestamp) + validSecs) },
      });
      return { payload, requirements };
    },
    async settled(requests) {
      const used = await Promise.all(requests.map((one) => isSettled(usdc, one)));
      return used.filter(Boolean).length;
    },
    minedBy: ({ address }) => anvil.client.getTransactionCount({ address }),
    async untilPending(count) {
      await expect.poll(async () => (await anvil.client.getTxpoolStatus()).pending).toBe(count);
    },
    async withoutMining(deed) {
      await anvil.client.setAutomine(false);
      try {
        return await deed();
      } finally {
        await anvil.client.setAutomine(true);
        await anvil.client.mine({ blocks: 1 });
      }
    },
    startSettler: (options = {}) => startSettler({ anvil, network, rpc, options }),
    async stop() {
      await rpc.stop();
      await anvil.stop();
    },
  };
}

async function startSettler(parts: {
  readonly anvil: Anvil;
  readonly network: string;
  readonly rpc: FaultProxy;
  readonly options: SettlerOptions;
}): Promise<SettlerHarness> {
  const { anvil, network, rpc, options } = parts;
  const {
    keys = 1,
    fundsWei = FUNDS_WEI,
    maxFeePerGasWei = 10n ** 11n,
    timeoutMs = 300_000,
    isShared = false,
  } = options;
  const signers = Array.from({ length: keys }, () => ({ privateKey: generatePrivateKey() }));
  const keyed = signers.map(({ privateKey }) => privateKeyToAccount(privateKey));
  for (const { address } of keyed) await anvil.client.setBalance({ address, value: fundsWei });
  const opened = await openTestStore();
  const watched = watchedStore(opened.store, isShared);
  const messages: string[] = [];
  const logger = pino(
    { level: "debug" },
    { write: (line: string) => void messages.push((JSON.parse(line) as { msg: string }).msg) },
  );
  const local = {
    kind: "in_process",
    name: "local",
    signers,
    chains: [{ network, rpcUrl: rpc.url }],
    maxFeePerGasWei,
    minBalanceWei: 10n ** 15n,
  } as const;
  const start = async () => {
    const started = new LocalFacilitator({
      config: { facilitators: [local], facilitatorTimeoutMs: timeoutMs },
      methods: await loadMethods(),
      store: watched.store,
      logger,
      telemetry: NO_TELEMETRY,
    });
    await started.start();
    return started;
  };
  let facilitator = await start();
  const list = async (state: "queued" | "sent") => [
    ...(await opened.store.of(TRANSACTIONS).listOpenTransactions(network, { state, limit: 1_000 }))
      .transactions,
  ];
  return {
    get facilitator() {
      return facilitator;
    },
    accounts: keyed,
    messages,
    writes: watched.writes,
    failNextWrite: watched.failNextWrite,
    settle: (request) => facilitator.settle(request),
    sent: () => list("sent"),
    queued: () => list("queued"),
    startReplica: start,
    async restart() {
      await facilitator.stop();
      facilitator = await start();
    },
    async stop() {
      await facilitator.stop();
      await opened.stop();
    },
  };
}

function watchedStore(store: Store, isShared: boolean) {
  const writes: number[] = [];
  let fault: JournalFault | undefined;
  const real = store.of(TRANSACTIONS);
  const journal: TransactionJournal = {
    ...real,
    async signTransactions(network, owner, signed) {
      const now = fault;
      fault = undefined;
      if (now === "refused") throw new GatewayError("store_unavailable", "The disk is full.");
      const outcome = await real.signTransactions(network, owner, signed);
      writes.push(signed.length);
      if (now === "answer lost") throw new Error("the connection to the store was lost");
      return outcome;
    },
  };
  return {
    store: { ...store, isShared, of: () => journal as never },
    writes,
    failNextWrite(next: JournalFault) {
      fault = next;
    },
  };
}

function isSettled(usdc: Token, { payload }: FacilitatorRequest): Promise<boolean> {
  const { authorization } = (payload as PaymentPayload).payload as {
    authorization: { from: Hex; nonce: Hex };
  };
  return usdc.authorizationState(authorization.from, authorization.nonce);
}
