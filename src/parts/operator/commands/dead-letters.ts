import { setTimeout as sleep } from "node:timers/promises";
import { type Command, InvalidArgumentError } from "commander";
import { ask, canAsk, Refusal } from "../../../commands/input.ts";
import { findJob, type Names, readNames } from "../../../commands/names.ts";
import {
  callOperator,
  type DeadLetter,
  type DeadLetterGroup,
  DeadLetterStatus,
  type GetDeadLetterResponse,
  type OperatorClient,
  type OperatorSelection,
  timeText,
} from "../../../commands/operator-client.ts";
import {
  addCommand,
  addOperatorCommand,
  argumentOnly,
  callIdArgument,
  type FilterOptions,
  idsArgument,
  jobOption,
  jsonOption,
  listOptions,
  type NumberedJob,
  option,
  originOption,
} from "../../../commands/options.ts";
import {
  type Columns,
  counted,
  fields,
  type ListOptions,
  type PrintOptions,
  printEntries,
  printList,
  printNamed,
  shortText,
} from "../../../commands/output.ts";
import { defined } from "../../../core/objects.ts";
import { printable } from "../../../core/printable.ts";
import { groupedReason } from "../../../store/contract/dead-letter-box.ts";
import { whyNotDone } from "../retry-statuses.ts";

export function addTo(program: Command): void {
  const deadLetters = addCommand(program, {
    name: "dead-letters",
    description: "List the dead letters of a running jobgate; retry or drop them.",
    example: "dead-letters groups",
  });

  addOperatorCommand(deadLetters, {
    name: "groups",
    description:
      "Count dead letters by job and reason, whatever numbers the reason has, the largest group first.",
    example: 'dead-letters groups --text "no ink"',
    takes: [
      option("--text <text>", "only groups with this text in their reason, in any letter case"),
      jsonOption(),
    ],
  }).action(groups);

  addOperatorCommand(deadLetters, {
    name: "list",
    description: "List dead letters, newest first.",
    example: 'dead-letters list --job 1/30 --reason "no ink"',
    takes: [...groupOptions(), ...listOptions()],
  }).action(list);

  addOperatorCommand(deadLetters, {
    name: "show",
    description: "Show one dead letter, with its metadata and body.",
    example: "dead-letters show 12",
    takes: [callIdArgument(), jsonOption()],
  }).action(show);

  for (const change of [RETRY, DROP]) {
    const { name, description } = change;
    addOperatorCommand(deadLetters, {
      name,
      description: `${description}; exit 1 if any ID is not a dead letter.`,
      example: `dead-letters ${name} --job 1/30 --reason "no ink"`,
      takes: [
        ...groupOptions(argumentOnly),
        idsArgument().argOptional(),
        argumentOnly("--all", `${name} all of them, or all that the other options select`),
        argumentOnly("--yes", "do not ask before more than one is changed"),
      ],
    }).action((callIds: bigint[], options: ChangeOptions) =>
      callIds.length === 0 ? changeGroups(change, options) : changeEach(change, callIds, options),
    );
  }
}

/** Options that select groups. */
interface GroupOptions {
  readonly origin?: string;
  readonly job?: FilterOptions["job"];
  readonly reason?: string;
}

const groupOptions = (make = option) => [
  originOption(make),
  jobOption(make),
  make("--reason <text>", "only those with this reason, as `groups` prints it"),
];

async function groups({ text = "", ...options }: PrintOptions & { readonly text?: string }): Promise<void> {
  const [{ groups, totalGroups, totalDeadLetters }, names] = await callOperator(options, (client) =>
    Promise.all([client.listDeadLetterGroups({ text }), readNames(client)]),
  );
  printEntries(options, groups, {
    COUNT: ({ count }) => String(count),
    ORIGIN: ({ origin }) => origin,
    JOB: names.job,
    OLDEST: ({ oldestDeadAt }) => timeText(oldestDeadAt),
    NEWEST: ({ newestDeadAt }) => timeText(newestDeadAt),
    REASON: ({ reason }) => reason,
  });
  if (totalGroups > 0n && !options.json)
    console.error(`${counted(totalDeadLetters, "dead letter")} in ${counted(totalGroups, "group")}.`);
}

function list({ origin, job, reason, ...options }: ListOptions & GroupOptions): Promise<void> {
  const filter = defined({ origin, reason });
  return printList(options, {
    readPage: async (client, page) =>
      client.listDeadLetters({ ...page, ...filter, ...(await findJob(client, job)) }),
    items: ({ deadLetters }) => deadLetters,
    columns: ({ job }) => ({ ...COLUMNS, JOB: job }),
  });
}

const COLUMNS: Columns<DeadLetter> = {
  ID: ({ callId }) => String(callId),
  ORIGIN: ({ origin }) => origin,
  JOB: ({ serviceId, jobId }) => `${serviceId}/${jobId}`,
  ATTEMPTS: ({ attempts }) => String(attempts),
  "DEAD SINCE": ({ deadAt }) => timeText(deadAt),
  REASON: ({ reason }) => shortText(reason),
};

const show = (callId: bigint, options: PrintOptions): Promise<void> =>
  printNamed(options, (client) => client.getDeadLetter({ callId }), details);

