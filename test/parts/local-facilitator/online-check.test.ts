import { expect, test } from "vitest";
import { loadMethods } from "../../../src/load-parts.ts";
import { part } from "../../../src/parts/local-facilitator/part.ts";
import { configOf, TOKEN } from "../../config/config-folder.ts";
import { accounts } from "../../helpers/accounts.ts";
import { borrowAnvil } from "../../helpers/anvil.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";

const anvil = startBeforeAll(borrowAnvil);
const { address, privateKey } = accounts.facilitator;

/** Checks the peers of a gateway that settles on a network. */
async function check(network: string) {
  const config = await configOf(`[x402]
public_url = "https://operator.example.com"
[[x402.facilitators]]
url = "https://facilitator.example.com"
[[x402.facilitators]]
local = true
signer = { private_key = "${privateKey}" }
rpc_urls = { ${network} = "${anvil.rpcUrl}" }
min_balance = "1000000"
${TOKEN}`);
  return part.checkPeers?.(config, loadMethods, () => Promise.reject(new Error("there is no store")));
}

test("Notes address and balance of the local facilitator", async () => {
  expect(await check("base-sepolia")).toEqual({
    notes: [
      expect.stringMatching(
        `^local: exact, upto on eip155:84532; ${address} \\(balance [0-9.]+ ETH, less than min_balance 1000000 ETH\\)$`,
      ),
    ],
    problems: [],
  });
});

test("Reports an RPC of another chain", async () => {
  expect(await check("base")).toEqual({
    notes: [],
    problems: [
      {
        path: ["x402", "facilitators", 1, "rpc_urls"],
        message: "has the RPC of eip155:84532 for eip155:8453",
      },
    ],
  });
});
