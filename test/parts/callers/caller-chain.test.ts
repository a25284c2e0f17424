import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { JobRestriction } from "../../../src/config/config.ts";
import { CallerChain } from "../../../src/parts/callers/caller-chain.ts";
import { accounts } from "../../helpers/accounts.ts";
import { eventually } from "../../helpers/eventually.ts";
import type { Fault } from "../../helpers/fault.ts";
import { type HttpListener, listenHttp } from "../../helpers/http-listener.ts";
import { startFaultProxy } from "../../helpers/http-proxy.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { startTangle } from "../../helpers/tangle.ts";
import { deployWallet } from "../../helpers/wallets.ts";

const { deployer: owner, caller: other } = accounts;
const UNCLEAR = { code: "permission_check_failed", status: 503 };

let nowMs = 1_700_000_000_000;
let chain: CallerChain;

const tangle = startBeforeAll(startTangle);
const rpc = startBeforeAll(() => startFaultProxy({ target: tangle.anvil.rpcUrl }));
beforeAll(() => {
  chain = new CallerChain({ timeoutMs: 30_000, clock: () => nowMs });
});
afterEach(() => rpc.clear());

const restriction = (changes: Partial<JobRestriction> = {}): JobRestriction => ({
  authMode: "payer_is_caller",
  chainRpcUrl: rpc.url,
  chainContract: tangle.contract,
  permissionCacheSecs: 0,
  ...changes,
});
const isPermitted = (caller: `0x${string}`, serviceId = 0n, changes: Partial<JobRestriction> = {}) =>
  chain.isPermitted(restriction(changes), serviceId, caller);
const answer = (result: string): Fault => ({
  kind: "answer",
  status: 200,
  body: { jsonrpc: "2.0", id: 1, result },
});

/** Retries, because each connection that was reset meanwhile fails once more. */
const permitsOwnerAgain = () => eventually(async () => expect(await isPermitted(owner.address)).toBe(true));

describe("Tangle's contract", () => {
  test("Permits only the owner of the service, in any letter case", async () => {
    expect(await isPermitted(owner.address)).toBe(true);
    expect(await isPermitted(owner.address.toLowerCase() as `0x${string}`)).toBe(true);
    for (const account of [accounts.facilitator, accounts.payTo, accounts.payer, other])
      expect(await isPermitted(account.address), account.address).toBe(false);
    for (const serviceId of [1n, 2n, 2n ** 64n - 1n])
      expect(await isPermitted(owner.address, serviceId), String(serviceId)).toBe(false);
  });

  test("permits a caller from when the owner adds it until the owner removes it", async () => {
    expect(await isPermitted(other.address)).toBe(false);
    await tangle.permit(other.address);
    expect(await isPermitted(other.address)).toBe(true);
    expect(await isPermitted(other.address, 1n)).toBe(false);
    await tangle.revoke(other.address);
    expect(await isPermitted(other.address)).toBe(false);
  });
});

describe("An answer that is neither yes nor no fails the check", () => {
  test("A contract address without code", async () => {
    const chainContract = "0x000000000000000000000000000000000000dEaD";
    await expect(isPermitted(owner.address, 0n, { chainContract })).rejects.toMatchObject(UNCLEAR);
  });

  test.each([
    ["of another length", `0x${"0".repeat(60)}01`],
    ["of two words", `0x${"0".repeat(63)}1${"0".repeat(64)}`],
    ["that is no boolean", `0x${"0".repeat(63)}2`],
  ])("A contract's answer %s", async (_, argument) => {
    const chainContract = await deployWallet({ anvil: tangle.anvil, name: "Answers", argument });
    await expect(isPermitted(owner.address, 0n, { chainContract })).rejects.toMatchObject(UNCLEAR);
  });

  test.each<[string, Fault]>([
    ["that is empty", answer("0x")],
    ["of another length", answer("0x01")],
    ["that is no hex", answer("true")],
    [
      "that is an error",
      {
        kind: "answer",
        status: 200,
        body: { jsonrpc: "2.0", id: 1, error: { code: -32000, message: "no" } },
      },
    ],
    ["that is HTML", { kind: "answer", status: 200, body: "<html>" }],
    ["with status 500", { kind: "answer", status: 500, body: "" }],
    ["cut short", { kind: "truncate", bytes: 20 }],
    ["that is lost", { kind: "lose-answer" }],
  ])("An RPC's answer %s", async (_, fault) => {
    rpc.add({ rpcMethod: "eth_call", fault });
    await expect(isPermitted(owner.address)).rejects.toMatchObject(UNCLEAR);
    rpc.clear();
    expect(await isPermitted(owner.address)).toBe(true);
  });

  test.each<[string, Fault]>([
    ["that never comes", { kind: "no-answer" }],
    ["that comes a byte at a time", { kind: "slow-body", everyMs: 1_000 }],
  ])("An RPC's answer %s", async (_, fault) => {
    const hasty = new CallerChain({ timeoutMs: 200, clock: () => nowMs });
    rpc.add({ rpcMethod: "eth_call", fault });
    await expect(hasty.isPermitted(restriction(), 0n, owner.address)).rejects.toMatchObject(UNCLEAR);
  });

  test("An RPC's redirect, which is not followed, even to the right place", async () => {
    const headers = { location: tangle.anvil.rpcUrl };
    rpc.add({ rpcMethod: "eth_call", fault: { kind: "answer", status: 307, headers, body: "" } });
    await expect(isPermitted(owner.address)).rejects.toMatchObject(UNCLEAR);
  });

  test("An RPC that is down, until it comes back", async () => {
    await rpc.goDown();
    try {
      await expect(isPermitted(owner.address)).rejects.toMatchObject(UNCLEAR);
    } finally {
      await rpc.comeBack();
    }
    await permitsOwnerAgain();
  });

  test("An RPC that comes back as another chain, until it serves the first one again", async () => {
    expect(await isPermitted(owner.address)).toBe(true);
    await rpc.goDown();
    await expect(isPermitted(owner.address)).rejects.toMatchObject(UNCLEAR);
    await rpc.comeBack();
    rpc.add({ rpcMethod: "eth_chainId", fault: answer("0x1") });
    await eventually(() =>
      expect(isPermitted(owner.address)).rejects.toThrow(/for chain 1, expected chain 31337/),
    );
    await expect(isPermitted(owner.address)).rejects.toMatchObject(UNCLEAR);
    rpc.clear();
    await permitsOwnerAgain();
  });
});

