import { describe, expect, it } from "vitest";
import { toRemoteFacilitator } from "../../../src/config/facilitators.ts";
import { toCdpAuth } from "../../../src/parts/cdp/config.ts";
import { startPaidParts } from "../../e2e/paid-parts.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { startAnotherGateway } from "../../x402/gateway-harness.ts";
import { type CdpAlgorithm, startCdpFacilitator } from "./cdp-facilitator.ts";

const parts = startBeforeAll(startPaidParts);
const cdp = {
  EdDSA: startBeforeAll(() => startCdpFacilitator({ target: parts.facilitator.url, algorithm: "EdDSA" })),
  ES256: startBeforeAll(() => startCdpFacilitator({ target: parts.facilitator.url, algorithm: "ES256" })),
};

/** A gateway that sells through Coinbase's facilitator. */
function startSeller(algorithm: CdpAlgorithm, key: { readonly keySecret?: string } = {}) {
  const { url, keyId, keySecret } = cdp[algorithm];
  const facilitator = { ...toRemoteFacilitator(url), auth: toCdpAuth(keyId, key.keySecret ?? keySecret) };
  return startAnotherGateway({ config: { facilitators: [facilitator] } });
}

describe.each(["EdDSA", "ES256"] as const)("Coinbase's facilitator with a key for %s", (algorithm) => {
  it("Takes a token made for each request", async () => {
    const seller = await startSeller(algorithm);
    const before = cdp[algorithm].requests.length;
    for (const body of ["first", "second"]) {
      const { headers } = await seller.sign();
      expect(await seller.post(headers, { body })).toMatchObject({ status: 202 });
    }
    expect(cdp[algorithm].requests.slice(before)).toEqual(
      ["POST /verify", "POST /settle", "POST /verify", "POST /settle"].map((route) => ({
        route,
        refusal: undefined,
      })),
    );
  });

  it("Refuses tokens of another key, and nothing is charged", async () => {
    const other = cdp[algorithm === "EdDSA" ? "ES256" : "EdDSA"];
    const seller = await startSeller(algorithm, { keySecret: other.keySecret });
    const { headers } = await seller.sign();
    const { status, body } = await seller.post(headers);
    expect([status, body.code, body.charged]).toEqual([503, "facilitator_unavailable", false]);
    expect(cdp[algorithm].requests.at(-1)).toEqual({ route: "POST /verify", refusal: "wrong signature" });
  });
});
