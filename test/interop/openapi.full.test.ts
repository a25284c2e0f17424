import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { describe, expect, onTestFinished, test } from "vitest";
import { spawnTethered } from "../../src/node/tethered-process.ts";
import { runHere } from "../commands/operator-commands.ts";
import { startPaidParts } from "../e2e/paid-parts.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { buy, startSelling } from "../parts/init/selling.ts";
import { startApiApp } from "./api-apps.ts";

const FOLDER = join(import.meta.dirname, "openapi");
const PAY_TO = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";

/** Writes the configuration that sells what a description says. */
async function init(...args: readonly string[]) {
  const folder = await mkdtemp(join(tmpdir(), "jobgate-openapi-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const out = join(folder, "jobgate.toml");
  const ended = await runHere("init", "--yes", "--pay-to", PAY_TO, "--out", out, ...args);
  const leftOut = [...ended.stderr.matchAll(/^Not for sale: (.+?): /gm)].map(([, operation]) => operation);
  return { ...ended, out, leftOut, text: ended.code === 0 ? await readFile(out, "utf8") : "" };
}

/** Public APIs by the file that describes them: their operations for sale, and those that no route can have. */
const PUBLIC_APIS: Readonly<
  Record<string, { file: string; routes: number; leftOut?: string[]; url?: string }>
> = {
  "Blockfrost, in YAML": {
    file: "@blockfrost/openapi/openapi.yaml",
    routes: 128,
    leftOut: ["GET /"],
  },
  Dialogporten: { file: "@digdir/dialogporten-schema/swagger.verified.json", routes: 29 },
  "Directus, which names no server": {
    file: "@directus/specs/dist/openapi.json",
    routes: 136,
    url: "http://127.0.0.1:8055",
  },
  "the Star Trek API": { file: "@readme/oas-examples/3.0/json/star-trek.json", routes: 120 },
  "Scalar Galaxy, in YAML": { file: "@scalar/galaxy/dist/latest.yaml", routes: 9 },
};

describe.each(Object.entries(PUBLIC_APIS))(
  "The description of %s",
  (_, { file, routes, leftOut = [], url }) => {
    test("Makes a configuration that check takes without a warning", async () => {
      const args = ["--openapi", join(FOLDER, "node_modules", file)];
      const written = await init(...(url === undefined ? args : [url, ...args]));
      expect(written).toMatchObject({ code: 0, leftOut });
      expect(written.text.match(/^\[\[jobs\]\]$/gm)).toHaveLength(routes);
      expect(await runHere("check", "-c", written.out)).toMatchObject({ code: 0, stderr: "" });
    });
  },
);

/** Starts the Express app that swagger-jsdoc describes. @returns its URL */
async function startExpressApp(): Promise<string> {
  const child = spawnTethered({ command: process.execPath, args: ["app.js"], cwd: FOLDER });
  onTestFinished(() => void child.kill("SIGKILL"));
  child.stderr.resume();
  const [port] = (await once(createInterface({ input: child.stdout }), "line")) as [string];
  return `http://127.0.0.1:${port}`;
}

describe("The description that an app makes of itself", () => {
  const parts = startBeforeAll(startPaidParts);

  test("Sells the routes of an Express app with swagger-jsdoc", async () => {
    const app = await startExpressApp();
    const args = ["--openapi", `${app}/docs.json`, "--price", "0.01", "--pay-to", PAY_TO];
    const { output, errors, url } = await startSelling(parts, args);
    expect(errors.filter((line) => line.startsWith("Not for sale"))).toEqual([]);
    expect(output).toMatch(/^GET \/weather\/\{city\} +\$0\.01 +Weather of a city$/m);
    expect(output).toMatch(/^POST \/notes +\$0\.01 +Stores a note$/m);
    const post = (body: string) =>
      fetch(`${url}/notes`, { method: "POST", headers: { "content-type": "application/json" }, body });
    expect((await post('{"text":1}')).status).toBe(422);
    expect((await post('{"text":null}')).status).toBe(402);
    const bought = await buy(output, "/weather/{city}", "/weather/Paris?units=kelvin");
    expect(bought).toMatchObject({ code: 0 });
    expect(JSON.parse(bought.stdout)).toEqual({ city: "Paris", units: "kelvin" });
  });

  test("Sells the routes of a FastAPI app", async () => {
    const app = await startApiApp("fastapi");
    onTestFinished(() => app.stop());
    const args = ["--openapi", `${app.url}/openapi.json`, "--price", "0.01", "--pay-to", PAY_TO];
    const { output, errors, url } = await startSelling(parts, [...args, "--route", "GET /weather/{city}"]);
    expect(errors.filter((line) => line.startsWith("Not for sale"))).toEqual([]);
    expect((await fetch(`${url}/health`)).status).toBe(404);
    expect(output).toMatch(/^GET \/weather\/\{city\} +\$0\.01 +Weather$/m);
    const bought = await buy(output, "/weather/{city}", "/weather/Oslo?units=kelvin");
    expect(bought).toMatchObject({ code: 0 });
    expect(JSON.parse(bought.stdout)).toEqual({ city: "Oslo", temperature: 285 });
    const whole = await init("--openapi", `${app.url}/openapi.json`);
    expect(await runHere("check", "-c", whole.out)).toMatchObject({ code: 0, stderr: "" });
    expect(whole.text).toContain('route = "POST /summaries"');
    expect(whole).toMatchObject({ code: 0, leftOut: [] });
  });
});
