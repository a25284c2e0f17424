import { type Logger, pino } from "pino";
import { toRemoteFacilitator } from "../../../src/config/facilitators.ts";
import { monotonicClock } from "../../../src/core/clock.ts";
import { GatewayError, UnknownOutcomeError } from "../../../src/core/errors.ts";
import { NO_TELEMETRY, type Telemetry } from "../../../src/core/telemetry.ts";
import type { PaymentJournal } from "../../../src/store/contract/payment-journal.ts";
import type { Store } from "../../../src/store/store.ts";
import { OneFacilitator } from "../../../src/x402/facilitators/one-facilitator.ts";
import { Methods } from "../../../src/x402/methods/methods.ts";
import { ChainEvidence } from "../../../src/x402/settlement/chain-evidence.ts";
import { Settlement } from "../../../src/x402/settlement/settlement.ts";
import { accounts } from "../../helpers/accounts.ts";
import { type Anvil, borrowAnvil } from "../../helpers/anvil.ts";
import { startFacilitator } from "../../helpers/facilitator.ts";
import { type FaultProxy, startFaultProxy } from "../../helpers/http-proxy.ts";
import { openTestStore } from "../../helpers/test-store.ts";
import { deployUsdc, type Token } from "../../helpers/usdc.ts";
import { acceptedToken } from "../payment-fixtures.ts";
import { METHODS } from "../payments.ts";

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
  /** RPC of {@link SettlementHarness.patient}. */
  readonly rpc: FaultProxy;
  /** Settlement that waits a minute for the facilitator, and looks at the chain every few milliseconds meanwhile. */
  patient(confirmations: number): Settlement;
  readonly logger: Logger;
  /** Messages logged so far. */
  readonly messages: readonly string[];
  /** Payments counted so far that the chain contradicted, by the state in which they were recorded. */
  readonly contradicted: readonly string[];
  readonly clock: () => number;
  moveClock(ms: number): void;
  /** Moves the wall clock and the monotonic clock. */
  letPass(ms: number): void;
  stop(): Promise<void>;
}

/** Store with a full disk while it `fails`: reads work, writes are refused and change nothing. */
export interface FailingJournal extends PaymentJournal {
  fails: boolean;
  /** Payments are begun, but their answers are lost on the way from the database. */
  losesAnswers: boolean;
}

export async function startSettlementHarness(): Promise<SettlementHarness> {
  const anvil = await borrowAnvil();
  const usdc = await deployUsdc({ anvil });
  await usdc.mint(accounts.payer.address, 1_000_000_000n);
  const upstream = await startFacilitator({ anvil });
  const facilitator = await startFaultProxy({ target: upstream.url });
  let movedMs = 0;
  let elapsedMs = 0;
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
    ...NO_TELEMETRY,
    count(name, labels) {
      if (name === "jobgate_payments_contradicted_total" && "recorded" in labels)
        contradicted.push(String(labels.recorded));
    },
  };
  const rpc = await startFaultProxy({ target: anvil.rpcUrl });
  const settlementFor = (
    rpcUrl?: string,
    { confirmations = 1, timeoutMs = 30_000, pendingLookMs = 1_000 } = {},
  ) => {
    const evidence = new ChainEvidence({
      methods: METHODS,
      tokens: [{ ...acceptedToken(anvil, usdc, rpcUrl), confirmations }],
      rpcTimeoutMs: 30_000,
      secondLookAfterMs: 100,
    });
    const config = toRemoteFacilitator(facilitator.url);
    const facilitators = new OneFacilitator(config, {
      configs: [config],
      timeoutMs,
      verifyPatienceMs: timeoutMs,
      inProcess: undefined,
      readsSupported: false,
      methods: new Methods(),
      clock: monotonicClock,
      logger,
      telemetry,
    });
    return new Settlement({
      journal,
      facilitators,
      evidence,
      confirmationTimeoutMs: 200,
      pendingLookMs,
      clock,
      elapsed: () => monotonicClock() + elapsedMs,
      logger,
      telemetry,
    });
  };
  return {
    anvil,
    usdc,
    facilitator,
    store,
    journal,
    withRpc: settlementFor(anvil.rpcUrl),
    withoutRpc: settlementFor(),
    rpc,
    patient: (confirmations) =>
      settlementFor(rpc.url, { confirmations, timeoutMs: 60_000, pendingLookMs: 5 }),
    logger,
    messages,
    contradicted,
    clock,
    moveClock(ms) {
      movedMs += ms;
    },
    letPass(ms) {
      movedMs += ms;
      elapsedMs += ms;
    },
    async stop() {
      await opened.stop();
      await facilitator.stop();
      await rpc.stop();
      await upstream.stop();
      await anvil.stop();
    },
  };
}

function failingJournal(store: Store): FailingJournal {
  const refuse = () => Promise.reject(new GatewayError("store_unavailable", "The disk is full."));
  const journal: FailingJournal = {
    fails: false,
    losesAnswers: false,
    isShared: store.isShared,
    findPayment: (key) => store.findPayment(key),
    findPaymentByFingerprint: (fingerprint) => store.findPaymentByFingerprint(fingerprint),
    findPaymentByPurchaseName: (name) => store.findPaymentByPurchaseName(name),
    hasLoss: (payer) => store.hasLoss(payer),
    isNonceUsed: (nonce) => store.isNonceUsed(nonce),
    listUndecided: (filter) => store.listUndecided(filter),
    async beginPayment(intent, call, ...limits) {
      if (journal.fails) return refuse();
      const begun = await store.beginPayment(intent, call, ...limits);
      if (journal.losesAnswers) throw new UnknownOutcomeError("the connection was lost during a commit");
      return begun;
    },
    settlePayment: (...settled) => (journal.fails ? refuse() : store.settlePayment(...settled)),
    finalizePayment: (...final) => (journal.fails ? refuse() : store.finalizePayment(...final)),
    failPayment: (key, settlement, reason) =>
      journal.fails ? refuse() : store.failPayment(key, settlement, reason),
    confirmPayment: (key, state) => (journal.fails ? refuse() : store.confirmPayment(key, state)),
    closePayment: (key, closing) => (journal.fails ? refuse() : store.closePayment(key, closing)),
    contradictPayment: (key, reason, settlement) =>
      journal.fails ? refuse() : store.contradictPayment(key, reason, settlement),
    listEndingAuthorizations: (beforeSecs, limit) => store.listEndingAuthorizations(beforeSecs, limit),
    endAuthorization: (callId) => (journal.fails ? refuse() : store.endAuthorization(callId)),
    endWatches: () => (journal.fails ? refuse() : store.endWatches()),
    leavePaymentUnresolved: (key, reason) =>
      journal.fails ? refuse() : store.leavePaymentUnresolved(key, reason),
  };
  return journal;
}
