import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { accounts } from "../../helpers/accounts.ts";
import { claimHeaders, highS, type SignedClaim, signClaim } from "../../helpers/caller-claim.ts";
import { type CallerDesk, openCallerDesk } from "./harness.ts";

const NOW_SECS = 1_700_000_000;
const JOB = { serviceId: 0n, jobIndex: 7 };

let desk: CallerDesk;
let claim: SignedClaim;

// No chain is running: none of these refusals needs one.
beforeAll(async () => {
  desk = await openCallerDesk({
    restriction: {
      authMode: "delegated_caller_signature",
      chainRpcUrl: "http://127.0.0.1:1",
      chainContract: "0x0165878A594ca255338adfa4d48449f69242Eb8F",
      permissionCacheSecs: 0,
    },
    job: JOB,
    clock: () => NOW_SECS * 1000 + 999,
  });
  claim = await signClaim({ account: accounts.deployer, ...JOB, body: "hello", expiry: NOW_SECS + 600 });
});
afterAll(() => desk?.stop());

/** Sends all four headers with these changes; undefined leaves a header out. */
const ask = (changes: { readonly [Part in keyof SignedClaim]?: string | undefined }) =>
  desk.ask(claimHeaders({ ...claim, ...changes }));
const signed = async (expiry: number | string) =>
  ask(await signClaim({ account: accounts.deployer, ...JOB, body: "hello", expiry }));

const ORDER = ["caller", "signature", "nonce", "expiry"] as const;
const WRONG = { caller: "0xf39F", signature: "not hex", nonce: "a b", expiry: "soon" };

describe("The first missing or wrong header decides the answer", () => {
  test.each([
    ["missing_caller", "caller", undefined],
    ["missing_caller", "caller", ""],
    ["invalid_caller", "caller", WRONG.caller],
    ["missing_signature", "signature", undefined],
    ["invalid_signature", "signature", WRONG.signature],
    ["missing_signature_nonce", "nonce", undefined],
    ["invalid_signature_nonce", "nonce", WRONG.nonce],
    ["missing_signature_expiry", "expiry", undefined],
    ["invalid_signature_expiry", "expiry", WRONG.expiry],
  ] as const)("%s", async (code, part, value) => {
    const after = ORDER.slice(ORDER.indexOf(part) + 1);
    for (const rest of [{}, WRONG, { signature: undefined, nonce: undefined, expiry: undefined }]) {
      const changes = Object.entries(rest).filter(([name]) => (after as string[]).includes(name));
      expect(await ask({ ...Object.fromEntries(changes), [part]: value })).toEqual({ code, status: 400 });
    }
  });
});

test.each([
  ["invalid_caller", "X-CHAIN-CALLER"],
  ["invalid_signature", "X-CHAIN-CALLER-SIG"],
  ["invalid_signature_nonce", "X-CHAIN-CALLER-NONCE"],
  ["invalid_signature_expiry", "X-CHAIN-CALLER-EXPIRY"],
])("%s: %s twice, even with one value, is refused", async (code, name) => {
  const headers = claimHeaders(claim);
  const value = headers[name] ?? "";
  expect(await desk.ask({ ...headers, [name]: [value, value] })).toEqual({ code, status: 400 });
  expect(await desk.ask({ ...headers, [name]: ["", value] })).toEqual({ code, status: 400 });
});

/** Returns the headers with the names that clients of the SDK send. */
const named = (headers: Record<string, string>, prefix: string) =>
  Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name.replace("X-CHAIN-", prefix), value]),
  );

test("X-TANGLE-CALLER* are read as X-CHAIN-CALLER*, alone or beside equal ones", async () => {
  // The check reaches the chain, which is not running.
  const read = { code: "permission_check_failed", status: 503 };
  const tangle = named(claimHeaders(claim), "X-TANGLE-");
  expect(await desk.ask(tangle)).toEqual(read);
  expect(await desk.ask({ ...claimHeaders(claim), ...tangle })).toEqual(read);
});

