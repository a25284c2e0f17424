import { createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { expect, test } from "vitest";
import { OperatorService } from "../../../src/gen/jobgate/v1/operator_pb.ts";
import { Networks } from "../../../src/parts/operator/networks.ts";
import { EIP3009_METHOD } from "../../../src/x402/methods/eip3009.ts";
import { Methods } from "../../../src/x402/methods/methods.ts";
import { startOperator } from "../../helpers/operator.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";

const jobgate = startBeforeAll(startOperator);
const client = () =>
  createClient(OperatorService, createConnectTransport({ httpVersion: "1.1", baseUrl: jobgate.url }));

test("EVM chains have the names and the explorers of viem, and unknown networks have neither", async () => {
  const { networks } = await client().listNetworks({
    networks: ["eip155:84532", "eip155:31337", "eip155:999999999999", "base-sepolia"],
  });
  const none = { transactionUrl: "", accountUrl: "" };
  expect(networks).toMatchObject([
    {
      network: "eip155:84532",
      name: "Base Sepolia",
      transactionUrl: "https://sepolia.basescan.org/tx/{}",
      accountUrl: "https://sepolia.basescan.org/address/{}",
    },
    { network: "eip155:31337", name: "Anvil", ...none },
    { network: "eip155:999999999999", name: "", ...none },
    { network: "base-sepolia", name: "", ...none },
  ]);
});

test("A request for too many networks is refused", async () => {
  const networks = Array.from({ length: 101 }, (_, id) => `eip155:${id}`);
  await expect(client().listNetworks({ networks })).rejects.toThrow("expected at most 100");
});

test("Transfer methods describe the networks that they pay on", async () => {
  const explorer = { transactionUrl: "https://explorer.test/{}", accountUrl: "https://explorer.test/a/{}" };
  const method = {
    ...EIP3009_METHOD,
    name: "other",
    describeNetwork: (network: string) =>
      network.startsWith("other:") ? { name: `Chain ${network.slice(6)}`, explorer } : undefined,
  };
  const networks = new Networks(() => Promise.resolve(new Methods([method])));
  expect(await networks.describe(["other:1", "third:1"])).toEqual([
    { network: "other:1", name: "Chain 1", ...explorer },
    { network: "third:1", name: "", transactionUrl: "", accountUrl: "" },
  ]);
});
