import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { hexToBytes, keccak256, numberToBytes } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { expect, test } from "vitest";
import {
  GetJobPriceResponseSchema,
  type JobQuoteDetailsSchema,
} from "../../../src/gen/pricing_engine/pricing_pb.ts";
import {
  jobQuoteDigest,
  jobQuoteTypedData,
  readJobQuote,
  readUncheckedTerms,
} from "../../../src/parts/pricing-engine/job-quote.ts";
import type { JobQuoteTerms } from "../../../src/parts/pricing-engine/quotes.ts";

const OPERATOR = privateKeyToAccount(keccak256("0x01"));
const STRANGER = privateKeyToAccount(keccak256("0x02"));
const DOMAIN = { chainId: 31337, verifyingContract: "0xDeaDbeefdEAdbeefdEadbEEFdeadbeEFdEaDbeeF" } as const;
const SIGNING = { ...DOMAIN, operatorAddress: OPERATOR.address };
const TERMS: JobQuoteTerms = {
  serviceId: 42n,
  jobIndex: 3,
  priceWei: 10n ** 18n,
  timestamp: 1_700_000_000n,
  expiry: 1_700_003_600n,
  confidentiality: 0,
  requester: "0x000000000000000000000000000000000000beef",
  inputsHash: keccak256("0x"),
};
const VECTOR = "9bd02b8b280e84cda6136def5cae3eb19e0c5ab5bd4619a0cad56bc2c4f15a11";
const NOW_MS = 1_700_000_010_000;
const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;

type Details = Exclude<MessageInitShape<typeof JobQuoteDetailsSchema>, { readonly $typeName: string }>;
interface Response {
  readonly quoteDetails?: Details;
  readonly signature?: Uint8Array;
  readonly operatorId?: Uint8Array;
}

async function signed(terms = TERMS, account = OPERATOR): Promise<Response> {
  return {
    quoteDetails: details(terms),
    signature: hexToBytes(await account.signTypedData(jobQuoteTypedData(terms, DOMAIN))),
  };
}

function details({ priceWei, requester, inputsHash, ...same }: JobQuoteTerms): Details {
  return {
    ...same,
    price: numberToBytes(priceWei, { size: 32 }),
    requester: hexToBytes(requester),
    inputsHash: hexToBytes(inputsHash),
  };
}

function read(response: Response, nowMs = NOW_MS) {
  return readJobQuote(create(GetJobPriceResponseSchema, response), SIGNING, nowMs);
}

test("The digest of the specification's example quote matches", () => {
  expect(jobQuoteDigest(TERMS, DOMAIN)).toBe(VECTOR);
});

test("A quote that the operator signed is read completely", async () => {
  expect(await read(await signed())).toEqual({ kind: "quote", quote: { ...TERMS, digest: VECTOR } });
});

test("The largest price, IDs and times can be quoted", async () => {
  const largest = {
    ...TERMS,
    serviceId: 2n ** 64n - 1n,
    jobIndex: 255,
    priceWei: 2n ** 256n - 1n,
    timestamp: 2n ** 64n - 1n,
    expiry: 2n ** 64n - 1n,
    confidentiality: 255,
  };
  expect(await read(await signed(largest))).toMatchObject({ kind: "quote", quote: largest });
});

test.each<{ field: string; change: Partial<Details> }>([
  { field: "service id", change: { serviceId: 43n } },
  { field: "job index", change: { jobIndex: 4 } },
  { field: "price", change: { price: numberToBytes(10n ** 18n - 1n, { size: 32 }) } },
  { field: "time", change: { timestamp: 1_700_000_001n } },
  { field: "expiry", change: { expiry: 1_700_003_601n } },
  { field: "confidentiality", change: { confidentiality: 1 } },
  { field: "requester", change: { requester: hexToBytes(STRANGER.address) } },
  { field: "inputs hash", change: { inputsHash: hexToBytes(keccak256("0x00")) } },
])("A quote whose $field was changed after it was signed is refused", async ({ change }) => {
  const response = await signed();
  const quoteDetails = { ...details(TERMS), ...change };
  expect(await read({ ...response, quoteDetails })).toEqual({
    kind: "refused",
    reason: expect.stringMatching(
      /^is not signed by 0x[0-9a-f]{40} for chain_id \d+ and verifying_contract 0x/,
    ) as string,
  });
});

