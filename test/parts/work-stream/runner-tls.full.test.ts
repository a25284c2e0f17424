import { readFileSync } from "node:fs";
import { expect, test, vi } from "vitest";
import { makeCertificates } from "../../helpers/certificates.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { until } from "../../helpers/until.ts";
import { startRun } from "../../runner/start-run.ts";
import { startWorkDelivery } from "./harness.ts";

const certificates = startBeforeAll(() => makeCertificates());
const file = (name: string) => certificates.file(name);
const pem = (name: string) => readFileSync(file(name), "utf8");

test("The Node library's runner trusts its CA file's authorities, and no others", async () => {
  const tls = { cert: pem("server.pem"), key: pem("server.key") };
  const { accept, address, store } = await startWorkDelivery({ tls, tokens: ["secret"] });
  const options = { address, token: "secret" };
  const stranger = startRun(() => "no", { ...options, ca: file("stranger.pem") });
  await until(() => stranger.lines.some((line) => line.startsWith("cannot connect")));
  const trusting = startRun(() => "done", { ...options, ca: file("authority.pem") });
  await accept();
  await until(async () => (await store.totals()).calls.ready + (await store.totals()).calls.leased === 0);
  expect(trusting.lines).toEqual([`connected to ${address} as test`]);
  expect(stranger.lines.join()).not.toContain("connected to");
});

test("The Node library's runner presents its certificate", async () => {
  const tls = { cert: pem("server.pem"), key: pem("server.key"), clientCa: pem("authority.pem") };
  const { accept, address, store } = await startWorkDelivery({ tls });
  const options = { address, ca: file("authority.pem") };
  await expect(startRun(() => "no", options).ended).rejects.toThrow("refuses this runner");
  const acks = vi.spyOn(store, "ack");
  startRun(() => "done", { ...options, cert: file("runner.pem"), key: file("runner.key") });
  await accept();
  await until(() => acks.mock.calls.length === 1);
});
