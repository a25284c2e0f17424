import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import { type Address, encodeFunctionData, parseAbi } from "viem";
import { accounts } from "./accounts.ts";
import { type Anvil, sendTransaction, startAnvil } from "./anvil.ts";

const FIXTURE = new URL("../fixtures/tangle-anvil-state.json.gz", import.meta.url);
const ABI = parseAbi([
  "function addPermittedCaller(uint64 serviceId, address caller)",
  "function removePermittedCaller(uint64 serviceId, address caller)",
]);

/** Tangle's own contracts on a chain of their own, 31337, where service 0 is owned by the deployer's account. */
export interface Tangle {
  readonly anvil: Anvil;
  /** The contract that is asked `isPermittedCaller`. */
  readonly contract: Address;
  /** The service's owner lets someone call its jobs, or no longer. Mined when the promise resolves. */
  permit(caller: Address): Promise<void>;
  revoke(caller: Address): Promise<void>;
  stop(): Promise<void>;
}

export async function startTangle(): Promise<Tangle> {
  const folder = await mkdtemp(join(tmpdir(), "jobgate-tangle-"));
  const contract = "0x0165878A594ca255338adfa4d48449f69242Eb8F";
  try {
    const loadState = join(folder, "state.json");
    await writeFile(loadState, await promisify(gunzip)(await readFile(FIXTURE)));
    const anvil = await startAnvil({ chainId: 31337, loadState });
    const ofService0 = async (
      functionName: "addPermittedCaller" | "removePermittedCaller",
      caller: Address,
    ) => {
      const data = encodeFunctionData({ abi: ABI, functionName, args: [0n, caller] });
      await sendTransaction({ anvil, from: accounts.deployer, to: contract, data });
    };
    return {
      anvil,
      contract,
      permit: (caller) => ofService0("addPermittedCaller", caller),
      revoke: (caller) => ofService0("removePermittedCaller", caller),
      stop: anvil.stop,
    };
  } finally {
    // Read once at the start.
    await rm(folder, { recursive: true, force: true });
  }
}
