/** A job as an agent finds it through one door. */
export interface Found {
  readonly title: string;
  /** Text or JSON of the door. */
  readonly price: string;
  /** URL to buy it at, or its name for MCP. */
  readonly at: string;
  readonly method: string;
  readonly contentType: string | undefined;
  /** Example of its input. */
  readonly example: unknown;
}

interface Operation {
  readonly summary: string;
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly example?: unknown }>> };
  readonly "x-payment-info"?: { readonly price?: object };
}

interface Item {
  readonly resource: { readonly url: string; readonly description?: string; readonly serviceName?: string };
  readonly accepts: readonly { readonly scheme: string; readonly amount: string }[];
  readonly input: { readonly method: string; readonly bodyType?: string; readonly body?: unknown };
}

async function read(origin: string, path: string): Promise<string> {
  const response = await fetch(origin + path);
  if (!response.ok) throw new Error(`${path} is answered ${response.status}`);
  return response.text();
}

async function byOpenApi(origin: string): Promise<readonly Found[]> {
  const { servers, paths } = JSON.parse(await read(origin, "/openapi.json")) as {
    readonly servers: readonly { readonly url: string }[];
    readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  };
  return Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).flatMap(([method, { summary, requestBody, "x-payment-info": payment }]) => {
      if (payment === undefined) return [];
      const [contentType, content] = Object.entries(requestBody?.content ?? {})[0] ?? [];
      const at = `${servers[0]?.url}${path}`;
      const price = JSON.stringify(payment.price);
      return [
        { title: summary, price, at, method: method.toUpperCase(), contentType, example: content?.example },
      ];
    }),
  );
}

/** Text alone says what is sold; what to send is in the 402 of each URL. */
async function byLlmsText(origin: string): Promise<readonly Found[]> {
  const text = await read(origin, "/llms.txt");
  const [, jobs = ""] = text.split("\n## Jobs\n");
  const lines = [...jobs.matchAll(/^- \[(.+?)\]\((\S+)\): (.*?)Price: (.*?)\. .*$/gm)];
  return Promise.all(
    lines.map(async ([, title = "", at = "", , price = ""]) => {
      const asked = await fetch(at, { method: "POST" });
      const required = Buffer.from(asked.headers.get("payment-required") ?? "", "base64").toString();
      const { extensions } = JSON.parse(required) as {
        readonly extensions: { readonly bazaar: { readonly info: { readonly input: Item["input"] } } };
      };
      const { method, bodyType, body } = extensions.bazaar.info.input;
      return { title, price, at, method, contentType: typeOf(bodyType), example: body };
    }),
  );
}

async function byResources(origin: string): Promise<readonly Found[]> {
  const { items } = JSON.parse(await read(origin, "/.well-known/x402.json")) as {
    readonly items: readonly Item[];
  };
  return items.map(({ resource: { url, description = "" }, accepts, input }) => ({
    // Sentences about the charge follow.
    title: description.split(". ")[0] ?? "",
    price: accepts.map(({ scheme, amount }) => `${scheme} ${amount}`).join(),
    ...{ at: url, method: input.method, contentType: typeOf(input.bodyType), example: input.body },
  }));
}

function typeOf(bodyType: string | undefined): string | undefined {
  return bodyType === "json" ? "application/json" : "text/plain";
}

/** Documents that an agent which knows an origin alone can find jobs in. */
export const DOORS = {
  OpenAPI: byOpenApi,
  "llms.txt": byLlmsText,
  "x402.json": byResources,
} as const;

/** Returns what an agent sends to buy a job that it found. */
export function requestFor({ method, contentType, example }: Found): RequestInit {
  if (contentType === undefined) return { method };
  const body = typeof example === "string" ? example : JSON.stringify(example);
  return { method, headers: { "content-type": contentType }, body };
}
