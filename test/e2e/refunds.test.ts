import { readFile, writeFile } from "node:fs/promises";
import { text } from "node:stream/consumers";
import { encodeFunctionData, parseAbi } from "viem";
import { describe, expect, it, onTestFinished } from "vitest";
import { createOperatorClient, type Timestamp, timestampMs } from "../../src/commands/operator-client.ts";
import { DeadLetterStatus, type Refund, RefundState } from "../../src/gen/jobgate/v1/operator_pb.ts";
import { Fail } from "../../src/runner/job.ts";
import { runHereWith } from "../commands/operator-commands.ts";
import { accounts } from "../helpers/accounts.ts";
import { sendTransaction } from "../helpers/anvil.ts";
import { requestOffer } from "../helpers/clients.ts";
import type { Fault } from "../helpers/fault.ts";
import { listenHttp } from "../helpers/http-listener.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { withPermit2 } from "./paid-config.ts";
import { type Answer, startPaidGateway } from "./paid-gateway.ts";
import { AMOUNT, startPaidParts } from "./paid-parts.ts";
import { refundAccount } from "./refund-account.ts";

const parts = startBeforeAll(startPaidParts);
const payer = accounts.payer.address;
const SIGNATURE = { by: "ada", note: "as promised" };

describe("a failed job is paid back", () => {
  const account = startBeforeAll(async () => {
    const made = await refundAccount(parts);
    await parts.usdc.mint(made.address, AMOUNT);
    return { ...made, stop: () => Promise.resolve() };
  });
  const called: { readonly path: string; readonly body: string }[] = [];
  const receiver = startBeforeAll(() =>
    listenHttp({
      handler: (request, response) =>
        void text(request).then((body) => {
          called.push({ path: request.url ?? "", body });
          response.writeHead(204).end();
        }),
    }),
  );
  const gateway = startBeforeAll(() =>
    startPaidGateway({
      parts,
      setUp: "rpc_url",
      edit: (config) => `${account.edit(config)}
[x402.callbacks]
allowed_addresses = ["127.0.0.1"]
[[callbacks]]
url = "${receiver.url}/operator"
events = ["refund.sent", "refund.failed"]
secret = "whsec_${Buffer.alloc(32, 7).toString("base64")}"
`,
      handle: () => Promise.reject(new Fail("no good")),
    }),
  );
  const operator = () => createOperatorClient({ address: { url: gateway.jobgate.operatorUrl } });
  const held = () => parts.usdc.balanceOf(account.address);
  const paidBy = () => parts.usdc.balanceOf(payer);

  async function buyAndFail(job = 0, headers = {}): Promise<Answer & { readonly call_id: number }> {
    const payment = await gateway.sign({ job });
    const answer = await gateway.send(payment, { job, headers });
    expect(answer).toMatchObject({ status: 202 });
    const { call_id = 0 } = answer;
    await expect.poll(async () => (await refundOf(call_id))?.state).toBeDefined();
    return { ...answer, call_id };
  }

  async function refundOf(callId: number): Promise<Refund | undefined> {
    const { refunds } = await operator().listRefunds({ pageSize: 500 });
    return refunds.find((refund) => refund.callId === BigInt(callId));
  }

  async function untilRefundIs(callId: number, expected: object): Promise<void> {
    await expect
      .poll(() => refundOf(callId))
      .toMatchObject(expected)
      .catch((cause: unknown) => {
        throw new Error(gateway.jobgate.logs.slice(-20).join("\n"), { cause });
      });
  }

  async function seenByClient({ call_id, access_token }: Answer, tail = "") {
    const headers = { authorization: `Bearer ${access_token}` };
    return fetch(`${gateway.jobgate.x402Url}/x402/calls/${call_id}${tail}`, { headers });
  }

  it("The payer gets the exact amount back, once, and the call and its events show by which transaction", async () => {
    const before = await paidBy();
    const call = await buyAndFail();
    const events = await (await seenByClient(call, "/events")).text();
    await untilRefundIs(call.call_id, { state: RefundState.REFUNDED, attempt: 1, amount: String(AMOUNT) });
    expect(await paidBy()).toBe(before);
    expect(await held()).toBe(0n);
    const { transaction } = (await refundOf(call.call_id)) as Refund;
    const { status } = await parts.anvil.client.getTransactionReceipt({ hash: transaction as `0x${string}` });
    expect(status).toBe("success");
    const refund = { state: "refunded", amount: String(AMOUNT), symbol: "USDC", transaction };
    expect(await (await seenByClient(call)).json()).toMatchObject({ state: "failed", refund });
    expect(events).toContain(`"transaction":"${transaction}"`);
    expect((await seenByClient(call, "/result")).status).toBe(410);

    const { timeline } = await operator().getCall({ callId: BigInt(call.call_id) });
    expect(timeline.map(({ what }) => what.case).slice(-3)).toEqual([
      "deadLettered",
      "refundChanged",
      "refundChanged",
    ]);
    const callIds = [BigInt(call.call_id)];
    expect((await operator().retryDeadLetters({ callIds })).statuses).toEqual([
      DeadLetterStatus.REFUND_BEGUN,
    ]);
    expect((await operator().getTotals({})).balanced).toBe(true);
  });

  it("Operators see what the account held when it was read for the refund, and its coins for gas", async () => {
    const { holdings } = await operator().listHoldings({});
    const of = { pays: "refunds", network: `eip155:${parts.anvil.chainId}`, account: account.address };
    expect(holdings).toMatchObject([
      { ...of, symbol: "USDC", asset: parts.usdc.address.toLowerCase(), amount: String(AMOUNT), decimals: 6 },
      { ...of, symbol: "ETH", asset: "", amount: expect.stringMatching(/^[1-9][0-9]*$/), decimals: 18 },
    ]);
    for (const { readAt } of holdings) {
      const ageMs = Date.now() - timestampMs(readAt as Timestamp);
      expect(ageMs).toBeGreaterThanOrEqual(0);
      expect(ageMs).toBeLessThan(60_000);
    }
  });

  it("`jobgate pay` says that a refund of its failed job is owed", async () => {
    const env = { JOBGATE_PAYER_KEY: accounts.payer.privateKey };
    const { code, stderr } = await runHereWith(["pay", gateway.urlOf(1), "--max", "1000000"], { env });
    expect(code, stderr).toBe(1);
    expect(stderr).toMatch(
      /^410: call_failed: .*: no good\nA refund of .* is owed; http\S+\/x402\/calls\/\d+ shows when the seller has sent it$/m,
    );
  });

  it("`jobgate check --online` says once what the refund account holds, whatever methods its token has", async () => {
    const { chainId } = parts.anvil;
    const config = await readFile(gateway.jobgate.configPath, "utf8");
    const both = `${gateway.jobgate.configPath}.both.toml`;
    await writeFile(both, withPermit2(config));
    const { stdout } = await runHereWith(["check", "--online", "-c", both]);
    expect(stdout.match(/^refunds on .*$/gm)).toEqual([
      expect.stringMatching(
        new RegExp(`^refunds on eip155:${chainId}: ${account.address} \\(balance \\S+ ETH; \\S+ USDC.*\\)$`),
      ),
    ]);
  });

  it("The promise that was shown to the buyer is kept, although a reload withdraws it before the payment", async () => {
    const promise = async () => (await requestOffer(gateway.urlOf())).v2.resource.description;
    expect(await promise()).toContain("Refunded if it fails.");
    const payment = await gateway.sign();
    const config = await readFile(gateway.jobgate.configPath, "utf8");
    onTestFinished(async () => {
      await gateway.jobgate.reload(config);
      await expect.poll(promise).toContain("Refunded if it fails.");
    });
    await gateway.jobgate.reload(config.replace('on_failure = "refund"', 'on_failure = "ask"'));
    await expect.poll(promise).toContain("The seller decides");
    await parts.usdc.mint(account.address, AMOUNT);
    const { call_id = 0 } = await gateway.send(payment);
    await untilRefundIs(call_id, { state: RefundState.REFUNDED });
  });

  it("Without tokens refunds wait, and the dead letter can be retried instead; with tokens they go out", async () => {
    const [waiting, retried] = [await buyAndFail(), await buyAndFail()];
    await untilRefundIs(waiting.call_id, {
      state: RefundState.OWED,
      reason: expect.stringContaining("short"),
    });
    const callIds = [BigInt(retried.call_id)];
    expect((await operator().retryDeadLetters({ callIds })).statuses).toEqual([DeadLetterStatus.DONE]);
    const before = await paidBy();
    await parts.usdc.mint(account.address, 2n * AMOUNT);
    for (const { call_id } of [waiting, retried])
      await untilRefundIs(call_id, { state: RefundState.REFUNDED });
    expect(await paidBy()).toBe(before + 2n * AMOUNT);
    expect(await held()).toBe(0n);
  });

  it("A refund that waits for the operator is sent after an approval, and not after a refusal", async () => {
    await parts.usdc.mint(account.address, AMOUNT);
    const [asked, declined] = [await buyAndFail(1), await buyAndFail(1)];
    const before = await paidBy();
    const decline = { callId: BigInt(declined.call_id), ...SIGNATURE };
    expect((await operator().declineRefund(decline)).refund).toMatchObject({ state: RefundState.DECLINED });
    expect(await refundOf(asked.call_id)).toMatchObject({ state: RefundState.OWED, asks: true });
    await operator().approveRefund({ callId: BigInt(asked.call_id), ...SIGNATURE });
    await untilRefundIs(asked.call_id, {
      state: RefundState.REFUNDED,
      decision: { approved: true, ...SIGNATURE },
    });
    expect(await paidBy()).toBe(before + AMOUNT);
    expect(await refundOf(declined.call_id)).toMatchObject({ state: RefundState.DECLINED });
    await expect(
      operator().declineRefund({ callId: BigInt(asked.call_id), ...SIGNATURE }),
    ).rejects.toMatchObject({ rawMessage: expect.stringContaining("refunded") });
    const { balanced, kept } = await operator().getTotals({});
    expect({ balanced, kept }).toEqual({ balanced: true, kept: 0n });
  });

  it("A transfer that the token refuses is a failed refund, which the operator can approve again, and callbacks say both", async () => {
    await parts.usdc.mint(account.address, AMOUNT);
    const { call_id } = await buyAndFail(1, { "callback-url": `${receiver.url}/buyer` });
    const told = (event: string, path: string) =>
      called.flatMap(({ path: at, body }) => {
        const { type, data } = JSON.parse(body) as {
          readonly type: string;
          readonly data: { readonly call_id: number };
        };
        return type === event && at === `/${path}` && data.call_id === call_id ? [data] : [];
      });
    const common = {
      ...{ call_id, origin: "x402", symbol: "USDC" },
      ...{ amount: String(AMOUNT), payer: payer.toLowerCase() },
    };
    await askToken("blacklist", payer);
    onTestFinished(() => askToken("unBlacklist", payer));
    const before = await paidBy();
    await operator().approveRefund({ callId: BigInt(call_id), ...SIGNATURE });
    const reason = expect.stringContaining("blacklisted");
    await untilRefundIs(call_id, { state: RefundState.REFUND_FAILED, reason });
    await expect
      .poll(() => told("refund.failed", "operator"))
      .toEqual([expect.objectContaining({ ...common, reason })]);
    await expect.poll(() => told("refund.failed", "buyer")).toEqual([expect.objectContaining(common)]);
    expect(told("refund.failed", "buyer")[0]).not.toHaveProperty("reason");

    await askToken("unBlacklist", payer);
    await operator().approveRefund({ callId: BigInt(call_id), ...SIGNATURE });
    await untilRefundIs(call_id, { state: RefundState.REFUNDED, attempt: 2 });
    expect(await paidBy()).toBe(before + AMOUNT);
    expect(await held()).toBe(0n);
    const { transaction } = (await refundOf(call_id)) as Refund;
    for (const path of ["operator", "buyer"])
      await expect
        .poll(() => told("refund.sent", path))
        .toEqual([expect.objectContaining({ ...common, transaction })]);
    const call_url = expect.stringMatching(new RegExp(`/x402/calls/${call_id}$`));
    expect(told("refund.sent", "buyer")[0]).toMatchObject({ call_url });
  });
});