test("A quote signed by another account, or for another contract, is refused", async () => {
  const reason = expect.stringContaining("is not signed by") as string;
  expect(await read(await signed(TERMS, STRANGER))).toEqual({ kind: "refused", reason });
  const elsewhere = { ...SIGNING, verifyingContract: STRANGER.address };
  const response = create(GetJobPriceResponseSchema, await signed());
  expect(await readJobQuote(response, elsewhere, NOW_MS)).toEqual({ kind: "refused", reason });
  const otherChain = { ...SIGNING, chainId: 1 };
  expect(await readJobQuote(response, otherChain, NOW_MS)).toEqual({ kind: "refused", reason });
});

test("A quote is refused from the second at which it expires", async () => {
  const response = await signed();
  expect(await read(response, 1_700_003_599_999)).toMatchObject({ kind: "quote" });
  expect(await read(response, 1_700_003_600_000)).toEqual({
    kind: "expired",
    reason: "expired at 1700003600",
  });
});

test("A quote that expires before it was made is refused", async () => {
  expect(await read(await signed({ ...TERMS, timestamp: TERMS.expiry + 1n }))).toEqual({
    kind: "refused",
    reason: "expires before it was made",
  });
});

test("An operator_id other than the operator's is refused; a missing one is not", async () => {
  const response = await signed();
  expect(await read({ ...response, operatorId: hexToBytes(OPERATOR.address) })).toMatchObject({
    kind: "quote",
  });
  expect(await read({ ...response, operatorId: hexToBytes(STRANGER.address) })).toMatchObject({
    reason: expect.stringContaining("is of operator") as string,
  });
});

test.each<{ what: string; change: Partial<Details>; reason: RegExp }>([
  { what: "A price of 31 bytes", change: { price: new Uint8Array(31) }, reason: /price of 31 bytes/ },
  { what: "A price of 33 bytes", change: { price: new Uint8Array(33) }, reason: /price of 33 bytes/ },
  { what: "A requester of 32 bytes", change: { requester: new Uint8Array(32) }, reason: /requester of 32/ },
  { what: "An inputs hash of 20 bytes", change: { inputsHash: new Uint8Array(20) }, reason: /hash of 20/ },
  { what: "A job index that uint8 cannot hold", change: { jobIndex: 259 }, reason: /job index 259/ },
  { what: "A confidentiality that uint8 cannot hold", change: { confidentiality: 256 }, reason: /256/ },
])("$what is refused", async ({ change, reason }) => {
  const response = { ...(await signed()), quoteDetails: { ...details(TERMS), ...change } };
  const found = await read(response);
  expect(found.kind === "refused" && found.reason).toMatch(reason);
  expect(readUncheckedTerms(create(GetJobPriceResponseSchema, response))).toBeUndefined();
});

test("An answer without details is refused", async () => {
  const { signature } = await signed();
  expect(await read({ signature: signature ?? new Uint8Array() })).toEqual({
    kind: "refused",
    reason: "has no details",
  });
});

test("A malformed signature, or a signature with a high s, is refused", async () => {
  const { quoteDetails, signature = new Uint8Array() } = await signed();
  const s = BigInt(`0x${Buffer.from(signature.subarray(32, 64)).toString("hex")}`);
  const mirrored = Uint8Array.of(
    ...signature.subarray(0, 32),
    ...numberToBytes(ORDER - s, { size: 32 }),
    signature[64] === 27 ? 28 : 27,
  );
  const withV = (v: number) => Uint8Array.of(...signature.subarray(0, 64), v);
  const broken = {
    "none at all": new Uint8Array(),
    "64 bytes": signature.subarray(0, 64),
    "66 bytes": Uint8Array.of(...signature, 0),
    "v 0": withV(0),
    "v 1": withV(1),
    "v 29": withV(29),
    zeros: Uint8Array.of(...new Uint8Array(64), 27),
    "high s": mirrored,
  };
  for (const [name, bytes] of Object.entries(broken)) {
    const found = await read({ ...(quoteDetails && { quoteDetails }), signature: bytes });
    expect([name, found]).toEqual([name, { kind: "refused", reason: "has a malformed signature" }]);
  }
});
