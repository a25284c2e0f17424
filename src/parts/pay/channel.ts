import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { SettleResponse } from "@x402/core/types";
import type { ClientEvmSigner } from "@x402/evm";
import { BatchSettlementEvmScheme } from "@x402/evm/batch-settlement/client";
import { FileClientChannelStorage } from "@x402/evm/batch-settlement/client/file-storage";
import { createPublicClient, http } from "viem";
import type { PrivateKeyAccount } from "viem/accounts";
import { Refusal } from "../../commands/input.ts";
import type { KnownTokens } from "./known-tokens.ts";
import { type Offer, unitsOf } from "./offers.ts";

const LOCK_POLL_MS = 100;

interface ChannelOptions {
  readonly signer: PrivateKeyAccount;
  /** Deposit where the channel does not cover the price: dollars for tokens that jobgate knows, base units of any other. */
  readonly deposit: string;
  readonly rpcUrl: string | undefined;
  readonly tokens: Pick<KnownTokens, "decimalsOf" | "text">;
  /** Runs before a deposit is signed, with its amount for people. */
  onDeposit(amount: string): void;
}

/** The payer's channels: the official client, which keeps their sums in files. Payments from them are made one after the other. */
export class PayerChannels {
  readonly scheme: BatchSettlementEvmScheme;
  readonly #folder: string;

  constructor(options: ChannelOptions) {
    const { signer, rpcUrl } = options;
    const { XDG_STATE_HOME: state = join(homedir(), ".local", "state") } = process.env;
    this.#folder = join(state, "jobgate", "channels", signer.address.toLowerCase());
    this.scheme = new BatchSettlementEvmScheme(rpcUrl === undefined ? signer : withChain(signer, rpcUrl), {
      storage: new FileClientChannelStorage({ directory: this.#folder }),
      depositStrategy: ({ paymentRequirements: offer, minimumDepositAmount }) =>
        depositOf(offer, minimumDepositAmount, options),
    });
  }

  /**
   * Waits until no other process pays from the channels.
   * @returns a function that lets the next process pay
   * @throws Refusal after the time
   */
  async hold(timeoutMs: number): Promise<() => Promise<void>> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    const lock = join(this.#folder, "lock");
    for (let leftMs = timeoutMs; leftMs > 0; leftMs -= LOCK_POLL_MS) {
      try {
        await writeFile(lock, String(process.pid), { flag: "wx" });
        return () => rm(lock, { force: true });
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
      }
      if (!isAlive(Number(await readFile(lock, "utf8").catch(() => process.pid))))
        await rm(lock, { force: true });
      else await sleep(LOCK_POLL_MS);
    }
    throw new Refusal([`Another process pays from the same channels: ${lock} has its process ID`]);
  }

  /** Has the seller of a job pay back what is left in the payer's channel. @throws Refusal if nothing was paid back */
  async refund(url: string): Promise<SettleResponse> {
    try {
      return await this.scheme.refund(url);
    } catch (error) {
      throw new Refusal([whyNotPaidBack((error as Error).message)]);
    }
  }
}

/** Explains an error of the official client, which tells errors apart by their messages alone. */
function whyNotPaidBack(message: string): string {
  if (/no remaining balance|refund_no_balance/.test(message))
    return "The channel has nothing left to be paid back";
  // The client deletes the sums of a channel once the rest is paid back.
  if (message.includes("existing channel record"))
    return "There is no channel with anything left to be paid back, unless its sums were lost; --rpc-url reads them from the chain";
  return `Nothing was paid back: ${message}`;
}

/**
 * Returns the deposit in base units.
 * @throws Refusal if it is lower than the seller accepts, or than the price needs
 */
function depositOf(offer: Offer, needed: string, { deposit, tokens, onDeposit }: ChannelOptions): bigint {
  const { minDeposit = "0" } = offer.extra as { readonly minDeposit?: string };
  const units = unitsOf(deposit, tokens.decimalsOf(offer));
  const least = [BigInt(minDeposit), BigInt(needed)].reduce((one, other) => (one > other ? one : other));
  const textOf = (amount: bigint) => tokens.text({ ...offer, amount: String(amount) });
  if (units < least) throw new Refusal([`--deposit is ${textOf(units)}; expected at least ${textOf(least)}`]);
  onDeposit(textOf(units));
  return units;
}

/**
 * Returns a signer that also reads channels on the chain, because the client reads a channel whose sums it lacks, or
 * whose sums the seller corrects.
 */
function withChain(signer: PrivateKeyAccount, rpcUrl: string): ClientEvmSigner {
  const chain = createPublicClient({ transport: http(rpcUrl) });
  return { ...signer, readContract: (call) => chain.readContract(call as never) };
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
