import { afterAll, beforeAll, expect, test } from "vitest";
import { Facilitator } from "../../../src/x402/settlement/facilitator.ts";
import { type HttpListener, listenHttp } from "../../helpers/http-listener.ts";

const REQUEST = { payload: { x402Version: 2 }, requirements: {} } as unknown as Parameters<
  Facilitator["verify"]
>[0];

let listener: HttpListener;
const seen: (readonly [path: string | undefined, authorization: string | undefined])[] = [];
beforeAll(async () => {
  listener = await listenHttp({
    handler: (request, response) => {
      seen.push([request.url, request.headers.authorization]);
      response.end(JSON.stringify({ isValid: true, success: false, errorReason: "not today" }));
    },
  });
});
afterAll(() => listener?.stop());

test("Credentials of the facilitator's URL travel in a header, to verify and to settle", async () => {
  const url = `${listener.url.replace("http://", "http://user:p%40ss@")}/x402`;
  const facilitator = new Facilitator({ url, timeoutMs: 1_000 });
  expect(await facilitator.verify(REQUEST)).toEqual({ kind: "valid" });
  expect(await facilitator.settle(REQUEST)).toEqual({ kind: "refused", reason: "not today" });
  const authorization = `Basic ${Buffer.from("user:p@ss").toString("base64")}`;
  expect(seen).toEqual([
    ["/x402/verify", authorization],
    ["/x402/settle", authorization],
  ]);
});
