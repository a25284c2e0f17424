import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import {
  CallbackState,
  type ListCallbacksRequest,
  type RetryCallbackRequest,
  type TestCallbacksRequest,
} from "../gen/jobgate/v1/operator_pb.ts";
import type { Callback, CallbackState as CallbackStateName } from "../store/contract/callback-ledger.ts";
import { invalid, isCallId, readPage } from "./requests.ts";
import type { OperatorSources } from "./sources.ts";

/** The API's number for each state of a callback. */
export const CALLBACK_STATES = {
  pending: CallbackState.PENDING,
  sent: CallbackState.SENT,
  dead: CallbackState.DEAD,
} as const satisfies Record<CallbackStateName, CallbackState>;

/** Returns undefined for the unspecified state and for one that this version does not know. */
export function fromCallbackState(message: CallbackState): CallbackStateName | undefined {
  const names = Object.keys(CALLBACK_STATES) as CallbackStateName[];
  return names.find((name) => CALLBACK_STATES[name] === message);
}

/** Most callbacks that are shown with their call. */
const MAX_OF_CALL = 50;

/** The part of the operator API that is about callbacks. */
export class CallbackApi {
  readonly #sources: OperatorSources;

  constructor(sources: OperatorSources) {
    this.#sources = sources;
  }

  async list(request: ListCallbacksRequest) {
    const state = fromCallbackState(request.state);
    if (state === undefined && request.state !== 0) throw invalid("state: expected a CallbackState.");
    const callId = request.callId === 0n ? undefined : Number(request.callId);
    const { items, nextPageToken } = await readPage(request, async (range) => ({
      items: await this.#sources.store.listCallbacks({ state, callId, ...range }),
    }));
    return { callbacks: items.map(toCallback), nextPageToken };
  }

  async ofCall(callId: number) {
    return (await this.#sources.store.listCallbacks({ callId, limit: MAX_OF_CALL })).map(toCallback);
  }

  async retry({ id }: RetryCallbackRequest) {
    const { store, callbacks } = this.#sources;
    const found = isCallId(id) ? await store.retryCallback(Number(id)) : undefined;
    if (found === undefined) throw new ConnectError(`There is no callback ${id}.`, Code.NotFound);
    if (!found.retried) throw new ConnectError(`Callback ${id} was sent.`, Code.FailedPrecondition);
    callbacks?.poke();
    return { callback: toCallback(found.callback) };
  }

  async test({ url }: TestCallbacksRequest) {
    const { callbacks } = this.#sources;
    const urls = callbacks?.urls ?? [];
    const selected = urls.filter((known) => url === "" || url === known || url === shownUrl(known));
    if (selected.length === 0)
      throw new ConnectError(
        url === "" ? "No [[callbacks]] is configured." : "No [[callbacks]] has this URL.",
        Code.NotFound,
      );
    const outcomes = selected.map(async (known) => ({
      url: shownUrl(known),
      problem: (await callbacks?.test(known)) ?? "",
    }));
    return { outcomes: await Promise.all(outcomes) };
  }
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

/** The query may hold a secret of whoever gave the URL. */
function shownUrl(url: string): string {
  const { origin, pathname } = new URL(url);
  return `${origin}${pathname}`;
}
