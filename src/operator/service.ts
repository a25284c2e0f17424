import { durationFromMs, timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, type HandlerContext, type ServiceImpl } from "@connectrpc/connect";
import type { Logger } from "pino";
import type { Config } from "../config/config.ts";
import type { Clock } from "../core/clock.ts";
import type { EventHub } from "../core/events.ts";
import type { PaymentRecord } from "../core/payment.ts";
import { decodeJobCall } from "../delivery/job-call-codec.ts";
import type { RunnerReport } from "../delivery/subscription.ts";
import {
  type ClosePaymentRequest,
  DeadLetterStatus,
  type DropDeadLettersRequest,
  type GetDeadLetterRequest,
  type GetPaymentRequest,
  type GetRevenueRequest,
  type ListDeadLettersRequest,
  type ListPaymentsRequest,
  type OperatorService,
  type RetryDeadLettersRequest,
  type TailRequest,
} from "../gen/jobgate/v1/operator_pb.ts";
import { version } from "../node/version.ts";
import type { RateReport } from "../pricing/rates/rate-board.ts";
import type { Store } from "../store/store.ts";
import { toConfiguration } from "./configuration.ts";
import {
  type DecimalsOf,
  fromPaymentState,
  toDeadLetter,
  toPayment,
  toRate,
  toRevenue,
  toRunner,
  toTotals,
} from "./messages.ts";
import { checkIdCount, invalid, isCallId, readClosing, readPage, readRevenuePeriod } from "./requests.ts";
import { Tail } from "./tail.ts";

/** Everything that the operator can look at or act on. */
export interface OperatorSources {
  readonly store: Store;
  readonly events: EventHub;
  /** Every address that this process listens on. */
  readonly listeners: () => readonly { readonly name: string; readonly address: string }[];
  /** The current rate of every accepted token. */
  readonly rates: () => readonly RateReport[];
  /** Every open stream of a runner, longest connected first. */
  readonly runners: () => readonly RunnerReport[];
  /** The configuration in use, reloads included. */
  readonly configuration: () => Config;
  readonly clock: Clock;
}

/** `jobgate.v1.OperatorService`. */
export class OperatorApi implements ServiceImpl<typeof OperatorService> {
  readonly #sources: OperatorSources;
  readonly #logger: Logger;
  readonly #tail: Tail;
  readonly #startedAt: number;

  readonly #decimalsOf: DecimalsOf = ({ network, asset }) =>
    this.#sources
      .configuration()
      .x402?.acceptedTokens.find(
        (token) => token.network === network && token.asset.toLowerCase() === asset.toLowerCase(),
      )?.decimals;

  constructor(sources: OperatorSources, logger: Logger) {
    this.#sources = sources;
    this.#logger = logger;
    this.#tail = new Tail(sources.events, this.#decimalsOf);
    this.#startedAt = sources.clock();
  }

