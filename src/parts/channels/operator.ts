import { Code, ConnectError } from "@connectrpc/connect";
import type { Logger } from "pino";
import type { Config } from "../../config/config.ts";
import type {
  ClaimChannelsRequest,
  GetChannelRequest,
  ListChannelsRequest,
  RefundChannelRequest,
  ResumeChannelsRequest,
} from "../../gen/jobgate/v1/operator_pb.ts";
import { decimalsIn, nameIn } from "../../operator/messages.ts";
import type { ApiAddition, OperatorMethods } from "../../operator/methods.ts";
import { invalid, pageSizeOf, readSignature } from "../../operator/requests.ts";
import type { NetworkChannels } from "./network-channels.ts";
import { toChannel, toChannelSum, toCharge, toDecision } from "./operator-messages.ts";
import { CHANNEL_STATES } from "./operator-states.ts";
import { RESTORED } from "./store/chain-rules.ts";
import type { ChannelLedger } from "./store/ledger.ts";
import type { ChannelPlace } from "./store/operator-ledger.ts";
import type { ChannelRow } from "./store/row.ts";
import { channelSums } from "./store/totals.ts";

/** Charges and decisions that are shown with their channel. */
const SHOWN = 50;
/** Most channels that one call reads. */
const PAGE = 200;

/** Work on the channels of a network that operators request. */
export type OperatedNetwork = Pick<NetworkChannels, "canSign" | "count" | "look" | "readAll">;

