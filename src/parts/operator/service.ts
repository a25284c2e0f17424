import { durationFromMs, timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, type HandlerContext } from "@connectrpc/connect";
import type { Logger } from "pino";
import { defined } from "../../core/objects.ts";
import type { PaymentRecord } from "../../core/payment.ts";
import { decodeJobCall, decodeMetadata } from "../../delivery/job-call-codec.ts";
import type {
  AdoptPaymentRequest,
  ClosePaymentRequest,
  DropDeadLettersRequest,
  GetActivityRequest,
  GetCallRequest,
  GetDeadLetterRequest,
  GetPaymentRequest,
  GetRevenueRequest,
  ListCallsRequest,
  ListDeadLetterGroupsRequest,
  ListDeadLettersRequest,
  ListNetworksRequest,
  ListPaymentsRequest,
  ListRefusedPaymentsRequest,
  RetryDeadLettersRequest,
  TailRequest,
} from "../../gen/jobgate/v1/operator_pb.ts";
import { version } from "../../node/version.ts";
import { type DecimalsOf, decimalsIn } from "../../operator/messages.ts";
import type { ApiAddition, OperatorMethods } from "../../operator/methods.ts";
import { isCallId, notFound, readPage } from "../../operator/requests.ts";
import { countActivity } from "./activity.ts";
import { adoptPayment } from "./adoption.ts";
import { changeDeadLetters } from "./dead-letters.ts";
import { toEndpoints } from "./endpoints.ts";
import type { History } from "./history.ts";
import { jobMeasures } from "./job-measures.ts";
import {
  asDeadLetter,
  toCall,
  toDeadLetter,
  toDeadLetterGroups,
  toEvent,
  toHoldings,
  toPayment,
  toRate,
  toRevenue,
  toRunner,
  toTotals,
  toUntakenJob,
} from "./messages.ts";
import { Networks } from "./networks.ts";
import { countRefusedPayments, listRefusedPayments } from "./refused-payments.ts";
import {
  readCallFilter,
  readClosing,
  readDeadLetterFilter,
  readPaymentFilter,
  readRevenuePeriod,
  readText,
} from "./requests.ts";
import type { OperatorSources } from "./sources.ts";
import { Tail } from "./tail.ts";
import { timelineOf } from "./timeline.ts";
import { waitReasons } from "./wait-reasons.ts";

/** Most groups of dead letters in one answer. */
const MAX_GROUPS = 500;

/** The methods of `jobgate.v1.OperatorService` that parts do not add. */
export class OperatorApi implements OperatorMethods {
  readonly #sources: OperatorSources;
  readonly #history: History;
  readonly #additions: readonly ApiAddition[];
  readonly #logger: Logger;
  readonly #tail: Tail;
  readonly #decimalsOf: DecimalsOf;
  readonly #networks: Networks;

  constructor(base: {
    readonly sources: OperatorSources;
    readonly history: History;
    readonly additions: readonly ApiAddition[];
    readonly logger: Logger;
  }) {
    const { sources, history, additions, logger } = base;
    this.#sources = sources;
    this.#history = history;
    this.#additions = additions;
    this.#logger = logger;
    this.#decimalsOf = decimalsIn(sources.configuration);
    this.#networks = new Networks(sources.loadMethods);
    this.#tail = new Tail({ events: sources.events, decimalsOf: this.#decimalsOf });
  }

