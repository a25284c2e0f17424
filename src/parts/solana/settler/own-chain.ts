import { ChainClient } from "../../../chain/chain-client.ts";
import type { Rpc } from "../../../chain/rpc.ts";
import { NO_TELEMETRY, type Telemetry } from "../../../core/telemetry.ts";
import type { FeePayerAccess } from "../../../x402/facilitators/own-settlement.ts";
import { tokenAccountOf } from "../addresses.ts";
import { asObject, readBalance, readReference } from "../chain.ts";

/** State of a transaction that landed, as a node shows it. */
export interface LandedStatus {
  readonly hasFailed: boolean;
  readonly isFinalized: boolean;
}

/** 10⁻¹⁸ SOL, the unit of balances and fees on every network, in one lamport. */
const WEI_PER_LAMPORT = 1_000_000_000n;

/** One cluster, with the calls that it takes to send transactions and to follow them. */
export class OwnChain {
  readonly #client: ChainClient;

  constructor({
    network,
    rpcUrl,
    rpcTimeoutMs,
    telemetry = NO_TELEMETRY,
  }: Omit<FeePayerAccess, "feePayer"> & { readonly telemetry?: Telemetry }) {
    this.#client = new ChainClient(
      { rpcUrl, timeoutMs: rpcTimeoutMs, observer: { telemetry, purpose: "settlement" } },
      { id: network.slice("solana:".length), read: readReference },
    );
  }

  connect(): Promise<Rpc> {
    return this.#client.connect();
  }

  /** Reads the balance of an account, in 10⁻¹⁸ SOL. */
  async balance(address: string): Promise<bigint> {
    const answer = await this.#call("getBalance", [address, { commitment: "confirmed" }]);
    const { value } = asObject(answer);
    if (!Number.isSafeInteger(value)) throw new Error("the RPC answered with no balance");
    return BigInt(value as number) * WEI_PER_LAMPORT;
  }

  /** Reads the units of a token in the associated token account of its owner. */
  async tokens(owner: string, mint: string): Promise<bigint> {
    return (await readBalance(await this.connect(), tokenAccountOf(owner, mint))) ?? 0n;
  }

  /** Reads the newest blockhash of a finalized block, and the slot of a finalized block that has it. */
  async finalizedBlockhash(): Promise<{ readonly blockhash: string; readonly slot: number }> {
    const answer = asObject(await this.#call("getLatestBlockhash", [{ commitment: "finalized" }]));
    const { slot } = asObject(answer.context);
    if (!Number.isSafeInteger(slot)) throw new Error("the RPC answered with no slot");
    return { blockhash: String(asObject(answer.value).blockhash), slot: slot as number };
  }

  /** Runs a transaction without its fee payer's signature. @returns the error that it would end with */
  async simulate(base64: string): Promise<string | undefined> {
    const options = { encoding: "base64", commitment: "confirmed", sigVerify: false };
    const { value } = asObject(await this.#call("simulateTransaction", [base64, options]));
    const { err } = asObject(value);
    return err === null ? undefined : JSON.stringify(err);
  }

  async broadcast(base64: string): Promise<void> {
    await this.#call("sendTransaction", [base64, { encoding: "base64", skipPreflight: true }]);
  }

  /** Reads the states of up to 256 transactions; undefined for a transaction that no confirmed block has. */
  async statuses(signatures: readonly string[]): Promise<readonly (LandedStatus | undefined)[]> {
    const answer = await this.#call("getSignatureStatuses", [signatures, { searchTransactionHistory: true }]);
    const { value } = asObject(answer);
    return (value as readonly (SignatureStatus | null)[]).map((status) => {
      if (status === null || status.confirmationStatus === "processed") return undefined;
      return { hasFailed: status.err !== null, isFinalized: status.confirmationStatus === "finalized" };
    });
  }

  /** Reads the slot of a finalized transaction, and its fee in 10⁻¹⁸ SOL. @returns undefined if no finalized block has it */
  async finalized(
    signature: string,
  ): Promise<
    { readonly slot: number; readonly hasFailed: boolean; readonly feeWei: bigint | undefined } | undefined
  > {
    const options = { encoding: "base64", commitment: "finalized", maxSupportedTransactionVersion: 0 };
    const answer = await this.#call("getTransaction", [signature, options]);
    if (answer === null) return undefined;
    const { slot, meta } = asObject(answer);
    const { err, fee } = asObject(meta);
    const feeWei = Number.isSafeInteger(fee) ? BigInt(fee as number) * WEI_PER_LAMPORT : undefined;
    return { slot: Number(slot), hasFailed: err !== null, feeWei };
  }

  async #call(method: string, params: readonly unknown[]): Promise<unknown> {
    return (await this.#client.connect()).call(method, params);
  }
}

interface SignatureStatus {
  readonly err: unknown;
  readonly confirmationStatus: string;
}
