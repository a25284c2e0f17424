import { Argument, type Command, InvalidArgumentError } from "commander";
import { Refusal } from "../../commands/input.ts";
import type { Names } from "../../commands/names.ts";
import { callOperator, jsonLine, timeText } from "../../commands/operator-client.ts";
import {
  addCommand,
  addOperatorCommand,
  byOption,
  jsonOption,
  listOptions,
  noteOption,
  stateOption,
} from "../../commands/options.ts";
import {
  type Columns,
  counted,
  fields,
  type ListOptions,
  type PrintOptions,
  printAnswer,
  printList,
  printNamed,
  shortText,
  tableOf,
} from "../../commands/output.ts";
import { defined } from "../../core/objects.ts";
import {
  CHANNEL_STATES,
  type Channel,
  channelStateText,
  chargeStateText,
  type GetChannelResponse,
} from "./operator-states.ts";
import type { ChannelStatus } from "./store/row.ts";

export function addTo(program: Command): void {
  const channels = addCommand(program, {
    name: "channels",
    description: "List the payment channels of a running jobgate; claim, pay back or resume them.",
    example: "channels list --state stopped",
  });

  addOperatorCommand(channels, {
    name: "list",
    description: "List channels, newest first.",
    example: "channels list --state withdrawing",
    takes: [...listOptions(), stateOption("channels", CHANNEL_STATES)],
  }).action(list);

  addOperatorCommand(channels, {
    name: "show",
    description: "Show one channel, its charges that are not final, and what operators decided about it.",
    example: `channels show ${EXAMPLE}`,
    takes: [idArgument("<id>"), jsonOption()],
  }).action(show);

  addOperatorCommand(channels, {
    name: "claim",
    description:
      "Claim now the final charges of one channel, or of all channels; exit 1 if the channel does not exist.",
    example: 'channels claim --note "end of the month"',
    takes: [idArgument("[id]"), noteOption(), byOption(), jsonOption()],
  }).action(claim);

  addOperatorCommand(channels, {
    name: "refund",
    description:
      "Pay the uncharged rest of a channel back to its payer; exit 1 if there is nothing to pay back.",
    example: `channels refund ${EXAMPLE} --note "as agreed by mail"`,
    takes: [idArgument("<id>"), noteOption(), byOption(), jsonOption()],
  }).action(refund);

  addOperatorCommand(channels, {
    name: "resume",
    description:
      "Accept vouchers again after a restore; exit 1 if a channel stays stopped because its chain contradicts the store.",
    example: 'channels resume --note "restored the copy of Monday"',
    takes: [noteOption(), byOption(), jsonOption()],
  }).action(resume);
}

const EXAMPLE = `0x${"5d".repeat(32)}`;

const idArgument = (name: string) =>
  new Argument(name, "ID of a channel").argParser((value: string) => {
    if (/^0x[0-9a-fA-F]{64}$/.test(value)) return value;
    throw new InvalidArgumentError("Expected 0x and 64 hex digits.");
  });

const COLUMNS: Columns<Channel> = {
  ID: ({ id }) => id,
  STATE: ({ state }) => channelStateText(state),
  DEPOSITED: ({ depositedText }) => depositedText,
  CHARGED: ({ chargedText }) => chargedText,
  CLAIMED: ({ claimedText }) => claimedText,
  UNCLAIMED: ({ unclaimedText }) => unclaimedText,
  LOST: ({ lostText }) => lostText,
  NETWORK: ({ network }) => network,
  PAYER: ({ payer }) => payer,
  REASON: (channel) => shortText(reasonsOf(channel).join("; ") || "-"),
};

/** Reasons why a channel accepts no vouchers, or cannot be claimed. */
function reasonsOf({ keyMissing, authorizer, reason }: Channel): string[] {
  const missing = `no key of authorizer ${authorizer} is configured`;
  return [...(keyMissing ? [missing] : []), ...(reason === "" ? [] : [reason])];
}

