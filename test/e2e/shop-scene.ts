import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { installPermit2 } from "../helpers/permit2.ts";
import type { JobHandler } from "../helpers/runner.ts";
import { withPermit2 } from "./paid-config.ts";
import { type PaidGateway, startPaidGateway } from "./paid-gateway.ts";
import { type PaidParts, startPaidParts } from "./paid-parts.ts";

/** Jobs of the shop, by index. */
export const JOBS = {
  summarise: 10,
  route: 11,
  draw: 12,
  resize: 13,
  hostile: 14,
  permitted: 15,
  print: 16,
} as const;

/** Markup that runs in a page that shows it as such. */
export const HOSTILE = `</script><script>globalThis.hacked = 1</script><img src=x onerror="globalThis.hacked = 2">`;

const SUMMARISE_SCHEMA = {
  type: "object",
  properties: {
    text: { type: "string", minLength: 10, description: "The text to summarise, in any language." },
    length: { enum: ["short", "medium", "long"], title: "Length of the summary" },
    max_words: { type: "integer", minimum: 10, maximum: 500 },
  },
  required: ["text", "length"],
  additionalProperties: false,
};
const ROUTE_SCHEMA = {
  type: "object",
  properties: {
    stops: {
      type: "array",
      minItems: 2,
      items: {
        type: "object",
        properties: { lat: { type: "number" }, lon: { type: "number" } },
        required: ["lat", "lon"],
      },
    },
  },
  required: ["stops"],
};
const SUMMARISE_EXAMPLE = {
  text: "x402 revives HTTP status 402: a server answers with a price, the client signs a payment and asks again. No account, no key, no invoice.",
  length: "short",
  max_words: 40,
};
const ROUTE_EXAMPLE = {
  stops: [
    { lat: 52.52, lon: 13.405 },
    { lat: 48.137, lon: 11.575 },
  ],
};

/** A jobgate that sells jobs of every kind to people. */
export interface ShopScene {
  readonly parts: PaidParts;
  readonly gateway: PaidGateway;
  /** Address of the list of jobs. */
  readonly url: string;
  /** Address of a job's payment page. */
  pageOf(job: keyof typeof JOBS): string;
  stop(): Promise<void>;
}

export async function startShop(options: {
  readonly handle: JobHandler;
  /** Sells only jobs that look well. */
  readonly isTidy?: boolean;
  /** Changes the configuration. */
  readonly edit?: ((config: string) => string) | undefined;
}): Promise<ShopScene> {
  const folder = await mkdtemp(join(tmpdir(), "jobgate-shop-"));
  const write = async (name: string, value: object) => {
    await writeFile(join(folder, name), JSON.stringify(value));
    return join(folder, name);
  };
  const summarise = await write("summarise.json", SUMMARISE_SCHEMA);
  const summariseExample = await write("summarise-example.json", SUMMARISE_EXAMPLE);
  const route = await write("route.json", ROUTE_SCHEMA);
  const routeExample = await write("route-example.json", ROUTE_EXAMPLE);
  const print = await write("print.json", { type: "object", properties: { pages: { type: "integer" } } });
  const parts = await startPaidParts();
  await installPermit2(parts.anvil);
  const jobs = `
[[jobs]]
job_index = ${JOBS.summarise}
name = "summarise"
title = "Summarise a text"
description = "Returns a summary of your text, in its own language and with its own names kept. Up to 20,000 words."
tags = ["text", "language"]
price = "$0.01"
mode = "public_paid"
input = { content_type = "application/json", schema = "${summarise}", example = "${summariseExample}" }
output = { content_type = "text/plain" }
max_run_secs = 120

[[jobs]]
job_index = ${JOBS.route}
name = "route"
title = "Find the shortest round trip"
description = "Orders up to 50 stops so that the whole trip is as short as it can be."
tags = ["maps", "optimisation"]
price = "$0.05"
mode = "public_paid"
input = { content_type = "application/json", schema = "${route}", example = "${routeExample}" }
output = { content_type = "application/json" }
max_run_secs = 600

[[jobs]]
job_index = ${JOBS.draw}
name = "draw"
title = "Draw a picture"
description = "A picture of what you describe."
tags = ["images"]
price = "$0.20"
mode = "public_paid"
input = { content_type = "text/plain" }
output = { content_type = "image/png" }
max_run_secs = 3600

[[jobs]]
job_index = ${JOBS.resize}
name = "resize"
title = "Make a picture smaller"
tags = ["images"]
price = "$0.002"
mode = "public_paid"
input = { content_type = "image/png" }
output = { content_type = "application/pdf" }

[[jobs]]
job_index = ${JOBS.permitted}
name = "permitted"
title = "Ask the archive"
description = "Answers questions from the members' archive."
price = "$0.10"
mode = "restricted_paid"
auth_mode = "payer_is_caller"
chain_rpc_url = "http://127.0.0.1:9"
chain_contract = "0x00000000000000000000000000000000000000aa"
`;
  const untidy = `
[[jobs]]
job_index = ${JOBS.print}
name = "print"
title = "Print a book"
price = { per = "json:/pages", each = "$0.02", min = "$0.05", max = "$1" }
mode = "public_paid"
input = { content_type = "application/json", schema = "${print}" }
output = { content_type = "text/plain" }
[[jobs]]
job_index = ${JOBS.hostile}
name = "hostile"
title = '${HOSTILE}'
description = '''${HOSTILE}'''
tags = ['${HOSTILE.slice(0, 40)}']
price = "$0.01"
mode = "public_paid"
output = { content_type = "text/html" }
`;
  const { edit = (config: string) => config } = options;
  const gateway = await startPaidGateway({
    parts,
    setUp: "rpc_url",
    handle: options.handle,
    edit: (config) => {
      const priced = (options.isTidy ? config : withPermit2(config))
        .replaceAll('symbol = "USDC"', 'symbol = "USDC"\ncurrency = "USD"')
        .replaceAll("markup_bps = 200\n", "")
        .replace("public_url", 'service_name = "Words and Maps"\npublic_url')
        .replace("[runner]\n", "[runner]\nmax_attempts = 1\n")
        .replace(options.isTidy ? /\[job_pricing\.1\]\n.*\n.*\n/ : "", "");
      return edit(priced + jobs + (options.isTidy ? "" : untidy));
    },
  });
  return {
    parts,
    gateway,
    get url() {
      return gateway.jobgate.x402Url;
    },
    pageOf: (job) => gateway.urlOf(JOBS[job]),
    async stop() {
      await gateway.stop();
      await parts.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
