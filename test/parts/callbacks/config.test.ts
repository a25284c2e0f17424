import { expect, test } from "vitest";
import { buyersTable, callbacksTable } from "../../../src/parts/callbacks/config.ts";
import { configOf, TOKEN, X402 } from "../../config/config-folder.ts";
import { testMistakes } from "../../config/mistake-cases.ts";

const KEY = `whsec_${Buffer.alloc(24, 1).toString("base64")}`;
const PRIVATE_KEY = `whsk_${Buffer.alloc(32, 1).toString("base64")}`;
const callback = (url: string) =>
  `[[callbacks]]\nevents = ["dead_letter"]\nsecret = "${KEY}"\nurl = "${url}"`;

testMistakes([
  {
    promise: "Calling back in the clear is a mistake",
    toml: `${callback("http://ops.example.com/")} #!`,
    keyPath: "callbacks[0].url",
    message: /uses http/,
  },
  {
    promise: "Credentials in the URL are a mistake",
    toml: `${callback("https://ada:secret@ops.example.com/")} #!`,
    keyPath: "callbacks[0].url",
    message: /user name or password/,
  },
  {
    promise: "The same URL twice is a mistake",
    toml: `${callback("https://ops.example.com/")}\n${callback("https://ops.example.com")} #!`,
    keyPath: "callbacks[1].url",
    message: /one entry for each URL/,
  },
  {
    promise: "An unknown event is a mistake",
    toml: `[[callbacks]]\nurl = "https://ops.example.com/"\nsecret = "${KEY}"\nevents = ["refund"] #!`,
    keyPath: "callbacks[0].events[0]",
    message: /refund\.owed/,
  },
  {
    promise: "No secret is a mistake without [x402], which publishes the key",
    toml: '[[callbacks]] #!\nurl = "https://ops.example.com/"\nevents = ["dead_letter"]\n',
    keyPath: "callbacks[0].secret",
    message: /is missing/,
  },
  {
    promise: "A callback_key that is a shared secret is a mistake",
    toml: `callback_key = "${KEY}" #!`,
    keyPath: "callback_key",
    message: /whsk_/,
  },
]);

test("Operators' URLs may be private, and need no secret with [x402]", async () => {
  const toml = `callback_key = ["${PRIVATE_KEY}"]\n${X402}${TOKEN}
[[callbacks]]
url = "http://10.0.0.5:8000/hook"
events = ["call.finished", "dead_letter"]
`;
  const own = callbacksTable.in(await configOf(toml));
  expect(own?.keys).toEqual([PRIVATE_KEY]);
  expect(own?.endpoints).toEqual([
    { url: "http://10.0.0.5:8000/hook", events: ["call.finished", "dead_letter"], secrets: [] },
  ]);
});

test("Buyers may give URLs at port 443, unless [x402.callbacks] says otherwise", async () => {
  const own = async (callbacks: string) => buyersTable.in(await configOf(`${X402}${callbacks}${TOKEN}`));
  expect(await own("")).toEqual({ ports: [443], allowedAddresses: [] });
  expect(await own("callbacks.ports = [443, 8443]\n")).toMatchObject({ ports: [443, 8443] });
  expect(await own("callbacks.enabled = false\n")).toBeUndefined();
});
