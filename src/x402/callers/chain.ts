import { LRUCache } from "lru-cache";
import pLimit from "p-limit";
import { BaseError, ExecutionRevertedError, encodeFunctionData, type PublicClient, parseAbi } from "viem";
import { ChainClient } from "../../chain/chain-client.ts";
import type { JobRestriction } from "../../config/config.ts";
import type { Clock } from "../../core/clock.ts";
import { GatewayError } from "../../core/errors.ts";
import { NO_TELEMETRY, type Telemetry } from "../../telemetry/telemetry.ts";

const PERMISSION_ABI = parseAbi([
  "function isPermittedCaller(uint64 serviceId, address caller) view returns (bool)",
]);
const ERC1271_ABI = parseAbi([
  "function isValidSignature(bytes32 hash, bytes signature) view returns (bytes4)",
]);
const ERC1271_MAGIC = `0x1626ba7e${"0".repeat(56)}`;
const TRUE = `0x${"0".repeat(63)}1`;
const FALSE = `0x${"0".repeat(64)}`;

/** Calls that one RPC gets at once; more wait. */
const MAX_CALLS_PER_RPC = 32;
/** Calls that may wait for one RPC; above it the check fails at once. */
const MAX_WAITING_PER_RPC = 1_000;
const MAX_CACHED_PERMISSIONS = 10_000;

/** Questions about callers to the chains of restricted jobs. */
export class CallerChain {
  readonly #timeoutMs: number;
  readonly #clock: Clock;
  readonly #telemetry: Telemetry;
  readonly #rpcs = new Map<string, CallerRpc>();
  /** Unix milliseconds until which a permission may be used again. A denial is never kept: it may end any time. */
  readonly #permittedUntil = new LRUCache<string, number>({ max: MAX_CACHED_PERMISSIONS });

  /** @param parts `timeoutMs` is for one RPC call */
  constructor(parts: { readonly timeoutMs: number; readonly clock: Clock; readonly telemetry?: Telemetry }) {
    this.#timeoutMs = parts.timeoutMs;
    this.#clock = parts.clock;
    this.#telemetry = parts.telemetry ?? NO_TELEMETRY;
  }

  /**
   * Asks the contract `isPermittedCaller(service_id, caller)`.
   * @throws GatewayError `permission_check_failed` when there is no clear answer
   */
  async isPermitted(restriction: JobRestriction, serviceId: bigint, caller: `0x${string}`): Promise<boolean> {
    const { chainRpcUrl, chainContract, permissionCacheSecs } = restriction;
    const key = JSON.stringify([chainRpcUrl, chainContract, serviceId.toString(), caller]);
    if (permissionCacheSecs > 0 && (this.#permittedUntil.get(key) ?? 0) > this.#clock()) return true;

    const data = encodeFunctionData({ abi: PERMISSION_ABI, args: [serviceId, caller] });
    const answer = await this.#rpcOf(restriction).ask("isPermittedCaller", (client) =>
      call(client, chainContract, data),
    );
    // Neither of the two booleans: no contract is there, or another one. "No" would be a guess.
    if (answer !== TRUE && answer !== FALSE) {
      throw checkFailed("isPermittedCaller", "the contract returned no boolean");
    }
    const permitted = answer === TRUE;
    if (permitted && permissionCacheSecs > 0) {
      this.#permittedUntil.set(key, this.#clock() + permissionCacheSecs * 1000);
    }
    return permitted;
  }

  /** Asks whether the caller is a contract. @throws GatewayError `permission_check_failed` */
  isContract(restriction: JobRestriction, caller: `0x${string}`): Promise<boolean> {
    return this.#rpcOf(restriction).ask("getCode", async (client) => {
      const code = await client.getCode({ address: caller });
      return code !== undefined && code !== "0x";
    });
  }

  /** Asks the caller's own contract about a signature (ERC-1271). @throws GatewayError `permission_check_failed` */
  approvesSignature(
    restriction: JobRestriction,
    caller: `0x${string}`,
    hash: `0x${string}`,
    signature: `0x${string}`,
  ): Promise<boolean> {
    const data = encodeFunctionData({ abi: ERC1271_ABI, args: [hash, signature] });
    return this.#rpcOf(restriction).ask("isValidSignature", async (client) => {
      try {
        return (await call(client, caller, data)) === ERC1271_MAGIC;
      } catch (error) {
        // Contracts revert on signatures that they refuse.
        if (isRevert(error)) return false;
        throw error;
      }
    });
  }

  #rpcOf({ chainRpcUrl }: JobRestriction): CallerRpc {
    let rpc = this.#rpcs.get(chainRpcUrl);
    if (rpc === undefined) {
      rpc = new CallerRpc(chainRpcUrl, this.#timeoutMs, this.#clock, this.#telemetry);
      this.#rpcs.set(chainRpcUrl, rpc);
    }
    return rpc;
  }
}

/** One RPC, with a bound on the calls that run and wait. */
class CallerRpc {
  readonly #client: ChainClient;
  readonly #limit = pLimit(MAX_CALLS_PER_RPC);
  readonly #timeoutMs: number;
  readonly #clock: Clock;

  constructor(rpcUrl: string, timeoutMs: number, clock: Clock, telemetry: Telemetry) {
    this.#client = new ChainClient({ rpcUrl, timeoutMs, observer: { telemetry, purpose: "permission" } });
    this.#timeoutMs = timeoutMs;
    this.#clock = clock;
  }

  /** @throws GatewayError `permission_check_failed` */
  async ask<Answer>(what: string, question: (client: PublicClient) => Promise<Answer>): Promise<Answer> {
    if (this.#limit.pendingCount >= MAX_WAITING_PER_RPC) {
      throw checkFailed(what, "too many checks are waiting");
    }
    const lastStart = this.#clock() + this.#timeoutMs;
    try {
      return await this.#limit(async () => {
        if (this.#clock() > lastStart) throw new Error("it waited too long for its turn");
        return question(await this.#client.connect());
      });
    } catch (cause) {
      throw checkFailed(what, cause instanceof Error ? (cause.message.split("\n", 1)[0] ?? "") : "", cause);
    }
  }
}

/** Returns a contract's raw answer. A reverted call throws; an address without code gives `0x`. */
async function call(client: PublicClient, to: `0x${string}`, data: `0x${string}`): Promise<string> {
  const { data: answer } = await client.call({ to, data });
  return (answer ?? "0x").toLowerCase();
}

function isRevert(error: unknown): boolean {
  return (
    error instanceof BaseError && error.walk((cause) => cause instanceof ExecutionRevertedError) !== null
  );
}

function checkFailed(what: string, detail: string, cause?: unknown): GatewayError {
  return new GatewayError(
    "permission_check_failed",
    `The chain could not be asked whether the caller is permitted (${what}: ${detail}). Nothing was charged: try again.`,
    { ...(cause === undefined ? {} : { cause }), headers: { "retry-after": "2" } },
  );
}
