import { expect, onTestFinished, test } from "vitest";
import { startJobgate } from "../helpers/jobgate-process.ts";
import { WEBHOOKS_CONFIG } from "../helpers/small-configs.ts";

test("jobgate serve runs from its sources, as in development", async () => {
  const jobgate = await startJobgate({ config: WEBHOOKS_CONFIG, from: "sources" });
  onTestFinished(async () => void (await jobgate.stop()));
  const accepted = await fetch(`${jobgate.webhooksUrl}/hooks/alerts`, { method: "POST", body: "x" });
  expect(accepted.status).toBe(202);
});
