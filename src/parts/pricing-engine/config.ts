import * as z from "zod";
import { type Checked, type Complete, required } from "../../config/check-shape.ts";
import { ConfigTable } from "../../config/config-table.ts";
import { fileKey, type Place } from "../../config/mistakes.ts";
import { fixed } from "../../config/reload.ts";
import { checkCredentials } from "../../config/rules/urls.ts";
import type { ConfigTables } from "../../config/schema.ts";
import { address, integer } from "../../config/value-types.ts";
import { baseUrl, tcpAddress } from "../../config/web-types.ts";
import { defined } from "../../core/objects.ts";

const engineSchema = z.object({
  /** Without a trailing slash. */
  url: baseUrl(),
  bindAddress: tcpAddress().prefault("127.0.0.1:8404"),
  /** EIP-712 domain of the operator's quotes, and their signer: all three keys, or none. */
  chainId: integer(1, Number.MAX_SAFE_INTEGER).optional(),
  verifyingContract: address().optional(),
  operatorAddress: address().optional(),
  /** Leading zero bits of the proofs of work that the engine asks for. */
  proofOfWorkBits: integer(0, 28).default(20),
});

type EngineTable = Complete<z.output<typeof engineSchema>>;
export type PricingEngineConfig = Complete<ReturnType<typeof toEngine>>;
/** EIP-712 domain and signer of the operator's quotes. */
export type QuoteSigning = Complete<ReturnType<typeof toSigning>>;

/** `[pricing_engine]` */
export const engineTable = ConfigTable.of({
  keys: { pricingEngine: fixed(engineSchema.optional()) },
  gives: { ability: "pricing engine", table: "the table" },
  check({ pricingEngine }, { tables, place }) {
    if (pricingEngine !== undefined) checkEngine(pricingEngine, tables, place.at("pricing_engine"));
  },
  complete: ({ pricingEngine }): PricingEngineConfig | undefined => pricingEngine && toEngine(pricingEngine),
  listener: ({ pricingEngine }) => ({ table: "pricing_engine", bindAddress: pricingEngine?.bindAddress }),
});

function toEngine(engine: EngineTable) {
  const { url, bindAddress, proofOfWorkBits } = engine;
  /** Undefined if quotes cannot be checked, so that they cannot be paid. */
  const signing = engine.chainId === undefined ? undefined : toSigning(engine);
  return defined({ url, bindAddress, proofOfWorkBits, signing });
}

function toSigning({ chainId, verifyingContract, operatorAddress }: EngineTable) {
  return {
    chainId: required(chainId),
    verifyingContract: required(verifyingContract),
    operatorAddress: required(operatorAddress),
  };
}

const SIGNING_KEYS = ["chainId", "verifyingContract", "operatorAddress"] as const;

/** Checks that the engine's quotes can be checked, where jobgate relies on them. */
function checkEngine(
  engine: Checked<z.output<typeof engineSchema>>,
  { x402, jobs = [] }: ConfigTables,
  place: Place,
): void {
  checkCredentials(place.at("url"), engine.url);
  const isGiven = (key: (typeof SIGNING_KEYS)[number]) =>
    engine[key] !== undefined || place.at(fileKey(key)).isReported;
  const given = SIGNING_KEYS.find(isGiven);
  const byEngine = jobs.findIndex((job) => job?.price === "engine");
  if (x402?.priceSource !== "engine" && byEngine === -1 && given === undefined) {
    place.warn(
      `has no ${SIGNING_KEYS.map(fileKey).join(", ")}, so quotes cannot be checked, and so cannot be paid`,
    );
    return;
  }
  const reason =
    x402?.priceSource === "engine"
      ? 'x402.price_source is "engine"'
      : byEngine !== -1
        ? `jobs[${byEngine}].price is "engine"`
        : `pricing_engine.${fileKey(given ?? "")} is set`;
  for (const key of SIGNING_KEYS) {
    if (isGiven(key)) continue;
    place.at(fileKey(key)).report(`is missing; expected it, since ${reason}`);
  }
}
