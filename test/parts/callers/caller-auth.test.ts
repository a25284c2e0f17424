import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { JobRestriction } from "../../../src/config/config.ts";
import { accounts } from "../../helpers/accounts.ts";
import { claimHeaders, highS, signClaim } from "../../helpers/caller-claim.ts";
import { type HttpListener, listenHttp } from "../../helpers/http-listener.ts";
import { startFaultProxy } from "../../helpers/http-proxy.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { startTangle } from "../../helpers/tangle.ts";
import { deployWallet } from "../../helpers/wallets.ts";
import { openCallerDesk } from "./harness.ts";

const JOB = { serviceId: 0n, jobIndex: 7 };
const { deployer: owner, caller: stranger } = accounts;
const ownerInLowerCase = owner.address.toLowerCase();

const tangle = startBeforeAll(startTangle);
const rpc = startBeforeAll(() => startFaultProxy({ target: tangle.anvil.rpcUrl }));
const desk = startBeforeAll(() => openCallerDesk({ restriction: restriction(), job: JOB, clock: Date.now }));

function restriction(): JobRestriction {
  return {
    authMode: "delegated_caller_signature",
    chainRpcUrl: rpc.url,
    chainContract: tangle.contract,
    permissionCacheSecs: 0,
  };
}
const sign = (options: Partial<Parameters<typeof signClaim>[0]> = {}) =>
  signClaim({ account: owner, ...JOB, body: "hello", ...options });

describe("A caller with a plain account", () => {
  test.each([
    ["as it is", (text: string) => text],
    ["in lower case", (text: string) => text.toLowerCase()],
    ["in upper case", (text: string) => `0x${text.slice(2).toUpperCase()}`],
  ])("is let in with its headers %s", async (_, change) => {
    const claim = await sign();
    const headers = claimHeaders({
      ...claim,
      caller: change(claim.caller),
      signature: change(claim.signature),
    });
    expect(await desk.ask(headers)).toEqual({ caller: ownerInLowerCase });
  });

  test("Is permitted without 0x, and with v as 0 or 1", async () => {
    const claim = await sign();
    const v = claim.signature.endsWith("1b") ? "00" : "01";
    const signature = `${claim.signature.slice(2, -2)}${v}`;
    expect(await desk.ask(claimHeaders({ ...claim, signature }))).toEqual({ caller: ownerInLowerCase });
  });

  test.each([0, 1_048_576])("Is permitted with a body of %i bytes", async (size) => {
    const body = Buffer.alloc(size, 7);
    expect(await desk.ask(claimHeaders(await sign({ body })), body)).toEqual({ caller: ownerInLowerCase });
  });

  test("Is refused if the signature is another account's, or over another body, job or nonce", async () => {
    const claim = await sign();
    const mismatch = { code: "signature_mismatch", status: 403 };
    expect(await desk.ask(claimHeaders(claim), "another body")).toEqual(mismatch);
    expect(await desk.ask(claimHeaders({ ...claim, nonce: "other" }))).toEqual(mismatch);
    expect(await desk.ask(claimHeaders(await sign({ jobIndex: 8 })))).toEqual(mismatch);
    expect(await desk.ask(claimHeaders(await sign({ serviceId: 1n })))).toEqual(mismatch);
    const forged = await sign({ account: stranger });
    expect(await desk.ask(claimHeaders({ ...forged, caller: owner.address }))).toEqual(mismatch);
  });

  test("is refused when the contract does not permit it", async () => {
    expect(await desk.ask(claimHeaders(await sign({ account: stranger })))).toEqual({
      code: "caller_not_permitted",
      status: 403,
    });
  });

  test("is refused if it has used the nonce for this job before, whoever has used it elsewhere", async () => {
    const use = (key: string) => desk.store.useNonce({ key, expiresAt: Number(claim.expiry) });
    const claim = await sign({ nonce: "Once" });
    const others = [
      [stranger.address.toLowerCase(), 0, 7, "Once"],
      [ownerInLowerCase, 1, 7, "Once"],
    ];
    others.push([ownerInLowerCase, 0, 8, "Once"], [ownerInLowerCase, 0, 7, "once"]);
    for (const other of others) await use(other.join(" "));
    expect(await desk.ask(claimHeaders(claim))).toEqual({ caller: ownerInLowerCase });
    await use(`${ownerInLowerCase} 0 7 Once`);
    const inUpperCase = { ...claim, caller: `0x${claim.caller.slice(2).toUpperCase()}` };
    const replay = { code: "signature_replay", status: 409 };
    expect(await desk.ask(claimHeaders(inUpperCase))).toEqual(replay);
  });

  test("queries the chain once, and not at all when its signature is malformed", async () => {
    const before = rpc.requests.length;
    await desk.ask(claimHeaders({ ...(await sign()), signature: "nothex" }));
    expect(rpc.requests.length).toBe(before);
    await desk.ask(claimHeaders(await sign()));
    expect(rpc.requests.slice(before).map(({ rpcMethods }) => rpcMethods)).toEqual([["eth_call"]]);
  });
});

