import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import type {
  ListCallbacksRequest,
  RetryCallbackRequest,
  TestCallbacksRequest,
} from "../../gen/jobgate/v1/operator_pb.ts";
import { nameIn } from "../../operator/messages.ts";
import type { ApiAddition, OperatorMethods } from "../../operator/methods.ts";
import { invalid, isCallId, readPage } from "../../operator/requests.ts";
import { CALLBACK_STATES } from "./operator-states.ts";
import type { Callback, CallbackCounts, CallbackLedger } from "./store/ledger.ts";

/** Largest number of callbacks that are shown with their call. */
const MAX_OF_CALL = 50;

/** Methods of the callback sender that the operator can use. */
interface OperatedSender {
  /** URLs of the operator. */
  readonly urls: readonly string[];
  /** Sends the callbacks that are due. */
  poke(): void;
  /** Sends one test message to a URL of the operator. @returns the reason if the message could not be delivered */
  test(url: string): Promise<string | undefined>;
}

/** Makes the methods of callbacks in the operator's API. */
export function callbackOperation(parts: {
  readonly ledger: Pick<CallbackLedger, "listCallbacks" | "retryCallback">;
  readonly sender: OperatedSender;
}): ApiAddition {
  const { ledger, sender } = parts;
  const methods: OperatorMethods = {
    async listCallbacks(request: ListCallbacksRequest) {
      const state = nameIn(CALLBACK_STATES, request.state);
      if (state === undefined && request.state !== 0) throw invalid("state: expected a CallbackState.");
      const callId = request.callId === 0n ? undefined : Number(request.callId);
      const { items, nextPageToken } = await readPage(request, async (range) => ({
        items: await ledger.listCallbacks({ state, callId, ...range }),
      }));
      return { callbacks: items.map(toCallback), nextPageToken };
    },

    async retryCallback({ id }: RetryCallbackRequest) {
      const found = isCallId(id) ? await ledger.retryCallback(Number(id)) : undefined;
      if (found === undefined) throw new ConnectError(`There is no callback ${id}.`, Code.NotFound);
      if (!found.retried) throw new ConnectError(`Callback ${id} was sent.`, Code.FailedPrecondition);
      sender.poke();
      return { callback: toCallback(found.callback) };
    },

    async testCallbacks({ url }: TestCallbacksRequest) {
      const selected = sender.urls.filter((known) => url === "" || url === known || url === shownUrl(known));
      if (selected.length === 0)
        throw new ConnectError(
          url === "" ? "No [[callbacks]] is configured." : "No [[callbacks]] has this URL.",
          Code.NotFound,
        );
      const outcomes = selected.map(async (known) => ({
        url: shownUrl(known),
        problem: (await sender.test(known)) ?? "",
      }));
      return { outcomes: await Promise.all(outcomes) };
    },
  };
  return {
    methods,
    totals: ({ sums }) => ({ callbacks: toCounts(sums.callbacks as CallbackCounts) }),
    async callDetails({ callId }) {
      return { callbacks: (await ledger.listCallbacks({ callId, limit: MAX_OF_CALL })).map(toCallback) };
    },
  };
}

function toCounts({ states, oldestAt }: CallbackCounts) {
  const { pending, sent, dead } = states;
  return {
    ...{ pending: BigInt(pending), sent: BigInt(sent), dead: BigInt(dead) },
    ...(oldestAt !== undefined && { oldestPendingAt: timestampFromMs(oldestAt) }),
  };
}

function toCallback(callback: Callback) {
  const { id, state, event, callId, url, isBuyers, attempts, reason = "", at, dueAt, endedAt } = callback;
  return {
    ...{ event, attempts, reason, url: shownUrl(url), toBuyer: isBuyers },
    id: BigInt(id),
    state: CALLBACK_STATES[state],
    callId: BigInt(callId),
    happenedAt: timestampFromMs(at),
    ...(state === "pending" && { dueAt: timestampFromMs(dueAt) }),
    ...(endedAt !== undefined && { endedAt: timestampFromMs(endedAt) }),
  };
}

/** The query may contain a secret of the buyer who gave the URL. */
function shownUrl(url: string): string {
  const { origin, pathname } = new URL(url);
  return `${origin}${pathname}`;
}
