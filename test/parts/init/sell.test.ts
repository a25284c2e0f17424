import { existsSync, readdirSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { processEnded } from "../../../src/node/tethered-process.ts";
import { runHere, runHereWith } from "../../commands/operator-commands.ts";
import { startPaidParts } from "../../e2e/paid-parts.ts";
import { accounts } from "../../helpers/accounts.ts";
import { listenHttp } from "../../helpers/http-listener.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { buy, startSelling } from "./selling.ts";

const PAY_TO = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
const ROUTE = "GET /weather/{city}=$0.01";
const CENT = 10_000n;

const parts = startBeforeAll(startPaidParts);
const seen: string[] = [];
/** An API that knows nothing of payments. */
const api = startBeforeAll(() =>
  listenHttp({
    handler({ url = "", headers }, response) {
      seen.push(`${url} ${headers["x-api-key"]}`);
      if (url === "/broken") return response.destroy();
      return response.end(`sunny in ${url}`);
    },
  }),
);

const sell = (args: readonly string[], env?: Record<string, string>) =>
  startSelling(parts, ["--pay-to", PAY_TO, ...args], env);

test("Sells a route from an empty folder with one command to a buyer with one command, and leaves only the store", async () => {
  const before = await parts.usdc.balanceOf(PAY_TO);
  const { folder, child, output, url } = await sell([api.url, "--route", ROUTE]);
  expect((await fetch(`${url}/weather/Paris`)).status).toBe(402);
  expect(await buy(output, "/weather/{city}", "/weather/Paris?units=metric")).toMatchObject({
    code: 0,
    stdout: "sunny in /weather/Paris?units=metric",
  });
  expect((await parts.usdc.balanceOf(PAY_TO)) - before).toBe(CENT);
  expect((await fetch(`${url}/other`)).status).toBe(404);
  // The description has the port that was chosen for port 0.
  const { servers } = (await (await fetch(`${url}/openapi.json`)).json()) as { servers: object[] };
  expect(servers).toEqual([{ url }]);
  expect(output).toContain(`caddy reverse-proxy --from api.example.com --to ${new URL(url).host}`);
  child.kill("SIGTERM");
  await processEnded(child);
  expect(child.exitCode).toBe(0);
  expect(readdirSync(folder).filter((name) => !name.startsWith("jobgate.db"))).toEqual([]);
  expect(existsSync(join(folder, "jobgate.db"))).toBe(true);
});

test("A value of --header is in no output, log, error or saved file, whatever the API does", async () => {
  const secret = "hunter2-in-a-header";
  const { folder, child, output, errors, url } = await sell(
    [
      ...[api.url, "--route", ROUTE, "--route", "GET /broken=$0.01", "--save"],
      ...["--header", "X-Api-Key=env:WEATHER_KEY", "--log-level", "trace"],
    ],
    { WEATHER_KEY: secret },
  );
  const told = [output];
  child.stdout.on("data", (chunk: Buffer) => told.push(chunk.toString()));
  seen.length = 0;
  const good = await buy(output, "/weather/{city}", "/weather/Paris");
  const broken = await buy(output, "/weather/{city}", "/broken");
  expect(seen).toEqual([`/weather/Paris ${secret}`, `/broken ${secret}`, `/broken ${secret}`]);
  const answers = [good, broken].map(({ stdout, stderr }) => stdout + stderr);
  const refused = await fetch(`${url}/weather/Paris`, { headers: { "x-api-key": "another" } });
  answers.push(JSON.stringify([...refused.headers]) + (await refused.text()));
  child.kill("SIGTERM");
  await processEnded(child);
  const log = errors.join("\n");
  expect(log).toMatch(/a call of an API failed/);
  const saved = await readFile(join(folder, "jobgate.toml"), "utf8");
  expect(saved).toContain("env:WEATHER_KEY");
  for (const text of [...told, ...answers, log, saved])
    for (const key of [secret, accounts.payer.privateKey.slice(2)]) expect(text).not.toContain(key);
});

const ALL = ["--route", ROUTE, "--pay-to", PAY_TO];
test.each([
  [["http://127.0.0.1:1", "--pay-to", PAY_TO], 2, "Neither --route nor --openapi is given; expected --route"],
  [["http://127.0.0.1:1", "--route", ROUTE], 2, "--pay-to is missing; expected your address"],
  [ALL, 2, "The URL of the API is missing"],
  [["http://user:s3cret@127.0.0.1:1", ...ALL], 2, "--header Authorization=env:NAME"],
  [["http://user:s3cret@127.0.0.1:1?x", ...ALL], 2, "--header Authorization=env:NAME"],
  [["127.0.0.1:8000", ...ALL], 2, "Expected the URL of your API, such as http://127.0.0.1:8000"],
  [
    ["http://127.0.0.1:1", "--route", "GET /a", "--pay-to", PAY_TO],
    2,
    "--route: GET /a has no price; expected 'GET /a=$0.01'",
  ],
  [["http://127.0.0.1:1", "--route", "/a=$1", "--pay-to", PAY_TO], 2, "Expected METHOD[|METHOD] /path"],
  [["http://127.0.0.1:1", ...ALL, "--header", "X-Api-Key=s3cret"], 2, "--header: expected name=env:NAME"],
  [
    ["http://127.0.0.1:1", ...ALL, "--header", "X-Api-Key=env:NOT_SET"],
    1,
    "environment variable NOT_SET is not set",
  ],
  [["http://127.0.0.1:8402", ...ALL], 1, "a listener of this jobgate; expected the address of the API"],
  [
    ["http://127.0.0.1:1", ...ALL, "--route", "GET /x402/jobs=$1"],
    1,
    'GET /x402/jobs: is "GET /x402/jobs", whose path is one of jobgate itself',
  ],
  [
    ["--openapi", "none.json", "--pay-to", PAY_TO],
    1,
    "none.json cannot be read: no such file; expected an OpenAPI",
  ],
])("Refuses %j, and starts nothing", async (args, code, reason) => {
  const ended = await runHereWith(["sell", ...args]);
  expect(ended).toMatchObject({ code, stdout: "" });
  expect(ended.stderr).toContain(reason);
  expect(ended.stderr).not.toContain("s3cret");
});

test("Leaves a configuration as it is that --save would overwrite", async () => {
  const folder = await mkdtemp(join(tmpdir(), "jobgate-sell-test-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const out = join(folder, "jobgate.toml");
  await writeFile(out, "mine");
  const ended = await runHere("sell", "http://127.0.0.1:1", ...ALL, "--save", "--out", out);
  expect(ended).toMatchObject({ code: 1, stderr: expect.stringContaining("--force") });
  expect(await readFile(out, "utf8")).toBe("mine");
});