describe("A caller that is a contract (ERC-1271)", () => {
  let wallet: `0x${string}`;
  const signForWallet = async (account = stranger) => ({ ...(await sign({ account })), caller: wallet });

  beforeAll(async () => {
    wallet = await deployWallet({ anvil: tangle.anvil, name: "OwnedWallet", argument: stranger.address });
    await tangle.permit(wallet);
  });

  test("Is permitted by its owner's signature", async () => {
    expect(await desk.ask(claimHeaders(await signForWallet()))).toEqual({ caller: wallet.toLowerCase() });
  });

  test("Is permitted by a signature in the contract's own form, which is not 65 bytes", async () => {
    const claim = await signForWallet();
    const signature = `0x00${claim.signature.slice(2)}`;
    expect(await desk.ask(claimHeaders({ ...claim, signature }))).toEqual({ caller: wallet.toLowerCase() });
  });

  test("is refused by a wrong signature", async () => {
    expect(await desk.ask(claimHeaders(await signForWallet(owner)))).toEqual({
      code: "signature_mismatch",
      status: 403,
    });
  });

  test("is refused if the contract reverts on its signature", async () => {
    const claim = await signForWallet();
    expect(await desk.ask(claimHeaders({ ...claim, signature: "0x1234" }))).toEqual({
      code: "invalid_signature",
      status: 400,
    });
  });

  test("is refused when only its owner is permitted", async () => {
    const other = await deployWallet({
      anvil: tangle.anvil,
      name: "OwnedWallet",
      argument: stranger.address,
    });
    expect(await desk.ask(claimHeaders({ ...(await sign({ account: stranger })), caller: other }))).toEqual({
      code: "caller_not_permitted",
      status: 403,
    });
  });

  test("is refused as retryable while its contract cannot be called", async () => {
    const claim = await signForWallet();
    rpc.add({ rpcMethod: "eth_call", fault: { kind: "cut" }, times: 1 });
    expect(await desk.ask(claimHeaders(claim))).toEqual({
      code: "signature_mismatch",
      status: 403,
      retryable: true,
    });
    expect(await desk.ask(claimHeaders(claim))).toEqual({ caller: wallet.toLowerCase() });
  });

  test.each([
    ["of 64 bytes", (signature: `0x${string}`) => signature.slice(0, -2)],
    ["with a high s", highS],
    ["with v = 5", (signature: `0x${string}`) => `${signature.slice(0, -2)}05`],
  ])("must have code: a signature %s is invalid without it", async (_, change) => {
    const claim = await sign();
    expect(await desk.ask(claimHeaders({ ...claim, signature: change(claim.signature) }))).toEqual({
      code: "invalid_signature",
      status: 400,
    });
  });

  test.each([
    ["that answers with the magic value and more", `0x1626ba7e${"0".repeat(120)}`],
    ["that answers with the bare magic value", "0x1626ba7e"],
    ["that answers yes", `0x${"0".repeat(63)}1`],
    ["that answers nothing", "0x"],
  ])("is refused by a contract %s", async (_, argument) => {
    const caller = await deployWallet({ anvil: tangle.anvil, name: "Answers", argument });
    expect(await desk.ask(claimHeaders({ ...(await sign()), caller }))).toEqual({
      code: "signature_mismatch",
      status: 403,
    });
  });

  describe("that redirects to a URL (EIP-3668)", () => {
    const fetched: string[] = [];
    let elsewhere: HttpListener;
    beforeAll(async () => {
      elsewhere = await listenHttp({
        handler: (request, response) => {
          fetched.push(request.url ?? "");
          response.end(JSON.stringify({ data: "0x" }));
        },
      });
    });
    afterAll(() => elsewhere?.stop());

    test("is refused, and nothing is fetched", async () => {
      const argument = `${elsewhere.url}/{sender}/{data}`;
      const caller = await deployWallet({ anvil: tangle.anvil, name: "OffchainWallet", argument });
      expect(await desk.ask(claimHeaders({ ...(await sign()), caller }))).toEqual({
        code: "signature_mismatch",
        status: 403,
      });
      expect(fetched).toEqual([]);
    });
  });
});
