import type { Feature } from "../../x402/jobs/seller.ts";

const text = { type: "string" };
const parameters = [
  {
    name: "call_id",
    in: "path",
    required: true,
    schema: { $ref: "#/components/schemas/CallId" },
  },
];
const REFUSALS = {
  ...Object.fromEntries(
    [401, 404, 410, 429].map((status) => [status, { $ref: "#/components/responses/Refused" }]),
  ),
  default: { $ref: "#/components/responses/Refused" },
};

/** Returns the operations of a paid call, for the holder of its access token, and for its authenticated payer. */
export function callPaths(features: readonly Feature[]) {
  const schemes = [
    "AccessToken",
    ...features.flatMap(({ openApi }) => Object.keys(openApi?.securitySchemes ?? {})),
  ];
  const security = schemes.map((name) => ({ [name]: [] }));
  const get = (operation: { readonly responses: object }) => ({
    get: { ...operation, parameters, security, responses: { ...operation.responses, ...REFUSALS } },
  });
  return {
    "/x402/calls/{call_id}": get({
      ...{ operationId: "get_call", summary: "State of a call" },
      responses: {
        200: {
          description: "The state of the call",
          content: { "application/json": { schema: { $ref: "#/components/schemas/CallState" } } },
        },
      },
    }),
    "/x402/calls/{call_id}/result": get({
      ...{ operationId: "get_result", summary: "Result of a call" },
      responses: {
        200: {
          description: "The result, in the media type of its job",
          content: { "*/*": { schema: { ...text, format: "binary" } } },
        },
      },
    }),
    "/x402/calls/{call_id}/events": get({
      ...{ operationId: "get_events", summary: "Events of a call, until it has ended" },
      responses: {
        200: { description: "Server-sent events", content: { "text/event-stream": { schema: text } } },
      },
    }),
  };
}

/** Schemas that {@link callPaths} names. */
export const CALL_SCHEMAS = {
  CallState: {
    type: "object",
    properties: {
      call_id: { $ref: "#/components/schemas/CallId" },
      state: { ...text, enum: ["queued", "running", "succeeded", "failed"] },
      attempt: { type: "integer", description: "Number of the run" },
      progress: { type: "object", properties: { percent: { type: "number" }, text } },
      reason: { ...text, description: "Why it failed" },
      status: { type: "integer", description: "HTTP status of its result, if the runner named one" },
      charge: { type: "object", additionalProperties: true, description: "Charge after the run" },
      enqueued_at: { ...text, format: "date-time" },
      finished_at: { ...text, format: "date-time" },
    },
    required: ["call_id", "state", "attempt", "enqueued_at"],
  },
};
