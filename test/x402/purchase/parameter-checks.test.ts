import { describe, expect, it } from "vitest";
import type { Job } from "../../../src/config/config.ts";
import { parseRoute, type Route } from "../../../src/core/route.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { startTestGateway } from "../gateway-harness.ts";
import { JOB } from "../payments.ts";

const WEATHER: Job = {
  ...JOB,
  route: parseRoute("GET /weather/{city_of_the_world}") as Route,
  parameters: {
    properties: {
      city_of_the_world: { type: "string", maxLength: 10 },
      units: { enum: ["metric", "kelvin"] },
      days: { type: "integer", maximum: 7 },
    },
    required: ["units"],
    additionalProperties: true,
  },
};

describe("A job with schemas for its path and query", () => {
  const gateway = startBeforeAll(() => startTestGateway({ config: { jobs: [WEATHER] } }));
  const get = async (target: string, headers: Record<string, string> = {}) => {
    const response = await fetch(`${gateway.url}${target}`, { headers });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };

  it("refuses a request that does not match before it looks at the payment", async () => {
    for (const headers of [{}, { "payment-signature": "not a payment" }]) {
      expect(await get("/weather/Paris?units=stone", headers)).toEqual({
        status: 422,
        body: {
          error:
            "The request does not match the job's input schema: /query/units must be equal to one of the allowed values. Nothing was charged.",
          code: "invalid_input",
          charged: false,
          retryable: false,
          invalid: [{ path: "/query/units", message: "must be equal to one of the allowed values" }],
        },
      });
    }
  });

  it("names the path's parameter, the field that is missing, wrong or there twice", async () => {
    const first = async (target: string) =>
      ((await get(target)).body.invalid as { path: string }[] | undefined)?.[0]?.path;
    expect(await first("/weather/Constantinople?units=metric")).toBe("/path/city_of_the_world");
    expect(await first("/weather/Paris?days=7")).toBe("/query/units");
    expect(await first("/weather/Paris?units=metric&days=8")).toBe("/query/days");
    expect(await first("/weather/Paris?units=metric&units=metric")).toBe("/query/units");
  });

  it("shows its price to a request without query and payment, and refuses a request with a payment", async () => {
    expect((await get("/weather/Paris")).status).toBe(402);
    expect(await get("/weather/Constantinople")).toMatchObject({
      status: 422,
      body: { code: "invalid_input" },
    });
    // As a crawler asks that fills in no parameter.
    const template = "/weather/%7Bcity_of_the_world%7D";
    expect((await get(template)).status).toBe(402);
    expect((await get(`${template}?units=metric`)).status).toBe(422);
    const { headers } = await gateway.sign(1);
    expect((await get(template, headers)).status).toBe(422);
    expect(await get("/weather/Paris", headers)).toMatchObject({
      status: 422,
      body: { charged: false, invalid: [{ path: "/query/units" }] },
    });
    // One that cannot be read pays for nothing.
    const unreadable = { "payment-signature": "not a payment" };
    expect(await get("/weather/Paris", unreadable)).toMatchObject({
      status: 400,
      body: { code: "invalid_payment" },
    });
  });

  it("offers itself for a request that matches, whatever other fields that has", async () => {
    expect((await get("/weather/Paris?units=metric&days=7&x=1&x=2")).status).toBe(402);
    const invalid = await get("/weather/Paris?units=metric", { "payment-signature": "not a payment" });
    expect(invalid).toMatchObject({ status: 400, body: { code: "invalid_payment" } });
  });
});
