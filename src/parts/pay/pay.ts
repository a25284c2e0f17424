import { randomUUID } from "node:crypto";
import { type Command, InvalidArgumentError } from "commander";
import { ask, canAsk, loadNetworkPayers, Refusal, readBody } from "../../commands/input.ts";
import { addCommand, jsonOption, option, parseInteger } from "../../commands/options.ts";
import { fields } from "../../commands/output.ts";
import { KEY_VARIABLE, readAccount } from "./account.ts";
import { type Answer, Buyer, type ChosenOffer, isResult, jsonOf, refusalText } from "./buyer.ts";
import type { PayerChannels } from "./channel.ts";
import { KnownTokens } from "./known-tokens.ts";
import {
  type Charging,
  chargeOption,
  hasCeiling,
  networksOf,
  type Offer,
  offersBy,
  offersOn,
  payableOffers,
  priceOf,
} from "./offers.ts";
import { type CallMoney, chargeText, failureLines, howToNameJob, moneyJson, readMoney } from "./seller.ts";

const MAX_TIMEOUT_SECS = 86_400;

export function addTo(program: Command): void {
  addCommand(program, {
    name: "pay",
    description: "Buy one run of a job over x402, and print its result.",
    notes:
      "The result goes to stdout, everything else to stderr. The key belongs to an account on a network of the offers; no option takes it." +
      "\nIf an answer is lost, the same payment is sent again, never a new one.",
    example: "pay https://jobs.example.com/x402/jobs/1/0 --body text.txt --max 0.05",
    takes: [
      option("--body <file>", "file with the request body, - for stdin (default: empty)"),
      option(
        "--max <amount>",
        "most to pay, in dollars for tokens that jobgate knows, in base units of any other; without it you are asked, except for test money",
      ).argParser(parseMax),
      option(
        "--deposit <amount>",
        "pay from a payment channel, and deposit this much where the channel does not cover the price, in dollars for tokens that jobgate knows, in base units of any other",
      ).argParser(parseMax),
      option("--refund", "buy nothing: have the seller pay back what is left in the channel"),
      option("--network <name>", "pay on this network only, such as base or eip155:8453"),
      chargeOption(),
      option("--method <method>", "HTTP method").default("POST"),
      option(
        "-H, --header <line...>",
        "header of the request, such as `content-type: text/plain`, or several lines of them",
      ),
      option("--key-file <file>", `file with the payer's private key (default: ${KEY_VARIABLE})`),
      option(
        "--rpc-url <url>",
        "JSON-RPC of the network, for what neither the offer nor jobgate knows and a payment needs there",
      ),
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
  readonly deposit?: string;
  readonly refund?: boolean;
  readonly network?: string;
  readonly charge?: Charging;
  readonly method: string;
  readonly header?: readonly string[];
  readonly keyFile?: string;
  readonly rpcUrl?: string;
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
  const parts = await loadNetworkPayers();
  const tokens = new KnownTokens(parts);
  const { keyFile: file, rpcUrl, max } = options;
  const network = parseNetworkOption(options.network, tokens);
  const account = await readAccount({
    ...{ file, rpcUrl, parts, tokens },
    deposit: options.refund ? "0" : options.deposit,
    onDeposit: (amount) => console.error(fields([["deposit", amount]])),
  });
  const { channels } = account;
  if (channels === undefined && (options.refund || options.deposit !== undefined))
    throw new Refusal([
      `The key is of ${account.address}, which has no payment channels; expected a key for an EVM chain`,
    ]);
  if (options.refund && channels !== undefined) return refund(url, channels, options);
  const body = options.body === undefined ? undefined : await readBody(options.body);
  const paymentId = options.paymentId ?? `pay_${randomUUID()}`;
  let chosen: ChosenOffer | undefined;
  const buyer = new Buyer({
    account,
    offersOnNetwork(offers) {
      const way = channels === undefined ? "payment" : "channel";
      const there = offersBy(way, offersOn(network, offers, tokens));
      if (there.length === 0 || there.some((offer) => account.isOn(tokens.networkOf(offer)))) return there;
      throw new Refusal([
        `The job is sold on ${networksOf(there, tokens)}, and the key is of ${account.address}, which is not an account there; expected a key for that network`,
      ]);
    },
    name(extensions) {
      const declared = extensions?.["payment-identifier"] as { info?: { id?: string } } | undefined;
      if (declared?.info === undefined) return undefined;
      declared.info.id = paymentId;
      return paymentId;
    },
    timeoutMs: options.timeout * 1_000,
    select: (offers) => payableOffers(offers, options, tokens),
    async approve(offer) {
      console.error(offerText(offer, tokens));
      await approve(offer.requirements, max, tokens);
      chosen = offer;
    },
    onRetry: (reason) => console.error(`${reason}; sending the same request again`),
  });
  try {
    const init = { method: options.method, headers, body: body ? new Uint8Array(body) : null };
    const { answer, isPaid } = await buyer.buy(url, init);
    await deliver({ url, buyer, answer, chosen: isPaid ? chosen : undefined, options, tokens });
  } catch (error) {
    const canGoOn = error instanceof Refusal && !(error instanceof NoResult);
    if (!canGoOn || chosen?.purchaseName === undefined) throw error;
    throw new Refusal([
      ...error.lines,
      `This purchase is never charged twice: try it again with --payment-id ${paymentId}`,
    ]);
  }
}

/** Has the seller pay back what is left in the payer's channel. @throws Refusal if nothing was paid back */
async function refund(url: string, channels: PayerChannels, { timeout }: PayOptions): Promise<void> {
  const release = await channels.hold(timeout * 1_000);
  try {
    const { transaction, amount } = await channels.refund(url);
    console.error(
      fields([
        ["paid back", amount === undefined ? "" : `${amount} base units`],
        ["transaction", transaction],
      ]),
    );
  } finally {
    await release();
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
  readonly tokens: KnownTokens;
}): Promise<void> {
  const { url, buyer, answer, chosen, options, tokens } = purchase;
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
  // A voucher is settled without a transaction.
  const transaction = buyer.settlementOf(answer)?.transaction || undefined;
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
  const charged = chargeText(money, tokens);
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
        ...purchaseJson({ receiptUrl, accessToken, transaction, chosen, money, tokens }),
        ...resultJson(result),
      }),
    );
  if (result === undefined) return;
  if (isResult(result) && !options.json) process.stdout.write(result.body);
  if (isResult(result) && result.status < 400) return;
  const reason = isResult(result) ? `The job failed with status ${result.status}` : refusalText(result);
  const lines = [reason, ...failureLines(money, receiptUrl ?? url, tokens)];
  throw isResult(result) || isFinal(result) ? new NoResult(lines) : new Refusal(lines);
}

