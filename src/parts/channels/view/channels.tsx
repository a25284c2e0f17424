import { type Channel, ChannelState } from "../../../gen/jobgate/v1/operator_pb.ts";
import { grouped } from "../../../page/shared/format.js";
import { client, useAction, useAnswer } from "../../../page/tools/client.ts";
import { type Column, Hint, Problem, useConfirm } from "../../../page/tools/controls.tsx";
import { Ago, Badge, Hex, NetworkName, OnChain, SECOND_MS } from "../../../page/tools/format.tsx";
import { Listing, readEntries, StateLinks } from "../../../page/tools/lists.tsx";
import type { Filters, PartView } from "../../../page/tools/route.ts";

/** States in the address, their names, and the stage that colours them. */
const CHANNEL_STATES = {
  open: { state: ChannelState.OPEN, name: "Open", stage: "done" },
  refunding: { state: ChannelState.REFUNDING, name: "Being paid back", stage: "running" },
  withdrawing: { state: ChannelState.WITHDRAWING, name: "Withdrawing", stage: "unsure" },
  stopped: { state: ChannelState.STOPPED, name: "Stopped", stage: "dead" },
} as const;

/** Payment channels, with the deposits, charges and claims of each. */
function Channels({ filters }: { filters: Filters }) {
  const { state = "", before } = filters;
  const answer = useAnswer(["channels", JSON.stringify(filters)], 10 * SECOND_MS, (options) =>
    readEntries<Channel>(before, async (page) => {
      const stateFilter =
        CHANNEL_STATES[state as keyof typeof CHANNEL_STATES]?.state ?? ChannelState.UNSPECIFIED;
      const { channels, nextPageToken } = await client.listChannels({ ...page, state: stateFilter }, options);
      return { items: channels, nextPageToken };
    }),
  );
  const { decide, problem, dialog } = useDecision();
  const states = [
    { value: "", name: "All" },
    ...Object.entries(CHANNEL_STATES).map(([value, { name }]) => ({ value, name })),
  ];
  return (
    <>
      <StateLinks path="channels" filters={filters} states={states} />
      <Problem text={problem} />
      <Listing
        path="channels"
        caption="Channels"
        filters={filters}
        answer={answer}
        noneYet={
          <Hint>
            No buyer has opened a payment channel. <code>[x402.channels]</code> lets buyers pay many calls by
            one deposit.
          </Hint>
        }
        columns={[
          ...COLUMNS,
          {
            label: "Actions",
            class: "actions stacked",
            cell: (channel) => <Buttons {...{ channel, decide }} />,
          },
        ]}
      />
      {dialog}
    </>
  );
}

const COLUMNS: readonly Column<Channel>[] = [
  {
    label: "Channel",
    cell: ({ id, network }) => (
      <>
        <Hex>{id}</Hex>
        <span class="muted block">
          <NetworkName network={network} />
        </span>
      </>
    ),
  },
  {
    label: "State",
    class: "wide",
    cell: (channel) => (
      <>
        <ChannelBadge {...channel} />
        <span class="muted block">{reasonOf(channel)}</span>
      </>
    ),
  },
  {
    label: "Payer",
    cell: ({ payer, network }) => (
      <OnChain kind="account" network={network}>
        {payer}
      </OnChain>
    ),
  },
  { label: "Deposited", class: "number", cell: ({ depositedText }) => grouped(depositedText) },
  { label: "Charged", class: "number", cell: ({ chargedText }) => grouped(chargedText) },
  { label: "Claimed", class: "number", cell: ({ claimed, claimedText }) => orDash(claimed, claimedText) },
  {
    label: "To claim",
    class: "number",
    cell: ({ unclaimed, unclaimedText, dueSince, lost, lostText }) => (
      <>
        {orDash(unclaimed, unclaimedText)}
        {dueSince && (
          <span class="muted block">
            for <Ago time={dueSince} suffix="" />
          </span>
        )}
        {lost !== "0" && (
          <span class="block" data-tone="bad">
            {grouped(lostText)} lost
          </span>
        )}
      </>
    ),
  },
];

function orDash(units: string, text: string): string {
  return units === "0" ? "–" : grouped(text);
}

function ChannelBadge({ state }: Channel) {
  const { stage = "unsure", name = "?" } =
    Object.values(CHANNEL_STATES).find((one) => one.state === state) ?? {};
  return <Badge stage={stage}>{name}</Badge>;
}

function reasonOf({ keyMissing, authorizer, reason }: Channel): string {
  const missing = keyMissing
    ? `no key of authorizer ${authorizer.slice(0, 8)}…${authorizer.slice(-4)} is configured`
    : "";
  return [missing, reason].filter(Boolean).join("; ");
}

type Decide = (kind: "claim" | "refund", channel: Channel) => void;

/** Buttons of the actions that are possible with a channel. */
function Buttons({ channel, decide }: { channel: Channel; decide: Decide }) {
  const { id, state, unclaimed, keyMissing } = channel;
  if (keyMissing) return null;
  return (
    <>
      {unclaimed !== "0" && (
        <button type="button" aria-label={`Claim channel ${id}`} onClick={() => decide("claim", channel)}>
          Claim
        </button>
      )}
      {(state === ChannelState.OPEN || state === ChannelState.WITHDRAWING) && (
        <button type="button" aria-label={`Pay back channel ${id}`} onClick={() => decide("refund", channel)}>
          Pay back
        </button>
      )}
    </>
  );
}

/** Returns a function that asks for the operator's name and note, and then carries out an action. */
function useDecision() {
  const { run, problem } = useAction();
  const [ask, dialog] = useConfirm();
  const decide: Decide = (kind, { id, unclaimedText, payer }) =>
    ask({
      ...(kind === "claim"
        ? {
            title: `Claim ${unclaimedText} now?`,
            text: "A transaction claims the final charges of the channel.",
            action: "Claim it",
          }
        : {
            title: "Pay the rest of the channel back?",
            text: `${payer} gets the uncharged rest. Once the refund is sent, it cannot be undone.`,
            action: "Pay it back",
          }),
      isSigned: true,
      onAgree: (signature) =>
        void run(async () => {
          if (kind === "claim") await client.claimChannels({ id, ...signature });
          else await client.refundChannel({ id, ...signature });
          return kind === "claim" ? "The channel is being claimed." : "The channel is being paid back.";
        }),
    });
  return { decide, problem, dialog };
}

export const VIEW: PartView = {
  path: "channels",
  title: "Channels",
  after: "payments",
  View: Channels,
};