/** Adds payment channels to the operator's API. */
export function channelOperation(parts: {
  readonly ledger: ChannelLedger;
  /** @returns undefined if the configuration does not work on the channel's network */
  readonly networkOf: (row: Pick<ChannelRow, "network">) => OperatedNetwork | undefined;
  readonly isConfigured: boolean;
  readonly configuration: () => Config;
  readonly logger: Logger;
}): ApiAddition {
  const { ledger, networkOf, isConfigured, configuration, logger } = parts;
  const decimalsOf = decimalsIn(configuration);
  const message = (row: ChannelRow) => toChannel(row, decimalsOf, networkOf(row)?.canSign(row) !== true);

  async function find(id: string): Promise<ChannelRow> {
    const row = await ledger.findChannel(readChannelId(id));
    if (row === undefined) throw new ConnectError(`There is no channel ${id}.`, Code.NotFound);
    return row;
  }

  function networkFor(row: ChannelRow): OperatedNetwork {
    const network = networkOf(row);
    if (network?.canSign(row) === true) return network;
    const lacks =
      network === undefined ? `channels on ${row.network}` : "the key of the channel's authorizer";
    throw new ConnectError(
      `The configuration lacks ${lacks}: nothing can be claimed or paid back there.`,
      Code.FailedPrecondition,
    );
  }

  function requireConfigured(): void {
    if (isConfigured) return;
    throw new ConnectError("The configuration has no x402.channels.", Code.FailedPrecondition);
  }

  /** Requests claims of all channels with unclaimed charges. @returns the number of these channels */
  async function claimAll(signature: ReturnType<typeof readSignature>): Promise<number> {
    let claimed = 0;
    for (let after = ""; ; ) {
      const ids = await ledger.listDueIds({ after, limit: PAGE });
      if (ids.length > 0) claimed += (await ledger.claimSoon(ids, signature)).length;
      const last = ids.at(-1);
      if (last === undefined || ids.length < PAGE) return claimed;
      after = last;
    }
  }

  /** Resumes channels of one network. @returns the channels after that */
  async function resume(
    rows: readonly ChannelRow[],
    signature: ReturnType<typeof readSignature>,
  ): Promise<readonly ChannelRow[]> {
    const network = rows[0] && networkOf(rows[0]);
    if (network === undefined) return rows;
    const chains = await network.readAll(rows);
    const seen = rows.flatMap(({ channel_id: channelId }, i) => {
      const chain = chains[i];
      return chain === undefined ? [] : [{ channelId, chain }];
    });
    return ledger.resumeChannels(seen, signature);
  }

  const methods: OperatorMethods = {
    async listChannels(request: ListChannelsRequest) {
      const status = nameIn(CHANNEL_STATES, request.state);
      if (status === undefined && request.state !== 0) throw invalid("state: expected a ChannelState.");
      const size = pageSizeOf(request);
      const after = readPlace(request.pageToken);
      const found = await ledger.listChannelsByAge({ status, after, limit: size + 1 });
      return { channels: found.slice(0, size).map(message), nextPageToken: nextToken(found, size) };
    },

    async getChannel({ id }: GetChannelRequest) {
      const row = await find(id);
      const [charges, decisions] = await Promise.all([
        ledger.listOpenCharges(row.channel_id, SHOWN),
        ledger.listChannelDecisions(row.channel_id, SHOWN),
      ]);
      return {
        channel: message(row),
        charges: charges.map((charge) => toCharge(charge, row, decimalsOf)),
        decisions: decisions.map(toDecision),
      };
    },

    async claimChannels({ id, ...request }: ClaimChannelsRequest) {
      const signature = readSignature(request);
      requireConfigured();
      if (id === "") {
        const channels = await claimAll(signature);
        logger.warn({ channels, by: signature.by }, "claims of channels were requested by the operator");
        return { channels: BigInt(channels) };
      }
      const row = await find(id);
      await networkFor(row).count(row.channel_id);
      const rows = await ledger.claimSoon([row.channel_id], signature);
      logger.warn({ channel: row.channel_id, by: signature.by }, "a claim was requested by the operator");
      return { channels: BigInt(rows.length) };
    },

    async refundChannel({ id, ...request }: RefundChannelRequest) {
      const signature = readSignature(request);
      const row = await find(id);
      const network = networkFor(row);
      await network.count(row.channel_id);
      const { chain } = await network.look(row);
      const decision = await ledger.refundByOperator(row.channel_id, chain, signature);
      if (decision.kind === "refunding") {
        logger.warn({ channel: row.channel_id, by: signature.by }, "a channel is paid back by the operator");
        return { channel: message(decision.row) };
      }
      if (decision.kind === "nothing")
        throw new ConnectError(`Channel ${id} has nothing to pay back.`, Code.FailedPrecondition);
      const why =
        row.status === "stopped"
          ? "is stopped"
          : "waits for a deposit, or for calls while its payer withdraws";
      throw new ConnectError(`Channel ${id} ${why}: it cannot be paid back now.`, Code.FailedPrecondition);
    },

    async resumeChannels({ pageToken, ...request }: ResumeChannelsRequest) {
      const signature = readSignature(request);
      requireConfigured();
      const found = await ledger.listChannelsByAge({
        status: "stopped",
        after: readPlace(pageToken),
        limit: PAGE + 1,
      });
      const waiting = found.slice(0, PAGE).filter(({ reason }) => reason === RESTORED);
      const after: ChannelRow[] = [];
      for (const network of new Set(waiting.map((row) => row.network)))
        after.push(
          ...(await resume(
            waiting.filter((row) => row.network === network),
            signature,
          )),
        );
      const stopped = after.filter(({ status }) => status === "stopped");
      const resumed = after.length - stopped.length;
      if (after.length > 0)
        logger.warn(
          { resumed, stopped: stopped.length, by: signature.by },
          "channels were resumed by the operator",
        );
      return {
        resumed: BigInt(resumed),
        stopped: stopped.map(message),
        nextPageToken: nextToken(found, PAGE),
      };
    },
  };
  return {
    methods,
    totals: (totals) => ({ channels: channelSums(totals).map((sum) => toChannelSum(sum, decimalsOf)) }),
  };
}

/** Returns the token of the page after the first entries; empty if there are no more. */
function nextToken(found: readonly ChannelRow[], size: number): string {
  const last = found[size - 1];
  return found.length > size && last !== undefined ? `${last.created_at}.${last.channel_id}` : "";
}

function readPlace(token: string): ChannelPlace | undefined {
  if (token === "") return undefined;
  const [, createdAt, channelId] = /^([0-9]{1,15})\.(0x[0-9a-f]{64})$/.exec(token) ?? [];
  if (createdAt === undefined || channelId === undefined)
    throw invalid("page_token: expected the next_page_token of the previous page, or an empty string.");
  return { createdAt: Number(createdAt), channelId };
}

function readChannelId(id: string): string {
  if (/^0x[0-9a-fA-F]{64}$/.test(id)) return id.toLowerCase();
  throw invalid("id: expected 0x and 64 hex digits.");
}
