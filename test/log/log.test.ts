import { spawnSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { type LogFormat, openLog, secretsOf } from "../../src/log/log.ts";

import { bundledScript } from "../helpers/bundle.ts";

function capture() {
  const lines: string[] = [];
  const destination = { write: (line: string) => void lines.push(line) };
  const written = () => lines.join("");
  const log = openLog({ level: "trace", format: "json", destination });
  return { ...log, written, line: () => JSON.parse(written()) as Record<string, unknown> };
}

it("Every line has the ID of its process, which tells replicas apart", () => {
  const instanceOf = (line: string) => (JSON.parse(line) as { instance: string }).instance;
  const [one, other] = [capture(), capture()].map(({ logger, written }) => {
    logger.info("first");
    logger.child({ subscriber: "runner" }).warn({ request: "r1" }, "second");
    return written().trim().split("\n").map(instanceOf);
  });
  expect(one).toEqual([one?.[0], one?.[0]]);
  expect(one?.[0]).toMatch(/^[0-9a-f]{8}$/);
  expect(other?.[0]).not.toBe(one?.[0]);
});

it("Lines about a paid job have its name, also once the names have changed", () => {
  const { logger, nameJobs, written } = capture();
  const about = { job: "1/0", origin: "x402" };
  const write = () => {
    logger.info(about, "paid");
    logger.child({ request: "r1" }).warn({ job: "1/0" }, "refused");
    logger.info({ job: "1/1" }, "another job");
    logger.info({ ...about, origin: "webhook" }, "a webhook with these numbers");
    logger.info({ ...about, jobName: "own" }, "named by its writer");
  };
  write();
  nameJobs(new Map([["1/0", "render"]]));
  write();
  nameJobs(new Map([["1/0", "Render it"]]));
  write();
  const names = written()
    .trim()
    .split("\n")
    .map((line) => (JSON.parse(line) as { jobName?: string }).jobName);
  expect(names).toEqual([
    ...[undefined, undefined, undefined, undefined, "own"],
    ...["render", "render", undefined, undefined, "own"],
    ...["Render it", "Render it", undefined, undefined, "own"],
  ]);
});

describe("The log hides", () => {
  it("a known secret in a field, a message, an error, its stack or its cause, with quotes too", () => {
    const { logger, hide, written } = capture();
    hide(["hunter2-hunter2", 'quo"ted\\secret']);
    const cause = new Error('it said quo"ted\\secret');
    logger.error(
      { err: new Error("no hunter2-hunter2", { cause }), deep: { list: ["hunter2-hunter2"] } },
      "is hunter2-hunter2 right?",
    );
    logger.child({ subscriber: "hunter2-hunter2" }).warn("child");
    expect(written()).not.toMatch(/hunter2|ted\\/);
    for (const line of written().trim().split("\n")) expect(() => JSON.parse(line)).not.toThrow();
  });

  it.each([
    "authorization",
    "Payment-Signature",
    "X-PAYMENT",
    "x-api-key",
    "lease_token",
    "leaseToken",
    "secret",
    "signature",
    "headers",
    "body",
  ])("a field named %s at any depth", (name) => {
    const { logger, written } = capture();
    const err = Object.assign(new Error("refused"), { request: { [name]: "of-an-error" } });
    logger.info({ [name]: "at-the-top", list: [{ [name]: { deeper: "below" } }], err }, "told");
    expect(written()).not.toMatch(/at-the-top|deeper|of-an-error/);
    expect(written()).toContain("refused");
  });

  it("credentials and queries of URLs, but not the rest of a URL", () => {
    const { logger, written } = capture();
    logger.info(
      { url: "https://me:s3cret@rpc.example/v2?key=qwerty&b=1" },
      "asked wss://u:p4ss@node.example:8546/?apikey=zzz: refused",
    );
    expect(written()).not.toMatch(/s3cret|qwerty|p4ss|zzz/);
    expect(written()).toContain("rpc.example/v2");
    expect(written()).toContain("node.example:8546/");
  });

  it("nothing else: nested fields and exact integers stay as they are", () => {
    const { logger, line } = capture();
    const payment = { network: "eip155:8453", nonce: "0x12", payer: "0xab" };
    logger.info(
      { request: "r1", callId: 7, payment, serviceId: 2n ** 63n, tokens: ["USDC"] },
      "payment settled",
    );
    const fields = { request: "r1", callId: 7, payment, serviceId: "9223372036854775808", tokens: ["USDC"] };
    expect(line()).toMatchObject({ ...fields, level: 30, msg: "payment settled" });
  });
});

it("secretsOf() finds every secret of a configuration by the names of its values", () => {
  const config = {
    store: { url: "postgres://jobgate:db%2Fpass@db.example/jobgate?sslpassword=ssl-pass" },
    runner: { tokens: ["runner-token"], tls: { key: "runner-key" } },
    x402: {
      publicUrl: "https://jobs.example.com",
      facilitators: [
        { kind: "remote", headers: { Authorization: "Bearer header-token" } },
        { kind: "remote", auth: { keyId: "organizations/1", keySecret: "cdp-secret" } },
        { kind: "in_process", signers: [{ privateKey: "0x5e" }] },
      ],
      acceptedTokens: [{ symbol: "USDC", rpcUrl: "https://rpc.example/v2/0123456789abcdef0123" }],
      jobPricing: new Map([["1/0", 5n]]),
    },
    webhooks: {
      endpoints: [{ path: "/hooks/a", auth: { secrets: [{ name: "now", secret: "hmac-secret" }] } }],
    },
  };
  expect(secretsOf(config).sort()).toEqual(
    [
      ...["jobgate", "jobgate", "db%2Fpass", "db/pass", "?sslpassword=ssl-pass", "?sslpassword=ssl-pass"],
      ...[
        "ssl-pass",
        "ssl-pass",
        "runner-token",
        "runner-key",
        "Bearer header-token",
        "header-token",
        "cdp-secret",
        "0x5e",
        "0123456789abcdef0123",
        "0123456789abcdef0123",
        "hmac-secret",
      ],
    ].sort(),
  );
});

it.each<[LogFormat, RegExp]>([
  ["json", /^\{"level":30,.*"callId":7,.*"msg":"hello"\}\n$/],
  ["auto", /^\{"level":30,.*"callId":7,.*"msg":"hello"\}\n$/],
  ["pretty", /^\[\d\d:\d\d:\d\d\.\d{3}\] INFO: hello\n {4}callId: 7\n$/],
])("Format %s on a stderr that is not a terminal", (format, expected) => {
  const program = `import { openLog } from "./src/log/log.ts";
    openLog({ level: "info", format: process.argv[2] }).logger.info({ callId: 7 }, "hello");`;
  const { stderr, stdout } = spawnSync(process.execPath, [bundledScript(program), format], {
    encoding: "utf8",
  });
  expect(stderr).toMatch(expected);
  expect(stdout).toBe("");
});