/** True if the job failed, its charge failed, or its result is no longer kept. */
const isFinal = ({ status }: Answer) => status === 410 || status === 402;

function purchaseJson(purchase: {
  readonly receiptUrl: string | undefined;
  readonly accessToken: string | undefined;
  readonly transaction: string | undefined;
  readonly chosen: ChosenOffer | undefined;
  readonly money: CallMoney;
  readonly tokens: KnownTokens;
}) {
  const { receiptUrl, accessToken, transaction, chosen, money, tokens } = purchase;
  const { network, asset, amount, payTo } = chosen?.requirements ?? {};
  return {
    receipt_url: receiptUrl,
    access_token: accessToken,
    transaction: transaction ?? money.charge?.transaction,
    payment_id: chosen?.purchaseName,
    payer: chosen?.payer,
    ...{ pay_to: payTo, network, asset, amount },
    amount_text: chosen && priceOf(chosen.requirements, tokens),
    ...moneyJson(money, tokens),
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
async function approve(offer: Offer, max: string | undefined, tokens: KnownTokens): Promise<void> {
  if (max !== undefined || tokens.isForTests(offer)) return;
  if (!canAsk()) throw new Refusal(["Nothing was paid: --max is missing, the most that you would pay"]);
  const answer = await ask(`Pay ${priceOf(offer, tokens)}? [y/N] `);
  if (!/^y(es)?$/i.test(answer)) throw new Refusal(["Nothing was paid."]);
}

function offerText(
  { requirements, description, payer, purchaseName }: ChosenOffer,
  tokens: KnownTokens,
): string {
  return fields([
    ["job", description ?? ""],
    ["price", priceOf(requirements, tokens)],
    ["network", tokens.nameOf(requirements)],
    ["pay to", requirements.payTo],
    ["payer", payer],
    ["payment ID", purchaseName ?? ""],
  ]);
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

function parseNetworkOption(value: string | undefined, tokens: KnownTokens): string | undefined {
  const network = value === undefined ? undefined : tokens.parseNetwork(value);
  if (value !== undefined && network === undefined)
    throw new InvalidArgumentError("--network: expected a network, such as base or eip155:8453.");
  return network;
}
