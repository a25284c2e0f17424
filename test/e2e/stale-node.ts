import { setTimeout as sleep } from "node:timers/promises";
import { type Anvil, startAnvil } from "../helpers/anvil.ts";
import type { Fault } from "../helpers/fault.ts";
import { eip3009Token, type SignedAuthorization, type Token } from "../helpers/usdc.ts";

/** One life of the second node, until it follows the chain again from another block. */
export interface NodeLife {
  /** Blocks that it is behind the chain's head at first. It falls further behind until its end. */
  readonly lag: number;
  /** Blocks that it mined on top, which the chain does not have. */
  readonly ownBlocks: number;
  /** Time on top of the chain's that its own blocks show. */
  readonly aheadSecs: number;
  readonly ms: number;
}

/**
 * A second node behind the same RPC address: real, behind, and now and then on a fork of its own. Its forks are shorter
 * than the confirmations that jobgate waits for: a node whose confirmed blocks are wrong cannot be found out.
 */
export class StaleNode {
  readonly #main: Anvil;
  readonly #node: Anvil;
  readonly #token: Token;
  /** Signed payments that its next fork settles. */
  readonly #toSettle: { signed: SignedAuthorization; settled: (transaction: string | undefined) => void }[] =
    [];
  #stopped = false;
  #living: Promise<void> = Promise.resolve();

  private constructor(main: Anvil, node: Anvil, token: Token) {
    this.#main = main;
    this.#node = node;
    this.#token = eip3009Token({ ...token, anvil: node });
  }

  static async start(main: Anvil, token: Token, lives: readonly NodeLife[]): Promise<StaleNode> {
    const head = await main.client.getBlockNumber();
    const fork = ["--fork-url", main.rpcUrl, "--fork-block-number", String(head)];
    const node = await startAnvil({
      extraArgs: [...fork, "--no-rate-limit", "--retries", "0", "--no-storage-caching"],
    });
    const stale = new StaleNode(main, node, token);
    stale.#living = stale.#live(lives);
    return stale;
  }

  /** Settles on the node's next fork alone. @returns the transaction; undefined when it is not valid there */
  settle(signed: SignedAuthorization): Promise<string | undefined> {
    return new Promise((settled) => this.#toSettle.push({ signed, settled }));
  }

  /** This node answers instead, `whateverBlock` with its newest state, also to a question about a block that it lacks. */
  answer({ whateverBlock = false } = {}): Fault {
    return {
      kind: "reroute",
      target: this.#node.rpcUrl,
      ...(whateverBlock ? { rewrite: askForLatestState } : {}),
    };
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#living;
    await this.#node.stop();
  }

  async #live(lives: readonly NodeLife[]): Promise<void> {
    for (let life = 0; !this.#stopped; life++) {
      const { lag, ownBlocks, aheadSecs, ms } = lives[life % lives.length] as NodeLife;
      // A node that does not manage to start anew keeps its old view.
      await this.#startAnew(lag, ownBlocks, aheadSecs).catch(() => undefined);
      await sleep(ms);
    }
    for (const { settled } of this.#toSettle) settled(undefined);
  }

  async #startAnew(lag: number, ownBlocks: number, aheadSecs: number): Promise<void> {
    const head = await this.#main.client.getBlockNumber();
    await this.#node.client.reset({ blockNumber: head - BigInt(lag), jsonRpcUrl: this.#main.rpcUrl });
    if (ownBlocks > 0) await this.#fork(ownBlocks, aheadSecs);
  }

  async #fork(blocks: number, aheadSecs: number): Promise<void> {
    const { client } = this.#node;
    if (aheadSecs > 0) await client.increaseTime({ seconds: aheadSecs });
    const next = this.#toSettle.shift();
    // Mined at once, in the first of its own blocks.
    const transaction =
      next && (await this.#token.transferWithAuthorization(next.signed).catch(() => undefined));
    next?.settled(transaction);
    await client.mine({ blocks: transaction === undefined ? blocks : blocks - 1 });
  }
}

/** The body of a question for state, with the newest block in place of the one that it names. */
function askForLatestState(body: Buffer): Buffer {
  const call = JSON.parse(body.toString()) as { method: string; params: unknown[] };
  if (call.method !== "eth_call") return body;
  return Buffer.from(JSON.stringify({ ...call, params: [call.params[0], "latest"] }));
}
