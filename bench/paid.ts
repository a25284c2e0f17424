import { accounts } from "../test/helpers/accounts.ts";
import { startAnvil } from "../test/helpers/anvil.ts";
import { requestOffer, signV2Payment, v2PaymentHeaders } from "../test/helpers/clients.ts";
import { startFacilitator } from "../test/helpers/facilitator.ts";
import { startJobgate } from "../test/helpers/jobgate-process.ts";
import { deployUsdc } from "../test/helpers/usdc.ts";
import { percentile } from "./load.ts";
import { startTimingProxy } from "./timing-proxy.ts";

const PAYMENTS = 300;

/** Measures jobgate's share of a paid request: the whole time less that of facilitator and chain. */
export async function benchPaid(): Promise<void> {
  const anvil = await startAnvil();
  const usdc = await deployUsdc({ anvil });
  await usdc.mint(accounts.payer.address, 1_000_000_000_000n);
  const facilitator = await startFacilitator({ anvil });
  const timedFacilitator = await startTimingProxy(facilitator.url);
  const timedRpc = await startTimingProxy(anvil.rpcUrl);
  const jobgate = await startJobgate({
    from: "build",
    config: `
service_id = 1
[store]
url = "sqlite:bench.db"
[runner]
bind_address = "127.0.0.1:0"
[operator]
bind_address = "127.0.0.1:0"
[x402]
bind_address = "127.0.0.1:0"
public_url = "http://127.0.0.1:8402"
facilitator_url = "${timedFacilitator.url}"
default_invocation_mode = "public_paid"
[[x402.accepted_tokens]]
network = "eip155:${anvil.chainId}"
asset = "${usdc.address}"
symbol = "USDC"
decimals = 6
pay_to = "${accounts.payTo.address}"
rate_per_native_unit = "3200.00"
eip3009_name = "${usdc.name}"
eip3009_version = "${usdc.version}"
rpc_url = "${timedRpc.url}"
[job_pricing.1]
0 = "1000000000000000"
`,
  });

  const whole: number[] = [];
  const outside: number[] = [];
  try {
    const url = `${jobgate.x402Url}/x402/jobs/1/0`;
    const offer = await requestOffer(url);
    for (let i = 0; i < PAYMENTS; i++) {
      const { payload } = await signV2Payment({ offer: offer.v2, account: accounts.payer });
      timedFacilitator.reset();
      timedRpc.reset();
      const sentAt = performance.now();
      const response = await fetch(url, {
        method: "POST",
        body: "bench",
        headers: v2PaymentHeaders(payload),
      });
      await response.arrayBuffer();
      const took = performance.now() - sentAt;
      if (response.status !== 202) throw new Error(`payment ${i} was answered ${response.status}`);
      whole.push(took);
      outside.push(timedFacilitator.busyMs(timedRpc));
    }
  } finally {
    await jobgate.stop();
    await timedRpc.stop();
    await timedFacilitator.stop();
    await facilitator.stop();
    await anvil.stop();
  }

  const own = whole.map((took, i) => took - (outside[i] ?? 0));
  console.log(`\nPaid request, one at a time, ${PAYMENTS} payments, confirmed on chain`);
  console.table(
    [
      { "": "whole request", values: whole },
      { "": "facilitator and chain", values: outside },
      { "": "jobgate's own share", values: own },
    ].map(({ values, ...name }) => ({
      ...name,
      "p50 ms": percentile(values, 0.5).toFixed(2),
      "p99 ms": percentile(values, 0.99).toFixed(2),
      "of the whole": (percentile(values, 0.5) / percentile(whole, 0.5)).toFixed(2),
    })),
  );
}
