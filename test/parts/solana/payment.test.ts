import { createHash } from "node:crypto";
import {
  type Address,
  address,
  appendTransactionMessageInstructions,
  createNoopSigner,
  createTransactionMessage,
  getBase64EncodedWireTransaction,
  type Instruction,
  type KeyPairSigner,
  partiallySignTransactionMessageWithSigners,
  pipe,
  setTransactionMessageFeePayer,
  setTransactionMessageLifetimeUsingBlockhash,
} from "@solana/kit";
import { beforeAll, expect, test } from "vitest";
import {
  hasSealedMemo,
  isSignedByPayer,
  payload,
  readTransfer,
  sealedMemo,
} from "../../../src/parts/solana/payment.ts";
import { PROGRAMS } from "../../../src/parts/solana/portable/addresses.ts";
import { solanaAccount, TOKEN_2022_PROGRAM } from "../../helpers/solana-cluster.ts";

const AMOUNT = 10_000n;
const [COMPUTE, TOKEN, MEMO, LIGHTHOUSE] = [
  PROGRAMS.computeBudget,
  PROGRAMS.token,
  PROGRAMS.memo,
  PROGRAMS.lighthouse,
].map((program) => address(program)) as [Address, Address, Address, Address];

let feePayer: KeyPairSigner;
let payer: KeyPairSigner;
let others: Address[];
beforeAll(async () => {
  [feePayer, payer] = (await Promise.all([solanaAccount(1), solanaAccount(2)])) as [
    KeyPairSigner,
    KeyPairSigner,
  ];
  others = (await Promise.all([10, 11, 12, 14].map(solanaAccount))).map((one) => one.address);
});

const limit = { programAddress: COMPUTE, data: Uint8Array.of(2, 32, 78, 0, 0) };
const price = { programAddress: COMPUTE, data: Uint8Array.of(3, 1, 0, 0, 0, 0, 0, 0, 0) };
const memo = { programAddress: MEMO, data: Buffer.from("memo of the offer") };

function transfer(
  change: { program?: Address; source?: Address; owner?: KeyPairSigner; data?: Uint8Array } = {},
) {
  const [source, mint, destination] = others as [Address, Address, Address];
  const data = Buffer.alloc(10, 12);
  data.writeBigUInt64LE(AMOUNT, 1);
  data.writeUInt8(6, 9);
  const signer = change.owner ?? payer;
  return {
    programAddress: change.program ?? TOKEN,
    accounts: [
      { address: change.source ?? source, role: 1 },
      { address: mint, role: 0 },
      { address: destination, role: 1 },
      { address: signer.address, role: 2, signer },
    ],
    data: change.data ?? data,
  } as Instruction;
}

async function signed(
  instructions: readonly Instruction[],
  signer: Address = feePayer.address,
): Promise<string> {
  const lifetime = { blockhash: others[0] as never, lastValidBlockHeight: 0n };
  const message = pipe(
    createTransactionMessage({ version: 0 }),
    (tx) => setTransactionMessageFeePayer(signer, tx),
    (tx) => setTransactionMessageLifetimeUsingBlockhash(lifetime, tx),
    (tx) => appendTransactionMessageInstructions([...instructions], tx),
  );
  return getBase64EncodedWireTransaction(await partiallySignTransactionMessageWithSigners(message));
}

test("A transfer with a memo is read, and the assertions of a wallet beside it", async () => {
  for (const more of [[], [{ programAddress: LIGHTHOUSE, data: Uint8Array.of(1) }]]) {
    const read = readTransfer(await signed([limit, price, transfer(), memo, ...more]));
    expect(read).toMatchObject({
      feePayer: feePayer.address,
      payer: payer.address,
      mint: others[1],
      destination: others[2],
      amount: AMOUNT,
      decimals: 6,
      memo: "memo of the offer",
    });
    expect(isSignedByPayer(read)).toBe(true);
  }
});

test("Fields of a payment are the message's, and last as long as a blockhash", async () => {
  const transaction = await signed([limit, price, transfer(), memo]);
  const fields = payload.parse({ transaction });
  expect(fields).toMatchObject({ from: payer.address, to: others[2], value: AMOUNT, validAfter: 0n });
  expect(fields.nonce).toMatch(/^[0-9a-f]{64}$/);
  const left = Number(fields.validBefore) - Date.now() / 1000;
  expect(left).toBeGreaterThan(80);
  expect(left).toBeLessThan(92);
  const other = payload.parse({
    transaction: await signed([limit, price, transfer(), { ...memo, data: Buffer.from("2") }]),
  });
  expect(other.nonce).not.toBe(fields.nonce);
});

