import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { type Command, InvalidArgumentError } from "commander";
import { ask, canAsk, Refusal } from "../../commands/input.ts";
import { addCommand, matching, option } from "../../commands/options.ts";
import { programName } from "../../commands/output.ts";
import { fileErrorText } from "../../config/named-files.ts";
import { isPublicAccount } from "../../config/public-accounts.ts";
import { isTestNetwork, networkName, TOKEN_PRESETS } from "../../config/token-presets.ts";
import { parseNetwork } from "../../config/value-types.ts";
import { parseEvmAddress } from "../../core/addresses.ts";
import { parseDollars } from "../../core/price.ts";
import { configText, type NewConfig } from "./template.ts";

/** Auth modes whose secret this side makes. In other modes the sender makes it. */
const AUTH_MODES = ["hmac-sha256", "bearer", "github"];
/** Takes the place of a name or a path. */
const NONE = "-";
const parseJob = matching(/^(-|[a-z0-9][a-z0-9-]{0,62})$/, "a name of a-z, 0-9 and -, such as summarise");
const parsePath = matching(/^(-|(\/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+)$/, "a path, such as /hooks/alerts");
/** First account of every local development node. Anyone can spend what it is paid. */
const PUBLIC_ACCOUNT = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";

interface InitOptions {
  readonly out: string;
  readonly job?: string;
  readonly description?: string;
  readonly price?: string;
  readonly network?: string;
  readonly payTo?: string;
  readonly facilitator?: string;
  readonly webhook?: string;
  readonly auth: string;
  readonly yes?: boolean;
  readonly force?: boolean;
}

export function addTo(program: Command): void {
  addCommand(program, {
    name: "init",
    description: "Write a configuration to start from. Asks what the options leave open.",
    example: "init --yes --job shout --price 0.01 --pay-to 0x…",
    takes: [
      option("--out <file>", "file to write").default("jobgate.toml"),
      option("--job <name>", `job to sell, ${NONE} for none (default: "shout")`).argParser(parseJob),
      option("--description <text>", "description of the job, for its buyers"),
      option("--price <amount>", 'price of the job in dollars (default: "$0.01")').argParser(parsePrice),
      option("--network <name>", 'network of the payments (default: "base-sepolia", test money)').argParser(
        parsePayableNetwork,
      ),
      option("--pay-to <address>", "your address, which is paid").argParser(parseAddress),
      option("--facilitator <url>", "facilitator that settles the payments").argParser(parseUrl),
      option("--webhook <path>", `path of a webhook, ${NONE} for none (default: "/hooks/alerts")`).argParser(
        parsePath,
      ),
      option("--auth <mode>", "authentication of the webhook").choices(AUTH_MODES).default(AUTH_MODES[0]),
      option("-y, --yes", "ask nothing"),
      option("--force", "overwrite the file"),
    ],
  }).action(init);
}

async function init(options: InitOptions): Promise<void> {
  const { out, force: overwrites = false } = options;
  // Checked before the questions; the write checks again.
  if (!overwrites && existsSync(out)) throw fileExists(out);
  const asks = !options.yes && canAsk();
  const config = await chooseConfig(options, asks ? ask : undefined);
  await writeText(out, configText(config), { flag: overwrites ? "w" : "wx" });
  const written = [out];
  const { job, webhook } = config;
  if (webhook !== undefined) {
    const file = join(dirname(out), webhook.secretFile);
    if (await writeSecret(file)) written.push(file);
  }
  console.log(`Wrote ${written.join(" and ")}.\n\n${nextSteps(config, out)}`);
  if (job?.payTo === PUBLIC_ACCOUNT)
    console.error("\npay_to is a public test account: put your own address there, or use --pay-to.");
}

/**
 * Completes the options with answers.
 * @param question absent: takes the defaults
 * @throws InvalidArgumentError for a value that has no default, and for options that leave nothing
 */
export async function chooseConfig(
  options: Omit<InitOptions, "out">,
  question?: (text: string) => Promise<string>,
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
  const name = await choose("job", `Name of a job to sell, ${NONE} for none`, "shout", parseJob);
  let job: NewConfig["job"];
  if (name !== NONE) {
    const price = await choose("price", "Its price in dollars", "0.01", parsePrice);
    const network = await choose("network", "Network of the payments", "base-sepolia", parsePayableNetwork);
    const publicAccount = isTestNetwork(network) ? PUBLIC_ACCOUNT : "";
    const parsePayTo = (value: string) => parseOwnAddress(value, network);
    const payTo = parsePayTo(await choose("payTo", "Your address, which is paid", publicAccount, parsePayTo));
    job = {
      name,
      description: options.description ?? "Returns the text in the body in capitals.",
      price,
      payTo,
      symbol: presetOn(network)?.symbol ?? "USDC",
      network: networkName(network),
      facilitatorUrl: options.facilitator ?? facilitatorOf(network),
    };
  }
  const path = await choose("webhook", `Path of a webhook, ${NONE} for none`, "/hooks/alerts", parsePath);
  if (path === NONE && job === undefined)
    throw new InvalidArgumentError("Neither --job nor --webhook is left; expected at least one.");
  const secretFile = `secrets/${path.slice(1).replaceAll("/", "-")}`;
  return { job, webhook: path === NONE ? undefined : { path, auth: options.auth, secretFile } };
}

/** Returns a facilitator that needs no account. */
function facilitatorOf(network: string): string {
  return network === "eip155:84532" ? "https://x402.org/facilitator" : "https://facilitator.payai.network";
}

function fileExists(file: string): Refusal {
  return new Refusal([
    `${file} exists, and was left as it is. Choose another file with --out, or overwrite this one with --force`,
  ]);
}

/** @throws Refusal with the reason */
async function writeText(
  file: string,
  text: string,
  options: { readonly flag: string; readonly mode?: number },
): Promise<void> {
  try {
    await writeFile(file, text, options);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") throw fileExists(file);
    throw new Refusal([`${file} cannot be written: ${fileErrorText(error)}`]);
  }
}

/** Writes a random secret, which git ignores. @returns false when the file exists: a sender may use its secret */
async function writeSecret(file: string): Promise<boolean> {
  if (existsSync(file)) return false;
  const folder = dirname(file);
  const isNew = await mkdir(folder, { recursive: true, mode: 0o700 });
  if (isNew !== undefined) await writeText(join(folder, ".gitignore"), "*\n", { flag: "wx" });
  await writeText(file, `${randomBytes(32).toString("base64url")}\n`, { flag: "wx", mode: 0o600 });
  return true;
}

function nextSteps({ job, webhook }: NewConfig, out: string): string {
  const self = programName();
  const c = out === "jobgate.toml" ? "" : ` -c ${out}`;
  const steps: (readonly [command: string, why: string])[] = [
    [`${self} check${c}${job ? " --online" : ""}`, job ? "asks the facilitator, too" : "lists mistakes"],
    [`${self} serve${c}`, "the operator page is at http://127.0.0.1:8405/"],
    [`${self} run-each -- tr a-z A-Z`, "a runner, in another terminal: put yours here"],
  ];
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

function presetOn(network: string) {
  return TOKEN_PRESETS.find((preset) => preset.network === network && preset.hasEip3009);
}

/** Yields it as the configuration has it. */
function parsePrice(value: string): string {
  const price = `$${value.replace(/^\$/, "")}`;
  if (parseDollars(price) === undefined)
    throw new InvalidArgumentError("Expected dollars with at most 6 decimal places, such as 0.01.");
  return price;
}

/** Yields it as CAIP-2. */
function parsePayableNetwork(value: string): string {
  const network = parseNetwork(value);
  if (network !== undefined && presetOn(network) !== undefined) return network;
  const known = TOKEN_PRESETS.map((preset) => preset.network).filter(presetOn);
  throw new InvalidArgumentError(
    `Expected a network with a dollar token that jobgate knows: ${[...new Set(known.map(networkName))].join(", ")}.`,
  );
}

function parseAddress(value: string): string {
  const parsed = parseEvmAddress(value);
  if (parsed.kind === "address") return parsed.address;
  throw new InvalidArgumentError(
    parsed.kind === "malformed"
      ? "--pay-to: expected your address, 0x and 40 hex digits."
      : "The checksum of the address is wrong, so a digit may be mistyped.",
  );
}

/** @throws InvalidArgumentError for an account whose key is public, where its money is worth something */
function parseOwnAddress(value: string, network: string): string {
  const address = parseAddress(value);
  if (!isPublicAccount(address) || isTestNetwork(network)) return address;
  throw new InvalidArgumentError(
    `--pay-to: anyone can take what ${address} is paid, because the private key of this account of development nodes is public; expected your own address.`,
  );
}

function parseUrl(value: string): string {
  if (!/^https?:\/\/[^\s"\\]+$/.test(value) || !URL.canParse(value))
    throw new InvalidArgumentError("Expected an http:// or https:// URL.");
  return value;
}