describe("permission_cache_secs", () => {
  test("0 queries the chain every time", async () => {
    const before = rpc.count("eth_call");
    await isPermitted(owner.address);
    await isPermitted(owner.address);
    expect(rpc.count("eth_call") - before).toBe(2);
  });

  test("keeps a permission that long, for this caller and service only", async () => {
    await tangle.permit(other.address);
    const cached = { permissionCacheSecs: 5 };
    expect(await isPermitted(other.address, 0n, cached)).toBe(true);
    await tangle.revoke(other.address);
    nowMs += 4_999;
    expect(await isPermitted(other.address, 0n, cached)).toBe(true);
    expect(await isPermitted(other.address, 1n, cached)).toBe(false);
    expect(await isPermitted(other.address)).toBe(false);
    nowMs += 1;
    expect(await isPermitted(other.address, 0n, cached)).toBe(false);
  });

  test("Keeps no denial: an added caller is permitted at once", async () => {
    const cached = { permissionCacheSecs: 60 };
    expect(await isPermitted(other.address, 0n, cached)).toBe(false);
    await tangle.permit(other.address);
    expect(await isPermitted(other.address, 0n, cached)).toBe(true);
    await tangle.revoke(other.address);
  });
});

describe("Many checks at once", () => {
  const timeoutMs = 30_000;
  let slow: HttpListener;
  let inHand = 0;
  let most = 0;
  let open = () => {};
  let opened = Promise.resolve();
  beforeAll(async () => {
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, result: `0x${"0".repeat(63)}1` });
    slow = await listenHttp({
      handler: (request, response) => {
        request.resume();
        most = Math.max(most, ++inHand);
        void opened.then(() => {
          inHand--;
          response.end(body);
        });
      },
    });
  });
  afterAll(() => slow?.stop());

  /** Starts so many checks, and resolves with their outcomes once the RPC has 32 of them, which it then answers. */
  async function ask(count: number, beforeAnswers = () => {}) {
    const patient = new CallerChain({ timeoutMs, clock: () => nowMs });
    const check = () => patient.isPermitted(restriction({ chainRpcUrl: slow.url }), 0n, owner.address);
    // The first one also asks for the chain's ID.
    await check();
    most = 0;
    opened = new Promise<void>((resolve) => {
      open = resolve;
    });
    const outcomes = Promise.allSettled(Array.from({ length: count }, check));
    await expect.poll(() => inHand).toBe(32);
    beforeAnswers();
    open();
    return outcomes;
  }

  test("Reach the RPC 32 at a time, and all get their answer", async () => {
    const permitted = { status: "fulfilled", value: true };
    expect(await ask(200)).toEqual(Array.from({ length: 200 }, () => permitted));
    expect(most).toBe(32);
  });

  test("Fail at once when 1000 wait, and fail instead of waiting longer than the time-out", async () => {
    const outcomes = await ask(1_100, () => {
      nowMs += timeoutMs + 1;
    });
    const reasons = outcomes.flatMap((outcome) =>
      outcome.status === "rejected" ? [String(outcome.reason)] : [],
    );
    expect(reasons.filter((reason) => reason.includes("too many checks are waiting"))).toHaveLength(100 - 32);
    expect(reasons.filter((reason) => reason.includes("waited too long"))).toHaveLength(1_000);
    expect(reasons).toHaveLength(1_100 - 32);
  });
});
