import type { Logger } from "pino";
import type { ChainClient } from "../../chain/chain-client.ts";
import type { AcceptedToken } from "../../config/config.ts";
import { readReceiver } from "./chain.ts";
import type { ChannelsFacilitator } from "./channels-facilitator.ts";

/** Sum that has moved from channels to a receiver. */
export interface SettledSum {
  readonly asset: string;
  readonly receiver: string;
  /** Token units. */
  readonly settled: bigint;
}

interface Parts {
  readonly facilitator: Pick<ChannelsFacilitator, "settle">;
  readonly client: ChainClient;
  /** The tokens of the network that are offered for channels. */
  readonly tokens: () => readonly AcceptedToken[];
  /** Returns true if a settlement may be requested again. */
  readonly mayAsk: (receiver: string) => boolean;
  readonly logger: Logger;
}

/** Accounts that claimed money moves to, on one network. */
export class Receivers {
  readonly #parts: Parts;
  /** Sums that had moved when the chain was last read, by receiver and token. */
  readonly #settled = new Map<string, SettledSum>();
  #mayOwe = true;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Sums that have moved to receivers, as the chain showed them last. */
  get settled(): readonly SettledSum[] {
    return [...this.#settled.values()];
  }

  /** Records that claimed money may not have moved yet. */
  noteClaim(): void {
    this.#mayOwe = true;
  }

  /** Requests that claimed money is moved to its receivers, unless all of it has moved. */
  async settle(): Promise<void> {
    if (!this.#mayOwe) return;
    const { client, facilitator, logger, tokens, mayAsk } = this.#parts;
    const rpc = await client.connect();
    let owes = false;
    const receivers = new Map(
      tokens().map(({ payTo: receiver, asset }) => [
        `${receiver} ${asset}`.toLowerCase(),
        { receiver, asset },
      ]),
    );
    for (const [key, of] of receivers) {
      const sums = await readReceiver(rpc, of.receiver, of.asset);
      this.#settled.set(key, { asset: of.asset, receiver: of.receiver, settled: sums.settled });
      if (sums.claimed === sums.settled) continue;
      owes = true;
      if (!mayAsk(key)) continue;
      const answer = await facilitator.settle(of);
      if (answer.kind === "success") logger.info({ ...of, transaction: answer.transaction }, "settled");
      else logger.warn({ ...of, answer }, "claimed money was not settled; trying again");
    }
    this.#mayOwe = owes;
  }
}