  getInfo() {
    const { listeners, store, clock } = this.#sources;
    return {
      version,
      startedAt: timestampFromMs(this.#startedAt),
      uptime: durationFromMs(clock() - this.#startedAt),
      listeners: [...listeners()],
      store: store.status(),
    };
  }

  async getTotals() {
    return toTotals(await this.#sources.store.totals());
  }

  async listPayments(request: ListPaymentsRequest) {
    const state = fromPaymentState(request.state);
    if (state === undefined && request.state !== 0) throw invalid("state: expected a PaymentState.");
    const { items, nextPageToken } = await readPage(request, (range) =>
      this.#sources.store.listPayments(state === undefined ? range : { state, ...range }),
    );
    return { payments: items.map((record) => toPayment(record, this.#decimalsOf)), nextPageToken };
  }

  async getPayment({ callId }: GetPaymentRequest) {
    const record = await this.#findPayment(callId);
    if (record === undefined) throw notFound("payment", callId);
    const { priceWei, bodyHash, transferMethod, x402Version, receipt, settlement = "" } = record;
    const details = { priceWei, bodyHash, transferMethod, x402Version, receipt, settlement };
    return { payment: toPayment(record, this.#decimalsOf), ...details };
  }

  async closePayment(request: ClosePaymentRequest) {
    const closing = readClosing(request);
    const found = await this.#findPayment(request.callId);
    const outcome = found && (await this.#sources.store.closePayment(found.key, closing));
    if (outcome?.record === undefined) throw notFound("payment", request.callId);
    const { kind, record } = outcome;
    if (kind === "closed") {
      const { callId, key: payment } = record;
      this.#logger.warn({ callId, payment, closed: record.closed }, "payment closed by the operator");
      return { payment: toPayment(record, this.#decimalsOf) };
    }
    const why =
      record.state === "intent"
        ? "is undecided, and jobgate can still decide it until its authorization has ended"
        : `is ${record.state}`;
    throw new ConnectError(
      `Payment ${record.callId} ${why}: it cannot be closed as ${closing.as === "paid" ? "paid" : "not paid"}.`,
      Code.FailedPrecondition,
    );
  }

  async listDeadLetters(request: ListDeadLettersRequest) {
    const { items, nextPageToken } = await readPage(request, (range) =>
      this.#sources.store.listDeadLetters(range),
    );
    return { deadLetters: items.map(toDeadLetter), nextPageToken };
  }

  async getDeadLetter({ callId }: GetDeadLetterRequest) {
    const { store } = this.#sources;
    const letter = isCallId(callId) ? await store.findDeadLetter(Number(callId)) : undefined;
    if (letter === undefined) throw notFound("dead letter", callId);
    const { metadata, body } = decodeJobCall(letter.encoded);
    return { deadLetter: toDeadLetter(letter), metadata, body };
  }

  async retryDeadLetters({ callIds }: RetryDeadLettersRequest) {
    return { statuses: await forEachId(callIds, (callId) => this.#sources.store.retryDeadLetter(callId)) };
  }

  async dropDeadLetters({ callIds }: DropDeadLettersRequest) {
    return { statuses: await forEachId(callIds, (callId) => this.#sources.store.dropDeadLetter(callId)) };
  }

  listRates() {
    return { rates: this.#sources.rates().map(toRate) };
  }

  async getRevenue(request: GetRevenueRequest) {
    const { store, clock } = this.#sources;
    const revenue = await store.revenue(readRevenuePeriod(request, clock()));
    return { revenue: revenue.map((revenue) => toRevenue(revenue, this.#decimalsOf)) };
  }

  listRunners() {
    return { runners: this.#sources.runners().map(toRunner) };
  }

  getConfiguration() {
    return { configuration: toConfiguration(this.#sources.configuration()) };
  }

  tail(_request: TailRequest, { signal }: HandlerContext) {
    return this.#tail.read(signal);
  }

  /** Reads the journal page of one entry that starts at the call ID. */
  async #findPayment(callId: bigint): Promise<PaymentRecord | undefined> {
    if (!isCallId(callId)) return undefined;
    const [record] = await this.#sources.store.listPayments({ limit: 1, before: Number(callId) + 1 });
    return record?.callId === Number(callId) ? record : undefined;
  }
}

/** @throws ConnectError INVALID_ARGUMENT for too many IDs, before `act` is called for any */
async function forEachId(
  callIds: readonly bigint[],
  act: (callId: number) => Promise<boolean>,
): Promise<DeadLetterStatus[]> {
  checkIdCount(callIds);
  const done = await Promise.all(callIds.map(async (callId) => isCallId(callId) && act(Number(callId))));
  return done.map((found) => (found ? DeadLetterStatus.DONE : DeadLetterStatus.NOT_FOUND));
}

function notFound(what: string, callId: bigint): ConnectError {
  return new ConnectError(`There is no ${what} with call id ${callId}.`, Code.NotFound);
}
