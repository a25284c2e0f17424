import { hash } from "node:crypto";
import { isLosslessNumber, stringify } from "lossless-json";
import type { Clock } from "../../core/clock.ts";
import { GatewayError } from "../../core/errors.ts";
import { equalJobs, type JobKey } from "../../core/job-call.ts";
import { isObject } from "../../core/objects.ts";
import { HEADERS } from "../../x402/protocols/message-request.ts";
import type { Meta } from "../../x402/protocols/protocol.ts";
import type { Terms, TermsCheck } from "../../x402/purchase/terms.ts";
import type { PurchaseIdentity } from "../../x402/settlement/payment-outcome.ts";

const PREFIX = "mcp";
/** Time for which the store keeps the nonce. {@link ToolSales.compare} reads the copy in the payment, which stays. */
const NONCE_SECS = 3_600;

/** A call of a tool, as the client sends it. */
interface SentCall {
  readonly name: string;
  readonly args: unknown;
  readonly meta: Meta;
}

/**
 * Comparison of a call with the call that its payment bought. `other call`: the arguments are the same, and the tool or the
 * headers are others.
 */
type Comparison = "same" | "other arguments" | "other call";

/**
 * Sales of tools. Each payment keeps hashes of its call in a nonce, because a reload can change which request the arguments
 * of a tool make, and the first request cannot be made again then.
 */
export class ToolSales implements Terms {
  readonly #clock: Clock;
  /** Calls that requests are buying, by the ID of the request. */
  readonly #buying = new Map<string, SentCall>();
  readonly checks: readonly TermsCheck[] = [
    {
      name: "tool",
      before: "settlement",
      refusals: [],
      run: ({ request, payment }) => {
        const call = this.#buying.get(request.id);
        if (call === undefined) return undefined;
        const expiresAt = Math.floor(this.#clock() / 1000) + NONCE_SECS;
        return {
          nonce: { nonce: { key: partsOf(call, payment.fingerprint).join(" "), expiresAt }, refusal: taken },
        };
      },
    },
  ];

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Buys a call, with a request that buys nothing else. */
  async buy<Sale>(requestId: string, call: SentCall, buy: () => Promise<Sale>): Promise<Sale> {
    this.#buying.set(requestId, call);
    try {
      return await buy();
    } finally {
      this.#buying.delete(requestId);
    }
  }

  /**
   * Compares a call with an earlier purchase.
   * @param listed the tool that has the name of the call now. The first tool may have another name now, or be gone
   * @returns undefined for a purchase over another protocol
   */
  compare(call: SentCall, earlier: PurchaseIdentity, listed: JobKey | undefined): Comparison | undefined {
    const { fingerprint, oneTimeNonces = [] } = earlier;
    const first = oneTimeNonces.find(({ key }) => key.startsWith(`${PREFIX} `))?.key.split(" ");
    if (first === undefined) return undefined;
    const [, args, headers, name] = partsOf(call, fingerprint);
    if (args !== first[1]) return "other arguments";
    const isOfTool = name === first[3] || listed === undefined || equalJobs(listed, earlier);
    return isOfTool && headers === first[2] ? "same" : "other call";
  }
}

/** Returns the parts of the nonce of a call. They depend on its payment, so that equal calls have different nonces. */
function partsOf({ name, args, meta }: SentCall, fingerprint: string) {
  const hashed = (value: unknown) => hash("sha256", `${fingerprint}\n${canonical(value)}`);
  return [PREFIX, hashed(args), hashed(meta[HEADERS] ?? {}), hashed(name)] as const;
}

/** Returns a value as JSON with sorted keys. */
function canonical(value: unknown): string {
  return String(
    stringify(value, (_, inner: unknown) =>
      isObject(inner) && !isLosslessNumber(inner) && !Array.isArray(inner)
        ? Object.fromEntries(Object.entries(inner).sort(([one], [other]) => (one < other ? -1 : 1)))
        : inner,
    ),
  );
}

function taken(): GatewayError {
  return new GatewayError("payment_replay", "This payment was used for another call: sign a new one.");
}
