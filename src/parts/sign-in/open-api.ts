const text = { type: "string" };
const anyObject = { type: "object", additionalProperties: true };
const refusal = { $ref: "#/components/schemas/Refusal" };

const refusedBy = (status: number) => ({ [status]: { $ref: "#/components/responses/Refused" } });

/** `GET /x402/calls`. The route is free. It answers 402 because that makes x402 clients sign in. */
const LIST_CALLS = {
  operationId: "list_calls",
  summary: "List your own calls",
  description: "Lists the calls that the signed-in account paid for, newest first.",
  parameters: [
    {
      name: "SIGN-IN-WITH-X",
      in: "header",
      description: "Signed challenge (CAIP-122), JSON in base64. Without it the answer is 402.",
      schema: text,
    },
    {
      name: "before",
      in: "query",
      description: "Query of `next` on the page before",
      schema: { type: "integer", minimum: 1 },
    },
  ],
  security: [{ SignIn: [] }],
  responses: {
    200: {
      description: "One page of calls; it can be short or empty even if more pages follow.",
      content: {
        "application/json": {
          schema: {
            type: "object",
            properties: {
              calls: { type: "array", items: { $ref: "#/components/schemas/Call" } },
              next: { ...text, description: "Path of the next page; absent on the last page" },
            },
            required: ["calls"],
          },
        },
      },
    },
    402: {
      description: "Sign in: sign the challenge. There is nothing to pay.",
      headers: {
        "PAYMENT-REQUIRED": {
          description: "JSON in base64, with the challenge in extensions['sign-in-with-x']",
          schema: text,
        },
      },
      content: { "application/json": { schema: refusal } },
    },
    ...refusedBy(400),
    ...refusedBy(403),
    ...refusedBy(409),
    ...refusedBy(429),
    ...refusedBy(503),
    default: { $ref: "#/components/responses/Refused" },
  },
};

const SCHEMAS = {
  Call: {
    type: "object",
    properties: {
      call_id: { $ref: "#/components/schemas/CallId" },
      state: { ...text, enum: ["queued", "running", "succeeded", "failed"] },
      reason: { ...text, description: "Why it failed" },
      status: { type: "integer", description: "HTTP status of its result, if the runner named one" },
      service_id: { type: "integer" },
      job_index: { type: "integer" },
      enqueued_at: { ...text, format: "date-time" },
      finished_at: { ...text, format: "date-time" },
      payment: {
        type: "object",
        properties: {
          network: { ...text, description: "CAIP-2" },
          ...{ asset: text, symbol: text, transaction: text },
          amount: { ...text, description: "Base units" },
        },
        required: ["network", "asset", "symbol", "amount"],
      },
      charge: { ...anyObject, description: "Charge of a call that is charged after it ran" },
      refund: anyObject,
      access_token: { ...text, description: "Bearer token of the links" },
      links: { $ref: "#/components/schemas/Links" },
    },
    required: [
      ...["call_id", "state", "service_id", "job_index", "enqueued_at", "payment", "access_token", "links"],
    ],
  },
};

/** OpenAPI description of the list of a payer's calls. It refers to schemas and responses that every shop has. */
export const OPEN_API = {
  paths: { "/x402/calls": { get: LIST_CALLS } },
  schemas: SCHEMAS,
  securitySchemes: {
    SignIn: {
      type: "apiKey",
      in: "header",
      name: "SIGN-IN-WITH-X",
      description: "A challenge that the payer has signed",
      // Discovery libraries recognise a sign-in by this key.
      "x-agentcash-auth-kind": "siwx",
    },
  },
};
