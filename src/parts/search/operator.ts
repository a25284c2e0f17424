import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { decodeMetadata } from "../../delivery/job-call-codec.ts";
import {
  SearchKind,
  type SearchRequest,
  type SearchResponseSchema,
} from "../../gen/jobgate/v1/operator_pb.ts";
import { CALL_STATES, numbersOf } from "../../operator/messages.ts";
import type { ApiAddition, FoundByPart } from "../../operator/methods.ts";
import { invalid } from "../../operator/requests.ts";
import type { Host } from "../../part.ts";
import type { CallDetails } from "../../store/contract/operator-lists.ts";
import {
  FOUND_AT_ONCE,
  type Found,
  folded,
  MIN_TEXT_LENGTH,
  type SearchIndex,
} from "./store/index-contract.ts";

const MAX_TEXT_LENGTH = 200;
/** Most results of one kind. */
const MAX_RESULTS = FOUND_AT_ONCE - 1;

/** Makes the search in the operator's API. */
export function searchOperation(parts: {
  readonly index: Pick<SearchIndex, "search">;
  readonly host: Pick<Host, "store" | "config" | "jobs" | "additions">;
}): ApiAddition {
  const { index, host } = parts;
  return {
    methods: {
      async search(request: SearchRequest): Promise<MessageInitShape<typeof SearchResponseSchema>> {
        const text = readText(request);
        const [found, { groups }, jobs, ofParts] = await Promise.all([
          index.search(text),
          // A group's reason has # for any number, so a number would find every such group.
          /[^#\d]/.test(text) ? host.store.listDeadLetterGroups(FOUND_AT_ONCE, text) : { groups: [] },
          jobsWith(text, host),
          Promise.all(host.additions("operator").flatMap((one) => one.search?.(text, FOUND_AT_ONCE) ?? [])),
        ]);
        const letters = groups.map(({ reason, count, ...job }) => ({
          ...{ kind: SearchKind.DEAD_LETTERS, value: reason, count: BigInt(count) },
          ...job,
        }));
        return inOrder(
          [...resultsOf(found, text), ...jobs, ...letters, ...ofParts.flat()],
          found.isIncomplete,
        );
      },
    },
  };
}

/** @throws ConnectError INVALID_ARGUMENT for a text that is empty or too short */
function readText(request: SearchRequest): string {
  const text = request.text.trim();
  if (text === "") throw invalid("text: expected the beginning of a value to search for; it is empty.");
  if (text.length < MIN_TEXT_LENGTH && !/^#?\d+$/.test(text))
    throw invalid(`text: expected at least ${MIN_TEXT_LENGTH} characters, or the number of a call.`);
  if (text.length > MAX_TEXT_LENGTH) throw invalid(`text: expected at most ${MAX_TEXT_LENGTH} characters.`);
  return text;
}

function resultsOf(found: Found, text: string): FoundByPart[] {
  const calls = new Map(found.calls.map((call) => [call.callId, call]));
  const ofCall = (callId: number) => ({ callId: BigInt(callId), ...toJob(calls.get(callId)) });
  return [
    ...found.numbers.map((callId) => ({
      ...{ kind: SearchKind.CALL, value: String(callId) },
      ...ofCall(callId),
    })),
    ...found.transactions.map(({ callId, value }) => ({
      ...{ kind: SearchKind.TRANSACTION, value },
      ...ofCall(callId),
    })),
    ...found.payers.map((value) => ({ kind: SearchKind.PAYER, value })),
    ...found.purchaseNames.map(({ callId, value }) => ({
      ...{ kind: SearchKind.PAYMENT_ID, value },
      ...ofCall(callId),
    })),
    ...found.requests.map(({ requestId: value, payer = "", code, serviceId, jobIndex, at }) => ({
      ...{ kind: SearchKind.REQUEST, value, payer, code, at: timestampFromMs(at) },
      ...{ origin: "x402", serviceId, jobId: BigInt(jobIndex) },
    })),
    ...found.withMetadata.flatMap((callId) => {
      const entry = metadataWith(text, calls.get(callId));
      return entry === undefined ? [] : { kind: SearchKind.METADATA, ...entry, ...ofCall(callId) };
    }),
  ];
}

function toJob(call: CallDetails | undefined) {
  if (call === undefined) return {};
  const { origin, serviceId, jobId, state, enqueuedAt } = call;
  return { origin, serviceId, jobId, state: CALL_STATES[state], at: timestampFromMs(enqueuedAt) };
}

/** Finds the metadata of a JobCall that has a value which begins with the text. */
function metadataWith(text: string, call: CallDetails | undefined) {
  if (call?.head === undefined) return undefined;
  const wanted = folded(text);
  const found = Object.entries(decodeMetadata(call.head)).find(([, value]) =>
    folded(value).startsWith(wanted),
  );
  return found && { name: found[0], value: found[1] };
}

/** Finds the paid jobs and the webhook endpoints whose name or path has the text. */
async function jobsWith(
  text: string,
  { config, jobs }: Pick<Host, "config" | "jobs">,
): Promise<FoundByPart[]> {
  const wanted = folded(text);
  const named = [
    ...(await jobs()).map(({ serviceId, jobIndex, name, title, url }) => ({
      ...{ origin: "x402", serviceId, jobId: BigInt(jobIndex) },
      texts: [title, name, new URL(url).pathname],
    })),
    ...(config.webhooks?.endpoints ?? []).map(({ path, jobId, name }) => ({
      ...{ origin: "webhook", serviceId: config.serviceId, jobId },
      texts: [name, path],
    })),
  ];
  return named.flatMap(({ texts, ...job }) => {
    const known = texts.filter((one) => one !== undefined);
    const value = known.find((one) => folded(one).includes(wanted)) && known[0];
    return value === undefined ? [] : [{ kind: SearchKind.JOB, value, ...job }];
  });
}

/** Orders results by kind, and leaves out results above {@link MAX_RESULTS} of a kind. */
function inOrder(results: readonly FoundByPart[], isIncomplete: boolean) {
  const kinds = Object.values(numbersOf<SearchKind>(SearchKind));
  const ofKind = kinds.map((kind) => results.filter((result) => result.kind === kind));
  return {
    results: ofKind.flatMap((all) => all.slice(0, MAX_RESULTS)),
    more: kinds.filter((_, place) => (ofKind[place]?.length ?? 0) > MAX_RESULTS),
    isIncomplete,
  };
}
