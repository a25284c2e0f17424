import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { type PaidParts, startPaidParts } from "../e2e/paid-parts.ts";
import { createVenv, installPackages } from "../e2e/python.ts";
import { copySources, ROOT, run, TSC, WORKSHOP } from "../e2e/workshop.ts";
import { newAccount, type TestAccount } from "../helpers/accounts.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { startSelling } from "../parts/init/selling.ts";
import { type ApiApp, startApiApp } from "./api-apps.ts";

/** Folder in which the clients are made. */
const FOLDER = join(WORKSHOP, "generated");
const PAY_TO = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
/** Units of a cent, which each route costs. */
const CENT = 10_000n;

const payers = { typescript: newAccount(), python: newAccount() };
const parts = startBeforeAll(() => startPaidParts({ payers: Object.values(payers) }));
const app = startBeforeAll(() => startApiApp("fastapi"));
beforeAll(() => copySources(join(ROOT, "test/interop/generated"), FOLDER));

/** Sells all that the app describes, and keeps the description of what is sold. @returns the URL for buyers */
async function sell({ url }: ApiApp, money: PaidParts, file: string): Promise<string> {
  const described = ["--openapi", `${url}/openapi.json`, "--price", "0.01", "--pay-to", PAY_TO];
  const selling = await startSelling(money, described);
  await writeFile(join(FOLDER, file), await (await fetch(`${selling.url}/openapi.json`)).text());
  return selling.url;
}

/** Runs a program that buys. @returns its answers, and the cents that they cost */
async function buy(by: { command: string; program: string; payer: TestAccount; seller: string }) {
  const balance = () => parts.usdc.balanceOf(by.payer.address);
  const before = await balance();
  const env = { KEY: by.payer.privateKey, SELLER: by.seller };
  const out = await run(by.command, [by.program], FOLDER, env);
  const answers = out
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line));
  return { answers, cents: (before - (await balance())) / CENT };
}

const HEALTH = { status: 200, data: { ok: true } };
const WEATHER = { status: 200, data: { city: "Oslo", temperature: 285 } };
const SUMMARY = { status: 200, data: { summary: "a long tex" } };
const UPLOAD = { status: 200, data: { name: "a.txt", bytes: 7, title: "a title" } };
const NOTE = { status: 201, data: { id: expect.any(Number) } };
const CHANGED = { status: 204 };
const REPORT = { status: 200, data: { bytes: expect.any(Number) } };
const REPORTS = { status: 200, data: ["annual.pdf"] };
const FAILED = { status: 502, data: { code: "api_broke_off", charged: false } };

test("A client by openapi-typescript type-checks, and buys each route by the official fetch", async () => {
  const seller = await sell(app, parts, "typescript.json");
  const install = ["ci", "--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts"];
  await run("npm", install, FOLDER);
  await run("node_modules/.bin/openapi-typescript", ["typescript.json", "--output", "seller.d.ts"], FOLDER);
  const strict = ["--strict", "--allowJs", "--checkJs", "--noEmit", "--skipLibCheck"];
  const modern = ["--target", "es2023", "--module", "nodenext", "--types", "node"];
  await run(
    process.execPath,
    [TSC, "--ignoreConfig", ...strict, ...modern, "seller.d.ts", "buy.mjs"],
    FOLDER,
  );
  const bought = await buy({
    command: process.execPath,
    program: "buy.mjs",
    payer: payers.typescript,
    seller,
  });
  expect(bought.answers).toEqual([HEALTH, WEATHER, SUMMARY, UPLOAD, NOTE, CHANGED, REPORT, REPORTS, FAILED]);
  expect(bought.cents).toBe(8n);
});

test("A client by openapi-generator for Python buys each route by the official httpx", async () => {
  const seller = await sell(app, parts, "python.json");
  const python = await createVenv(FOLDER);
  await installPackages(python, ["-r", "requirements.txt"], FOLDER);
  const made = ["--generator-name", "python", "--library", "httpx", "--package-name", "seller"];
  const args = ["generate", "-i", "python.json", ...made, "--output", "client"];
  await run(join(FOLDER, ".venv/bin/openapi-generator-cli"), args, FOLDER);
  // A client of an earlier run may have the same version.
  await installPackages(python, ["--reinstall-package", "seller", "./client"], FOLDER);
  const bought = await buy({ command: python, program: "buy.py", payer: payers.python, seller });
  expect(bought.answers).toEqual([
    HEALTH,
    WEATHER,
    SUMMARY,
    NOTE,
    { ...CHANGED, data: null },
    REPORT,
    REPORTS,
    FAILED,
  ]);
  expect(bought.cents).toBe(7n);
});
