import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import type { Logger } from "pino";
import type { Config } from "../../config/config.ts";
import type { JobLimit } from "../../core/job-call.ts";
import {
  type HeldKeySchema,
  type ListHeldKeysRequest,
  type PauseKeyRequest,
  type ResumeKeyRequest,
  SearchKind,
} from "../../gen/jobgate/v1/operator_pb.ts";
import type { ApiAddition, FoundByPart } from "../../operator/methods.ts";
import { invalid, pageSizeOf, readSigner } from "../../operator/requests.ts";
import type { ListedState } from "../../store/contract/operator-lists.ts";
import type { WorkQueue } from "../../store/contract/work-queue.ts";
import { limitsOf } from "./config.ts";
import { storedKey } from "./key.ts";
import type { HeldKey, KeyLedger, KeyName, KeyOfCall, UsedLimit } from "./store/ledger.ts";
import { heldKeysIn } from "./store/module.ts";

/**
 * Adds held keys to the operator's API, and lets operators pause keys. Keys are not logged, because a key can name a customer.
 */
export function keyOperations(parts: {
  readonly ledger: KeyLedger;
  readonly workQueue: Pick<WorkQueue, "withhold">;
  readonly configuration: () => Pick<Config, "x402" | "webhooks">;
  readonly logger: Logger;
}): ApiAddition {
  const { ledger, workQueue, configuration, logger } = parts;
  const endpoints = () => configuration().webhooks?.endpoints ?? [];

  /** Finds the webhook endpoint with a path or name. */
  function findEndpoint(text: string) {
    return endpoints().find(({ path }) => path === text) ?? endpoints().find(({ name }) => name === text);
  }

  function readKey(owner: string, key: string): KeyName {
    if (key === "") throw invalid("key: expected the value that the requests have in common.");
    return { owner, key: storedKey(key) };
  }

  return {
    methods: {
      async listHeldKeys(request: ListHeldKeysRequest) {
        return { keys: (await ledger.listHeldKeys(pageSizeOf(request))).map(toMessage) };
      },

      async pauseKey({ endpoint, key, refuseAccepts: refusesAccepts, ...signed }: PauseKeyRequest) {
        const { by, note } = readSigner(signed);
        const found = findEndpoint(endpoint);
        if (found?.orderOf === undefined)
          throw notFound(`There is no webhook endpoint "${endpoint}" with order_by in the configuration.`);
        const name = readKey(found.path, key);
        await ledger.pauseKey({ ...name, by, note, refusesAccepts });
        for (const callId of await ledger.findCallsOfKey(name)) await workQueue.withhold(callId);
        logger.warn({ endpoint: found.path, by, note, refusesAccepts }, "key paused by the operator");
        const [paused] = await ledger.listHeldKeys(1, name);
        return paused === undefined ? {} : { paused: toMessage(paused) };
      },

      async resumeKey({ endpoint, key, ...signed }: ResumeKeyRequest) {
        const { by, note } = readSigner(signed);
        const owner = findEndpoint(endpoint)?.path ?? endpoint;
        const name = readKey(owner, key);
        if (!(await ledger.resumeKey(name))) throw notFound(`No such key of "${endpoint}" is paused.`);
        logger.warn({ endpoint: owner, by, note }, "key resumed by the operator");
        const [held] = await ledger.listHeldKeys(1, name);
        return { heldBy: BigInt(held?.deadLetter?.callId ?? 0) };
      },
    },
    async callDetails({ callId, jobId, state }) {
      if (state === "dead") return { orderKey: (await ledger.findKeyOf(callId))?.key ?? "" };
      if (state !== "held" && state !== "ready" && state !== "leased") return {};
      const limit = limitsOf(configuration()).find((one) => one.jobId === jobId);
      const [key, used] = await Promise.all([
        ledger.findKeyOf(callId),
        limit === undefined ? undefined : ledger.findUsedLimit(limit),
      ]);
      const ofLimit = limit && used ? limitReasons(limit, used) : [];
      const waitReasons = [...keyReasons(key, state), ...(state === "ready" ? ofLimit : [])];
      return { orderKey: key?.key ?? "", waitReasons };
    },
    totals(totals) {
      const { held, paused } = heldKeysIn(totals);
      return { heldKeys: BigInt(held), pausedKeys: BigInt(paused) };
    },
  };
}

/** Finds the keys of webhook endpoints that begin with a text, for the operator's search. */
export async function searchKeys(
  ledger: Pick<KeyLedger, "findKeys">,
  { serviceId, webhooks }: Pick<Config, "serviceId" | "webhooks">,
  text: string,
  limit: number,
): Promise<FoundByPart[]> {
  const ordered = (webhooks?.endpoints ?? []).filter(({ orderOf }) => orderOf !== undefined);
  const found = await Promise.all(
    ordered.map(async ({ path: owner, jobId }) => {
      const keys = await ledger.findKeys({ owner, key: storedKey(text) }, limit);
      return keys.map(({ owner: name, key: value, callId }) => ({
        ...{ kind: SearchKind.ORDER_KEY, name, value, origin: "webhook", serviceId, jobId },
        ...(callId !== undefined && { callId: BigInt(callId) }),
      }));
    }),
  );
  return found.flat();
}

/** Returns why a JobCall with a key waits. A JobCall that is not held is the one JobCall of its key that can run. */
function keyReasons(found: KeyOfCall | undefined, state: ListedState): string[] {
  if (found === undefined || state !== "held") return [];
  const { owner, key, deadLetter, pause, before } = found;
  const name = `Its key ${JSON.stringify(key)} of ${owner}`;
  const reasons = [
    ...(deadLetter === undefined
      ? []
      : [`${name} is held by dead letter ${deadLetter.callId}: retry or drop the dead letter.`]),
    ...(pause === undefined
      ? []
      : [`${name} is paused by ${pause.by}${noteText(pause.note)}: resume the key.`]),
  ];
  if (reasons.length > 0) return reasons;
  const waiting = before === 0 ? "" : `, and ${before} more that waited before`;
  return [`${name} has a JobCall that was accepted earlier and is not finished${waiting}.`];
}

function noteText(note: string): string {
  return note === "" ? "" : ` (${note})`;
}

/** Returns which limits of its job a JobCall waits for. */
function limitReasons({ jobId, concurrency, rate }: JobLimit, { out, nextInMs }: UsedLimit): string[] {
  return [
    ...(concurrency === undefined || out < concurrency
      ? []
      : [`Runners have ${out} JobCalls of job ${jobId}, and its concurrency is ${concurrency}.`]),
    ...(rate === undefined || nextInMs === undefined
      ? []
      : [
          `Job ${jobId} has reached its rate, ${rate.calls} in ${rate.perMs / 1_000} s: the next JobCall goes out in ${Math.ceil(nextInMs / 1_000)} s or less.`,
        ]),
  ];
}

function notFound(message: string): ConnectError {
  return new ConnectError(message, Code.NotFound);
}

function toMessage({
  owner: endpoint,
  key,
  waiting,
  deadLetter,
  pause,
}: HeldKey): MessageInitShape<typeof HeldKeySchema> {
  return {
    ...{ endpoint, key, waiting: BigInt(waiting) },
    ...(deadLetter && { callId: BigInt(deadLetter.callId), since: timestampFromMs(deadLetter.since) }),
    ...(pause && { pause: { ...pause, since: timestampFromMs(pause.since) }, isOneOut: pause.isOneOut }),
  };
}
