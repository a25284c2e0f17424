import type { Feature, Seller } from "../../x402/jobs/seller.ts";

const REFUSAL = {
  type: "object",
  properties: {
    error: { type: "string", description: "What is wrong, and what to do" },
    code: { type: "string" },
    charged: { oneOf: [{ type: "boolean" }, { type: "string", enum: ["unknown"] }] },
    retryable: { type: "boolean", description: "The same request can succeed later" },
  },
  required: ["error", "code"],
};

const text = { type: "string" };

/** Further schemas. Names of the schemas of jobs' bodies begin with a small letter. */
export const SCHEMAS = {
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

export const components = ({ features }: Seller) => ({
  securitySchemes: {
    AccessToken: { type: "http", scheme: "bearer", description: "`access_token` of the 202 answer" },
    ...Object.assign({}, ...features.map(({ openApi }) => openApi?.securitySchemes)),
  },
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
