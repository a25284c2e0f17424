import { expect, test } from "vitest";
import { pushTable } from "../../../src/parts/push/config.ts";
import { configOf, loadFiles } from "../../config/config-folder.ts";
import { testMistakes } from "../../config/mistake-cases.ts";

const KEY = `whsec_${Buffer.alloc(24, 1).toString("base64")}`;
const PRIVATE_KEY = `whsk_${Buffer.alloc(32, 1).toString("base64")}`;
const PUBLIC_KEY = `whpk_${Buffer.alloc(32, 1).toString("base64")}`;

const target = (url: string, secret?: string) =>
  `[[push]]\nurl = "${url}"\n${secret === undefined ? "" : `secret = ${secret}\n`}`;

testMistakes([
  {
    promise: "A target without URL is a mistake",
    toml: "[[push]] #!\nconcurrency = 1\n",
    keyPath: "push[0].url",
    message: /is missing/,
  },
  ...["http://runner.example.com/jobs", "http://203.0.113.5/", "http://[2001:db8::1]/"].map((url) => ({
    promise: `Pushing in the clear to ${url} is a mistake`,
    toml: `[[push]]\nsecret = "${KEY}"\nurl = "${url}" #!`,
    keyPath: "push[0].url",
    message: /uses http/,
  })),
  {
    promise: "Credentials in the clear are a mistake",
    toml: `[[push]]\nsecret = "${KEY}"\nurl = "http://user:password@10.0.0.1/" #!`,
    keyPath: "push[0].url",
    message: /credentials in the clear/,
  },
  {
    promise: "A target on another machine without secret is a mistake",
    toml: '[[push]] #!\nurl = "http://worker:8000/"\n',
    keyPath: "push[0].secret",
    message: /is missing/,
  },
  {
    promise: "A secret that is no key is a mistake",
    toml: '[[push]]\nurl = "http://127.0.0.1/"\nsecret = "whsec_no key" #!',
    keyPath: "push[0].secret",
    message: /whsec_ and base64/,
  },
  {
    promise: "A public key is a mistake",
    toml: `[[push]]\nurl = "http://127.0.0.1/"\nsecret = ["${KEY}", "${PUBLIC_KEY}"] #!`,
    keyPath: "push[0].secret[1]",
    message: /cannot sign/,
  },
  {
    promise: "An empty list of secrets is a mistake",
    toml: '[[push]]\nurl = "http://127.0.0.1/"\nsecret = [] #!',
    keyPath: "push[0].secret",
    message: /1 to 8/,
  },
]);

test("Targets on this machine need no secret; in a private network they need one, and no TLS", async () => {
  const toml = [
    target("http://127.0.0.1:8000/jobs"),
    target("http://localhost/"),
    ...["http://worker:8000/", "http://jobs.default.svc/", "http://192.168.1.2/", "http://[fd00::1]/"].map(
      (url) => target(url, `"${KEY}"`),
    ),
    target("https://runner.example.com/jobs?v=1", `["${KEY}", "${PRIVATE_KEY}"]`),
  ].join("");
  const push = pushTable.in(await configOf(toml)) ?? [];
  expect(push.map(({ url, secrets }) => [url, secrets.length])).toEqual([
    ["http://127.0.0.1:8000/jobs", 0],
    ["http://localhost/", 0],
    ["http://worker:8000/", 1],
    ["http://jobs.default.svc/", 1],
    ["http://192.168.1.2/", 1],
    ["http://[fd00::1]/", 1],
    ["https://runner.example.com/jobs?v=1", 2],
  ]);
  expect(push[0]).toEqual({
    url: "http://127.0.0.1:8000/jobs",
    jobIds: [],
    concurrency: 8,
    timeoutMs: 60_000,
    secrets: [],
  });
});

test("A short key is a warning", async () => {
  const result = await loadFiles(target("http://127.0.0.1/", '"whsec_c2hvcnQ="'));
  expect(result.ok && result.warnings.map(({ keyPath }) => keyPath)).toEqual(["push[0].secret"]);
});
