import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Hex } from "viem";
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import type { PaymentIntent } from "../../../../src/core/payment.ts";
import { runHere } from "../../../commands/operator-commands.ts";
import { accounts } from "../../../helpers/accounts.ts";
import { borrowAnvil } from "../../../helpers/anvil.ts";
import { startFaultProxy } from "../../../helpers/http-proxy.ts";
import { startOperator, TOKEN } from "../../../helpers/operator.ts";
import { startBeforeAll } from "../../../helpers/start-before-all.ts";
import { deployUsdc, type Token } from "../../../helpers/usdc.ts";
import { paidCall, paymentIntent } from "../../../store/store-fixtures.ts";

const AMOUNT = 3_264_000n;
const MAX_BLOCKS = 10n;

const anvil = startBeforeAll(borrowAnvil);
const rpc = startBeforeAll(() => startFaultProxy({ target: anvil.rpcUrl }));
const jobgate = startBeforeAll(() => startOperator({ token: TOKEN }));
let usdc: Token;
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "jobgate-missing-"));
  usdc = await deployUsdc({ anvil });
  for (const payer of [accounts.payer, accounts.otherPayer]) await usdc.mint(payer.address, 10n * AMOUNT);
});
afterAll(() => rm(folder, { recursive: true, force: true }));
afterEach(() => vi.unstubAllEnvs());

/** Runs the command on a configuration with one token. */
async function missing(since: number, ...options: string[]) {
  const path = join(folder, "jobgate.toml");
  await writeFile(path, config(`rpc_url = "${rpc.url}"`));
  return missingWith(path, since, ...options);
}

function missingWith(path: string, since: number, ...options: string[]) {
  vi.stubEnv("JOBGATE_OPERATOR_TOKEN", TOKEN);
  const args = ["-c", path, "--target", jobgate.operator.address, ...options];
  return runHere("payments", "missing", "--since", new Date(since).toISOString(), ...args);
}

function config(ofToken: string): string {
  return `service_id = 1
[x402]
facilitator_url = "http://127.0.0.1:1"
[[x402.accepted_tokens]]
network = "eip155:${anvil.chainId}"
asset = "${usdc.address}"
symbol = "USDC"
decimals = 6
pay_to = "${accounts.payTo.address}"
rate_per_native_unit = "3200"
transfer_method = "eip3009"
eip3009_name = "USDC"
eip3009_version = "2"
${ofToken}
`;
}

/** Payment of the payer, in the token on this chain. */
function intent(number: number): PaymentIntent {
  const { key, ...payment } = paymentIntent(number);
  const asset = usdc.address.toLowerCase();
  const payer = accounts.payer.address.toLowerCase();
  return { ...payment, key: { ...key, network: `eip155:${anvil.chainId}`, asset, payer } };
}

const transfer = (from = accounts.payer, amount = AMOUNT): Promise<Hex> =>
  usdc.transfer(from, accounts.payTo.address, amount);

const chainTimeMs = async () => Number((await anvil.client.getBlock()).timestamp) * 1_000;

test("missing lists the transfers since a time that no payment made, and payments that may have made them", async () => {
  await transfer();
  await anvil.client.increaseTime({ seconds: 3_600 });
  await anvil.client.mine({ blocks: 1 });
  const since = await chainTimeMs();
  const unexplained = await transfer();
  const settled = await transfer();
  const { store } = jobgate;
  await store.beginPayment(intent(1), paidCall());
  await store.settlePayment(intent(1).key, JSON.stringify({ success: true, transaction: settled }));
  await store.beginPayment(intent(2), paidCall());
  await store.leavePaymentUnresolved(intent(2).key, "nobody knows");
  await usdc.transfer(accounts.payer, accounts.stranger.address, AMOUNT);
  await anvil.client.mine({ blocks: 50 });
  const foreign = await transfer(accounts.otherPayer, 1n);
  const tooLong = `the range is over ${MAX_BLOCKS} blocks`;
  rpc.add({
    rpcMethod: "eth_getLogs",
    when: ({ body }) => {
      const [{ fromBlock, toBlock }] = JSON.parse(body.toString()).params;
      return BigInt(toBlock) - BigInt(fromBlock) >= MAX_BLOCKS;
    },
    fault: {
      kind: "answer",
      status: 200,
      body: { jsonrpc: "2.0", id: 1, error: { code: -32005, message: tooLong } },
    },
  });

  const { code, stdout } = await missing(since);
  const [headings, ...rows] = stdout.trimEnd().split("\n");
  expect(code).toBe(0);
  expect(headings).toMatch(/^NETWORK +BLOCK +TRANSACTION +AMOUNT +FROM +MAY BE$/);
  const cells = rows.map((row) => row.split(/ {2,}/).filter((_, column) => column !== 1));
  expect(cells).toEqual([
    ["Base Sepolia", unexplained, "3.264 USDC", accounts.payer.address.toLowerCase(), "2"],
    ["Base Sepolia", foreign, "0.000001 USDC", accounts.otherPayer.address.toLowerCase()],
  ]);

  const json = (await missing(since, "--json")).stdout.trimEnd().split("\n");
  expect(json.map((line) => JSON.parse(line))).toMatchObject([
    { transaction: unexplained, amount: "3264000", amount_text: "3.264 USDC", candidates: ["2"] },
    { transaction: foreign, amount: "1", pay_to: accounts.payTo.address, candidates: [] },
  ]);
  expect(await missing((await chainTimeMs()) + 1_000)).toEqual({
    code: 0,
    stdout: "",
    stderr: "There are none.\n",
  });
});

test("missing names a token whose chain it cannot ask, and refuses when the chain does not answer", async () => {
  const path = join(folder, "blind.toml");
  await writeFile(path, config(""));
  expect(await missingWith(path, Date.now())).toEqual({
    code: 0,
    stdout: "",
    stderr: `USDC on eip155:${anvil.chainId} has no rpc_url, so its transfers cannot be read.\nThere are none.\n`,
  });
  await writeFile(path, config('rpc_url = "http://user:hunter2@127.0.0.1:1"'));
  const { code, stdout, stderr } = await missingWith(path, Date.now());
  expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
  expect(stderr).toContain(
    `The rpc_url of USDC on eip155:${anvil.chainId} cannot be queried for its transfers`,
  );
  expect(stderr).not.toContain("hunter2");
});
