import { type Logger, pino } from "pino";
import { GatewayError } from "../../../src/core/errors.ts";
import type { PaymentJournal } from "../../../src/store/contract/payment-journal.ts";
import type { Store } from "../../../src/store/store.ts";
import type { Telemetry } from "../../../src/telemetry/telemetry.ts";
import { ChainEvidence } from "../../../src/x402/settlement/chain-evidence.ts";
import { Facilitator } from "../../../src/x402/settlement/facilitator.ts";
import { Settlement } from "../../../src/x402/settlement/settlement.ts";
import { accounts } from "../../helpers/accounts.ts";
import { type Anvil, startAnvil } from "../../helpers/anvil.ts";
import { startFacilitator } from "../../helpers/facilitator.ts";
import { type FaultProxy, startFaultProxy } from "../../helpers/http-proxy.ts";
import { openTestStore } from "../../helpers/test-store.ts";
import { deployUsdc, type Token } from "../../helpers/usdc.ts";
import { acceptedToken } from "../payment-fixtures.ts";

/** Settlement with a real store, facilitator and chain, and a clock that the test moves. */
export interface SettlementHarness {
  readonly anvil: Anvil;
  readonly usdc: Token;
  /** Proxy that the settlement uses as its facilitator. */
  readonly facilitator: FaultProxy;
  readonly store: Store;
  /** The store as the settlement sees it. */
  readonly journal: FailingJournal;
  readonly withRpc: Settlement;
  readonly withoutRpc: Settlement;
  readonly logger: Logger;
  /** Messages logged so far. */
  readonly messages: readonly string[];
  /** Payments counted so far that the chain contradicted, by the state in which they were recorded. */
  readonly contradicted: readonly string[];
  readonly clock: () => number;
  moveClock(ms: number): void;
  stop(): Promise<void>;
}

/** Store with a full disk while it `fails`: reads work, writes are refused and change nothing. */
export interface FailingJournal extends PaymentJournal {
  fails: boolean;
}

export async function startSettlementHarness(): Promise<SettlementHarness> {
  const anvil = await startAnvil();
  const usdc = await deployUsdc({ anvil });
  await usdc.mint(accounts.payer.address, 1_000_000_000n);
  const upstream = await startFacilitator({ anvil });
  const facilitator = await startFaultProxy({ target: upstream.url });
  let movedMs = 0;
  const clock = () => Date.now() + movedMs;
  const opened = await openTestStore({ encodeJobCall: ({ body }) => body, clock });
  const { store } = opened;
  const messages: string[] = [];
  const logger: Logger = pino(
    { level: "debug" },
    { write: (line: string) => void messages.push((JSON.parse(line) as { msg: string }).msg) },
  );
  const journal = failingJournal(store);
  const contradicted: string[] = [];
  const telemetry: Telemetry = {
    count(name, labels) {
      if (name === "jobgate_payments_contradicted_total" && "recorded" in labels)
        contradicted.push(String(labels.recorded));
    },
    observe: () => undefined,
  };
  const settlementFor = (rpcUrl?: string) =>
    new Settlement({
      journal,
      facilitator: new Facilitator({ url: facilitator.url, timeoutMs: 2_000 }),
      evidence: new ChainEvidence({
        tokens: [acceptedToken(anvil, usdc, rpcUrl)],
        rpcTimeoutMs: 2_000,
        secondLookAfterMs: 100,
      }),
      confirmationTimeoutMs: 200,
      clock,
      logger,
      telemetry,
    });
  return {
    anvil,
    usdc,
    facilitator,
    store,
    journal,
    withRpc: settlementFor(anvil.rpcUrl),
    withoutRpc: settlementFor(),
    logger,
    messages,
    contradicted,
    clock,
    moveClock(ms) {
      movedMs += ms;
    },
    async stop() {
      await opened.stop();
      await facilitator.stop();
      await upstream.stop();
      await anvil.stop();
    },
  };
}

function failingJournal(store: Store): FailingJournal {
  const refuse = () => Promise.reject(new GatewayError("store_unavailable", "The disk is full."));
  const journal: FailingJournal = {
    fails: false,
    isShared: store.isShared,
    findPayment: (key) => store.findPayment(key),
    findPaymentByFingerprint: (fingerprint) => store.findPaymentByFingerprint(fingerprint),
    isCallerNonceUsed: (nonce) => store.isCallerNonceUsed(nonce),
    listPayments: (filter) => store.listPayments(filter),
    listUndecided: (filter) => store.listUndecided(filter),
    beginPayment: (intent, call, ...limits) =>
      journal.fails ? refuse() : store.beginPayment(intent, call, ...limits),
    settlePayment: (key, settlement) => (journal.fails ? refuse() : store.settlePayment(key, settlement)),
    failPayment: (key, settlement, reason) =>
      journal.fails ? refuse() : store.failPayment(key, settlement, reason),
    closePayment: (key, closing) => (journal.fails ? refuse() : store.closePayment(key, closing)),
    contradictPayment: (key, reason) => (journal.fails ? refuse() : store.contradictPayment(key, reason)),
    endWatches: () => (journal.fails ? refuse() : store.endWatches()),
    leavePaymentUnresolved: (key, reason) =>
      journal.fails ? refuse() : store.leavePaymentUnresolved(key, reason),
  };
  return journal;
}