function details({ deadLetter, metadata, body }: GetDeadLetterResponse, names: Names): string {
  if (deadLetter === undefined) throw new Error("The operator API returned no dead letter");
  return fields([
    ["call ID", String(deadLetter.callId)],
    ["origin", deadLetter.origin],
    ["job", names.job(deadLetter)],
    ["attempts", String(deadLetter.attempts)],
    ["reason", deadLetter.reason],
    ["enqueued", timeText(deadLetter.enqueuedAt)],
    ["dead since", timeText(deadLetter.deadAt)],
    ...Object.entries(metadata),
    [`body, ${body.byteLength} bytes`, bodyText(body)],
  ]);
}

function bodyText(body: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(body);
  } catch {
    return "not UTF-8 text; --json prints it as base64";
  }
}

/** A command that changes dead letters. */
interface Change {
  readonly name: string;
  readonly description: string;
  readonly done: string;
  readonly call: (
    client: OperatorClient,
    request: { callIds: bigint[] } | { group: DeadLetterGroup; pageToken: string },
  ) => Promise<{ statuses: readonly DeadLetterStatus[]; count: bigint; nextPageToken: string }>;
}

const RETRY: Change = {
  name: "retry",
  description: "Return dead letters to the queue",
  done: "retried",
  call: (client, request) => client.retryDeadLetters(request),
};
const DROP: Change = {
  name: "drop",
  description: "Delete dead letters",
  done: "dropped",
  call: (client, request) => client.dropDeadLetters(request),
};

type ChangeOptions = OperatorSelection & GroupOptions & { readonly all?: boolean; readonly yes?: boolean };

/**
 * Asks before more than one dead letter is changed.
 * @throws InvalidArgumentError without a terminal
 * @throws Refusal unless the operator confirms
 */
async function approve({ name }: Change, count: bigint, { yes }: ChangeOptions): Promise<void> {
  if (count <= 1n || yes) return;
  const what = `${name} ${count} dead letters`;
  if (!canAsk()) throw new InvalidArgumentError(`Pass --yes to ${what}. Nothing was done.`);
  const answer = await ask(`${what}? [y/N] `);
  if (!/^y(es)?$/i.test(answer)) throw new Refusal(["Nothing was done."]);
}

async function changeEach(change: Change, callIds: bigint[], options: ChangeOptions): Promise<void> {
  if (selects(options)) throw new InvalidArgumentError("Pass either call IDs or options that select groups.");
  await approve(change, BigInt(new Set(callIds).size), options);
  const { done, call } = change;
  const { statuses } = await callOperator(options, (client) => call(client, { callIds }));
  const missing = callIds.filter((_, index) => statuses[index] !== DeadLetterStatus.DONE);
  for (const callId of callIds) if (!missing.includes(callId)) console.log(`${callId} ${done}`);
  if (missing.length === 0) return;
  throw new Refusal(missing.map((callId) => whyNotDone(callId, statuses[callIds.indexOf(callId)])));
}

/** Interval at which the command checks whether the queue has room for more calls of a group. */
const ROOM_INTERVAL_MS = 1_000;

/** Changes all dead letters of the groups that the options select, and prints the number for each. */
async function changeGroups(change: Change, options: ChangeOptions): Promise<void> {
  const { name, done, call } = change;
  if (!selects(options))
    throw new InvalidArgumentError(`Say what to ${name}: call IDs, --job, --origin or --reason, or --all.`);
  await callOperator(options, async (client) => {
    const [{ groups, totalGroups }, job] = await Promise.all([
      client.listDeadLetterGroups({}),
      findJob(client, options.job),
    ]);
    const selected = groups.filter((group) => isSelected(group, { ...options, job }));
    const total = selected.reduce((sum, { count }) => sum + count, 0n);
    await approve(change, total, options);
    for (const group of selected) {
      let changed = 0n;
      let pageToken = "";
      do {
        const { count, nextPageToken } = await call(client, { group, pageToken });
        changed += count;
        pageToken = nextPageToken;
        if (pageToken === "" || count > 0n) continue;
        console.error(`${changed} of ${group.count} ${done}; waiting until half of the queue is free`);
        await sleep(ROOM_INTERVAL_MS);
      } while (pageToken !== "");
      console.log(
        `${changed} ${done}: ${group.origin} ${group.serviceId}/${group.jobId}, ${printable(group.reason)}`,
      );
    }
    if (totalGroups > groups.length)
      throw new Refusal([`There are more than ${groups.length} groups: run this again.`]);
    if (selected.length === 0)
      throw new Refusal(["No dead letter matches. See: jobgate dead-letters groups"]);
  });
}

function selects({ origin, job, reason, all }: ChangeOptions): boolean {
  return origin !== undefined || job !== undefined || reason !== undefined || all === true;
}

function isSelected(
  group: DeadLetterGroup,
  { origin, job, reason }: Omit<GroupOptions, "job"> & { readonly job: NumberedJob | undefined },
): boolean {
  return (
    (origin === undefined || group.origin === origin) &&
    (job === undefined || group.jobId === job.jobId) &&
    (job?.serviceId === undefined || group.serviceId === job.serviceId) &&
    (reason === undefined || group.reason === groupedReason(reason))
  );
}
