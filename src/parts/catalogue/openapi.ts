import { decimalText } from "../../core/amounts.ts";
import { NO_PARAMETERS, pathSchema, querySchema } from "../../core/parameters.ts";
import { takesBody } from "../../core/route.ts";
import { version } from "../../node/version.ts";
import { inputExample } from "../../x402/jobs/job-input.ts";
import type { ListedJob } from "../../x402/jobs/listing.ts";
import { type Feature, jobTitle, optionText, type Seller } from "../../x402/jobs/seller.ts";
import { schemeOf } from "../../x402/wire/offer.ts";
import { bodySchemas, mediaSchema } from "./media-schema.ts";

/** Name of the protocol, and of its payment method. */
const X402 = "x402";
const NONE = { paths: {} };
/** Most categories that the discovery draft allows a service. */
const MAX_CATEGORIES = 5;

/** Renders `GET /openapi.json`: one operation for each job, and the operations of the shop's features. */
export function* openApi(jobs: readonly ListedJob[], seller: Seller): Iterable<string> {
  const { publicUrl, serviceName, features } = seller;
  const protocols = ["x402", ...features.flatMap(({ protocol }) => protocol ?? [])];
  const head = {
    openapi: "3.1.0",
    info: {
      title: serviceName,
      version,
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
    servers: [{ url: publicUrl }],
  };
  yield `${JSON.stringify(head).slice(0, -1)},"paths":{`;
  let comma = "";
  for (const [path, operations] of operationsByPath(jobs, seller)) {
    yield `${comma}${JSON.stringify(path)}:${JSON.stringify(operations)}`;
    comma = ",";
  }
  for (const { openApi: { paths } = NONE } of features) {
    for (const [path, operations] of Object.entries(paths)) {
      yield `${comma}${JSON.stringify(path)}:${JSON.stringify(operations)}`;
      comma = ",";
    }
  }
  const schemas = Object.assign({}, SCHEMAS, ...features.map(({ openApi }) => openApi?.schemas));
  yield `},"components":${JSON.stringify(components(seller)).slice(0, -1)},"schemas":${JSON.stringify(schemas).slice(0, -1)}`;
  for (const job of jobs) {
    if (job.input?.schema === undefined) continue;
    for (const [name, schema] of bodySchemas(operationId(job), job.input))
      yield `,${JSON.stringify(name)}:${JSON.stringify(schema)}`;
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
  return {
    operationId: isOneOfSeveral ? `${operationId(job)}_${method.toLowerCase()}` : operationId(job),
    summary: jobTitle(job),
    description,
    tags,
    "x-max-run-secs": job.maxRunSecs,
    "x-max-result-bytes": job.maxResultBytes,
    "x-store-answers": job.storeAnswers,
    "x-on-failure": onFailure,
    "x-restricted": mode === "restricted_paid" || undefined,
    "x-payment-info": paymentInfo(job, seller),
    parameters: [
      ...parametersOf(job),
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

/** The result, whose status the runner chooses at a route: generated clients read no answer of a status that is not listed. */
function results({ output, route, waitSecs }: ListedJob) {
  const result = {
    description: `The result${waitSecs === undefined ? ", to a request that prefers to wait for it" : ""}`,
    content: { [output?.contentType ?? "*/*"]: { schema: mediaSchema(output?.contentType) } },
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
      schema,
    })),
  );
}

function requestBody(job: ListedJob, input: ListedJob["input"]) {
  if (input === undefined) return { content: { "*/*": { schema: mediaSchema() } } };
  return {
    required: true,
    content: {
      [input.contentType]: {
        schema:
          input.schema === undefined
            ? mediaSchema(input.contentType)
            : { $ref: `#/components/schemas/${operationId(job)}` },
        example: inputExample(input),
      },
    },
  };
}

/** Price and protocols as discovery libraries read them, and the features to pay as the discovery draft has them. */
function paymentInfo(job: ListedJob, seller: Seller) {
  const offers = paymentOffers(job, seller);
  const protocols = offers.map(({ protocol, method, scheme, intent, currency = "" }) =>
    protocol === X402 ? { x402: { scheme } } : { [protocol]: { method, intent, currency } },
  );
  const isCeiling = offers.every(({ scheme }) => scheme !== "exact");
  const price = job.price && discoveryPrice(job.price, isCeiling);
  // The offers have their schemes, so that one entry tells of x402.
  const keys = protocols.map((one) => ("x402" in one ? X402 : JSON.stringify(one)));
  const different = protocols.filter((_, i) => keys.indexOf(keys[i] ?? "") === i);
  return { price, protocols: different, offers: offers.map(({ protocol: _, ...offer }) => offer) };
}

/** A ceiling is a range up to itself. */
function discoveryPrice({ priceWei, currency, range }: NonNullable<ListedJob["price"]>, isCeiling: boolean) {
  if (currency !== "USD") return undefined;
  const amount = decimalText(range?.upTo.amount ?? priceWei, 18);
  if (range !== undefined && !isCeiling)
    return {
      mode: "dynamic",
      currency,
      min: decimalText(range.from.amount, 18),
      max: amount,
      description: range.rule,
    };
  return isCeiling
    ? { mode: "dynamic", currency, min: "0", max: amount }
    : { mode: "fixed", currency, amount };
}

/** Each offer has an amount of null while it is not known. */
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

/** Name of the operation, and of the input's schema. */
function operationId({ name, serviceId, jobIndex }: ListedJob): string {
  return name ?? `job_${serviceId}_${jobIndex}`;
}

/** OpenAPI has no parameter of several segments: that of `{name...}` is one by its name. */
function pathOf({ serviceId, jobIndex, route }: ListedJob): string {
  return route === undefined ? `/x402/jobs/${serviceId}/${jobIndex}` : route.path.replace("...}", "}");
}

const REFUSAL = {
  type: "object",
  properties: {
    error: { type: "string", description: "What is wrong, and what to do" },
    code: { type: "string" },
    charged: { oneOf: [{ type: "boolean" }, { type: "string", enum: ["unknown"] }] },
    retryable: { type: "boolean", description: "The very same request can succeed later" },
  },
  required: ["error", "code"],
};

const text = { type: "string" };

/** Schemas besides those of inputs, whose names begin with a small letter. */
const SCHEMAS = {
  CallId: { type: "integer", minimum: 1 },
  Links: { type: "object", properties: { self: text, result: text, events: text } },
  Refusal: REFUSAL,
  Accepted: {
    type: "object",
    properties: {
      status: { type: "string", const: "accepted" },
      payment: {
        type: "string",
        const: "authorized",
        description: "Charged once the job is done; else absent",
      },
      call_id: { $ref: "#/components/schemas/CallId" },
      access_token: { type: "string", description: "Bearer token of the call's routes" },
      links: { $ref: "#/components/schemas/Links" },
    },
    required: ["status", "call_id", "access_token", "links"],
  },
};

const refusal = { $ref: "#/components/schemas/Refusal" };

const header = (description: string) => ({ description, schema: { type: "string" } });

function headersOf(features: readonly Feature[], answer: "accepted" | "paymentRequired"): object {
  const headers = features.flatMap((feature) => Object.entries(feature.headers?.[answer] ?? {}));
  return Object.fromEntries(headers.map(([name, description]) => [name, header(description)]));
}

const components = ({ features }: Seller) => ({
  parameters: {
    Payment: {
      name: "PAYMENT-SIGNATURE",
      in: "header",
      description:
        "Signed x402 payment for one of the offers in PAYMENT-REQUIRED. Without it the answer is 402.",
      schema: { type: "string" },
    },
    Prefer: {
      name: "Prefer",
      in: "header",
      description: "wait=N waits up to N seconds for the result.",
      schema: { type: "string" },
      example: "wait=30",
    },
  },
  responses: {
    Accepted: {
      description: "Paid, or to be paid once the job is done. The job is stored and will run.",
      headers: {
        ...headersOf(features, "accepted"),
        "PAYMENT-RESPONSE": header("Settlement, JSON in base64, once there is one"),
        Location: header("State of the call"),
      },
      content: { "application/json": { schema: { $ref: "#/components/schemas/Accepted" } } },
    },
    PaymentRequired: {
      description: "Payment required. Sign one of the offers and send the request again.",
      headers: {
        ...headersOf(features, "paymentRequired"),
        "PAYMENT-REQUIRED": header("Offers (x402 version 2), JSON in base64"),
      },
      content: { "application/json": { schema: refusal } },
    },
    Refused: {
      description: "Refused. Nothing was charged unless `charged` says otherwise.",
      content: { "application/json": { schema: refusal } },
    },
  },
});
