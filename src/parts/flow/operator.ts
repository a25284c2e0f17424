import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import type { Logger } from "pino";
import type { Config } from "../../config/config.ts";
import type {
  HeldKeySchema,
  ListHeldKeysRequest,
  PauseKeyRequest,
  ResumeKeyRequest,
} from "../../gen/jobgate/v1/operator_pb.ts";
import type { ApiAddition } from "../../operator/methods.ts";
import { invalid, pageSizeOf, readSigner } from "../../operator/requests.ts";
import type { WorkQueue } from "../../store/contract/work-queue.ts";
import { storedKey } from "./key.ts";
import type { HeldKey, KeyLedger, KeyName } from "./store/ledger.ts";
import { heldKeysIn } from "./store/module.ts";

/** Adds held keys to the operator's API, and lets operators pause keys. Keys are not logged: they may name customers. */
export function keyOperations(parts: {
  readonly ledger: KeyLedger;
  readonly workQueue: Pick<WorkQueue, "withhold">;
  readonly configuration: () => Pick<Config, "webhooks">;
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
    totals(totals) {
      const { held, paused } = heldKeysIn(totals);
      return { heldKeys: BigInt(held), pausedKeys: BigInt(paused) };
    },
  };
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
