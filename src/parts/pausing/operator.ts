import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import type { Logger } from "pino";
import type { PausableSchema, PauseRequest, ResumeRequest } from "../../gen/jobgate/v1/operator_pb.ts";
import type { ApiAddition } from "../../operator/methods.ts";
import { invalid, readSigner } from "../../operator/requests.ts";
import { findNamed, nameOf, type Pausable, type PausedTables, type Pauses, pausablesOf } from "./pauses.ts";
import type { Pause } from "./store/ledger.ts";

/** Pausable job, endpoint or runner, with its pause if it has one. */
interface Found extends Pausable {
  readonly pause: Pause | undefined;
  readonly removed: boolean;
}

/** Adds pauses to the operator's API. */
export function pauseOperation(parts: {
  readonly pauses: Pick<Pauses, "all" | "pause" | "resume">;
  readonly configuration: () => PausedTables;
  readonly logger: Logger;
}): ApiAddition {
  const { pauses, configuration, logger } = parts;

  function list(): Found[] {
    const byName = new Map(pauses.all.map((pause) => [nameOf(pause), pause]));
    const configured = pausablesOf(configuration()).map((one) => {
      return { ...one, pause: byName.get(nameOf(one)), removed: false };
    });
    const names = new Set(configured.map(nameOf));
    const removed = pauses.all
      .filter((pause) => !names.has(nameOf(pause)))
      .map((pause) => ({ ...pause, name: "", alwaysRefuses: false, pause, removed: true }));
    return [...configured, ...removed];
  }

  /** Finds what a request names. @throws ConnectError NOT_FOUND, INVALID_ARGUMENT */
  function findOne(all: readonly Found[], target: string, missing: string): Found {
    const [found, ...more] = findNamed(all, target);
    if (found === undefined) throw new ConnectError(missing, Code.NotFound);
    if (more.length === 0) return found;
    const names = [found, ...more].map(nameOf).join(", ");
    throw invalid(`target: "${target}" names several: ${names}. Expected one of these.`);
  }

  const message = (one: Found) => toPausable(one, pausablesOf(configuration()));
  return {
    methods: {
      listPausables: () => ({ pausables: list().map(message) }),

      async pause({ target, refuseAccepts, ...signed }: PauseRequest) {
        const { by, note } = readSigner(signed);
        const all = list();
        const found = findOne(all, target, missingText(all, target));
        const refusesAccepts = refuseAccepts || found.alwaysRefuses;
        const pause = await pauses.pause(found, { refusesAccepts, by, note });
        logger.warn({ paused: nameOf(found), by, note, refusesAccepts }, "paused by the operator");
        return { paused: message({ ...found, pause }) };
      },

      async resume({ target, ...signed }: ResumeRequest) {
        const { by, note } = readSigner(signed);
        const missing = `Nothing named "${target}" is paused.`;
        const paused = list().filter(({ pause }) => pause !== undefined);
        const found = findOne(paused, target, missing);
        if (!(await pauses.resume(found))) throw new ConnectError(missing, Code.NotFound);
        logger.warn({ resumed: nameOf(found), by, note }, "resumed by the operator");
        return { resumed: message({ ...found, pause: undefined }) };
      },
    },
    callDetails: async ({ jobId, state }) => ({
      waitReasons: state === "held" || state === "ready" ? reasonsOf(list(), jobId) : [],
    }),
    totals: () => {
      const paused = list().filter(({ pause }) => pause !== undefined);
      return { paused: paused.sort((a, b) => sinceOf(a) - sinceOf(b)).map(message) };
    },
  };
}

/**
 * Explains that nothing has the name. Lists show the numbers of a job even if only webhooks make its JobCalls, and such
 * a job has no entry of its own.
 */
function missingText(all: readonly Found[], target: string): string {
  const [, id] = /^(?:\d+\/)?(\d+)$/.exec(target) ?? [];
  const makers = all.filter(
    ({ kind, jobIds }) => kind !== "job" && jobIds.some((jobId) => `${jobId}` === id),
  );
  const hint =
    makers.length === 0 ? "" : ` Its JobCalls come from ${makers.map(nameOf).join(", ")}: pause that.`;
  return `There is no job, webhook endpoint or API "${target}" in the configuration.${hint}`;
}

/** Returns the pauses that keep the JobCalls of a job from runners, as sentences. */
function reasonsOf(all: readonly Found[], jobId: bigint): string[] {
  return all.flatMap(({ kind, key, name, jobIds, pause }) => {
    if (pause === undefined || ![...jobIds, ...pause.jobIds].includes(jobId)) return [];
    const note = pause.note === "" ? "" : ` (${pause.note})`;
    return [`${KINDS[kind] ?? kind} ${name || key} is paused by ${pause.by}${note}: resume it.`];
  });
}

const KINDS: Readonly<Record<string, string>> = { job: "Job", endpoint: "Webhook endpoint", api: "API" };

function sinceOf({ pause }: Found): number {
  return pause?.since ?? 0;
}

/** @param all whatever can be paused at the configuration in use */
function toPausable(
  { kind, key, name, jobIds, alwaysRefuses, removed, pause }: Found,
  all: readonly Pausable[],
): MessageInitShape<typeof PausableSchema> {
  const own = { kind, key };
  const others = all.filter((other) => other.kind === "job" || other.kind === "endpoint");
  // An API also has the ID of each of its jobs, but is left out here, because a pause of the API pauses these jobs.
  const sharedWith =
    kind === "job" || kind === "endpoint"
      ? others.filter(
          (other) => nameOf(other) !== nameOf(own) && other.jobIds.some((id) => jobIds.includes(id)),
        )
      : [];
  return {
    ...{ kind, key, name, alwaysRefuses, removed, jobIds: [...jobIds] },
    sharedWith: sharedWith.map(nameOf),
    ...(pause && {
      pause: {
        by: pause.by,
        note: pause.note,
        since: timestampFromMs(pause.since),
        refusesAccepts: pause.refusesAccepts || alwaysRefuses,
      },
    }),
  };
}
