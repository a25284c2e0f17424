import pLimit from "p-limit";
import { ChainClient } from "../../chain/chain-client.ts";
import { contractApproves, word } from "../../chain/contract-signature.ts";
import { asHex, type Rpc } from "../../chain/rpc.ts";
import type { JobRestriction } from "../../config/config.ts";
import { boundedCache } from "../../core/bounded-cache.ts";
import type { Clock } from "../../core/clock.ts";
import { GatewayError } from "../../core/errors.ts";
import { NO_TELEMETRY, type Telemetry } from "../../core/telemetry.ts";

/** `isPermittedCaller(uint64 serviceId, address caller)`. */
const IS_PERMITTED_CALLER = "0x2ec2bd03";
const TRUE = `0x${"0".repeat(63)}1`;
const FALSE = `0x${"0".repeat(64)}`;

/** Largest number of concurrent calls to one RPC. Further calls wait. */
const MAX_CALLS_PER_RPC = 32;
/** Largest number of calls that wait for one RPC. Further checks fail at once. */
const MAX_WAITING_PER_RPC = 1_000;
const MAX_CACHED_PERMISSIONS = 10_000;

/** Queries about callers on the chains of restricted jobs. */
export class CallerChain {
  readonly #timeoutMs: number;
  readonly #clock: Clock;
  readonly #telemetry: Telemetry;
  readonly #rpcs = new Map<string, CallerRpc>();
  /** Unix milliseconds until which a permission may be reused. A denial is never cached, because it may end at any time. */
  readonly #permittedUntil = boundedCache<string, number>(MAX_CACHED_PERMISSIONS);

  /** @param parts `timeoutMs` is for one RPC call */
  constructor(parts: { readonly timeoutMs: number; readonly clock: Clock; readonly telemetry?: Telemetry }) {
    this.#timeoutMs = parts.timeoutMs;
    this.#clock = parts.clock;
    this.#telemetry = parts.telemetry ?? NO_TELEMETRY;
  }

  /**
   * Calls the contract's `isPermittedCaller(service_id, caller)`.
   * @throws GatewayError `permission_check_failed` when there is no clear answer
   */
  async isPermitted(restriction: JobRestriction, serviceId: bigint, caller: `0x${string}`): Promise<boolean> {
    const { chainRpcUrl, chainContract, permissionCacheSecs } = restriction;
    const key = JSON.stringify([chainRpcUrl, chainContract, serviceId.toString(), caller]);
    if (permissionCacheSecs > 0 && (this.#permittedUntil.get(key) ?? 0) > this.#clock()) return true;

    const data = `${IS_PERMITTED_CALLER}${word(serviceId)}${word(caller)}`;
    const answer = await this.#rpcOf(restriction).ask("isPermittedCaller", async (rpc) =>
      (await rpc.callContract(chainContract, data)).toLowerCase(),
    );
    // The result is neither true nor false, because there is no contract or another contract. Treating it as "no" would be a
    // guess.
    if (answer !== TRUE && answer !== FALSE) {
      throw checkFailed("isPermittedCaller", "the contract returned no boolean");
    }
    const permitted = answer === TRUE;
    if (permitted && permissionCacheSecs > 0) {
      this.#permittedUntil.set(key, this.#clock() + permissionCacheSecs * 1000);
    }
    return permitted;
  }

  /** Returns true if the caller is a contract. @throws GatewayError `permission_check_failed` */
  isContract(restriction: JobRestriction, caller: `0x${string}`): Promise<boolean> {
    return this.#rpcOf(restriction).ask("getCode", async (rpc) => {
      return asHex(await rpc.call("eth_getCode", [caller, "latest"])) !== "0x";
    });
  }

  /** Calls the caller's own contract to verify a signature (ERC-1271). @throws GatewayError `permission_check_failed` */
  approvesSignature(
    restriction: JobRestriction,
    caller: `0x${string}`,
    hash: `0x${string}`,
    signature: `0x${string}`,
  ): Promise<boolean> {
    return this.#rpcOf(restriction).ask("isValidSignature", (rpc) =>
      contractApproves(rpc, { account: caller, hash, signature }),
    );
  }

  #rpcOf({ chainRpcUrl }: JobRestriction): CallerRpc {
    let rpc = this.#rpcs.get(chainRpcUrl);
    if (rpc === undefined) {
      rpc = new CallerRpc({
        rpcUrl: chainRpcUrl,
        timeoutMs: this.#timeoutMs,
        clock: this.#clock,
        telemetry: this.#telemetry,
      });
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

  constructor(parts: {
    readonly rpcUrl: string;
    readonly timeoutMs: number;
    readonly clock: Clock;
    readonly telemetry: Telemetry;
  }) {
    const { rpcUrl, timeoutMs, clock, telemetry } = parts;
    this.#client = new ChainClient({ rpcUrl, timeoutMs, observer: { telemetry, purpose: "permission" } });
    this.#timeoutMs = timeoutMs;
    this.#clock = clock;
  }

  /** @throws GatewayError `permission_check_failed` */
  async ask<Answer>(what: string, question: (rpc: Rpc) => Promise<Answer>): Promise<Answer> {
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

function checkFailed(what: string, detail: string, cause?: unknown): GatewayError {
  return new GatewayError(
    "permission_check_failed",
    `The chain did not show whether the caller is permitted (${what}: ${detail}). Nothing was charged: try again.`,
    { cause, headers: { "retry-after": "2" } },
  );
}
