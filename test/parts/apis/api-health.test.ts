import pino from "pino";
import { expect, onTestFinished, test } from "vitest";
import { ApiHealth } from "../../../src/parts/apis/api-health.ts";
import type { ApiConfig } from "../../../src/parts/apis/config.ts";
import { listenHttp } from "../../helpers/http-listener.ts";

const logger = pino({ level: "silent" });

/** Starts the health check of an API that answers with these statuses, and then 200. @returns what it was at each request */
async function look(statuses: readonly number[]): Promise<boolean[]> {
  const seen: boolean[] = [];
  const server = await listenHttp({
    handler: (_request, response) => {
      seen.push(health.isUp);
      response.writeHead(statuses[seen.length - 1] ?? 200).end();
    },
  });
  const health = new ApiHealth(
    {
      name: "weather",
      url: server.url,
      health: "GET /health",
      timeoutMs: 10_000,
      concurrency: 1,
    } as ApiConfig,
    logger,
  );
  onTestFinished(async () => {
    await health.stop();
    await server.stop();
  });
  health.start();
  await expect.poll(() => seen.length, { timeout: 30_000 }).toBeGreaterThan(statuses.length);
  return seen.slice(0, statuses.length + 1);
}

test("An API counts as working until two answers in a row are bad", async () => {
  const [afterOne, afterTwo] = await Promise.all([look([500]), look([500, 503])]);
  expect(afterOne).toEqual([true, true]);
  expect(afterTwo).toEqual([true, true, false]);
});
