import type { PeerProblem } from "../../config/config.ts";
import { accountOf } from "../../core/private-keys.ts";
import type { StoreInspection } from "../../store/contract/inspection.ts";
import type { ChannelsConfig } from "./config.ts";
import type { ChannelConfig } from "./hashes.ts";
import type { ChannelRow } from "./store/row.ts";

/** Channels that one query reads. */
const PAGE = 1_000;
/** Most channels that a problem names. */
const MAX_NAMED = 3;

/**
 * Finds channels with money whose authorizers have no key in the configuration. A store that cannot be read is ignored here,
 * because another check reports it.
 */
export async function missingAuthorizers(
  { authorizers }: Pick<ChannelsConfig, "authorizers">,
  inspect: () => Promise<StoreInspection>,
): Promise<PeerProblem[]> {
  const known = new Set<string>(authorizers.map(({ privateKey }) => accountOf(privateKey).toLowerCase()));
  const missing = new Map<string, string[]>();
  const store = await inspect().catch(() => undefined);
  if (store === undefined) return [];
  try {
    for await (const { channel_id, config } of channelsIn(store)) {
      const { receiverAuthorizer } = JSON.parse(config) as ChannelConfig;
      if (known.has(receiverAuthorizer.toLowerCase())) continue;
      missing.set(receiverAuthorizer, [...(missing.get(receiverAuthorizer) ?? []), channel_id]);
    }
  } catch {
    return [];
  } finally {
    await store.close();
  }
  return [...missing].map(([authorizer, channels]) => ({
    path: ["x402", "channels", "authorizer"],
    message: `has no key of ${authorizer}, which ${named(channels)} of the store ${channels.length === 1 ? "names" : "name"}; expected that key too, because nothing can be claimed or paid back there`,
  }));
}

/** Reads the channels that have money on their chain, or unclaimed charges. */
async function* channelsIn(
  store: StoreInspection,
): AsyncGenerator<Pick<ChannelRow, "channel_id" | "config">, void> {
  for (let after = ""; ; ) {
    const rows = await store.read<Pick<ChannelRow, "channel_id" | "config">>(
      (schema) => `SELECT channel_id, config FROM ${schema}channels
        WHERE channel_id > '${after}' AND (balance <> claimed OR due_since IS NOT NULL) ORDER BY channel_id LIMIT ${PAGE}`,
    );
    yield* rows;
    const last = rows.at(-1);
    if (last === undefined || rows.length < PAGE) return;
    after = last.channel_id;
  }
}

function named(channels: readonly string[]): string {
  const first = channels.slice(0, MAX_NAMED).join(", ");
  const more = channels.length - MAX_NAMED;
  return `${channels.length === 1 ? "channel" : "channels"} ${first}${more > 0 ? ` and ${more} more` : ""}`;
}
