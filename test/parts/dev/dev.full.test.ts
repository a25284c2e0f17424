import { execFile } from "node:child_process";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { privateKeyToAccount } from "viem/accounts";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { processEnded, spawnTethered, type TetheredProcess } from "../../../src/node/tethered-process.ts";
import { accounts, newAccount } from "../../helpers/accounts.ts";
import { payingFetch, requestOffer, signV2Payment } from "../../helpers/clients.ts";
import { listenHttp } from "../../helpers/http-listener.ts";
import { jobgateProgram } from "../../helpers/jobgate-program.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";

const PROGRAM = [process.execPath, ...jobgateProgram()];

/** An API that knows nothing of payments. */
const api = startBeforeAll(() =>
  listenHttp({ handler: ({ method, url }, response) => void response.end(`${method} ${url}`) }),
);
let dev: TetheredProcess;
/** Lines that it printed up to its last one. */
const printed: string[] = [];

beforeAll(async () => {
  const [command = "", ...args] = [...PROGRAM, "dev", "--free-ports", "--api", api.url];
  dev = spawnTethered({ command, args });
  dev.stderr.resume();
  for await (const line of createInterface({ input: dev.stdout })) {
    printed.push(line);
    if (line === "End with Ctrl-C.") break;
  }
});
afterAll(() => void dev?.kill("SIGKILL"));

/** Runs the printed line that contains a text, as a person who copies it. */
async function runLine(text: string): Promise<string> {
  const line = printed.find((one) => one.startsWith("  ") && one.includes(text)) ?? "";
  const program = PROGRAM.map((part) => `'${part}'`).join(" ");
  const { stdout } = await promisify(execFile)("sh", ["-c", line.replace(/(npx )?jobgate/, program)]);
  return stdout;
}

const addressOf = (name: string) =>
  printed.find((line) => line.startsWith(name))?.match(/http\S+/)?.[0] ?? "";

const payer = () => {
  const privateKey = /KEY=(0x[0-9a-f]{64})/.exec(printed.join())?.[1] as `0x${string}`;
  return { ...privateKeyToAccount(privateKey), privateKey };
};
const usedJobUrl = () => /http\S+\/x402\/jobs\/1\/1/.exec(printed.join("\n"))?.[0] ?? "";
const tokenAddress = () => printed.find((line) => line.startsWith("token"))?.match(/0x\w{40}/)?.[0] ?? "";

async function callChain(method: string, ...params: unknown[]): Promise<unknown> {
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
  const headers = { "content-type": "application/json" };
  const answer = await fetch(addressOf("chain"), { method: "POST", headers, body });
  return ((await answer.json()) as { result: unknown }).result;
}

/** Calls a function of the token that takes an address, and maybe a number. */
function tokenCall(selector: string, address: string, amount = 0n) {
  const words = [address.slice(2), amount.toString(16)].map((word) => word.padStart(64, "0"));
  return { to: tokenAddress(), data: `0x${selector}${words.join("")}` };
}

const balanceOf = async (address: string) =>
  BigInt((await callChain("eth_call", tokenCall("70a08231", address), "latest")) as string);

/** Buys the job metered with the official client. */
const buyMetered = (options: Pick<Parameters<typeof payingFetch>[0], "account" | "rpcUrl">) =>
  payingFetch({ ...options, network: "eip155:84532", scheme: "upto" })(usedJobUrl(), {
    method: "POST",
    headers: { "content-type": "text/plain", prefer: "wait=30" },
    body: "hello",
  });

describe("jobgate dev", () => {
  test("Sells its sample job to the printed command", async () => {
    expect(await runLine("jobgate pay")).toBe("HELLO\n");
  });

  test("Sells its job metered to the printed command", async () => {
    expect(await runLine("/x402/jobs/1/1")).toBe("HELLO\n");
  });

  test("Charges the official client of the scheme upto what its job used", async () => {
    const before = await balanceOf(payer().address);
    const answer = await buyMetered({ account: payer() });
    expect([answer.status, await answer.text()]).toEqual([200, "HELLO"]);
    expect(before - (await balanceOf(payer().address))).toBe(5_000n);
  });

  test("Sells metered to a new account that signs its approval of Permit2", async () => {
    const account = newAccount();
    const mint = tokenCall("40c10f19", account.address, 50_000n);
    await callChain("eth_sendTransaction", { from: accounts.deployer.address, ...mint });
    const answer = await buyMetered({ account, rpcUrl: addressOf("chain") });
    expect([answer.status, await answer.text()]).toEqual([200, "HELLO"]);
    expect(await balanceOf(account.address)).toBe(45_000n);
  });

  test.each([1, 2, 3, 4])(
    "Takes a payment that is valid from the moment of its signature, try %s",
    async () => {
      const url = usedJobUrl().replace(/1$/, "0");
      const { v2 } = await requestOffer(url, "hello", { "content-type": "text/plain" });
      const validAfter = String(Math.floor(Date.now() / 1_000));
      const { headers } = await signV2Payment({ offer: v2, account: payer(), authorization: { validAfter } });
      const init = { method: "POST", headers: { ...headers, "content-type": "text/plain" }, body: "hello" };
      expect((await fetch(url, init)).status).toBe(202);
    },
  );

  test("Takes the printed webhook", async () => {
    expect(JSON.parse(await runLine("curl"))).toMatchObject({ status: "accepted", job_id: 30 });
  });

  test("Shows in the printed status what came of both", async () => {
    expect(await runLine("jobgate status")).toMatch(/since start +9 jobs accepted/);
  });

  test("Sells each GET of the API that it is given, and nothing else of it", async () => {
    const url = `${addressOf("API")}/weather/Paris?units=kelvin`;
    const before = await balanceOf(payer().address);
    const answer = await payingFetch({ account: payer(), network: "eip155:84532" })(url);
    expect([answer.status, await answer.text()]).toEqual([200, "GET /weather/Paris?units=kelvin"]);
    expect(before - (await balanceOf(payer().address))).toBe(10_000n);
    expect((await fetch(url, { method: "DELETE" })).status).toBe(405);
  });

  test.each(["shop", "operator page"])("Serves the printed address of the %s", async (name) => {
    const page = await fetch(addressOf(name), { headers: { accept: "text/html" } });
    expect(page.headers.get("content-type")).toMatch(/^text\/html/);
  });

  test("Stops with everything that it started at the first Ctrl-C", async () => {
    dev.kill("SIGINT");
    await processEnded(dev);
    expect(dev.exitCode).toBe(0);
    await expect(fetch(addressOf("chain"))).rejects.toThrow("fetch failed");
  });
});
