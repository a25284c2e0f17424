import type { JobBody } from "../../config/config.ts";
import { decimalText } from "../../core/amounts.ts";
import { NO_PARAMETERS, pathSchema, querySchema } from "../../core/parameters.ts";
import { type Route, takesBody } from "../../core/route.ts";
import { version } from "../../node/version.ts";
import { bodyExample } from "../../x402/jobs/job-body.ts";
import type { ListedJob } from "../../x402/jobs/listing.ts";
import {
  conditionsOf,
  hasCeiling,
  headersOf,
  jobTitle,
  optionText,
  type Seller,
} from "../../x402/jobs/seller.ts";
import { schemeOf } from "../../x402/wire/offer.ts";
import { CALL_SCHEMAS, callPaths } from "./call-operations.ts";
import { shortGuide } from "./guide.ts";
import { bodySchemas, mediaSchema } from "./media-schema.ts";
import { components, SCHEMAS } from "./openapi-components.ts";

/** Name of the protocol, and of its payment method. */
const X402 = "x402";
const NONE = { paths: {} };
/** Most categories that the discovery draft allows a service. */
const MAX_CATEGORIES = 5;

/** Renders `GET /openapi.json`: one operation for each job, and the operations of the shop's features. */
export function* openApi(jobs: readonly ListedJob[], seller: Seller): Iterable<string> {
  const { publicUrl, title, contact, termsOfService, features } = seller;
  const protocols = ["x402", ...features.flatMap(({ protocol }) => protocol ?? [])];
  const head = {
    openapi: "3.1.0",
    info: {
      title,
      version,
      contact: contact && contactOf(contact),
      termsOfService,
      "x-guidance": shortGuide(seller),
      description: `Jobs for sale over ${protocols.join(" and ")}. Each paid request buys one run of a job; the 402 has the offers.`,
    },
    "x-service-info": {
      categories: [...new Set(jobs.flatMap(({ tags = [] }) => tags))].slice(0, MAX_CATEGORIES),
      docs: {
        homepage: `${publicUrl}/`,
        apiReference: `${publicUrl}/openapi.json`,
        llms: `${publicUrl}/llms.txt`,
      },
    },
    "x-agentcash-guidance": { llmsTxtUrl: `${publicUrl}/llms.txt` },
    servers: [{ url: publicUrl }],
    // Buyers need no account. Routes of paid calls describe how the payer authenticates.
    security: [],
  };
  yield `${JSON.stringify(head).slice(0, -1)},"paths":{`;
  let comma = "";
  for (const [path, operations] of operationsByPath(jobs, seller)) {
    yield `${comma}${JSON.stringify(path)}:${JSON.stringify(operations)}`;
    comma = ",";
  }
  for (const { paths } of [
    { paths: callPaths(features) },
    ...features.map(({ openApi = NONE }) => openApi),
  ]) {
    for (const [path, operations] of Object.entries(paths)) {
      yield `${comma}${JSON.stringify(path)}:${JSON.stringify(operations)}`;
      comma = ",";
    }
  }
  const schemas = Object.assign(
    {},
    SCHEMAS,
    CALL_SCHEMAS,
    ...features.map(({ openApi }) => openApi?.schemas),
  );
  yield `},"components":${JSON.stringify(components(seller)).slice(0, -1)},"schemas":${JSON.stringify(schemas).slice(0, -1)}`;
  for (const job of jobs) {
    for (const [place, body] of [
      [bodyName(job, "input"), job.input],
      [bodyName(job, "output"), job.output],
    ] as const) {
      if (body?.schema === undefined) continue;
      for (const [name, schema] of bodySchemas(place, body))
        yield `,${JSON.stringify(name)}:${JSON.stringify(schema)}`;
    }
  }
  yield "}}}";
}

/** Yields the operations of each path. Several jobs can be sold at one path, by different methods. */
function* operationsByPath(jobs: readonly ListedJob[], seller: Seller): Iterable<[path: string, object]> {
  const routed = new Map<string, ListedJob[]>();
  for (const job of jobs) {
    const path = pathOf(job);
    if (job.route === undefined) yield [path, { post: operation(job, "POST", seller) }];
    else routed.set(path, [...(routed.get(path) ?? []), job]);
  }
  for (const [path, sold] of routed) {
    const operations = sold.flatMap((job) =>
      (job.route?.methods ?? []).map((method) => [method.toLowerCase(), operation(job, method, seller)]),
    );
    yield [path, Object.fromEntries(operations)];
  }
}

function operation(job: ListedJob, method: string, seller: Seller) {
  const { description, tags, input, onFailure, mode, route, parameters } = job;
  const isOneOfSeveral = route !== undefined && route.methods.length > 1;
  const hasBody = takesBody(method);
  const { range } = job.price ?? {};
  const conditions = conditionsOf(job, seller);
  return {
    operationId: isOneOfSeveral ? `${operationId(job)}_${method.toLowerCase()}` : operationId(job),
    summary: jobTitle(job),
    description,
    tags,
    "x-max-run-secs": job.maxRunSecs,
    "x-max-body-bytes": job.maxBodyBytes,
    "x-max-result-bytes": job.maxResultBytes,
    "x-store-answers": job.storeAnswers,
    "x-on-failure": onFailure,
    "x-charge": job.charge,
    "x-conditions": conditions.length > 0 ? conditions : undefined,
    "x-restricted": mode === "restricted_paid" || undefined,
    "x-payment-info": paymentInfo(job, seller),
    parameters: [
      ...parametersOf(job),
      ...headersOf({ range, access: job.access }).map(([name, description]) => ({
        ...{
          name,
          in: "header",
          required: job.access?.headers?.[name] !== undefined || range?.needsHeaders === true,
        },
        ...{ description, schema: { type: "string" } },
      })),
      { $ref: "#/components/parameters/Payment" },
      { $ref: "#/components/parameters/Prefer" },
    ],
    requestBody: hasBody ? requestBody(job, input) : undefined,
    responses: {
      ...results(job),
      202: { $ref: "#/components/responses/Accepted" },
      402: { $ref: "#/components/responses/PaymentRequired" },
      422: (input?.schema ?? parameters) && { $ref: "#/components/responses/Refused" },
      default: { $ref: "#/components/responses/Refused" },
    },
  };
}

