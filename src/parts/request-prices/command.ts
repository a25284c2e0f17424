import { Argument, type Command } from "commander";
import { pino } from "pino";
import { parseHeader, Refusal, readBody, readConfig } from "../../commands/input.ts";
import { addCommand, configOption, option } from "../../commands/options.ts";
import type { Job, X402Config } from "../../config/config.ts";
import { priceText, type RequestPricing } from "../../core/amounts.ts";
import { systemClock } from "../../core/clock.ts";
import { GatewayError } from "../../core/errors.ts";
import { jobKeyText } from "../../core/job-call.ts";
import { parameterNames, routeText } from "../../core/route.ts";
import { isPlainQuery } from "../../http/routes.ts";
import { JobRoutes } from "../../x402/jobs/job-routes.ts";
import { type JobPrice, PayableTokens } from "../../x402/prices/price-source.ts";
import type { AskedRequest } from "../../x402/prices/request-prices.ts";
import { TokenRates } from "../../x402/prices/token-rates.ts";
import { BodyChecks } from "../../x402/purchase/input-checks.ts";
import { amountIn } from "../../x402/wire/offer.ts";
import { pricingOf } from "./config.ts";
import { priceOf } from "./price-of.ts";
import { knownFieldsOf, PricesOfRequests } from "./request-prices.ts";

export function addTo(program: Command): void {
  addCommand(program, {
    name: "price",
    description: "Show how the price of a request is calculated.",
    notes: "A program that makes prices is called. The command needs no running jobgate.",
    example: "price draw --body prompt.json --header 'X-Tier: gold'",
    takes: [
      new Argument("<job>", "name, index, service/index or route of the job"),
      configOption(),
      option("--body <file>", "file with the request body"),
      option("--path <path>", "path of the request, if the job's route has parameters"),
      option("--query <text>", "query string of the request, percent-encoded"),
      option("--header <header...>", "headers of the request, as 'Name: value'").default([], "none"),
    ],
  }).action(show);
}

interface RequestOptions {
  readonly body?: string;
  readonly path?: string;
  readonly query?: string;
  readonly header: readonly string[];
}

async function show(name: string, options: RequestOptions & { readonly config: string }): Promise<void> {
  const { x402 } = (await readConfig(options)).config;
  const job = x402?.jobs?.find((one) => isNamed(one, name));
  if (x402 === undefined || job === undefined) throw new Refusal([`there is no job ${name}`]);
  const pricing = pricingOf(job);
  if (job.price === "engine")
    throw new Refusal([
      `the price of ${name} is the pricing engine's quote for the body; send the request to see it`,
    ]);
  if (pricing === undefined)
    throw new Refusal([`the price of ${name} does not depend on the request; see jobgate check`]);
  const asked = await requestFor(job, x402, options);
  console.log(`rule: ${pricing.rule}`);
  try {
    if ("byRule" in pricing) {
      const { read } = priceOf(pricing.byRule, asked, knownFieldsOf(job));
      console.log(`read: ${read ?? "nothing, because the request has neither body nor query"}`);
    }
    print(job, await ask(job, x402, asked), pricing, x402);
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    throw new Refusal([`${error.status} ${error.code}: ${error.message}`]);
  }
}

function isNamed({ name, serviceId, jobIndex, route }: Job, given: string): boolean {
  const names = [name, String(jobIndex), jobKeyText(serviceId, jobIndex), route && routeText(route)];
  return names.includes(given);
}

async function ask(job: Job, x402: X402Config, asked: AskedRequest): Promise<JobPrice> {
  const logger = pino({ level: "warn" }, pino.destination({ fd: 2, sync: true }));
  const services = { clock: systemClock, logger, bodies: new BodyChecks(systemClock) };
  const { requestPrices } = (await new PricesOfRequests(services).open(x402)) ?? {};
  const prices = requestPrices?.get(jobKeyText(job.serviceId, job.jobIndex));
  if (prices === undefined) throw new Error("a job with prices by request has no prices");
  return prices.priceOf(asked);
}

function print(
  job: Job,
  { priceWei: amount, extra }: JobPrice,
  { from, upTo }: RequestPricing,
  x402: X402Config,
): void {
  console.log(`price: ${priceText({ unit: "usd", amount })} of ${priceText(from)} to ${priceText(upTo)}`);
  if (extra?.description !== undefined) console.log(`description: ${extra.description}`);
  const rates = new TokenRates(undefined);
  for (const token of new PayableTokens(x402.acceptedTokens, x402.jobs).of(job).for({ currency: "USD" }))
    console.log(`${token.symbol} on ${token.network}: ${amountIn(token, amount, rates)} units`);
}

/** Makes the request that the options describe, as jobgate would read it. */
async function requestFor(job: Job, x402: X402Config, options: RequestOptions): Promise<AskedRequest> {
  const { serviceId, jobIndex, route, input } = job;
  const body = options.body === undefined ? new Uint8Array() : await readBody(options.body);
  const headers = options.header.map(parseHeader);
  const isTyped = headers.some(([name]) => name === "content-type");
  if (body.length > 0 && !isTyped) headers.push(["content-type", input?.contentType ?? "application/json"]);
  const needsPath = route !== undefined && parameterNames(route).length > 0;
  if (needsPath && options.path === undefined)
    throw new Refusal([`--path is missing; expected the path of a request for ${route.path}`]);
  const path = options.path ?? route?.path ?? `/x402/jobs/${serviceId}/${jobIndex}`;
  const [method = "POST"] = route?.methods ?? [];
  const { query = "" } = options;
  if (!isPlainQuery(query))
    throw new Refusal([`--query is "${query}"; expected a percent-encoded query string, without #`]);
  const request = { method, path, query };
  const found = route && new JobRoutes(x402, ["x402"], []).find(path)?.get(method);
  if (needsPath && found?.params.length !== parameterNames(route).length)
    throw new Refusal([`--path is "${path}"; expected a path of ${route.path}`]);
  return {
    ...{ ...request, body, client: "", hash: "", params: found?.params ?? [] },
    headerValues: (name) => headers.flatMap(([one, value]) => (one === name ? value : [])),
  };
}
