import { LRUCache } from "lru-cache";
import pLimit from "p-limit";
import { BaseError, ExecutionRevertedError, encodeFunctionData, type PublicClient, parseAbi } from "viem";
import { createChainClient } from "../../chain/chain-client.ts";
import type { JobRestriction } from "../../config/config.ts";
import type { Clock } from "../../core/clock.ts";
import { GatewayError } from "../../core/errors.ts";
import { NO_TELEMETRY, type Telemetry } from "../../telemetry/telemetry.ts";

/** What the chain of a restricted job knows of its callers. */
export interface CallerChain {
  /**
   * Asks the contract `isPermittedCaller(service_id, caller)`.
   * @throws GatewayError `permission_check_failed` when there is no clear answer
   */
  isPermitted(restriction: JobRestriction, serviceId: bigint, caller: `0x${string}`): Promise<boolean>;
  /** Whether the caller is a contract. @throws GatewayError `permission_check_failed` */
  isContract(restriction: JobRestriction, caller: `0x${string}`): Promise<boolean>;
  /** ERC-1271: asks the caller's own contract about a signature. @throws GatewayError `permission_check_failed` */
  approvesSignature(
    restriction: JobRestriction,
    caller: `0x${string}`,
    hash: `0x${string}`,
    signature: `0x${string}`,
  ): Promise<boolean>;
}

export interface CallerChainOptions {
  /** For one RPC call. */
  readonly timeoutMs: number;
  readonly clock: Clock;
  /** Default: nobody is told. */
  readonly telemetry?: Telemetry;
}

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

export function createCallerChain({
  timeoutMs,
  clock,
  telemetry = NO_TELEMETRY,
}: CallerChainOptions): CallerChain {
  const rpcs = new Map<string, ReturnType<typeof openRpc>>();
  /** Until when a permission may be used again, Unix milliseconds. A denial is asked for again: it may end any time. */
  const permittedUntil = new LRUCache<string, number>({ max: MAX_CACHED_PERMISSIONS });

  function openRpc(rpcUrl: string) {
    const client = createChainClient({ rpcUrl, timeoutMs, observer: { telemetry, purpose: "permission" } });
    const limit = pLimit(MAX_CALLS_PER_RPC);
    return async <Answer>(what: string, ask: (client: PublicClient) => Promise<Answer>): Promise<Answer> => {
      if (limit.pendingCount >= MAX_WAITING_PER_RPC) throw checkFailed(what, "too many checks are waiting");
      const lastStart = clock() + timeoutMs;
      try {
        return await limit(async () => {
          if (clock() > lastStart) throw new Error("it waited too long for its turn");
          return ask(await client.connect());
        });
      } catch (cause) {
        throw checkFailed(what, cause instanceof Error ? (cause.message.split("\n", 1)[0] ?? "") : "", cause);
      }
    };
  }

  function rpcOf({ chainRpcUrl }: JobRestriction) {
    const rpc = rpcs.get(chainRpcUrl) ?? openRpc(chainRpcUrl);
    rpcs.set(chainRpcUrl, rpc);
    return rpc;
  }

  /** A reverted call throws; no code at the address gives no data. */
  async function call(client: PublicClient, to: `0x${string}`, data: `0x${string}`): Promise<string> {
    const { data: answer } = await client.call({ to, data });
    return (answer ?? "0x").toLowerCase();
  }

  return {
    async isPermitted(restriction, serviceId, caller) {
      const { chainRpcUrl, chainContract, permissionCacheSecs } = restriction;
      const key = JSON.stringify([chainRpcUrl, chainContract, serviceId.toString(), caller]);
      if (permissionCacheSecs > 0 && (permittedUntil.get(key) ?? 0) > clock()) return true;

      const data = encodeFunctionData({ abi: PERMISSION_ABI, args: [serviceId, caller] });
      const answer = await rpcOf(restriction)("isPermittedCaller", (client) =>
        call(client, chainContract, data),
      );
      // Neither of the two booleans: no contract there, or another one. "No" would be a guess.
      if (answer !== TRUE && answer !== FALSE)
        throw checkFailed("isPermittedCaller", "the contract gave no boolean");
      const permitted = answer === TRUE;
      if (permitted && permissionCacheSecs > 0) permittedUntil.set(key, clock() + permissionCacheSecs * 1000);
      return permitted;
    },

    isContract(restriction, caller) {
      return rpcOf(restriction)("getCode", async (client) => {
        const code = await client.getCode({ address: caller });
        return code !== undefined && code !== "0x";
      });
    },

    approvesSignature(restriction, caller, hash, signature) {
      const data = encodeFunctionData({ abi: ERC1271_ABI, args: [hash, signature] });
      return rpcOf(restriction)("isValidSignature", async (client) => {
        try {
          return (await call(client, caller, data)) === ERC1271_MAGIC;
        } catch (error) {
          // Contracts revert on signatures that they refuse.
          if (isRevert(error)) return false;
          throw error;
        }
      });
    },
  };
}

function isRevert(error: unknown): boolean {
  return (
    error instanceof BaseError && error.walk((cause) => cause instanceof ExecutionRevertedError) !== null
  );
}

function checkFailed(what: string, detail: string, cause?: unknown): GatewayError {
  return new GatewayError(
    "permission_check_failed",
    `Whether the caller is permitted could not be found out on chain (${what}: ${detail}). Nothing was charged: try again.`,
    { ...(cause === undefined ? {} : { cause }), headers: { "retry-after": "2" } },
  );
}
