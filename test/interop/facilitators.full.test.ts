import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { beforeAll, describe, expect, it } from "vitest";
import { expectBalance } from "../e2e/ledger.ts";
import { localSettler } from "../e2e/local-facilitator.ts";
import { withPermit2 } from "../e2e/paid-config.ts";
import { type PaidGateway, startPaidGateway } from "../e2e/paid-gateway.ts";
import { AMOUNT, startPaidParts } from "../e2e/paid-parts.ts";
import { preparePython } from "../e2e/python.ts";
import { accounts } from "../helpers/accounts.ts";
import { payingFetch, requestOffer } from "../helpers/clients.ts";
import { freePort } from "../helpers/free-port.ts";
import { approvePermit2, installPermit2 } from "../helpers/permit2.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";

type Method = "eip3009" | "permit2";
interface Paid {
  readonly status: number;
  readonly body: unknown;
}

const V1_FOLDER = fileURLToPath(new URL("x402-v1/", import.meta.url));
const PYTHON_CLIENT = fileURLToPath(new URL("pay.py", import.meta.url));
const SELLER_TOKEN = "a-token-of-the-second-jobgate";
const run = promisify(execFile);

const parts = startBeforeAll(() => startPaidParts({ sponsorsGas: true }));
let python: string;
beforeAll(async () => {
  const { anvil, usdc } = parts;
  await installPermit2(anvil);
  await approvePermit2({ anvil, token: usdc.address, account: accounts.payer });
  ({ python } = await preparePython("buyer-python"));
});

/** The official clients: each pays one request. Version 1 has EIP-3009 only. */
const CLIENTS: readonly (readonly [name: string, method: Method, pay: Pay])[] = [
  ["version 2", "eip3009", payV2],
  ["version 2", "permit2", payV2],
  ["version 1", "eip3009", payV1],
  ["Python", "eip3009", payPython],
  ["Python", "permit2", payPython],
];
type Pay = (url: string, body: string, method: Method) => Promise<Paid>;

async function payV2(url: string, body: string, transferMethod: Method): Promise<Paid> {
  const account = accounts.payer;
  const pay = payingFetch({ account, network: "eip155:84532", spendControls: false, transferMethod });
  const response = await pay(url, { method: "POST", body });
  return { status: response.status, body: await response.json() };
}

async function payV1(url: string, body: string): Promise<Paid> {
  const args = ["pay.mjs", url, accounts.payer.privateKey, String(AMOUNT), body];
  const { stdout } = await run(process.execPath, args, { cwd: V1_FOLDER });
  const paid = JSON.parse(stdout);
  return { status: paid.status, body: JSON.parse(paid.body) };
}

async function payPython(url: string, body: string, method: Method): Promise<Paid> {
  const env = { ...process.env, PAYER_KEY: accounts.payer.privateKey };
  const { stdout } = await run(python, [PYTHON_CLIENT, url, method, body], { env });
  return JSON.parse(stdout);
}

function startSeller(edit: (config: string) => string): Promise<PaidGateway> {
  return startPaidGateway({ parts, setUp: "rpc_url", edit: (config) => edit(withPermit2(config)) });
}

const FACILITATORS: Readonly<Record<string, () => Promise<Pick<PaidGateway, keyof PaidGateway>>>> = {
  "the SDK's facilitator": () => startSeller((config) => config),
  async "the local facilitator"() {
    const settler = await localSettler({ anvil: parts.anvil });
    return startSeller(settler.edit);
  },
  async "the facilitator service of another jobgate"() {
    const settler = await localSettler({ anvil: parts.anvil });
    const address = `127.0.0.1:${await freePort()}`;
    const service = `
[x402.facilitator_service]
bind_address = "${address}"
tokens = ["${SELLER_TOKEN}"]
`;
    const first = await startSeller((config) => settler.edit(config) + service);
    const list = `
[[x402.facilitators]]
url = "http://${address}"
auth.headers = { Authorization = "Bearer ${SELLER_TOKEN}" }
`;
    const second = await startSeller((config) => config.replace(/^facilitator_url = .*$/m, "") + list);
    return Object.assign(Object.create(second) as PaidGateway, {
      async stop() {
        await second.stop();
        await first.stop();
      },
    });
  },
};

describe.each(Object.entries(FACILITATORS))("Through %s", (facilitator, start) => {
  const gateway = startBeforeAll(start);

  it.each(CLIENTS)("The official client of %s pays by %s", async (client, method, pay) => {
    const body = `${client}, ${method}, ${facilitator}`;
    const before = await parts.usdc.balanceOf(accounts.payTo.address);
    expect(await pay(gateway.urlOf(), body, method)).toMatchObject({
      status: 202,
      body: { status: "accepted" },
    });
    expect(await gateway.waitForJobs(body)).toHaveLength(1);
    expect(await parts.usdc.balanceOf(accounts.payTo.address)).toBe(before + AMOUNT);
    await expectBalance(gateway);
  });

  it("A payer who never approved Permit2 signs that too (EIP-2612)", async () => {
    const { anvil, usdc } = parts;
    const { otherPayer: account, payTo } = accounts;
    const sponsored = async () =>
      "eip2612GasSponsoring" in ((await requestOffer(gateway.urlOf())).v2.extensions ?? {});
    await expect.poll(sponsored).toBe(true);
    const before = await usdc.balanceOf(payTo.address);
    const pay = payingFetch({
      account,
      network: "eip155:84532",
      spendControls: false,
      transferMethod: "permit2",
      rpcUrl: anvil.rpcUrl,
    });
    const response = await pay(gateway.urlOf(), { method: "POST", body: `sponsored, ${facilitator}` });
    expect([response.status, await response.json()]).toMatchObject([202, { status: "accepted" }]);
    expect(await usdc.balanceOf(payTo.address)).toBe(before + AMOUNT);
  });
});