function list({ state, ...options }: ListOptions & { readonly state?: ChannelStatus }): Promise<void> {
  const filter = defined({ state: state && CHANNEL_STATES[state] });
  return printList(options, {
    readPage: (client, page) => client.listChannels({ ...page, ...filter }),
    items: (page) => page.channels,
    columns: ({ network }) => ({ ...COLUMNS, NETWORK: (channel) => network(channel.network) }),
  });
}

function show(id: string, options: PrintOptions): Promise<void> {
  return printNamed(
    options,
    (client) => client.getChannel({ id }),
    channelText,
    ({ channel }) => channel?.network,
  );
}

function channelText({ channel, charges, decisions }: GetChannelResponse, names: Names): string {
  if (channel === undefined) return "";
  const { refund } = channel;
  const about = fields([
    ["channel", channel.id],
    ["state", [channelStateText(channel.state), ...reasonsOf(channel)].join(": ")],
    ["network", names.networkInFull(channel.network)],
    ["payer", channel.payer],
    ["pay to", channel.payTo],
    ["authorizer", channel.authorizer],
    ["deposited", channel.depositedText],
    ["charged", channel.chargedText],
    ["final", channel.finalText],
    ["claimed", channel.claimedText],
    ["unclaimed", channel.unclaimedText],
    ["lost", channel.lostText],
    ["waits since", timeOf(channel.dueSince)],
    ["withdrawal since", timeOf(channel.withdrawRequestedAt)],
    ["refund", refund === undefined ? "" : `${refund.amountText}${refund.sending ? ", being sent" : ""}`],
    ["refund transaction", refund?.transaction ?? ""],
    ["created", timeOf(channel.createdAt)],
    ["changed", timeOf(channel.updatedAt)],
  ]);
  const open = tableOf(charges, {
    CALL: ({ callId }) => String(callId),
    CHARGE: ({ state }) => chargeStateText(state),
    AMOUNT: ({ amountText }) => amountText,
    AT: ({ createdAt }) => timeOf(createdAt),
  });
  const decided = tableOf(decisions, {
    DECISION: ({ action }) => action,
    BY: ({ by }) => by,
    AT: ({ at }) => timeOf(at),
    NOTE: ({ note }) => shortText(note),
  });
  return [about, ...(charges.length > 0 ? [open] : []), ...(decisions.length > 0 ? [decided] : [])].join(
    "\n\n",
  );
}

const timeOf = (time: Parameters<typeof timeText>[0]) => (time === undefined ? "" : timeText(time));

interface DecisionOptions extends PrintOptions {
  readonly note: string;
  readonly by: string;
}

function claim(id = "", { note, by, ...options }: DecisionOptions): Promise<void> {
  return printAnswer(
    options,
    (client) => client.claimChannels({ id, note, by }),
    ({ channels }) => (channels === 0n ? "nothing to claim" : `claiming ${counted(channels, "channel")}`),
  );
}

function refund(id: string, { note, by, ...options }: DecisionOptions): Promise<void> {
  return printAnswer(
    options,
    (client) => client.refundChannel({ id, note, by }),
    ({ channel }) => `${id} ${channel?.refund?.amountText ?? ""} is being paid back`,
  );
}

async function resume({ note, by, json, ...options }: DecisionOptions): Promise<void> {
  let resumed = 0n;
  const stopped: Channel[] = [];
  let pageToken = "";
  await callOperator(options, async (client) => {
    do {
      const answer = await client.resumeChannels({ note, by, pageToken });
      if (json) console.log(jsonLine(answer));
      resumed += answer.resumed;
      stopped.push(...answer.stopped);
      pageToken = answer.nextPageToken;
    } while (pageToken !== "");
  });
  if (!json) console.log(`${counted(resumed, "channel")} resumed`);
  if (stopped.length > 0)
    throw new Refusal(
      stopped.map((channel) => `${channel.id} stays stopped: ${reasonsOf(channel).join("; ")}`),
    );
}
