import { BlockList, isIP } from "node:net";
import { GatewayError } from "../../core/errors.ts";
import { type IpRange, isHostName, isLoopbackHost, isPrivateHost } from "../../core/network-address.ts";
import type { ShopAddition } from "../../x402/part.ts";
import type { NotedHeader } from "../../x402/purchase/terms.ts";
import { isPublicAddress } from "./public-addresses.ts";
import { CALLBACK_URL } from "./store/ledger.ts";

/** URLs that buyers may give. */
export interface CallbackRules {
  readonly ports: readonly number[];
  /** Hosts that are allowed although they are not public. URLs with these hosts may have any port, and need no TLS. */
  readonly allowedAddresses: readonly IpRange[];
}

const MAX_URL_LENGTH = 2_048;

/** Keeps callbacks to buyers out of the operator's networks. */
export class CallbackGuard {
  readonly #ports: readonly number[];
  readonly #allowed = new BlockList();

  constructor({ ports, allowedAddresses }: CallbackRules) {
    this.#ports = ports;
    for (const { address, prefixBits, family } of allowedAddresses)
      this.#allowed.addSubnet(address, prefixBits, family);
  }

  /** Checks an address that a name resolves to, or that a URL contains instead of a name. */
  allows(address: string): boolean {
    return isPublicAddress(address) || this.#isAllowed(address);
  }

  /** Parses a URL that a buyer gave. @returns `URL.href`, or the problem, which completes "Callback-URL …" */
  parse(text: string): { readonly url: string } | { readonly problem: string } {
    const problem = (what: string) => ({ problem: what });
    const href = normalUrl(text);
    if (!/^https?:\/\/[^/\\?#]+[\x21-\x7e]*$/i.test(text) || text.includes("\\") || href === undefined)
      return problem("is not an absolute https:// URL");
    const url = new URL(href);
    if (url.href.length > MAX_URL_LENGTH) return problem(`is longer than ${MAX_URL_LENGTH} characters`);
    if (url.username !== "" || url.password !== "") return problem("has a user name or password");
    const host = url.hostname.replace(/^\[|\]$/g, "").replace(/\.$/, "");
    if (isIP(host) === 0 && !isHostName(host))
      return problem("has a host that is neither a name nor an IP address");
    if (isIP(host) !== 0 && this.#isAllowed(host)) return { url: url.href };
    if (url.protocol !== "https:") return problem("is not https");
    if (isIP(host) === 0 ? isLoopbackHost(host) || isPrivateHost(host) : !isPublicAddress(host))
      return problem("is not on the public internet");
    const port = Number(url.port || 443);
    if (!this.#ports.includes(port)) return problem(`has port ${port}; expected ${this.#ports.join(" or ")}`);
    return { url: url.href };
  }

  #isAllowed(address: string): boolean {
    return this.#allowed.check(address, isIP(address) === 6 ? "ipv6" : "ipv4");
  }
}

/**
 * Reads the buyer's URL in `Callback-URL`, which receives the outcome of the job.
 * @param guard undefined if buyers cannot give a URL
 */
export function callbackHeader(
  guard: Pick<CallbackGuard, "parse"> | undefined,
): Pick<ShopAddition, "terms" | "pageHeaders"> {
  const header: NotedHeader = {
    name: CALLBACK_URL,
    read(values) {
      const text = values.join(", ");
      const parsed = guard?.parse(text) ?? {
        problem: "is not possible here: this gateway sends no callbacks to buyers",
      };
      if ("url" in parsed) return { note: parsed.url };
      const problem = values.length > 1 ? "was sent more than once" : parsed.problem;
      return {
        note: normalUrl(text) ?? text,
        refusal: new GatewayError("invalid_callback_url", `${CALLBACK_URL} ${problem}. Nothing was charged.`),
      };
    },
  };
  return { terms: { notes: [header] }, pageHeaders: { sent: [CALLBACK_URL], read: [] } };
}

/** Returns a URL as it is kept and compared; undefined for a text that is not a URL. */
function normalUrl(text: string): string | undefined {
  if (!URL.canParse(text)) return undefined;
  const url = new URL(text);
  url.hash = "";
  return url.href;
}