  getInfo() {
    const { listeners, store, configuration, clock } = this.#sources;
    const { pending, ...status } = store.status();
    return {
      version,
      startedAt: timestampFromMs(this.#history.startedAt),
      uptime: durationFromMs(clock() - this.#history.startedAt),
      listeners: [...listeners()],
      store: {
        ...status,
        pending: BigInt(pending),
        maxPending: BigInt(configuration().store.maxPending),
      },
    };
  }

  async getTotals() {
    const totals = await this.#sources.store.totals();
    const ofParts = this.#additions.map((one) => one.totals?.(totals));
    return Object.assign(toTotals(totals), ...ofParts);
  }

  async listCalls(request: ListCallsRequest) {
    const filter = readCallFilter(request);
    const { items, nextPageToken } = await readPage(request, (range) =>
      this.#sources.store.listCalls({ ...filter, ...range }),
    );
    return { calls: items.map((call) => toCall(call, this.#decimalsOf)), nextPageToken };
  }

  async getCall({ callId }: GetCallRequest) {
    const call = isCallId(callId) ? await this.#sources.store.findCallDetails(Number(callId)) : undefined;
    const isUnpaid = call !== undefined && call.origin !== "x402";
    const payment = isUnpaid ? undefined : await this.#findPayment(callId);
    if (call === undefined) {
      if (payment === undefined) throw notFound("call", callId);
      throw new ConnectError(
        `Call ${callId} was never queued: its payment ${payment.state}. GetPayment shows it.`,
        Code.NotFound,
      );
    }
    const details = await Promise.all(this.#additions.flatMap((one) => one.callDetails?.(call) ?? []));
    const added = await Promise.all(this.#additions.flatMap((one) => one.timeline?.(call.callId) ?? []));
    const timeline = [...timelineOf(call, payment), ...added.flat()];
    return {
      call: toCall(call, this.#decimalsOf),
      timeline: timeline.map((event) => toEvent(event, this.#decimalsOf)),
      metadata: call.head === undefined ? {} : decodeMetadata(call.head),
      ...(payment && {
        payment: defined({ ...(await this.#toPayment(payment)), chargeSoFar: call.chargeSoFar }),
      }),
      ...Object.assign({}, ...details),
      waitReasons: waitReasons(call, {
        payment,
        untaken: this.#sources.untaken.filter(),
        ofParts: details.flatMap((one) => one.waitReasons ?? []),
      }),
    };
  }

  async listPayments(request: ListPaymentsRequest) {
    const filter = readPaymentFilter(request);
    if (request.callId !== 0n) {
      const record = await this.#findPayment(request.callId);
      return { payments: record === undefined ? [] : [await this.#toPayment(record)] };
    }
    const { items, nextPageToken } = await readPage(request, (range) =>
      this.#sources.store.listPayments({ ...filter, ...range }),
    );
    return { payments: await this.#toPayments(items), nextPageToken };
  }

  async getPayment({ callId }: GetPaymentRequest) {
    const record = await this.#findPayment(callId);
    if (record === undefined) throw notFound("payment", callId);
    const { price, bodyHash, transferMethod, x402Version, receipt, settlement = "" } = record;
    const priceFields = price.startsWith("$") ? { price } : { priceWei: price };
    const details = { ...priceFields, bodyHash, transferMethod, x402Version, receipt, settlement };
    return { payment: await this.#toPayment(record), ...details };
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

  adoptPayment(request: AdoptPaymentRequest) {
    return adoptPayment(request, this.#sources, this.#logger);
  }

  listRefusedPayments(request: ListRefusedPaymentsRequest) {
    return listRefusedPayments(request, this.#sources.store);
  }

  countRefusedPayments() {
    return countRefusedPayments(this.#sources.store);
  }

  async listDeadLetterGroups(request: ListDeadLetterGroupsRequest) {
    const { store } = this.#sources;
    return toDeadLetterGroups(await store.listDeadLetterGroups(MAX_GROUPS, readText(request)));
  }

  async listDeadLetters(request: ListDeadLettersRequest) {
    const filter = readDeadLetterFilter(request);
    const { items, nextPageToken } = await readPage(request, (range) =>
      this.#sources.store.listCalls({ ...filter, ...range }),
    );
    return { deadLetters: items.map((call) => toDeadLetter(asDeadLetter(call))), nextPageToken };
  }

  async getDeadLetter({ callId }: GetDeadLetterRequest) {
    const { store } = this.#sources;
    const letter = isCallId(callId) ? await store.findDeadLetter(Number(callId)) : undefined;
    if (letter === undefined) throw notFound("dead letter", callId);
    const { metadata, body } = decodeJobCall(letter.encoded);
    return { deadLetter: toDeadLetter(letter), metadata, body };
  }

  async retryDeadLetters(request: RetryDeadLettersRequest, { signal }: HandlerContext) {
    const { store, configuration } = this.#sources;
    return changeDeadLetters(request, {
      store,
      change: (callId) => store.retryDeadLetter(callId),
      // Half of the queue's places are left for requests.
      hasRoom: () => store.status().pending < configuration().store.maxPending / 2,
      signal,
    });
  }

  async dropDeadLetters(request: DropDeadLettersRequest, { signal }: HandlerContext) {
    const { store } = this.#sources;
    return changeDeadLetters(request, {
      store,
      change: async (callId) => ((await store.dropDeadLetter(callId)) ? "dropped" : "not_found"),
      hasRoom: () => true,
      signal,
    });
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

  async listUntakenJobs() {
    return { jobs: (await this.#sources.untaken.read()).map(toUntakenJob) };
  }

  async listNetworks({ networks }: ListNetworksRequest) {
    return { networks: await this.#networks.describe(networks) };
  }

  listHoldings() {
    return { holdings: this.#sources.holdings().flatMap(toHoldings) };
  }

  async listEndpoints() {
    const { jobs, configuration, counters, histograms } = this.#sources;
    const measured = jobMeasures(histograms, counters);
    return { endpoints: toEndpoints(await jobs(), configuration(), counters, measured) };
  }

  getActivity(request: GetActivityRequest) {
    return countActivity(request, this.#history.samples());
  }

  getConfiguration() {
    return { configuration: this.#sources.configuration().shown };
  }

  tail({ history }: TailRequest, { signal }: HandlerContext) {
    return this.#tail.read(signal, () => this.#history.latest(history));
  }

  /** Returns payments with what parts add to them. */
  async #toPayments(records: readonly PaymentRecord[]) {
    const callIds = records.map(({ callId }) => callId);
    const ofParts = await Promise.all(this.#additions.flatMap((one) => one.paymentDetails?.(callIds) ?? []));
    return records.map((record) =>
      Object.assign(
        toPayment(record, this.#decimalsOf),
        ...ofParts.map((details) => details.get(record.callId)),
      ),
    );
  }

  async #toPayment(record: PaymentRecord) {
    return (await this.#toPayments([record]))[0];
  }

  /** Reads the journal page of one entry that starts at the call ID. */
  async #findPayment(callId: bigint): Promise<PaymentRecord | undefined> {
    if (!isCallId(callId)) return undefined;
    const { items } = await this.#sources.store.listPayments({ limit: 1, before: Number(callId) + 1 });
    const [record] = items;
    return record?.callId === Number(callId) ? record : undefined;
  }
}
