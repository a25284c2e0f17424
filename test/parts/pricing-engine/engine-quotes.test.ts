import { expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../../src/core/clock.ts";
import { EngineClient } from "../../../src/parts/pricing-engine/engine-client.ts";
import { EngineQuotes } from "../../../src/parts/pricing-engine/engine-quotes.ts";
import { type Proof, ProofMaker } from "../../../src/parts/pricing-engine/proof-maker.ts";
import { accounts } from "../../helpers/accounts.ts";
import { startLog } from "../../helpers/log.ts";
import { startPricingEngine } from "../../helpers/pricing-engine.ts";

test("A service has priority once the engine has quoted it, not because clients request it", async () => {
  const engine = await startPricingEngine({ prices: { "1/0": 5n, "3/0": 5n }, difficulty: 8 });
  onTestFinished(() => engine.stop());
  const client = new EngineClient(engine.url);
  onTestFinished(() => client.stop());
  const maker = new ProofMaker({ difficulty: 8, clock: systemClock, logger: startLog().logger });
  onTestFinished(() => maker.stop());
  const preferred: bigint[] = [];
  const proofs = {
    proofFor: (serviceId: bigint, signal?: AbortSignal) => maker.proofFor(serviceId, signal),
    drop: (serviceId: bigint, proof: Proof) => maker.drop(serviceId, proof),
    prefer(serviceId: bigint) {
      preferred.push(serviceId);
      maker.prefer(serviceId);
    },
  };
  const quotes = new EngineQuotes({ client, proofs, signing: engine.signing, clock: systemClock });

  expect(await quotes.ask({ serviceId: 1n, jobIndex: 0 })).toMatchObject({ kind: "quote" });
  expect(await quotes.ask({ serviceId: 2n, jobIndex: 0 })).toEqual({ kind: "unpriced" });
  engine.faults.signer = accounts.stranger;
  expect(await quotes.ask({ serviceId: 3n, jobIndex: 0 })).toMatchObject({ kind: "untrustworthy" });
  expect(preferred).toEqual([1n]);
});
