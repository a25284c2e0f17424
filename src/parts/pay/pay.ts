import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { type Command, InvalidArgumentError } from "commander";
import { ask, canAsk, Refusal, readBody, readKey } from "../../commands/input.ts";
import { addCommand, jsonOption, option, parseInteger } from "../../commands/options.ts";
import { fields } from "../../commands/output.ts";
import { fileErrorText } from "../../config/named-files.ts";
import { isTestNetwork, networkName } from "../../config/token-presets.ts";
import { parseNetwork } from "../../config/value-types.ts";
import { type PrivateKey, parsePrivateKey } from "../../core/private-keys.ts";
import { type Answer, Buyer, type ChosenOffer, isResult, jsonOf, refusalText } from "./buyer.ts";
import {
  type Charging,
  chargeOption,
  hasCeiling,
  networkOf,
  type Offer,
  payableOffers,
  priceOf,
} from "./offers.ts";
import { type CallMoney, chargeText, failureLines, howToNameJob, moneyJson, readMoney } from "./seller.ts";

const KEY_VARIABLE = "JOBGATE_PAYER_KEY";
const MAX_TIMEOUT_SECS = 86_400;

export function addTo(program: Command): void {
  addCommand(program, {
    name: "pay",
    description: "Buy one run of a job over x402, and print its result.",
    notes:
      "The result goes to stdout, everything else to stderr. The key is a private key in hex; no option takes it." +
      "\nIf an answer is lost, the same payment is sent again, never a new one.",
    example: "pay https://jobs.example.com/x402/jobs/1/0 --body text.txt --max 0.05",
    takes: [
      option("--body <file>", "file with the request body, - for stdin (default: empty)"),
      option(
        "--max <amount>",
        "most to pay, in dollars for tokens that jobgate knows, in base units of any other; without it you are asked, except for test money",
      ).argParser(parseMax),
      option("--network <name>", "pay on this network only, such as base or eip155:8453").argParser(
        parseNetworkOption,
      ),
      chargeOption(),
      option("--method <method>", "HTTP method").default("POST"),
      option(
        "-H, --header <line...>",
        "header of the request, such as `content-type: text/plain`, or several lines of them",
      ),
      option("--key-file <file>", `file with the payer's private key (default: ${KEY_VARIABLE})`),
      option(
        "--payment-id <id>",
        "identifier of a purchase that was interrupted, which is not charged again (default: random)",
      ),
      option("--timeout <seconds>", "longest wait for the payment and the result")
        .default(600)
        .argParser((value) => parseInteger(value, 1, MAX_TIMEOUT_SECS)),
      option("--no-wait", "end once the job is accepted"),
      jsonOption("print the purchase and the result as one line of JSON"),
    ],
  })
    .argument("<url>", "URL of the job, as `x402_endpoint` in the seller's list of jobs, /x402/jobs")
    .action(pay);
}

interface PayOptions {
  readonly body?: string;
  readonly max?: string;
  readonly network?: string;
  readonly charge?: Charging;
  readonly method: string;
  readonly header?: readonly string[];
  readonly keyFile?: string;
  readonly paymentId?: string;
  readonly timeout: number;
  readonly wait: boolean;
  readonly json?: boolean;
}

