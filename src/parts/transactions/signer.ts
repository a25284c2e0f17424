import type { PendingSettlementStore } from "@x402/core/facilitator";
import type { FacilitatorEvmSigner } from "@x402/evm";
import { type Abi, concat, decodeFunctionResult, encodeFunctionData, type Hex } from "viem";
import { RpcError } from "../../chain/rpc.ts";
import type { Receipt, SettlerChain } from "./chain.ts";
import { TransactionRefused, type Transactions } from "./transactions.ts";

interface Parts {
  readonly chain: SettlerChain;
  readonly transactions: Transactions;
  readonly addresses: readonly Hex[];
  /** Address that alone can settle the payment; undefined if any address can. */
  readonly sender: string | undefined;
  /** Token units to move, which may be less than was signed. */
  readonly amount: bigint;
  /** Reference of the payment's transaction. */
  readonly reference: string;
  /** Unix seconds from which the payment is of no use. */
  readonly validBefore: number;
  /** End of the wait for the transaction, by the settler's clock; undefined if the payment is only verified. */
  readonly deadlineMs: number | undefined;
}

/**
 * Age up to which a settlement uses the verification's answer that the payer has no code. If the payer got code since, the
 * estimate of the settlement's gas fails.
 */
const PLAIN_AGE_MS = 1_000;

interface ContractCall {
  readonly address: Hex;
  readonly abi: readonly unknown[];
  readonly functionName: string;
  readonly args?: readonly unknown[];
}

/**
 * Position of the amount among the arguments, by name of the function. By these functions, one address settles a part
 * of the signed amount.
 */
const AMOUNT_AT: Readonly<Record<string, number>> = { settle: 1, settleWithPermit: 2 };

/**
 * Signer that the SDK's scheme uses to verify and to settle one payment. Nothing is signed here: a settlement is queued
 * in the journal, and the sender signs it. It also records what the scheme does not report: whether the chain was
 * silent, and under which hash the settlement was mined.
 */
export class PaymentSigner implements FacilitatorEvmSigner {
  readonly #parts: Parts;
  readonly #codes = new Map<string, Promise<Hex>>();
  #silence: unknown;
  #receipt: Receipt | undefined;
  #isQueued = false;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /**
   * Error because of which a query was not answered, or the settlement was not queued. If it is set, the scheme's
   * verdict is not used.
   */
  get silence(): unknown {
    return this.#silence;
  }

  /** Receipt of the payment's transaction, once it was seen mined. */
  get receipt(): Receipt | undefined {
    return this.#receipt;
  }

  /** True while the payment's transaction may still be sent or mined. */
  get isQueued(): boolean {
    return this.#isQueued;
  }

  /**
   * Reports to the scheme the transaction that an earlier settlement of this payment queued. The scheme then waits for
   * that transaction, and does not verify again a payment that may already be mined.
   */
  readonly earlierSettlement: PendingSettlementStore = {
    get: async () => {
      const { transactions, reference } = this.#parts;
      if ((await transactions.find(reference)) === undefined) return undefined;
      return this.#signed();
    },
    set: async () => undefined,
    delete: async () => undefined,
  };

  getAddresses(): readonly Hex[] {
    return this.#parts.addresses;
  }

  /**
   * The scheme simulates a settlement of the whole ceiling, which the payer need not hold, so the amount is simulated
   * instead.
   */
  async readContract({ address, abi, functionName, args: asked }: ContractCall): Promise<unknown> {
    const at = this.#parts.sender === undefined ? undefined : AMOUNT_AT[functionName];
    const args = at === undefined ? asked : asked?.with(at, this.#parts.amount);
    const call = { abi: abi as Abi, functionName, args };
    const data = (await this.#heard(() =>
      this.#parts.chain.callContract(address, encodeFunctionData(call), this.#parts.sender),
    )) as Hex;
    return decodeFunctionResult({ ...call, data });
  }

  /**
   * Queries the chain once for each address, because the scheme asks several times. Never rejects, because the scheme
   * leaves a check of the token running when it refuses early, and its rejection would end the process.
   */
  getCode({ address }: { readonly address: Hex }): Promise<Hex> {
    let code = this.#codes.get(address);
    if (code === undefined) {
      const { chain, deadlineMs } = this.#parts;
      const plainAgeMs = deadlineMs === undefined ? 0 : PLAIN_AGE_MS;
      code = this.#heard(() => chain.code(address, plainAgeMs)).catch(() => "0x" as const);
      this.#codes.set(address, code);
    }
    return code;
  }

  async writeContract(
    call: ContractCall & { readonly args: readonly unknown[]; readonly dataSuffix?: Hex },
  ): Promise<Hex> {
    const { address, abi, functionName, args, dataSuffix = "0x" } = call;
    const data = encodeFunctionData({ abi: abi as Abi, functionName, args });
    const { transactions, reference, validBefore } = this.#parts;
    const transaction = { reference, to: address, data: concat([data, dataSuffix]), validBefore };
    await this.#heard(() => transactions.queue(transaction));
    return this.#signed(true);
  }

  async waitForTransactionReceipt(): Promise<{ readonly status: string }> {
    const { transactions, reference, deadlineMs = 0 } = this.#parts;
    this.#receipt = await transactions.mined(reference, deadlineMs);
    return { status: this.#receipt.status };
  }

  /** The exact scheme checks signatures by itself. */
  async verifyTypedData(): Promise<boolean> {
    throw new Error("not used by the exact scheme");
  }

  /**
   * Rejects. The scheme sends transactions only to deploy smart accounts, and no factory for smart accounts is allowed.
   */
  async sendTransaction(): Promise<Hex> {
    throw new Error("smart accounts are not deployed");
  }

  async #signed(isNew = false): Promise<Hex> {
    const { transactions, reference, deadlineMs = 0 } = this.#parts;
    this.#isQueued = true;
    try {
      return (await transactions.signed(reference, deadlineMs, isNew)) as Hex;
    } catch (error) {
      if (error instanceof TransactionRefused) this.#isQueued = false;
      throw error;
    }
  }

  async #heard<T>(ask: () => Promise<T>): Promise<T> {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof RpcError && error.isRevert)) this.#silence = error;
      // The scheme searches the error for the contract's words.
      throw error instanceof RpcError && error.isRevert ? new Error(error.details) : error;
    }
  }
}
