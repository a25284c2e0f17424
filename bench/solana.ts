import { startSolanaFacilitator } from "../test/helpers/solana-facilitator.ts";
import { type SolanaParts, signOffers, startSolanaParts, tokenTable } from "../test/parts/solana/harness.ts";
import { settledHere } from "../test/parts/solana/own-settlement.ts";
import { Bundles } from "../test/removable/bundles.ts";
import { startTree } from "./gateway.ts";
import { type Figures, jobOf, measureOne, type Outside, rowOf, startEvm } from "./paid.ts";
import { agent, askOffer } from "./payments.ts";
import { PAID_JOB, printStarts } from "./start.ts";
import { startTimingProxy } from "./timing-proxy.ts";
import { THIS_TREE } from "./trees.ts";

/** Measures payments on Solana beside those on an EVM chain, and what the part costs a gateway that has no token on Solana. */
export async function benchSolana(): Promise<void> {
  const evm = await startEvm();
  const solana = await startSolana();
  const rows: object[] = [];
  try {
    for (const settlesItself of [false, true]) {
      const how = settlesItself ? "settles itself" : "a facilitator";
      const base = await evm.measureOne(THIS_TREE, settlesItself);
      const figures = await solana.measureOne(settlesItself);
      const ofEvm = (key: keyof Figures) => (figures[key] / base[key]).toFixed(2);
      rows.push(rowOf(`EVM, ${how}`, base), {
        ...rowOf(`Solana, ${how}`, figures),
        "p50 of EVM's": ofEvm("whole"),
        "own p50 of EVM's": ofEvm("own"),
        "CPU of EVM's": ofEvm("cpu"),
      });
    }
  } finally {
    agent.destroy();
    await solana.stop();
    await evm.stop();
  }
  console.log("\nPaid requests, one at a time, on an EVM chain and on Solana");
  console.table(rows);
  await benchUnused();
}

/** A cluster with a funded payer and the official facilitator, both in this process. */
async function startSolana() {
  const parts = await startSolanaParts();
  const { cluster, seller, mint, payer } = parts;
  await cluster.fund(payer, mint, 1_000_000_000n);
  const official = await startSolanaFacilitator(cluster);
  const outside: Outside = {
    facilitator: await startTimingProxy(official.url),
    rpc: await startTimingProxy(cluster.rpcUrl),
  };
  const timed = { cluster: { rpcUrl: outside.rpc.url }, seller } as SolanaParts;
  const remote = `[[x402.facilitators]]\nurl = "${outside.facilitator.url}"\n`;
  return {
    async measureOne(settlesItself: boolean): Promise<Figures> {
      const facilitator = settlesItself ? await settledHere(remote, timed) : remote;
      // The official client pays at most a dollar unasked.
      const token = `${tokenTable(timed)}rate_per_native_unit = "320.00"\n`;
      const edit = (config: string) =>
        config
          .replace(/^facilitator_url = .*$/m, "")
          .replace(/\[\[x402\.accepted_tokens\]\][^[]*/, `${facilitator}${token}`);
      const { jobgate } = await startTree(THIS_TREE, { edit });
      const purchase = jobOf(jobgate.x402Url);
      const sign = async (count: number) => {
        const payments = [];
        // Each 402 has a memo of its own.
        for (let i = 0; i < count; i++) payments.push(await signOffers(cluster, await askOffer(purchase)));
        return payments;
      };
      try {
        return await measureOne({ jobgate, sign }, outside);
      } finally {
        await jobgate.stop();
      }
    },
    async stop() {
      await outside.rpc.stop();
      await outside.facilitator.stop();
      await official.stop();
      await cluster.stop();
    },
  };
}

/** Starts a gateway that sells in no token on Solana, of a build with the part and of one without it. */
async function benchUnused(): Promise<void> {
  const [whole, without] = [new Bundles(), new Bundles()];
  try {
    await whole.makeWithout([]);
    await without.makeWithout(["solana"]);
    await printStarts("a paid job and no token on Solana", PAID_JOB, [
      { name: "without the part", folder: without.folder },
      { name: "with the part", folder: whole.folder },
    ]);
  } finally {
    await whole.close();
    await without.close();
  }
}
