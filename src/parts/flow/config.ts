import type { EntryKeys } from "../../config/entry-keys.ts";
import { oneOf, parsedText } from "../../config/value-types.ts";
import { SHOWN } from "../../config/wrong-value.ts";
import { KEY_SOURCE_FORM, keyOf, parseKeySource } from "./key.ts";

interface EndpointTable {
  readonly path?: string;
  readonly orderBy?: string;
  readonly onDead?: "continue" | "hold";
}

/** Keys of `[[webhooks.endpoints]]` that order JobCalls. */
export const endpointKeys: EntryKeys<"webhooks.endpoints"> = {
  list: "webhooks.endpoints",
  keys: {
    /** Place of the key: JobCalls with one key are delivered one at a time, in the order of acceptance. */
    orderBy: parsedText(
      KEY_SOURCE_FORM,
      (text) => (parseKeySource(text) === undefined ? undefined : text),
      SHOWN,
    ).optional(),
    /** Fate of the key of a dead letter. Default: `continue`, with the next JobCall. */
    onDead: oneOf(["continue", "hold"]).optional(),
  },
  alternative: "an order_by",
  claim({ path = "", orderBy, onDead }: EndpointTable, place) {
    if (orderBy === undefined) {
      if (onDead !== undefined && !place.at("order_by").isReported)
        place.at("on_dead").report("is set without order_by; expected both, or neither");
      return undefined;
    }
    const source = parseKeySource(orderBy);
    return {
      keys: { onDead: onDead ?? "continue" },
      check: () => undefined,
      complete: () => ({
        orderOf(request, body) {
          const key = source && keyOf(source, request, body);
          return key === undefined ? undefined : { owner: path, key, holdsOnDead: onDead === "hold" };
        },
      }),
    };
  },
};
