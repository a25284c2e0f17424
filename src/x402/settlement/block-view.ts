import { eip3009ABI } from "@x402/evm";
import { concatHex, encodeFunctionData, type Hex, type PublicClient, size, slice } from "viem";
import type { PaymentKey } from "../../core/payment.ts";

/** State and time that one execution on one node sees. */
interface View {
  /** Unix seconds of the block that the state belongs to, as the contract code in that block sees it. */
  readonly timestamp: bigint;
  readonly isUsed: boolean;
}

/** The RPC does not read state by the hash of a block (EIP-1898), or does not have the state of that block. */
export class NoStateByHash extends Error {
  override readonly name = "NoStateByHash";
}

/**
 * Asks a token whether a nonce is used, in the state that belongs to one block.
 *
 * An RPC address can have several nodes behind it, and a node that lags may answer with the state that it has, whatever
 * block the question names. So the question names the block by its hash, and the code that asks the token also reads the
 * clock of the block that it runs in: a state of another block shows another time.
 * @throws NoStateByHash
 */
export async function readView(client: PublicClient, key: PaymentKey, blockHash: Hex): Promise<View> {
  let data: Hex;
  try {
    data = await client.request({
      method: "eth_call",
      params: [{ data: viewCode(key) }, { blockHash }],
    });
  } catch (cause) {
    throw new NoStateByHash("the RPC does not answer for the state of a block by its hash", { cause });
  }
  if (size(data) !== 64) throw new NoStateByHash("the RPC does not run code against the state of a block");
  return { timestamp: BigInt(slice(data, 0, 32)), isUsed: BigInt(slice(data, 32, 64)) !== 0n };
}

/**
 * Creation code of a contract that is never created. It calls `authorizationState` of the token and returns the block's
 * timestamp and the token's answer, each in 32 bytes. It reverts unless the token answers with 32 bytes.
 */
function viewCode({ asset, payer, nonce }: PaymentKey): Hex {
  const question = encodeFunctionData({
    abi: eip3009ABI,
    functionName: "authorizationState",
    args: [payer as Hex, nonce as Hex],
  });
  return concatHex([
    "0x6044603d600039", // CODECOPY: memory[0..68) = the question, which follows these 61 bytes
    "0x6020608060446000", // output: memory[128..160); input: memory[0..68)
    concatHex(["0x73", asset as Hex]),
    "0x5afa", // STATICCALL with all gas
    "0x3d602014166033576000", // if it succeeded with 32 bytes, jump to 0x33
    "0x6000fd", // REVERT
    "0x5b42606052", // memory[96..128) = TIMESTAMP
    "0x60406060f3", // RETURN memory[96..160)
    question,
  ]);
}
