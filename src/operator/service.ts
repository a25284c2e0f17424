import { create } from "@bufbuild/protobuf";
import { durationFromMs, timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, type ServiceImpl } from "@connectrpc/connect";
import type { Config } from "../config/config.ts";
import type { Clock } from "../core/clock.ts";
import type { EventHub } from "../core/events.ts";
import type { PaymentRecord } from "../core/payment.ts";
import { decodeJobCall } from "../delivery/job-call-codec.ts";
import type { RunnerReport } from "../delivery/subscription.ts";
import {
  DeadLetterStatus,
  DropDeadLettersResponseSchema,
  GetConfigurationResponseSchema,
  GetDeadLetterResponseSchema,
  GetInfoResponseSchema,
  GetPaymentResponseSchema,
  GetRevenueResponseSchema,
  ListDeadLettersResponseSchema,
  ListPaymentsResponseSchema,
  ListRatesResponseSchema,
  ListRunnersResponseSchema,
  type OperatorService,
  RetryDeadLettersResponseSchema,
} from "../gen/jobgate/v1/operator_pb.ts";
import { version } from "../node/version.ts";
import type { RateReport } from "../pricing/rates/rate-board.ts";
import type { Store } from "../store/store.ts";
import { toConfiguration } from "./configuration.ts";
import {
  fromPaymentState,
  toDeadLetter,
  toPayment,
  toRate,
  toRevenue,
  toRunner,
  toTotals,
} from "./messages.ts";
import { readPage } from "./paging.ts";
import { readRevenuePeriod } from "./revenue-period.ts";
import { createTail } from "./tail.ts";

export interface OperatorServiceOptions {
  readonly store: Store;
  readonly events: EventHub;
  /** Every address that this process listens on. */
  readonly listeners: () => readonly { readonly name: string; readonly address: string }[];
  /** Every accepted token's rate as it is now. */
  readonly rates: () => readonly RateReport[];
  /** Every open stream of a runner, the longest connected first. */
  readonly runners: () => readonly RunnerReport[];
  /** What this process works with now. */
  readonly configuration: () => Config;
  readonly clock: Clock;
}

/** Most dead letters that one request may name. */
const MAX_IDS = 1_000;

/** Answers `jobgate.v1.OperatorService`. */
export function createOperatorService(options: OperatorServiceOptions): ServiceImpl<typeof OperatorService> {
  const { store, events, listeners, rates, runners, configuration, clock } = options;
  const startedAt = clock();

  return {
    getInfo: () =>
      create(GetInfoResponseSchema, {
        version,
        startedAt: timestampFromMs(startedAt),
        uptime: durationFromMs(clock() - startedAt),
        listeners: [...listeners()],
        store: store.status(),
      }),

    getTotals: async () => toTotals(await store.totals()),

    async listPayments(request) {
      const state = fromPaymentState(request.state);
      if (state === undefined && request.state !== 0) {
        throw new ConnectError("state: expected a PaymentState.", Code.InvalidArgument);
      }
      const { items, nextPageToken } = await readPage(request, (range) =>
        store.listPayments(state === undefined ? range : { state, ...range }),
      );
      return create(ListPaymentsResponseSchema, { payments: items.map(toPayment), nextPageToken });
    },

    async getPayment({ callId }) {
      const record = await findPayment(callId);
      if (record === undefined) throw notFound("payment", callId);
      const { priceWei, bodyHash, transferMethod, x402Version, receipt, settlement = "" } = record;
      return create(GetPaymentResponseSchema, {
        payment: toPayment(record),
        priceWei,
        bodyHash,
        transferMethod,
        x402Version,
        receipt,
        settlement,
      });
    },

    async listDeadLetters(request) {
      const { items, nextPageToken } = await readPage(request, (range) => store.listDeadLetters(range));
      return create(ListDeadLettersResponseSchema, { deadLetters: items.map(toDeadLetter), nextPageToken });
    },

    async getDeadLetter({ callId }) {
      const letter = isCallId(callId) ? await store.findDeadLetter(Number(callId)) : undefined;
      if (letter === undefined) throw notFound("dead letter", callId);
      const { metadata, body } = decodeJobCall(letter.encoded);
      return create(GetDeadLetterResponseSchema, { deadLetter: toDeadLetter(letter), metadata, body });
    },

    retryDeadLetters: async ({ callIds }) =>
      create(RetryDeadLettersResponseSchema, {
        statuses: await statuses(callIds, (callId) => store.retryDeadLetter(callId)),
      }),

    dropDeadLetters: async ({ callIds }) =>
      create(DropDeadLettersResponseSchema, {
        statuses: await statuses(callIds, (callId) => store.dropDeadLetter(callId)),
      }),

    listRates: () => create(ListRatesResponseSchema, { rates: rates().map(toRate) }),

    async getRevenue(request) {
      const revenue = await store.revenue(readRevenuePeriod(request, clock()));
      return create(GetRevenueResponseSchema, { revenue: revenue.map(toRevenue) });
    },

    listRunners: () => create(ListRunnersResponseSchema, { runners: runners().map(toRunner) }),

    getConfiguration: () =>
      create(GetConfigurationResponseSchema, { configuration: toConfiguration(configuration()) }),

    tail: createTail({ events }),
  };

  /** The journal is asked for the page of one entry that starts with the call id. */
  async function findPayment(callId: bigint): Promise<PaymentRecord | undefined> {
    if (!isCallId(callId)) return undefined;
    const [record] = await store.listPayments({ limit: 1, before: Number(callId) + 1 });
    return record?.callId === Number(callId) ? record : undefined;
  }
}

/** @throws ConnectError INVALID_ARGUMENT for too many ids: then none was asked for */
async function statuses(
  callIds: readonly bigint[],
  ask: (callId: number) => Promise<boolean>,
): Promise<DeadLetterStatus[]> {
  if (callIds.length > MAX_IDS) {
    throw new ConnectError(`call_ids: expected at most ${MAX_IDS}.`, Code.InvalidArgument);
  }
  const done = await Promise.all(callIds.map(async (callId) => isCallId(callId) && ask(Number(callId))));
  return done.map((took) => (took ? DeadLetterStatus.DONE : DeadLetterStatus.NOT_FOUND));
}

/** Call ids are positive and below 2^53; `before` is one above. */
function isCallId(callId: bigint): boolean {
  return callId > 0n && callId < BigInt(Number.MAX_SAFE_INTEGER);
}

function notFound(what: string, callId: bigint): ConnectError {
  return new ConnectError(`There is no ${what} with call id ${callId}.`, Code.NotFound);
}