it("Money that the chain does not show as paid is not paid back unless the operator approves", async () => {
  const account = await refundAccount(parts);
  await parts.usdc.mint(account.address, AMOUNT);
  const trusting = (config: string) =>
    config.replace(/^rpc_url = .*$/m, "$&\nrequire_onchain_confirmation = false");
  const gateway = await startPaidGateway({
    parts,
    setUp: "rpc_url",
    edit: (config) => trusting(account.edit(config)),
    handle: () => Promise.reject(new Fail("no good")),
  });
  onTestFinished(() => gateway.stop());
  const network = `eip155:${parts.anvil.chainId}`;
  const body = { success: true, transaction: `0x${"1e".repeat(32)}`, network, payer };
  gateway.facilitatorProxy.add({ path: "/settle", times: 1, fault: { kind: "answer", status: 200, body } });
  expect(await gateway.send(await gateway.sign())).toMatchObject({ status: 202 });
  const operator = createOperatorClient({ address: { url: gateway.jobgate.operatorUrl } });
  const refund = async () => (await operator.listRefunds({})).refunds[0];
  const yet = expect.stringContaining("the chain does not show its payment yet: the authorization is unused");
  await expect.poll(refund).toMatchObject({ state: RefundState.OWED, asks: true, reason: yet });
  await parts.passTime(600);
  const reason = expect.stringContaining("the chain does not show its payment: the authorization expired");
  await expect.poll(refund).toMatchObject({ state: RefundState.OWED, asks: true, reason });
  expect(await account.transfers()).toEqual([]);
});

