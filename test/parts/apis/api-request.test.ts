import { expect, test } from "vitest";
import { requestOf } from "../../../src/parts/apis/api-request.ts";

const API = { headers: { "x-api-key": "secret" }, publicUrl: "https://shop.example" };

function requestWith(metadata: Readonly<Record<string, string>>, body = "") {
  return requestOf({ callId: 7, attempt: 1, body: Buffer.from(body), metadata }, API);
}

test("A request has method, path, query and forwarded headers of the client, and the headers of the API", () => {
  const { method, target, headers, body } = requestWith({
    "X-HTTP-METHOD": "GET",
    "X-HTTP-PATH": "/weather/S%C3%A3o%20Paulo",
    "X-HTTP-QUERY": "units=%4Detric",
    "X-HTTP-PARAM-CITY": "São Paulo",
    "X-HTTP-ACCEPT": "application/json",
    "X-X402-PAYER": "0xabc",
    "X-FORWARDED-FOR": "192.0.2.1",
  });
  expect({ method, target, body }).toEqual({
    method: "GET",
    target: "/weather/S%C3%A3o%20Paulo?units=%4Detric",
    body: undefined,
  });
  expect(headers).toEqual({
    accept: "application/json",
    "x-api-key": "secret",
    "x-forwarded-for": "192.0.2.1",
    "x-forwarded-proto": "https",
    "x-forwarded-host": "shop.example",
    "idempotency-key": "7",
    "x-jobgate-call-id": "7",
    "x-jobgate-attempt": "1",
    "x-jobgate-payer": "0xabc",
  });
});

test("A header of the API replaces the client's header", () => {
  expect(requestWith({ "X-HTTP-X-API-KEY": "guess" }).headers["x-api-key"]).toBe("secret");
});

test("A header whose name servers may read differently is left out", () => {
  expect(Object.keys(requestWith({ "X-HTTP-X_API_KEY": "guess" }).headers)).not.toContain("x_api_key");
});

test("A value has the characters of its metadata, one for each byte", () => {
  expect(requestWith({ "X-HTTP-X-NAME": "\u00e9 Ã¼" }).headers["x-name"]).toBe("\u00e9 Ã¼");
});

test("An empty body is sent with POST and left out with DELETE", () => {
  expect(requestWith({ "X-HTTP-METHOD": "POST" }).body).toHaveLength(0);
  expect(requestWith({ "X-HTTP-METHOD": "DELETE" }).body).toBeUndefined();
});