test("The end of a payment follows from a sealed memo, at the latest 90 s from now, and the seal belongs to one blockhash", async () => {
  const seal = (text: string) => createHash("sha256").update(text).digest("base64url");
  const now = Math.floor(Date.now() / 1000);
  const [blockhash, other] = others as [Address, Address];
  const sealed = (readAt: number, of: string = blockhash) => ({
    programAddress: MEMO,
    data: Buffer.from(sealedMemo(of, readAt * 1000, seal)),
  });
  const endOf = async (text: { readonly data: Buffer }) => {
    const transaction = await signed([limit, price, transfer(), { programAddress: MEMO, ...text }]);
    return {
      end: Number(payload.parse({ transaction }).validBefore) - now,
      transfer: readTransfer(transaction),
    };
  };
  for (const age of [0, 30, 300]) {
    const { end, transfer: read } = await endOf(sealed(now - age));
    expect([end, hasSealedMemo(read, seal)]).toEqual([55 - age, true]);
    expect(hasSealedMemo(read, (text) => seal(`${text} `))).toBe(false);
  }
  const future = await endOf(sealed(now + 1_000));
  expect(future.end).toBeLessThanOrEqual(92);
  expect(hasSealedMemo((await endOf(sealed(now, other))).transfer, seal)).toBe(false);
  expect(hasSealedMemo((await endOf(memo)).transfer, seal)).toBe(false);
});

test("A signature over other bytes is not the payer's", async () => {
  const bytes = Buffer.from(await signed([limit, price, transfer(), memo]), "base64");
  // The last byte of the memo.
  bytes.writeUInt8((bytes.at(-2) ?? 0) ^ 1, bytes.length - 2);
  expect(isSignedByPayer(readTransfer(bytes.toString("base64")))).toBe(false);
});

test.each<[string, () => Promise<string>, string]>([
  ["no memo", () => signed([limit, price, transfer()]), "no memo"],
  ["two memos", () => signed([limit, price, transfer(), memo, memo]), "or several"],
  ["no limit", () => signed([price, transfer(), memo]), "SetComputeUnitLimit"],
  ["no price", () => signed([limit, transfer(), memo]), "SetComputeUnitPrice"],
  [
    "a transfer of Token-2022",
    () => signed([limit, price, transfer({ program: TOKEN_2022_PROGRAM }), memo]),
    "SPL Token",
  ],
  [
    "another instruction of the token",
    () => signed([limit, price, transfer({ data: Uint8Array.of(3, 1, 0, 0, 0, 0, 0, 0, 0) }), memo]),
    "TransferChecked",
  ],
  ["a second transfer", () => signed([limit, price, transfer(), transfer(), memo]), "beside its transfer"],
  [
    "a foreign program",
    () => signed([limit, price, transfer(), memo, { programAddress: others[3] as Address }]),
    "beside its transfer",
  ],
  [
    "a transfer to its source",
    () => signed([limit, price, transfer({ source: others[2] as Address }), memo]),
    "names an account twice|moves nothing",
  ],
  [
    "the fee payer as owner",
    () => signed([limit, price, transfer({ owner: createNoopSigner(feePayer.address) as never }), memo]),
    "fee payer and its payer alone",
  ],
  [
    "the fee payer in an instruction",
    () => signed([limit, price, transfer({ source: feePayer.address }), memo]),
    "names the fee payer",
  ],
  [
    "a third signer",
    async () =>
      signed([
        limit,
        price,
        transfer(),
        { ...memo, accounts: [{ address: (await solanaAccount(13)).address, role: 2 }] },
      ]),
    "alone",
  ],
  [
    "a fee payer that signed",
    async () => {
      const bytes = Buffer.from(await signed([limit, price, transfer(), memo]), "base64");
      return Buffer.concat([bytes.subarray(0, 1), Buffer.alloc(64, 1), bytes.subarray(65)]).toString(
        "base64",
      );
    },
    "signed it already",
  ],
  [
    "lookup tables",
    async () => {
      const bytes = Buffer.from(await signed([limit, price, transfer(), memo]), "base64");
      return Buffer.concat([bytes.subarray(0, -1), Buffer.of(1), Buffer.alloc(32), Buffer.of(0, 0)]).toString(
        "base64",
      );
    },
    "lookup tables",
  ],
  [
    "more bytes",
    async () =>
      `${Buffer.concat([Buffer.from(await signed([limit, price, transfer(), memo]), "base64"), Buffer.of(0)]).toString("base64")}`,
    "after its end",
  ],
  [
    "fewer bytes",
    async () =>
      Buffer.from(await signed([limit, price, transfer(), memo]), "base64")
        .subarray(0, -2)
        .toString("base64"),
    "ends early",
  ],
  ["text that is no base64", async () => "%%%%", "not in base64"],
])("A transaction with %s is no payment", async (_, make, problem) => {
  const transaction = await make();
  expect(() => readTransfer(transaction)).toThrow(new RegExp(problem));
  expect(payload.safeParse({ transaction }).success).toBe(false);
});
