import type { Place } from "./steps.ts";
import { nameOf } from "./world.ts";

/** Keys and columns of JobCalls' ids, and lookups that return ids. */
const CALL_IDS = new Set([
  "callId",
  "call_id",
  "callIds",
  "next",
  "base_call",
  "held_by",
  "listBought",
  "findTask",
  "findCallsOfKey",
  "entry",
  "numbers",
  "withMetadata",
]);
const LEASE_TOKENS = new Set(["leaseToken", "lease_token"]);

/** Outcomes and rows without what differs between stores: a JobCall is named by the place that it was made at. */
export class Normal {
  readonly #places: ReadonlyMap<number, Place>;

  /** @param places where each JobCall was made, by its id */
  constructor(places: ReadonlyMap<number, Place>) {
    this.#places = places;
  }

  call(id: number): string {
    const place = this.#places.get(id);
    return place === undefined ? `unknown call ${id === 0 ? 0 : ""}` : nameOf(place);
  }

  of(value: unknown, key = ""): unknown {
    if (value === undefined || value === null || typeof value === "boolean") return value;
    if (typeof value === "number") return CALL_IDS.has(key) ? this.call(value) : value;
    if (typeof value === "bigint") return `${value}n`;
    if (typeof value === "string") return this.#text(value, key);
    if (value instanceof ArrayBuffer) return bytesText(new Uint8Array(value));
    if (value instanceof Uint8Array) return bytesText(value);
    if (Array.isArray(value)) return value.map((item) => this.of(item, key));
    return this.#object(value as object);
  }

  #object(value: object): unknown {
    const entries = Object.entries(value).flatMap(([name, inner]): [string, unknown][] => {
      // Ids of other rows than JobCalls are counted up by each store.
      if (inner === undefined || (name === "id" && typeof inner === "number")) return [];
      return [[name, this.of(inner, name)]];
    });
    return Object.fromEntries(entries.sort(([one], [other]) => (one < other ? -1 : 1)));
  }

  #text(text: string, key: string): string {
    if (LEASE_TOKENS.has(key)) return "a token";
    const named =
      key === "data"
        ? text.replace(/"call_id":(\d+)/, (_, id) => `"call_id":${this.call(Number(id))}`)
        : text;
    // Postgres can keep neither halves of surrogate pairs nor U+0000.
    return Buffer.from(named).toString().replaceAll("\0", "\uFFFD");
  }
}

function bytesText(bytes: Uint8Array): string {
  return `bytes ${Buffer.from(bytes).toString("hex")}`;
}
