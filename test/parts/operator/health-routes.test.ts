import { describe, expect, it } from "vitest";
import { healthRoutes } from "../../../src/parts/operator/health-routes.ts";
import { startOperator, TOKEN } from "../../helpers/operator.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";

const operator = startBeforeAll(() => startOperator({ token: TOKEN }));

async function ask(path: string) {
  const response = await fetch(operator.url + path);
  return { status: response.status, body: await response.text() };
}

describe("Health without a token", () => {
  it("/healthz and /readyz answer 200 while jobgate is ready", async () => {
    expect(await ask("/healthz")).toEqual({ status: 200, body: "ok" });
    expect(await ask("/readyz")).toEqual({ status: 200, body: '{"ready":true,"queue_full":false}' });
  });

  it("/readyz answers 503 once jobgate shuts down, /healthz still 200", async () => {
    await operator.close();
    expect(await ask("/readyz")).toEqual({
      status: 503,
      body: '{"ready":false,"reason":"jobgate is shutting down"}',
    });
    expect((await ask("/healthz")).status).toBe(200);
  });
});

it("/readyz answers 503 with the reason while the store is not writable, and 200 while the queue is full", async () => {
  const answer = async (state: { writable: boolean; full: boolean; reason?: string }) => {
    const status = { ...state, pending: 0 };
    const handlers = healthRoutes(
      () => status,
      () => undefined,
    ).get("/readyz");
    return handlers?.GET?.({} as never);
  };
  expect(await answer({ writable: false, full: false, reason: "disk full" })).toMatchObject({
    status: 503,
    body: '{"ready":false,"reason":"disk full"}',
  });
  expect(await answer({ writable: true, full: true })).toMatchObject({
    status: 200,
    body: '{"ready":true,"queue_full":true}',
  });
});

it("/readyz answers 503 while jobgate starts", async () => {
  const status = { writable: true, full: false, pending: 0 };
  const handlers = healthRoutes(
    () => status,
    () => "jobgate is starting",
  );
  expect(await handlers.get("/readyz")?.GET?.({} as never)).toMatchObject({
    status: 503,
    body: '{"ready":false,"reason":"jobgate is starting"}',
  });
});
