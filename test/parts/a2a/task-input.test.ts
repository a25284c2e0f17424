import { expect, it, test } from "vitest";
import { parseRoute, type Route } from "../../../src/core/route.ts";
import type { SentPart } from "../../../src/parts/a2a/params.ts";
import { hashOf, inputOf } from "../../../src/parts/a2a/task-input.ts";
import type { ListedJob } from "../../../src/x402/jobs/listing.ts";

const jobOf = (change: object = {}) => ({ serviceId: 1n, jobIndex: 2, ...change }) as unknown as ListedJob;
const atRoute = (text: string, change: object = {}) => jobOf({ route: parseRoute(text) as Route, ...change });

type Sent = Partial<SentPart>[];

const requestOf = (sent: Sent, job: ListedJob) =>
  inputOf(
    sent.map((part) => ({ mediaType: undefined, ...part })),
    job,
  );

function shown(parts: Sent, job: ListedJob): string {
  const { method, path, query, body, contentType } = requestOf(parts, job);
  return [method, `${path}?${query}`, contentType, Buffer.from(body).toString()].filter(Boolean).join(" ");
}

test.each<[sent: Sent, job: ListedJob, request: string]>([
  [[{ text: "a" }], jobOf(), "POST /x402/jobs/1/2? text/plain; charset=utf-8 a"],
  [
    [{ text: '{"a":1}' }],
    jobOf({ input: { contentType: "application/json" } }),
    'POST /x402/jobs/1/2? application/json {"a":1}',
  ],
  [
    [{ data: { path: { city: "Paris" }, query: { units: "c" } } }],
    atRoute("GET|POST /weather/{city}"),
    "GET /weather/Paris?units=c",
  ],
  [
    [{ data: { path: { city: "Paris" }, body: { a: 1 } } }],
    atRoute("GET|POST /weather/{city}"),
    'POST /weather/Paris? application/json {"a":1}',
  ],
  [[{ data: {} }], atRoute("GET /weather"), "GET /weather?"],
  [
    [{ text: "a,b" }],
    atRoute("POST /rows", { input: { contentType: "text/csv" } }),
    "POST /rows? text/csv a,b",
  ],
])("The parts %j of a message make the request of their job", (sent, job, request) => {
  expect(shown(sent, job)).toBe(request);
});

test.each<[sent: Sent, route: string, message: string]>([
  [[{ data: {} }], "GET /weather/{city}", "message.parts[0].data.path.city: is missing."],
  [[{ data: { city: "Paris" } }], "GET /weather/{city}", 'message.parts[0].data: Unrecognized key: "city".'],
  [[{ data: { body: 1 } }], "GET /weather", "message.parts[0].data.body: this job takes none."],
  [[{ text: "a" }], "POST /weather/{city}", "message.parts[0].path.city: is missing."],
])("The parts %j are no request of %s", (sent, route, message) => {
  expect(() => requestOf(sent, atRoute(route))).toThrow(message);
});

it("Two requests that differ in anything have different hashes", () => {
  const sent: [Sent, ListedJob][] = [
    [[{ text: "a" }], jobOf()],
    [[{ text: "b" }], jobOf()],
    [[{ text: "a" }], jobOf({ jobIndex: 3 })],
    [[{ text: "a" }], jobOf({ input: { contentType: "text/csv" } })],
    [[{ data: {} }], atRoute("GET /a")],
    [[{ data: { query: { a: 1 } } }], atRoute("GET /a")],
    [[{ data: {} }], atRoute("DELETE /a")],
  ];
  const hashes = sent.map(([parts, job]) => hashOf(requestOf(parts, job)));
  expect(new Set(hashes).size).toBe(sent.length);
});
