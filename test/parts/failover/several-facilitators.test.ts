import { pino } from "pino";
import { describe, expect, onTestFinished, test } from "vitest";
import { toRemoteFacilitator } from "../../../src/config/facilitators.ts";
import { monotonicClock } from "../../../src/core/clock.ts";
import { GatewayError } from "../../../src/core/errors.ts";
import { NO_TELEMETRY } from "../../../src/core/telemetry.ts";
import { SeveralFacilitators } from "../../../src/parts/failover/several-facilitators.ts";
import type { FacilitatorRequest, Verification } from "../../../src/x402/facilitators/facilitator.ts";
import { listenHttp } from "../../helpers/http-listener.ts";
import { METHODS } from "../../x402/payments.ts";

const request = {
  payload: { x402Version: 2 },
  requirements: { scheme: "exact", network: "eip155:8453" },
} as unknown as FacilitatorRequest;

/** A local settler without funds until it gets some. */
class PoorSettler {
  readonly name = "local";
  hasFunds = false;

  async verify(): Promise<Verification> {
    if (this.hasFunds) return { kind: "valid" };
    throw new GatewayError("settler_unfunded", "The settler has no funds.");
  }

  settle = () => Promise.reject(new Error("not asked"));
  supported = () => Promise.reject(new Error("not asked"));
  start = () => Promise.resolve();
  stop = () => Promise.resolve();
}

function facilitatorsOf(
  urls: readonly ("local" | string)[],
  local: PoorSettler,
  networks?: readonly string[],
): SeveralFacilitators {
  return new SeveralFacilitators({
    configs: urls.map((url) =>
      url === "local"
        ? { kind: "in_process", name: "local", chains: [] }
        : { ...toRemoteFacilitator(url), ...(networks && { networks }) },
    ),
    timeoutMs: 20_000,
    verifyPatienceMs: 20_000,
    readsSupported: false,
    methods: METHODS,
    inProcess: local,
    clock: monotonicClock,
    logger: pino({ level: "silent" }),
    telemetry: NO_TELEMETRY,
  });
}

describe("A settler without funds", () => {
  test("Is the reason in the answer when the other facilitator is down", async () => {
    const facilitators = facilitatorsOf(["http://127.0.0.1:1", "local"], new PoorSettler());
    await expect(facilitators.verify(request)).rejects.toMatchObject({ code: "settler_unfunded" });
  });

  test("Is called first again once it has funds, however many payments others have verified", async () => {
    const remote = await listenHttp({
      handler: (_incoming, response) => void response.end('{"isValid":true}'),
    });
    onTestFinished(() => remote.stop());
    const settler = new PoorSettler();
    const facilitators = facilitatorsOf(["local", remote.url], settler);
    for (let i = 0; i < 5; i++) {
      const { facilitator } = await facilitators.verify(request);
      expect(facilitator).toBe(new URL(remote.url).host);
    }
    settler.hasFunds = true;
    expect((await facilitators.verify(request)).facilitator).toBe("local");
  });
});

test("A facilitator for some networks takes their payments, by whichever version of x402 they are named", async () => {
  const remote = await listenHttp({
    handler: (_incoming, response) => void response.end('{"isValid":true}'),
  });
  onTestFinished(() => remote.stop());
  const facilitators = facilitatorsOf([remote.url], new PoorSettler(), ["eip155:84532"]);
  const on = (network: string): FacilitatorRequest => ({
    payload: { x402Version: 1, payload: {} },
    requirements: { scheme: "exact", network },
  });
  for (const network of ["other-84532", "eip155:84532"])
    expect(await facilitators.verify(on(network))).toMatchObject({ kind: "valid" });
  await expect(facilitators.verify(on("other-8453"))).rejects.toMatchObject({
    code: "facilitator_unavailable",
  });
});
