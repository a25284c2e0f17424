import type { Command } from "commander";
import { eventRow } from "../../../commands/event-text.ts";
import { findJob, type Names } from "../../../commands/names.ts";
import {
  type Call,
  callStateText,
  filterRequest,
  type GetCallResponse,
  type Timestamp,
  timestampMs,
  timeText,
} from "../../../commands/operator-client.ts";
import {
  addCommand,
  addOperatorCommand,
  callIdArgument,
  type FilterOptions,
  filterOptions,
  jsonOption,
  option,
  originOption,
  stateOption,
} from "../../../commands/options.ts";
import {
  type Columns,
  durationText,
  fields,
  type ListOptions,
  type PrintOptions,
  printList,
  printNamed,
  shortText,
  table,
} from "../../../commands/output.ts";
import { callTexts } from "../../../commands/part-text.ts";
import { defined } from "../../../core/objects.ts";
import { CALL_STATES } from "../../../operator/messages.ts";
import type { ListedState } from "../../../store/contract/operator-lists.ts";

export function addTo(program: Command): void {
  const jobs = addCommand(program, {
    name: "jobs",
    description: "Show the JobCalls of a running jobgate, finished ones too.",
    example: "jobs list --state ready",
  });

  addOperatorCommand(jobs, {
    name: "list",
    description: "List JobCalls, newest first.",
    example: "jobs list --origin webhook --since 2h --text 72d3162e",
    takes: [
      ...filterOptions(),
      stateOption("JobCalls", CALL_STATES),
      originOption(),
      option("--text <text>", "only JobCalls with this text in their metadata, letter case included"),
    ],
  }).action(list);

  addOperatorCommand(jobs, {
    name: "show",
    description: "Show one JobCall: its payment, its deliveries, how it ended, and what followed.",
    example: "jobs show 12",
    takes: [callIdArgument(), jsonOption()],
  }).action(show);
}

interface JobListOptions extends ListOptions, FilterOptions {
  readonly state?: ListedState;
  readonly origin?: string;
  readonly text?: string;
}

function list(options: JobListOptions): Promise<void> {
  const { state, origin, text } = options;
  const filter = defined({
    ...filterRequest(options),
    state: state && CALL_STATES[state],
    origin,
    text,
  });
  return printList(options, {
    readPage: async (client, page) =>
      client.listCalls({ ...page, ...filter, ...(await findJob(client, options.job)) }),
    items: ({ calls }) => calls,
    columns: ({ job }) => ({ ...COLUMNS, JOB: job }),
  });
}

const COLUMNS: Columns<Call> = {
  ID: ({ callId }) => String(callId),
  STATE: ({ state }) => callStateText(state),
  ORIGIN: ({ origin }) => origin,
  JOB: ({ serviceId, jobId }) => `${serviceId}/${jobId}`,
  ATTEMPTS: ({ attempts }) => String(attempts),
  RUNNER: ({ subscriber }) => shortText(subscriber || "-"),
  PAID: ({ amountText }) => amountText || "-",
  ACCEPTED: ({ enqueuedAt }) => timeText(enqueuedAt),
  TOOK: ({ enqueuedAt, finishedAt }) => durationBetween(enqueuedAt, finishedAt),
  REASON: ({ reason, status }) => shortText(reason || (status > 0 ? `status ${status}` : "")),
};

/** A dash if either time is missing. */
function durationBetween(from: Timestamp | undefined, to: Timestamp | undefined): string {
  return from === undefined || to === undefined ? "-" : durationText(timestampMs(to) - timestampMs(from));
}

const show = (callId: bigint, options: PrintOptions): Promise<void> =>
  printNamed(options, (client) => client.getCall({ callId }), details);

function details(answer: GetCallResponse, names: Names): string {
  const { call, timeline, metadata, waitReasons, orderKey } = answer;
  if (call === undefined) throw new Error("The operator API returned no call");
  const facts = fields([
    ["call ID", String(call.callId)],
    ["state", callStateText(call.state)],
    ["reason", call.reason],
    ["waits", waitReasons.join(" ")],
    ["order key", orderKey],
    ["origin", call.origin],
    ["job", names.job(call)],
    ["attempts", String(call.attempts)],
    ["due", call.dueAt === undefined ? "" : timeText(call.dueAt)],
    ["paid", call.amountText],
    ["payer", call.payer],
    ...Object.entries(metadata),
  ]);
  const startedAt = timeline[0]?.at;
  const rows = timeline.map((event) => {
    const [time = "", ...what] = eventRow(event, names);
    return [time, durationBetween(startedAt, event.at), ...what];
  });
  const events = table(["TIME", "AFTER", "EVENT", "DETAILS"], rows);
  return [facts, events, ...callTexts(answer)].join("\n\n");
}
