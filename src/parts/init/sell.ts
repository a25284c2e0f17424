import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { type Command, InvalidArgumentError } from "commander";
import { Refusal } from "../../commands/input.ts";
import { addCommand, logFormatOption, logLevelOption, matching, option } from "../../commands/options.ts";
import { fields, programName, table } from "../../commands/output.ts";
import { loadConfig, nextStopSignal, startGatewayOrRefuse } from "../../commands/serve.ts";
import { printable } from "../../core/printable.ts";
import { type LogFormat, openLog } from "../../log/log.ts";
import {
  apiUrl,
  apiUrlArgument,
  type MoneyOptions,
  moneyOfApi,
  moneyOptions,
  openApiOption,
  parseOwnAddress,
  parsePayableNetwork,
  parsePrice,
  parseUrl,
  requireNoCredentials,
} from "./choices.ts";
import { apiName, readDescription } from "./described.ts";
import { LISTENERS, type NewConfig } from "./new-config.ts";
import type { Finding } from "./openapi/operations.ts";
import {
  findingText,
  type NamedRoute,
  parseNamedRoute,
  pricedRoutes,
  showFindings,
  withoutMistakes,
} from "./routes-for-sale.ts";
import { writeConfig } from "./write-config.ts";

interface SellOptions extends MoneyOptions {
  readonly route?: readonly NamedRoute[];
  readonly openapi?: string;
  readonly price?: string;
  readonly header?: readonly string[];
  readonly publicUrl?: string;
  readonly listen: string;
  readonly operator: string;
  readonly save?: boolean;
  readonly out: string;
  readonly force?: boolean;
  readonly logLevel: string;
  readonly logFormat: LogFormat;
}