test.each([
  ["invalid_caller", "X-TANGLE-CALLER"],
  ["invalid_signature", "X-TANGLE-CALLER-SIG"],
  ["invalid_signature_nonce", "X-TANGLE-CALLER-NONCE"],
  ["invalid_signature_expiry", "X-TANGLE-CALLER-EXPIRY"],
])("%s: %s that differs, or is sent twice, is refused", async (code, name) => {
  const headers = { ...claimHeaders(claim), ...named(claimHeaders(claim), "X-TANGLE-") };
  const value = headers[name] ?? "";
  expect(await desk.ask({ ...headers, [name]: `${value}0` })).toEqual({ code, status: 400 });
  expect(await desk.ask({ ...headers, [name]: [value, value] })).toEqual({ code, status: 400 });
});

test.each([
  ["without 0x", (caller: string) => caller.slice(2)],
  ["with 0X", (caller: string) => caller.replace("0x", "0X")],
  ["a digit short", (caller: string) => caller.slice(0, -1)],
  ["a digit long", (caller: string) => `${caller}0`],
  ["with a letter that is no hex digit", (caller: string) => `${caller.slice(0, -1)}g`],
  ["as a name", () => "alice.eth"],
])("A caller %s is invalid", async (_, change) => {
  expect(await ask({ caller: change(claim.caller) })).toEqual({ code: "invalid_caller", status: 400 });
});

test.each([
  ["with a high s", (signature: SignedClaim["signature"]) => highS(signature)],
  ["of 64 bytes", (signature: string) => signature.slice(0, -2)],
  ["of 66 bytes", (signature: string) => `${signature}00`],
  ["with v = 5", (signature: string) => `${signature.slice(0, -2)}05`],
])("A signature %s is invalid, and retryable while the chain cannot be queried", async (_, change) => {
  const signature = change(claim.signature);
  expect(await ask({ signature })).toEqual({ code: "invalid_signature", status: 400, retryable: true });
});

test.each(["0x", "nothex", "0x123", "0xgg"])(
  "The signature %j is not hex, which is final",
  async (signature) => {
    expect(await ask({ signature })).toEqual({ code: "invalid_signature", status: 400 });
  },
);

test("A nonce has 1 to 128 visible ASCII characters", async () => {
  const nonces = { good: ["!", "~", "n".repeat(128), "a:b,c"], bad: ["n".repeat(129), "a\tb", "ä", "a b"] };
  for (const nonce of nonces.bad)
    expect(await ask({ nonce }), nonce).toEqual({ code: "invalid_signature_nonce", status: 400 });
  for (const nonce of nonces.good) {
    const good = await signClaim({
      account: accounts.deployer,
      ...JOB,
      body: "hello",
      nonce,
      expiry: claim.expiry,
    });
    // The check reaches the chain, which is not running.
    expect(await ask(good), nonce).toEqual({ code: "permission_check_failed", status: 503 });
  }
});

test.each(["-1", "+1", "01", "1e9", "1.5", "0x10", " ", "soon"])(
  "An expiry of %j is not Unix seconds",
  async (expiry) => {
    const code = expiry === " " ? "missing_signature_expiry" : "invalid_signature_expiry";
    expect(await ask({ expiry })).toEqual({ code, status: 400 });
  },
);

describe("An expiry", () => {
  test.each([
    ["now", NOW_SECS, "signature_expired", 403],
    ["in the past", NOW_SECS - 1, "signature_expired", 403],
    ["0", 0, "signature_expired", 403],
    ["a second ahead", NOW_SECS + 1, "permission_check_failed", 503],
    ["24 h ahead", NOW_SECS + 86_400, "permission_check_failed", 503],
    ["24 h and 1 s ahead", NOW_SECS + 86_401, "invalid_signature_expiry", 400],
    ["of 400 digits", "9".repeat(400), "invalid_signature_expiry", 400],
  ])("%s", async (_, expiry, code, status) => {
    expect(await signed(expiry)).toEqual({ code, status });
  });

  test("too far ahead is refused before a bad signature, a passed one after it", async () => {
    expect(await ask({ expiry: String(NOW_SECS + 86_401) })).toMatchObject({
      code: "invalid_signature_expiry",
    });
    expect(await ask({ expiry: String(NOW_SECS) })).toMatchObject({ code: "signature_mismatch" });
  });
});
