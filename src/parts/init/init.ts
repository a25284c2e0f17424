import { existsSync } from "node:fs";
import { type Command, InvalidArgumentError } from "commander";
import { ask, canAsk } from "../../commands/input.ts";
import { addCommand, matching, option } from "../../commands/options.ts";
import { programName } from "../../commands/output.ts";
import { isTestNetwork } from "../../config/token-presets.ts";
import {
  apiUrl,
  apiUrlArgument,
  type MoneyOptions,
  moneyOf,
  moneyOfApi,
  moneyOptions,
  openApiOption,
  parseOwnAddress,
  parsePayableNetwork,
  parsePrice,
  requireNoCredentials,
} from "./choices.ts";
import { apiName, readDescription } from "./described.ts";
import type { NewConfig } from "./new-config.ts";
import type { DescribedApi } from "./openapi/operations.ts";
import { pricedRoutes, showFindings, withoutMistakes } from "./routes-for-sale.ts";
import { fileExists, writeConfig } from "./write-config.ts";

/** Auth modes in which the receiver makes the secret. In the other modes the sender makes the secret. */
const AUTH_MODES = ["hmac-sha256", "bearer", "github"];
/** Answer that leaves out the job or the webhook. */
const NONE = "-";
const parseJob = matching(/^(-|[a-z0-9][a-z0-9-]{0,62})$/, "a name of a-z, 0-9 and -, such as summarise");
const parsePath = matching(/^(-|(\/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+)$/, "a path, such as /hooks/alerts");
/** First account of every local development node. Anyone can spend its money, because its private key is public. */
const PUBLIC_ACCOUNT = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";

interface InitOptions extends MoneyOptions {
  readonly out: string;
  readonly job?: string;
  readonly openapi?: string;
  /** URL of the API; an argument. */
  readonly url?: string;
  readonly description?: string;
  readonly price?: string;
  readonly webhook?: string;
  readonly auth: string;
  readonly yes?: boolean;
  readonly force?: boolean;
}

export function addTo(program: Command): void {
  addCommand(program, {
    name: "init",
    description: "Write a configuration to start from. Asks for everything that the options leave open.",
    example: "init --yes --job shout --price 0.01 --pay-to 0x…",
    takes: [
      apiUrlArgument(),
      option("--out <file>", "file to write").default("jobgate.toml"),
      option("--job <name>", `job to sell, ${NONE} for none (default: "shout")`).argParser(parseJob),
      openApiOption().conflicts(["job", "description"]),
      option("--description <text>", "description of the job, for its buyers"),
      option(
        "--price <amount>",
        'price of the job, or of each operation, in dollars (default: "$0.01")',
      ).argParser(parsePrice),
      ...moneyOptions(),
      option(
        "--webhook <path>",
        `path of a webhook, ${NONE} for none (default: "/hooks/alerts", and none with --openapi)`,
      ).argParser(parsePath),
      option("--auth <mode>", "authentication of the webhook").choices(AUTH_MODES).default(AUTH_MODES[0]),
      option("-y, --yes", "ask nothing"),
      option("--force", "overwrite the file"),
    ],
  }).action(init);
}

async function init(url: string | undefined, options: InitOptions): Promise<void> {
  requireNoCredentials(url);
  if (url !== undefined && options.openapi === undefined)
    throw new InvalidArgumentError(
      `${url} is the URL of an API; expected --openapi with the API's description beside it. Without a description, \`jobgate sell ${url} --route … --save\` writes the configuration.`,
    );
  const { out, force: overwrites = false } = options;
  // Check before asking questions. The write checks again.
  if (!overwrites && existsSync(out)) throw fileExists(out);
  const asks = !options.yes && canAsk();
  const described = options.openapi === undefined ? undefined : await readDescription(options.openapi);
  const chosen = await chooseConfig(
    { ...options, ...(url === undefined ? {} : { url }) },
    asks ? ask : undefined,
    described,
  );
  const { config, leftOut } = await withoutMistakes(chosen, described?.leftOut);
  const written = await writeConfig(out, config, { overwrites });
  showFindings(config, leftOut);
  console.log(`Wrote ${written.join(" and ")}.\n\n${nextSteps(config, out)}`);
  if (config.money?.payTo === PUBLIC_ACCOUNT)
    console.error("\npay_to is a public test account: put your own address there, or use --pay-to.");
}

/**
 * Completes the options with answers to questions.
 * @param question asks a person; undefined takes the defaults
 * @param described API whose operations are sold, in place of a job
 * @throws InvalidArgumentError for a value that has no default, and for options that leave out both job and webhook
 */
export async function chooseConfig(
  options: Omit<InitOptions, "out">,
  question?: (text: string) => Promise<string>,
  described?: DescribedApi,
): Promise<NewConfig> {
  async function choose(
    option: "job" | "price" | "network" | "payTo" | "webhook",
    text: string,
    otherwise: string,
    parse: (answer: string) => string,
  ): Promise<string> {
    const given = options[option];
    if (given !== undefined) return given;
    if (question === undefined) return parse(otherwise);
    for (;;) {
      try {
        return parse((await question(`${text}${otherwise && ` [${otherwise}]`}: `)) || otherwise);
      } catch (error) {
        if (!(error instanceof InvalidArgumentError)) throw error;
        console.error(error.message);
      }
    }
  }
  const name = described
    ? NONE
    : await choose("job", `Name of a job to sell, ${NONE} for none`, "shout", parseJob);
  const sold: Pick<NewConfig, "money" | "job" | "api"> =
    name === NONE && described === undefined ? {} : await chooseSale(name);
  const hooks = described ? NONE : "/hooks/alerts";
  const path = described
    ? (options.webhook ?? NONE)
    : await choose("webhook", `Path of a webhook, ${NONE} for none`, hooks, parsePath);
  if (path === NONE && sold.money === undefined)
    throw new InvalidArgumentError("Both --job and --webhook are left out; expected at least one.");
  const secretFile = `secrets/${path.slice(1).replaceAll("/", "-")}`;
  return { ...sold, webhook: path === NONE ? undefined : { path, auth: options.auth, secretFile } };

  async function chooseSale(name: string): Promise<Pick<NewConfig, "money" | "job" | "api">> {
    const ofWhat = described ? "Price of each operation" : "Its price";
    const price = await choose("price", `${ofWhat} in dollars`, "0.01", parsePrice);
    const network = await choose("network", "Network of the payments", "base-sepolia", parsePayableNetwork);
    const publicAccount = isTestNetwork(network) ? PUBLIC_ACCOUNT : "";
    const parsePayTo = (value: string) => parseOwnAddress(value, network);
    const payTo = parsePayTo(await choose("payTo", "Your address, which is paid", publicAccount, parsePayTo));
    if (described === undefined) {
      const { description = "Returns the text in the body in capitals." } = options;
      return { money: moneyOf(network, payTo, options), job: { name, description, price } };
    }
    const url = apiUrl(options.url, described);
    const routes = pricedRoutes({ named: [], described, price });
    const api = { name: apiName(described), url, headers: {}, routes };
    return { money: await moneyOfApi(network, payTo, options), api };
  }
}

function nextSteps({ job, api, webhook }: NewConfig, out: string): string {
  const self = programName();
  const c = out === "jobgate.toml" ? "" : ` -c ${out}`;
  const isSold = job !== undefined || api !== undefined;
  const steps: (readonly [command: string, why: string])[] = [
    [
      `${self} check${c}${isSold ? " --online" : ""}`,
      isSold ? "also calls the facilitator" : "lists mistakes",
    ],
    [`${self} serve${c}`, "the operator page is at http://127.0.0.1:8405/"],
  ];
  if (isSold)
    steps.splice(1, 0, [
      `${self} dev -c ${out}`,
      "first sells it for play money, on a chain of this machine",
    ]);
  if (api === undefined)
    steps.push([`${self} run-each -- tr a-z A-Z`, "a runner, in another terminal: put yours here"]);
  if (job)
    steps.push([
      `echo hello | ${self} pay http://127.0.0.1:8402/x402/jobs/1/0 --body - --max ${job.price.slice(1)}`,
      "buys it; JOBGATE_PAYER_KEY holds a payer's key",
    ]);
  if (webhook)
    steps.push([
      `echo '{}' | ${self} sign-webhook${c} --endpoint ${webhook.path} --body -`,
      "prints the headers that a sender adds",
    ]);
  const width = Math.max(...steps.map(([command]) => command.length));
  return `Next:\n${steps.map(([command, why]) => `  ${command.padEnd(width)}  # ${why}`).join("\n")}`;
}
