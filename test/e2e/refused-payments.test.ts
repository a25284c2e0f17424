import { afterEach, expect, it, vi } from "vitest";
import { createOperatorClient } from "../../src/commands/operator-client.ts";
import { runHere } from "../commands/operator-commands.ts";
import { accounts, newAccount } from "../helpers/accounts.ts";
import { eventually } from "../helpers/eventually.ts";
import { sendRpc } from "../helpers/mcp.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { ALL_PROTOCOLS, startPaidGateway } from "./paid-gateway.ts";
import { startPaidParts } from "./paid-parts.ts";

const parts = startBeforeAll(startPaidParts);
const gateway = startBeforeAll(() => startPaidGateway({ parts, setUp: "no rpc_url" }));

afterEach(() => vi.unstubAllEnvs());

const operator = () => createOperatorClient({ address: { url: gateway.jobgate.operatorUrl } });

/** Entries that the command prints as JSON. */
async function refused(...options: string[]): Promise<Record<string, unknown>[]> {
  const target = ["--target", gateway.jobgate.operatorUrl] as const;
  const { code, stdout } = await runHere("payments", "refused", ...options, "--json", ...target);
  expect(code).toBe(0);
  return stdout.split("\n").flatMap((line) => (line === "" ? [] : [JSON.parse(line)]));
}

const withoutFunds = accounts.stranger;

it.each(ALL_PROTOCOLS)("A facilitator's reason is kept for a payment over %s", async (protocol) => {
  const body = `poor over ${protocol}`;
  const client = gateway.at(protocol);
  const account = newAccount();
  const payment = await client.sign({ account, body });
  expect((await client.send(payment, { body })).code).toBe("payment_invalid");
  const { answer } = parts.facilitator.calls.findLast(({ route }) => route === "verify") ?? {};
  const { invalidReason } = answer as { invalidReason: string };
  const payer = account.address.toLowerCase();
  await eventually(async () =>
    expect((await operator().listRefusedPayments({ payer })).refusedPayments).toMatchObject([
      {
        code: "payment_invalid",
        reason: invalidReason,
        message: expect.stringContaining(invalidReason),
        payer,
        requestId: expect.stringMatching(/^r[0-9a-f]{10}-\d+$/),
      },
    ]),
  );
});

it("The answer's X-Request-Id finds its refusal, over HTTP and over MCP", async () => {
  const { headers } = await gateway.sign({ account: withoutFunds });
  const overHttp = await fetch(gateway.urlOf(), { method: "POST", headers, body: "work" });
  expect(overHttp.status).toBe(402);
  const meta = { "x402/payment": "not a payment" };
  const call = { name: "job-1-0", arguments: { body: "work" }, _meta: meta };
  const overMcp = await sendRpc(`${gateway.jobgate.x402Url}/mcp`, "tools/call", call);
  for (const [answer, code] of [
    [overHttp, "payment_invalid"],
    [overMcp, "invalid_payment"],
  ] as const) {
    const id = answer.headers.get("x-request-id") ?? "";
    await expect
      .poll(() => refused("--request-id", id), { timeout: 5_000 })
      .toMatchObject([{ code, request_id: id }]);
  }
});

it("A refusal is kept over a restart, and the table says why", async () => {
  const filter = ["--payer", withoutFunds.address, "--code", "payment_invalid", "--job", "1/0"];
  const before = await refused(...filter);
  expect(before).toHaveLength(1);
  const payment = await gateway.sign({ account: withoutFunds });
  expect((await gateway.send(payment, { body: "work" })).code).toBe("payment_invalid");
  await gateway.restart();
  const after = await refused();
  // Refusals of the tests before may have been written since.
  expect(after.slice(1)).toEqual(expect.arrayContaining(before));
  const table = await runHere("payments", "refused", "--limit", "1", "--target", gateway.jobgate.operatorUrl);
  const [headings, row] = table.stdout.split("\n");
  expect(headings).toMatch(/^REFUSED AT +REQUEST +JOB +CODE +PAYER +REASON$/);
  expect(row).toContain(after[0]?.request_id);
  expect(row).toContain(after[0]?.reason);
  const counts = await runHere("payments", "refusals", "--target", gateway.jobgate.operatorUrl);
  const [titles, ...counted] = counts.stdout.trimEnd().split("\n");
  expect(titles).toMatch(/^COUNT +JOB +CODE +NEWEST +REASON$/);
  const same = after.filter(({ code, reason }) => code === "payment_invalid" && reason === after[0]?.reason);
  const of = counted.find((line) => line.includes(` ${after[0]?.reason}`)) ?? "";
  expect(of).toMatch(new RegExp(`^${same.length} +1/0 +payment_invalid `));
  await fetch(gateway.urlOf(), { method: "POST", body: "unpaid" });
  const status = await runHere("status", "--target", gateway.jobgate.operatorUrl);
  expect(status.stdout).toMatch(/^prices shown +\d+ since start, \d+ jobs? bought \(\d+\.\d %\)$/m);
});
