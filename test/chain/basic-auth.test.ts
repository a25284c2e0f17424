import { expect, test } from "vitest";
import { splitCredentials } from "../../src/chain/basic-auth.ts";

const basic = (credentials: string) => `Basic ${Buffer.from(credentials).toString("base64")}`;

test.each([
  ["https://user:pass@rpc.example.com/v1?chain=1", "https://rpc.example.com/v1?chain=1", "user:pass"],
  ["https://user:pass@rpc.example.com/v1/?key=a/", "https://rpc.example.com/v1/?key=a/", "user:pass"],
  ["https://user@rpc.example.com", "https://rpc.example.com", "user:"],
  ["https://:key@rpc.example.com", "https://rpc.example.com", ":key"],
  ["https://us%3Aer:p%40s%C3%A4@rpc.example.com", "https://rpc.example.com", "us:er:p@sä"],
  ["https://user:100%@rpc.example.com", "https://rpc.example.com", "user:100%"],
])("%s becomes a URL and a header that fetch accepts", (withCredentials, url, credentials) => {
  expect(splitCredentials(withCredentials)).toEqual({ url, headers: { authorization: basic(credentials) } });
});

test("A URL without credentials stays as it is", () => {
  const url = "https://rpc.example.com/v1/";
  expect(splitCredentials(url)).toEqual({ url, headers: {} });
});