/**
 * Returns the responses that hold the result. At a route, the runner chooses the status of the response. Generated
 * clients do not read responses whose status is not listed.
 */
function results(job: ListedJob) {
  const { output, route, waitSecs } = job;
  const result = {
    description: `The result${waitSecs === undefined ? ", to a request that prefers to wait for it" : ""}`,
    content: contentOf(output, bodyName(job, "output")),
  };
  return route === undefined ? { 200: result } : { 200: result, "2XX": result };
}

function parametersOf({ route, parameters = NO_PARAMETERS }: ListedJob) {
  if (route === undefined) return [];
  const places = [
    ["path", pathSchema(route, parameters)],
    ["query", querySchema(route, parameters)],
  ] as const;
  return places.flatMap(([place, { properties, required }]) =>
    Object.entries(properties).map(([name, schema]) => ({
      name,
      in: place,
      required: required.includes(name),
      description: isRest(route, place, name) ? "Segments of the path, joined by / as it is" : undefined,
      schema,
    })),
  );
}

function isRest({ segments }: Route, place: string, name: string): boolean {
  return place === "path" && segments.some((one) => one.kind === "rest" && one.name === name);
}

function requestBody(job: ListedJob, input: ListedJob["input"]) {
  const content = contentOf(input, bodyName(job, "input"));
  return input === undefined ? { content } : { required: true, content };
}

/** @param name name of the body's schema, if it has one */
function contentOf(body: JobBody | undefined, name: string) {
  if (body === undefined) return { "*/*": { schema: mediaSchema() } };
  const { contentType, schema } = body;
  return {
    [contentType]: {
      schema: schema === undefined ? mediaSchema(contentType) : { $ref: `#/components/schemas/${name}` },
      example: bodyExample(body),
    },
  };
}

function contactOf(contact: string): { readonly email: string } | { readonly url: string } {
  return contact.includes("://") ? { url: contact } : { email: contact };
}

/**
 * Returns the price and the protocols in the form that discovery libraries read, and the offers in the form of the
 * discovery draft.
 */
function paymentInfo(job: ListedJob, seller: Seller) {
  const offers = paymentOffers(job, seller);
  // The offers name their schemes, so a single entry describes x402, with the scheme that most clients pay.
  const schemes = offers.flatMap(({ protocol, scheme }) => (protocol === X402 ? scheme : []));
  const scheme = schemes.find((one) => one === "exact") ?? schemes[0];
  const others = offers.flatMap(({ protocol, method, intent, currency = "" }) =>
    protocol === X402 ? [] : JSON.stringify({ [protocol]: { method, intent, currency } }),
  );
  const protocols = [{ x402: { scheme } }, ...[...new Set(others)].map((one): object => JSON.parse(one))];
  return {
    price: discoveryPrice(job),
    protocols,
    offers: offers.map(({ protocol: _, ...offer }) => offer),
  };
}

/** Returns the price in dollars as discovery libraries read it. A ceiling is shown as a range that ends at the ceiling. */
export function discoveryPrice(job: Pick<ListedJob, "price" | "charge">) {
  if (job.price?.currency !== "USD") return undefined;
  const { priceWei, currency, range } = job.price;
  const isCeiling = hasCeiling(job);
  const amount = decimalText(range?.upTo.amount ?? priceWei, 18);
  if (range === undefined && !isCeiling) return { mode: "fixed", currency, amount };
  return {
    mode: "dynamic",
    currency,
    min: isCeiling ? "0" : decimalText(range?.from.amount ?? priceWei, 18),
    max: amount,
    description: range?.rule,
  };
}

/** Each offer has an amount of null while the amount is not known. */
function paymentOffers({ offers, price, schemes }: ListedJob, { features }: Seller) {
  if (offers.length === 0)
    return schemes.map((scheme) => ({
      ...{
        protocol: X402,
        intent: "charge",
        method: X402,
        scheme,
        amount: null,
      },
      currency: undefined,
    }));
  return offers.flatMap((offer) => {
    const others = features.flatMap(({ protocol, methodFor }) => {
      const method = methodFor?.(offer);
      return protocol === undefined || method === undefined
        ? []
        : { protocol: protocol.toLowerCase(), method };
    });
    return [{ protocol: X402, method: X402 }, ...others].map(({ protocol, method }) => ({
      protocol,
      intent: "charge",
      method,
      scheme: schemeOf(offer),
      amount: price?.range === undefined ? offer.amount : null,
      currency: offer.token.asset,
      network: offer.token.network,
      description: optionText(offer),
    }));
  });
}

/** Name of the operation. */
function operationId({ name, serviceId, jobIndex }: ListedJob): string {
  return name ?? `job_${serviceId}_${jobIndex}`;
}

/** Name of the schema of a body. It has a `_`, which no other schema's name and no job's name has. */
function bodyName(job: ListedJob, body: "input" | "output"): string {
  return `${operationId(job)}_${body}`;
}

/** OpenAPI has no parameter of several segments, so `{name...}` is described as a parameter `name`. */
function pathOf({ serviceId, jobIndex, route }: ListedJob): string {
  return route === undefined ? `/x402/jobs/${serviceId}/${jobIndex}` : route.path.replace("...}", "}");
}
