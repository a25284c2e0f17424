import { GatewayError } from "../../core/errors.ts";
import { normalUrl } from "../../core/urls.ts";
import type { ShopAddition } from "../../x402/part.ts";
import type { NotedHeader } from "../../x402/purchase/terms.ts";
import type { CallbackGuard } from "./callback-guard.ts";
import { CALLBACK_URL } from "./store/ledger.ts";

/**
 * Lets buyers give a URL where they are told how their jobs ended.
 * @param guard undefined if they cannot give one
 */
export function callbackHeader(
  guard: Pick<CallbackGuard, "parse"> | undefined,
): Pick<ShopAddition, "terms" | "pageHeaders"> {
  const header: NotedHeader = {
    name: CALLBACK_URL,
    read(values) {
      const text = values.join(", ");
      const parsed = guard?.parse(text) ?? { problem: "is not possible here: nobody is called back" };
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
