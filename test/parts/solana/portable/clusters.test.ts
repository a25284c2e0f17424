import { expect, test } from "vitest";
import { CLUSTERS, describeCluster } from "../../../../src/parts/solana/portable/clusters.ts";

test("Clusters have names and an explorer, a private validator has no explorer, and other chains have neither", () => {
  const { mainnet, devnet } = CLUSTERS;
  expect(
    [mainnet.network, devnet.network, `solana:${"1".repeat(32)}`, "eip155:1"].map(describeCluster),
  ).toEqual([
    {
      name: "Solana",
      explorer: {
        transactionUrl: "https://explorer.solana.com/tx/{}",
        accountUrl: "https://explorer.solana.com/address/{}",
      },
    },
    {
      name: "Solana Devnet",
      explorer: {
        transactionUrl: "https://explorer.solana.com/tx/{}?cluster=devnet",
        accountUrl: "https://explorer.solana.com/address/{}?cluster=devnet",
      },
    },
    { name: "local Solana cluster", explorer: undefined },
    undefined,
  ]);
});
