import * as z from "zod";
import { isEvm } from "../../chain/chain-client.ts";
import { type Complete, required } from "../../config/check-shape.ts";
import { ConfigTable } from "../../config/config-table.ts";
import { headerValue, integer, secretList, secretOrArray } from "../../config/value-types.ts";
import { kind, SHOWN } from "../../config/wrong-value.ts";

const DEMO_KEYS = ["0123456789abcdef".repeat(4)];
/**
 * A key with fewer different digits was typed, and not drawn at random. Of a billion random keys, none has so few
 * different digits.
 */
const MIN_DIFFERENT_DIGITS = 8;

/** Key that challenges are made with. */
export const mppKey = () =>
  kind(
    z.string().refine((key) => mppKeyFault(key) === undefined),
    "64 or more lower-case hex digits that are random (`openssl rand -hex 32`), as env:NAME or file:PATH",
    { fault: mppKeyFault },
  );

function mppKeyFault(key: string): string | undefined {
  if (!/^[0-9a-f]*$/.test(key)) return "has a character that is not a lower-case hex digit";
  if (key.length < 64) return `has ${key.length} hex digits`;
  const isTyped = DEMO_KEYS.includes(key) || new Set(key).size < MIN_DIFFERENT_DIGITS;
  return isTyped ? "is not random" : undefined;
}

const mpp = z.object({
  /** Default: the host of `publicUrl`. */
  realm: headerValue(SHOWN).optional(),
  /** The first key makes challenges, and every key recognises them. */
  secretKey: secretOrArray(mppKey(), "keys"),
  /** At most `quoteTtlSecs`. Default: the smaller of 300 and `quoteTtlSecs`. */
  challengeTtlSecs: integer(1, 31_536_000).optional(),
});

export type MppConfig = ReturnType<typeof toMpp>;

/** `[x402.mpp]` */
export const mppTable = ConfigTable.of({
  in: ["x402"],
  keys: { mpp: mpp.optional() },
  check({ mpp: table }, { tables, place }) {
    const { quoteTtlSecs, acceptedTokens = [] } = tables.x402 ?? {};
    const isOnEvm = (network: string | undefined) => network === undefined || isEvm(network);
    if (
      table !== undefined &&
      acceptedTokens.length > 0 &&
      !acceptedTokens.some((token) => isOnEvm(token?.network))
    )
      place.at("mpp").warn("makes no challenge, because no accepted token is on an EVM chain");
    const { challengeTtlSecs = 0 } = table ?? {};
    if (quoteTtlSecs === undefined || challengeTtlSecs <= quoteTtlSecs) return;
    place
      .at("mpp", "challenge_ttl_secs")
      .report(
        `is ${challengeTtlSecs}, longer than offers live; expected at most x402.quote_ttl_secs, which is ${quoteTtlSecs}`,
      );
  },
  fill({ mpp: table }, { x402 }) {
    if (table === undefined || x402 === undefined) return {};
    const { realm, challengeTtlSecs, ...keys } = table;
    return {
      mpp: {
        ...keys,
        realm: realm ?? new URL(x402.publicUrl).hostname,
        challengeTtlSecs: challengeTtlSecs ?? Math.min(300, x402.quoteTtlSecs),
      },
    };
  },
  complete: ({ mpp: table }): MppConfig | undefined => table && toMpp(table),
});

function toMpp({ realm, secretKey, challengeTtlSecs }: Complete<z.output<typeof mpp>>) {
  return {
    realm: required(realm),
    /** The first key makes challenges. Each key recognises the challenges that it made. */
    secretKeys: secretList(secretKey),
    challengeTtlSecs: required(challengeTtlSecs),
  };
}
