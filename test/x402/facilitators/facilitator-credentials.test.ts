import { afterAll, beforeAll, expect, test } from "vitest";
import { RemoteFacilitator } from "../../../src/x402/facilitators/remote-facilitator.ts";
import { type HttpListener, listenHttp } from "../../helpers/http-listener.ts";

const REQUEST = { payload: { x402Version: 2 }, requirements: {} } as unknown as Parameters<
  RemoteFacilitator["verify"]
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

test("Credentials of the facilitator's URL travel in a header, and a reload replaces them", async () => {
  const url = `${listener.url.replace("http://", "http://user:p%40ss@")}/x402`;
  const facilitator = new RemoteFacilitator({ name: "facilitator", url, timeoutMs: 30_000 });
  expect(await facilitator.verify(REQUEST)).toEqual({ kind: "valid" });
  expect(await facilitator.settle(REQUEST)).toEqual({ kind: "refused", reason: "not today" });
  const authorization = `Basic ${Buffer.from("user:p@ss").toString("base64")}`;
  expect(seen.splice(0)).toEqual([
    ["/x402/verify", authorization],
    ["/x402/settle", authorization],
  ]);

  facilitator.reload({ url, headers: { authorization: "Bearer new" } });
  await facilitator.verify(REQUEST);
  expect(seen.splice(0)).toEqual([["/x402/verify", "Bearer new"]]);
});
