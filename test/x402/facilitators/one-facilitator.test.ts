import { expect, onTestFinished, test } from "vitest";
import { toRemoteFacilitator } from "../../../src/config/facilitators.ts";
import { monotonicClock } from "../../../src/core/clock.ts";
import { NO_TELEMETRY } from "../../../src/core/telemetry.ts";
import type { FacilitatorRequest } from "../../../src/x402/facilitators/facilitator.ts";
import { OneFacilitator } from "../../../src/x402/facilitators/one-facilitator.ts";
import { Methods } from "../../../src/x402/methods/methods.ts";
import { listenHttp } from "../../helpers/http-listener.ts";
import { startLog } from "../../helpers/log.ts";

const request = {
  payload: { x402Version: 2 },
  requirements: { scheme: "exact", network: "eip155:8453" },
} as unknown as FacilitatorRequest;

/** One facilitator that answers verifications as the test says. */
async function startOne({ readsSupported = false } = {}) {
  let isDown = false;
  let feePayer = "first";
  const remote = await listenHttp({
    handler({ url }, response) {
      response.statusCode = isDown ? 500 : 200;
      const kinds = [{ x402Version: 2, scheme: "exact", network: "eip155:8453", extra: { feePayer } }];
      const verdict = { isValid: feePayer === "first", invalidReason: "fee_payer_not_managed" };
      response.end(JSON.stringify(url === "/supported" ? { kinds } : verdict));
    },
  });
  onTestFinished(() => remote.stop());
  const { logger, lines } = startLog();
  const config = toRemoteFacilitator(remote.url);
  const facilitator = new OneFacilitator(config, {
    configs: [config],
    timeoutMs: 20_000,
    verifyPatienceMs: 20_000,
    readsSupported,
    methods: new Methods(),
    inProcess: undefined,
    clock: monotonicClock,
    logger,
    telemetry: NO_TELEMETRY,
  });
  const setDown = (value: boolean) => {
    isDown = value;
  };
  const replace = (account: string) => {
    feePayer = account;
  };
  return { facilitator, name: new URL(remote.url).host, lines, setDown, replace };
}

test("A single facilitator verifies, and no other is left to settle", async () => {
  const { facilitator, name } = await startOne();
  expect(await facilitator.verify(request)).toEqual({ kind: "valid", facilitator: name });
  expect(facilitator.next(request, [name])).toBeUndefined();
  expect(facilitator.next(request, ["another.example"])).toBe(name);
});

test("The log says once that a single facilitator fails, and that it works again", async () => {
  const { facilitator, lines, setDown } = await startOne();
  setDown(true);
  for (let i = 0; i < 4; i++) await expect(facilitator.verify(request)).rejects.toThrow();
  setDown(false);
  await facilitator.verify(request);
  const texts = lines.map(({ msg }) => msg).filter((msg) => msg.includes("the facilitator"));
  expect(texts).toEqual(["the facilitator fails", "the facilitator works again"]);
});

test("What a facilitator supports is read again within seconds of a refusal", async () => {
  const { facilitator, replace } = await startOne({ readsSupported: true });
  const feePayer = () =>
    facilitator.extraOf({ x402Version: 2, scheme: "exact", network: "eip155:8453" })?.feePayer;
  await facilitator.start();
  onTestFinished(() => facilitator.stop());
  await expect.poll(feePayer).toBe("first");
  await facilitator.verify(request);
  replace("second");
  const refusals = await Promise.all(Array.from({ length: 3 }, () => facilitator.verify(request)));
  expect(refusals).toEqual(Array(3).fill(expect.objectContaining({ kind: "invalid" })));
  await expect.poll(feePayer).toBe("second");
});