async function pay(url: string, options: PayOptions): Promise<void> {
  if (!/^https?:\/\//.test(url) || !URL.canParse(url))
    throw new InvalidArgumentError(`${url}: expected the http:// or https:// URL of a job.`);
  const headers = new Headers(headerLines(options.header));
  if (options.wait && !headers.has("prefer")) headers.set("prefer", "wait=30");
  const privateKey = await readPayerKey(options.keyFile);
  const body = options.body === undefined ? undefined : await readBody(options.body);
  const paymentId = options.paymentId ?? `pay_${randomUUID()}`;
  let chosen: ChosenOffer | undefined;
  const buyer = new Buyer({
    privateKey,
    name(extensions) {
      const declared = extensions?.["payment-identifier"] as { info?: { id?: string } } | undefined;
      if (declared?.info === undefined) return undefined;
      declared.info.id = paymentId;
      return paymentId;
    },
    timeoutMs: options.timeout * 1_000,
    select: (offers) => payableOffers(offers, options),
    async approve(offer) {
      console.error(offerText(offer));
      await approve(offer.requirements, options.max);
      chosen = offer;
    },
    onRetry: (reason) => console.error(`${reason}; sending the same request again`),
  });
  try {
    const init = { method: options.method, headers, body: body ? new Uint8Array(body) : null };
    const { answer, isPaid } = await buyer.buy(url, init);
    await deliver({ url, buyer, answer, chosen: isPaid ? chosen : undefined, options });
  } catch (error) {
    const canGoOn = error instanceof Refusal && !(error instanceof NoResult);
    if (!canGoOn || chosen?.purchaseName === undefined) throw error;
    throw new Refusal([
      ...error.lines,
      `This purchase is never charged twice: try it again with --payment-id ${paymentId}`,
    ]);
  }
}

/** The job failed, or its result is no longer kept: trying again finds nothing else. */
class NoResult extends Refusal {}

/** Prints what was bought: the receipt, and the result once it is there. */
async function deliver(purchase: {
  readonly url: string;
  readonly buyer: Buyer;
  readonly answer: Answer;
  readonly chosen: ChosenOffer | undefined;
  readonly options: PayOptions;
}): Promise<void> {
  const { url, buyer, answer, chosen, options } = purchase;
  const { headers } = answer;
  if (answer.status >= 300 && !isResult(answer)) {
    const isNoJob = answer.status === 404 || answer.status === 405;
    const requestId = chosen && headers.get("x-request-id");
    throw new Refusal([
      refusalText(answer),
      ...(requestId ? [`The seller finds the reason by the request ID: ${requestId}`] : []),
      ...(isNoJob ? await howToNameJob(url) : []),
    ]);
  }
  const accepted = answer.status === 202 ? jsonOf(answer.body) : {};
  const location = headers.get("location");
  const receiptUrl = location === null ? undefined : new URL(location, url).href;
  const accessToken = headers.get("x-access-token") ?? (accepted.access_token as string | undefined);
  const transaction = buyer.settlementOf(answer)?.transaction;
  console.error(
    chosen === undefined
      ? "Nothing was charged."
      : fields([
          ["transaction", transaction ?? ""],
          ["receipt", receiptUrl ?? ""],
          ["access token", accessToken ?? ""],
        ]),
  );
  let result: Answer | undefined = answer.status === 202 ? undefined : answer;
  let money: CallMoney = {};
  if (receiptUrl !== undefined && accessToken !== undefined) {
    const headers = { authorization: `Bearer ${accessToken}` };
    if (result === undefined && options.wait)
      result = await buyer.untilAnswered(`${receiptUrl}/result`, { headers });
    const isCeiling = chosen !== undefined && hasCeiling(chosen.requirements);
    const mayHaveMore = (result?.status ?? 0) >= 400 || transaction === undefined || isCeiling;
    if (result !== undefined && mayHaveMore) money = await readMoney(receiptUrl, headers);
  }
  const charged = chargeText(money);
  if (charged !== "")
    console.error(
      fields([
        ["charged", charged],
        ["transaction", money.charge?.transaction ?? ""],
      ]),
    );
  if (options.json)
    console.log(
      JSON.stringify({
        ...purchaseJson({ receiptUrl, accessToken, transaction, chosen, money }),
        ...resultJson(result),
      }),
    );
  if (result === undefined) return;
  if (isResult(result) && !options.json) process.stdout.write(result.body);
  if (isResult(result) && result.status < 400) return;
  const reason = isResult(result) ? `The job failed with status ${result.status}` : refusalText(result);
  const lines = [reason, ...failureLines(money, receiptUrl ?? url)];
  throw isResult(result) || isFinal(result) ? new NoResult(lines) : new Refusal(lines);
}

/** The job failed, its charge did, or its result is no longer kept. */
const isFinal = ({ status }: Answer) => status === 410 || status === 402;

function purchaseJson(purchase: {
  readonly receiptUrl: string | undefined;
  readonly accessToken: string | undefined;
  readonly transaction: string | undefined;
  readonly chosen: ChosenOffer | undefined;
  readonly money: CallMoney;
}) {
  const { receiptUrl, accessToken, transaction, chosen, money } = purchase;
  const { network, asset, amount, payTo } = chosen?.requirements ?? {};
  return {
    receipt_url: receiptUrl,
    access_token: accessToken,
    transaction: transaction ?? money.charge?.transaction,
    payment_id: chosen?.purchaseName,
    payer: chosen?.payer,
    ...{ pay_to: payTo, network, asset, amount },
    amount_text: chosen && priceOf(chosen.requirements),
    ...moneyJson(money),
  };
}

function resultJson(result: Answer | undefined) {
  if (result === undefined) return { status: "accepted" };
  if (!isResult(result)) {
    const { code, error, reason } = jsonOf(result.body);
    return { status: isFinal(result) ? "failed" : "unknown", code, error, reason };
  }
  const contentType = result.headers.get("content-type") ?? undefined;
  const isText = /^text\/|[/+]json\b/.test(contentType ?? "");
  return {
    status: result.status < 400 ? "succeeded" : "failed",
    ...(result.status === 200 ? {} : { http_status: result.status }),
    content_type: contentType,
    ...(isText ? { result: result.body.toString() } : { result_base64: result.body.toString("base64") }),
  };
}

/** Asks before money is spent without --max. @throws Refusal without a yes */
async function approve(offer: Offer, max: string | undefined): Promise<void> {
  if (max !== undefined || isTestNetwork(networkOf(offer))) return;
  if (!canAsk()) throw new Refusal(["Nothing was paid: --max is missing, the most that you would pay"]);
  const answer = await ask(`Pay ${priceOf(offer)}? [y/N] `);
  if (!/^y(es)?$/i.test(answer)) throw new Refusal(["Nothing was paid."]);
}

function offerText({ requirements, description, payer, purchaseName }: ChosenOffer): string {
  return fields([
    ["job", description ?? ""],
    ["price", priceOf(requirements)],
    ["network", networkName(networkOf(requirements))],
    ["pay to", requirements.payTo],
    ["payer", payer],
    ["payment ID", purchaseName ?? ""],
  ]);
}

async function readPayerKey(file: string | undefined): Promise<PrivateKey> {
  const where = file ?? `environment variable ${KEY_VARIABLE}`;
  const text = file === undefined ? readKey(KEY_VARIABLE) : await readKeyFile(file);
  const key = parsePrivateKey(`0x${text.trim().replace(/^0x/, "")}`);
  if (key === undefined)
    throw new Refusal([`${where} does not hold a private key; expected 32 bytes in hex`]);
  return key;
}

async function readKeyFile(file: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    throw new Refusal([
      `${file} cannot be read: ${fileErrorText(error)}; expected a file with a private key`,
    ]);
  }
}

/** An option may hold several lines. */
function headerLines(options: readonly string[] = []): [name: string, value: string][] {
  return options
    .flatMap((option) => option.split(/\r?\n/))
    .filter((line) => line !== "")
    .map((line) => {
      const [, name, value] = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*)$/.exec(line) ?? [];
      if (name === undefined || value === undefined)
        throw new InvalidArgumentError("--header: expected `name: value`.");
      return [name, value];
    });
}

function parseMax(value: string): string {
  const amount = value.replace(/^\$/, "");
  if (!/^[0-9]{1,18}(\.[0-9]{1,18})?$/.test(amount))
    throw new InvalidArgumentError("Expected an amount, such as 0.05.");
  return amount;
}

function parseNetworkOption(value: string): string {
  const network = parseNetwork(value);
  if (network === undefined)
    throw new InvalidArgumentError("Expected a network, such as base or eip155:8453.");
  return network;
}
