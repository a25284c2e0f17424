import * as z from "zod";
import type { Checked, Complete } from "../../config/check-shape.ts";
import { ConfigTable } from "../../config/config-table.ts";
import type { Place } from "../../config/mistakes.ts";
import { fixed, fixedPresence } from "../../config/reload.ts";
import { headerSecret, label } from "../../config/value-types.ts";
import { tcpAddress } from "../../config/web-types.ts";

const service = z.object({
  bindAddress: fixed(tcpAddress()),
  tokens: z
    .array(
      z
        .union([headerSecret(), z.object({ name: label(), token: headerSecret() })])
        .describe('a token, or a table { name = "…", token = "…" }'),
    )
    .min(1)
    .describe("an array of tokens, one for each seller"),
});

export type FacilitatorServiceConfig = Complete<ReturnType<typeof toService>>;

/** `[x402.facilitator_service]`: the local facilitator, for other sellers. */
export const serviceTable = ConfigTable.of({
  in: ["x402"],
  keys: { facilitatorService: fixedPresence(service.optional()) },
  check({ facilitatorService }, { tables, place }) {
    if (facilitatorService === undefined) return;
    const at = place.at("facilitator_service");
    const { x402, claims } = tables;
    const hasLocal = x402?.facilitators?.some((_, i) => claims.of("x402.facilitators", i)) === true;
    if (!place.at("facilitators").hasMistake && !hasLocal)
      at.report("has nothing to serve; expected a local facilitator in x402.facilitators");
    checkTokens(facilitatorService, at.at("tokens"));
  },
  complete: ({ facilitatorService }): FacilitatorServiceConfig | undefined =>
    facilitatorService && toService(facilitatorService),
  listener: ({ facilitatorService }) => ({
    table: "x402.facilitator_service",
    bindAddress: facilitatorService?.bindAddress,
  }),
});

function toService({ bindAddress, tokens }: Complete<z.output<typeof service>>) {
  return {
    bindAddress,
    tokens: tokens.map((item, i) =>
      typeof item === "string" ? { name: `tokens[${i}]`, token: item } : item,
    ),
  };
}

function checkTokens({ tokens = [] }: Checked<z.output<typeof service>>, place: Place): void {
  const seen = new Set<string>();
  for (const [i, item] of tokens.entries()) {
    const token = typeof item === "string" ? item : item?.token;
    if (token === undefined) continue;
    if (seen.has(token)) place.at(i).report("is the token of another seller; expected one for each");
    seen.add(token);
  }
}
