import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { processEnded } from "../../../src/node/tethered-process.ts";
import { runHere } from "../../commands/operator-commands.ts";
import { startPaidParts } from "../../e2e/paid-parts.ts";
import { listenHttp } from "../../helpers/http-listener.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { buy, startSelling } from "./selling.ts";

const PAY_TO = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
const ROUTE = "GET /weather/{city}=$0.01";
const CENT = 10_000n;

const DESCRIPTION = {
  openapi: "3.1.0",
  info: { title: "Weather", version: "1" },
  paths: {
    "/weather/{city}": {
      get: {
        summary: "Weather of a city",
        "x-payment-info": { price: { mode: "fixed", currency: "USD", amount: "0.02" } },
        parameters: [
          { name: "city", in: "path", required: true, schema: { type: "string" } },
          { name: "units", in: "query", schema: { enum: ["metric", "kelvin"] } },
        ],
      },
    },
    "/openapi.json": { get: {} },
    "/reports/": { get: {} },
  },
};

const parts = startBeforeAll(startPaidParts);
const seen: string[] = [];
/** An API that knows nothing of payments. */
const api = startBeforeAll(() =>
  listenHttp({
    handler({ url = "", headers }, response) {
      if (url === "/openapi.json") return response.end(JSON.stringify(DESCRIPTION));
      seen.push(`${url} ${headers["x-api-key"]}`);
      return response.end(`sunny in ${url}`);
    },
  }),
);

const sell = (args: readonly string[], env?: Record<string, string>) =>
  startSelling(parts, ["--pay-to", PAY_TO, ...args], env);

test("Sells what a description says at its prices, tells what is not for sale, and shows the routes as sold in its own", async () => {
  const before = await parts.usdc.balanceOf(PAY_TO);
  const { output, errors, url } = await sell(
    ["--openapi", `${api.url}/openapi.json`, "--price", "0.01", "--header", "X-Api-Key=env:WEATHER_KEY"],
    { WEATHER_KEY: "s3cret" },
  );
  expect(output).toMatch(/^GET \/weather\/\{city\} +\$0\.02 +Weather of a city$/m);
  expect(errors).toContainEqual(
    expect.stringMatching(/^Not for sale: GET \/openapi\.json: .*path is one of jobgate itself/),
  );
  expect(output).toMatch(/^GET \/reports\/ +\$0\.01/m);
  expect((await fetch(`${url}/reports`)).status).toBe(404);
  const own = (await (await fetch(`${url}/openapi.json`)).json()) as { paths: Record<string, unknown> };
  expect(own.paths["/weather/{city}"]).toMatchObject({
    get: {
      summary: "Weather of a city",
      parameters: [{ name: "city" }, { name: "units", in: "query" }, {}, {}],
    },
  });
  expect((await fetch(`${url}/weather/Rome?units=cubits`)).status).toBe(422);
  seen.length = 0;
  expect(await buy(output, "/weather/{city}", "/weather/Rome")).toMatchObject({
    code: 0,
    stdout: "sunny in /weather/Rome",
  });
  expect(await buy(output, "/weather/{city}", "/reports/")).toMatchObject({ stdout: "sunny in /reports/" });
  expect(seen).toEqual(["/weather/Rome s3cret", "/reports/ s3cret"]);
  expect((await parts.usdc.balanceOf(PAY_TO)) - before).toBe(3n * CENT);
});

test("Saves a configuration that check takes without a warning, and that goes on where the command ended", async () => {
  const args = [
    api.url,
    "--route",
    ROUTE,
    "--route",
    "POST /notes=$0.02",
    "--public-url",
    "https://api.example.com",
  ];
  const { folder, child, output } = await sell([...args, "--save"]);
  expect(output).toContain("caddy reverse-proxy --from api.example.com --to 127.0.0.1:");
  child.kill("SIGTERM");
  await processEnded(child);
  const path = join(folder, "jobgate.toml");
  expect(await runHere("check", "-c", path)).toMatchObject({ code: 0, stderr: "" });
  expect(await readFile(path, "utf8")).toMatch(
    /url = "sqlite:jobgate\.db"[\s\S]*public_url = "https:\/\/api\.example\.com"[\s\S]*\[\[apis]][\s\S]*route = "POST \/notes"[\s\S]*idempotent = false/,
  );
});