const parseListener = matching(/^[^\s"\\]+:[0-9]{1,5}$/, "host:port, such as 127.0.0.1:8402");

export function addTo(program: Command): void {
  addCommand(program, {
    name: "sell",
    description: "Sell routes of a running HTTP API without a configuration file, until SIGTERM or SIGINT.",
    notes: "Calls and payments are kept in jobgate.db in the working directory, with or without --save.",
    example: "sell http://127.0.0.1:8000 --route 'GET /weather/{city}=$0.01' --pay-to 0x…",
    takes: [
      apiUrlArgument(),
      option(
        "--route <route>",
        "methods, path and price of a route for sale; repeat it for more (default: all of --openapi)",
      ).argParser(parseNamedRoute),
      openApiOption(),
      option("--price <amount>", "price in dollars of each route that has no price of its own").argParser(
        parsePrice,
      ),
      ...moneyOptions(),
      option(
        "--header <name=env:NAME>",
        "header to send to the API with each request, and the variable that holds its value; repeat it for more",
      ).argParser((value, before: readonly string[] = []) => [...before, value]),
      option("--public-url <url>", "URL that buyers use, if a proxy is in front of jobgate").argParser(
        parseUrl,
      ),
      option("--listen <address>", "address for buyers").default(LISTENERS.x402).argParser(parseListener),
      option("--operator <address>", "address of the operator page")
        .default(LISTENERS.operator)
        .argParser(parseListener),
      option("--save", "also write the configuration, for `jobgate serve`"),
      option("--out <file>", "file that --save writes").default("jobgate.toml"),
      option("--force", "overwrite the file"),
      logLevelOption(),
      logFormatOption(),
    ],
  }).action(sell);
}

/**
 * Reads the headers of the API. A header's value is never an argument, because other users can list arguments and the shell's
 * history keeps them. For the same reason, the message does not quote the argument.
 */
function headersOf(options: readonly string[]): Readonly<Record<string, string>> {
  const headers = options.map((value) => {
    const [, name, variable] = /^([A-Za-z0-9-]+)=(env:[A-Za-z_][A-Za-z0-9_]*)$/.exec(value) ?? [];
    if (name !== undefined && variable !== undefined) return [name, variable] as const;
    throw new InvalidArgumentError("--header: expected name=env:NAME, never the value itself.");
  });
  return Object.fromEntries(headers);
}

async function sell(url: string | undefined, options: SellOptions): Promise<void> {
  const chosen = await chooseSale(url, options);
  const { config, leftOut } = await sellable(chosen, options);
  const log = openLog({ level: options.logLevel, format: options.logFormat });
  const stopping = new AbortController();
  const stopped = nextStopSignal().finally(() => stopping.abort());
  const folder = await mkdtemp(join(tmpdir(), "jobgate-sell-"));
  try {
    const path = options.save ? options.out : join(folder, "jobgate.toml");
    const files = await writeConfig(path, config, { overwrites: options.force });
    const loaded = await loadConfig({ config: path }, log);
    const gateway = await startGatewayOrRefuse(loaded, log.logger, stopping.signal);
    if (gateway === undefined) return;
    try {
      showFindings(config, leftOut);
      const addresses = new Map(gateway.listeners.map(({ name, address }) => [name, address]));
      console.log(saleText(config, addresses, options.save ? files : []));
      await stopped;
    } finally {
      await gateway.stop();
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The routes that are sold, and the operations of a description that are left out. */
interface Sale {
  readonly config: NewConfig;
  readonly leftOut: readonly Finding[];
}

async function chooseSale(given: string | undefined, options: SellOptions): Promise<Sale> {
  requireNoCredentials(given);
  const { openapi, route: named = [], payTo, listen, operator, publicUrl } = options;
  const network = options.network ?? parsePayableNetwork("base-sepolia");
  if (payTo === undefined)
    throw new InvalidArgumentError("--pay-to is missing; expected your address, which is paid.");
  const money = await moneyOfApi(network, parseOwnAddress(payTo, network), options);
  const described = openapi === undefined ? undefined : await readDescription(openapi);
  const url = apiUrl(given, described);
  const routes = pricedRoutes({ named, described, price: options.price });
  const api = { name: apiName(described), url, headers: headersOf(options.header ?? []), routes };
  const storeUrl = options.save ? undefined : `sqlite:${resolve("jobgate.db")}`;
  const listeners = { x402: publicUrl === undefined ? await withPort(listen) : listen, operator, publicUrl };
  const config = { money, api, listeners, ...(storeUrl === undefined ? {} : { storeUrl }) };
  return { config, leftOut: named.length > 0 ? [] : (described?.leftOut ?? []) };
}

/** Replaces port 0 by a free port, because offers and descriptions contain the address before jobgate listens on it. */
async function withPort(address: string): Promise<string> {
  const [, host = "", port] = /^(.*):([0-9]+)$/.exec(address) ?? [];
  if (Number(port) !== 0) return address;
  const server = createServer().listen(0, host.replace(/^\[|\]$/g, ""));
  await once(server, "listening");
  const { port: free } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return `${host}:${free}`;
}

/** @throws Refusal for a route that the command line names and that cannot be sold */
async function sellable(sale: Sale, { route = [] }: SellOptions): Promise<Sale> {
  const found = await withoutMistakes(sale.config, sale.leftOut);
  if (route.length > 0 && found.leftOut.length > 0) throw new Refusal(found.leftOut.map(findingText));
  return found;
}

function saleText(
  { api, money, listeners = LISTENERS }: NewConfig,
  addresses: ReadonlyMap<string, string>,
  files: readonly string[],
): string {
  const listen = addresses.get("x402") ?? listeners.x402;
  const url = listeners.publicUrl?.replace(/\/+$/, "") ?? `http://${listen}`;
  const routes = api?.routes ?? [];
  const host = listeners.publicUrl === undefined ? "api.example.com" : new URL(listeners.publicUrl).host;
  const about = fields([
    ["for sale at", url],
    ["API", api?.url ?? ""],
    ["paid to", `${money?.payTo}, in ${money?.symbol} on ${money?.network}`],
    ["settled by", money?.facilitatorUrl ?? ""],
    ["operator page", `http://${addresses.get("operator") ?? listeners.operator}/`],
    ["saved in", files.join(" and ")],
  ]);
  return `${about}

${table(
  ["ROUTE", "PRICE", "TITLE"],
  routes.map(({ route, price, details }) => [route, price, printable(details.title ?? "")]),
)}

Buy it, with the key of another account:
  JOBGATE_PAYER_KEY=0x… ${programName()} pay ${buyText(url, routes[0]?.route ?? "")}

Put TLS in front, such as Caddy, which gets its certificate itself${listeners.publicUrl === undefined ? ", and name its address with --public-url" : ""}:
  caddy reverse-proxy --from ${host} --to ${listen}

End with Ctrl-C.`;
}

/** Arguments of the command that buys the first route. */
function buyText(url: string, route: string): string {
  const [methods = "", path = ""] = route.split(" ");
  const [method = "GET"] = methods.split("|");
  return `${url}${path} --method ${method}`;
}