describe("a payment that the chain neither shows nor refutes", () => {
  it("Leaves its refund with that reason, which one approval pays once, and no decline before it replaces", async () => {
    const { account, gateway, operator } = await startFailing();
    const { call_id = 0, settlement } = await gateway.send(await gateway.sign());
    const refund = async () => (await operator.listRefunds({})).refunds[0];
    const asked = { callId: BigInt(call_id), ...SIGNATURE };
    const short = expect.stringContaining("short of tokens");
    await expect.poll(refund).toMatchObject({ state: RefundState.OWED, asks: false, reason: short });
    await expect(operator.approveRefund(asked)).rejects.toMatchObject({
      rawMessage: expect.stringContaining("sent without another approval"),
    });

    const empty = (result: unknown): Fault => ({
      kind: "change",
      change: (answer, { body }) => {
        const { id } = JSON.parse(body.toString()) as { id: number };
        return { ...answer, body: Buffer.from(JSON.stringify({ jsonrpc: "2.0", id, result })) };
      },
    });
    const namesPayment = ({ body }: { readonly body: Buffer }) =>
      body.includes(settlement?.transaction ?? "no transaction");
    gateway.rpcProxy.add({ rpcMethod: "eth_getLogs", fault: empty([]) });
    gateway.rpcProxy.add({
      rpcMethod: "eth_getTransactionReceipt",
      when: namesPayment,
      fault: empty(null),
    });
    const before = await parts.usdc.balanceOf(payer);
    await parts.usdc.mint(account.address, 2n * AMOUNT);
    const reason = expect.stringContaining("the chain does not show its payment yet: its nonce is used");
    const unproven = { state: RefundState.OWED, asks: true, reason };
    await expect.poll(refund).toMatchObject(unproven);

    await operator.declineRefund(asked);
    expect((await operator.approveRefund(asked)).refund).toMatchObject({
      state: RefundState.OWED,
      asks: false,
    });
    await expect.poll(refund).toMatchObject(unproven);
    expect(await account.transfers()).toEqual([]);

    await operator.approveRefund(asked);
    await expect.poll(refund).toMatchObject({ state: RefundState.REFUNDED, attempt: 1 });
    await expect(operator.approveRefund(asked)).rejects.toThrow("refunded");
    expect(await account.transfers()).toHaveLength(1);
    expect(await parts.usdc.balanceOf(payer)).toBe(before + AMOUNT);
  });
});

/** Starts a gateway whose jobs fail, with a refund account of its own that holds no tokens. */
async function startFailing() {
  const account = await refundAccount(parts);
  const gateway = await startPaidGateway({
    rpcFaults: true,
    parts,
    setUp: "rpc_url",
    edit: account.edit,
    handle: () => Promise.reject(new Fail("no good")),
  });
  onTestFinished(() => gateway.stop());
  return {
    account,
    gateway,
    operator: createOperatorClient({ address: { url: gateway.jobgate.operatorUrl } }),
  };
}

const abi = parseAbi(["function blacklist(address account)", "function unBlacklist(address account)"]);

/** Calls a function of the token that only its owner may call. */
async function askToken(functionName: "blacklist" | "unBlacklist", address: `0x${string}`): Promise<void> {
  const data = encodeFunctionData({ abi, functionName, args: [address] });
  await sendTransaction({ anvil: parts.anvil, from: accounts.deployer, to: parts.usdc.address, data });
}
