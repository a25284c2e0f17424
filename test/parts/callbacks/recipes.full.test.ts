import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, expect, test } from "vitest";
import { toSigningKey } from "../../../src/core/standard-webhooks.ts";
import { CallbackKeys } from "../../../src/parts/callbacks/callback-keys.ts";
import { callbackHeaders, testMessage } from "../../../src/parts/callbacks/callback-request.ts";
import { createVenv, installPackages } from "../../e2e/python.ts";
import { testFolder } from "../../helpers/test-folder.ts";

const docs = await readFile(new URL("../../../docs/callbacks.md", import.meta.url), "utf8");
const recipe = (language: string) =>
  new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\``, "m").exec(docs)?.[1] ?? "";
const SECRET = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;
const NOW = 1_784_733_333_333;

interface Case {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** For Go, which takes a public key as Standard Webhooks writes it. */
  readonly goKey: string;
  readonly key: unknown;
  readonly isGenuine: boolean;
}

let cases: readonly Case[];
beforeAll(async () => {
  const keys = new CallbackKeys(() => Promise.reject(new Error("not asked")));
  await keys.use([`whsk_${randomBytes(32).toString("base64")}`]);
  const [published] = (JSON.parse(keys.published) as { keys: [{ whpk: string }] }).keys;
  const secretKey = toSigningKey(SECRET);
  if (secretKey === undefined) throw new Error("expected a key");
  const message = testMessage(NOW);
  const body = Buffer.from(message.body).toString();
  cases = [
    { key: SECRET, goKey: SECRET, signing: [secretKey] },
    { key: published, goKey: published.whpk, signing: keys.keys },
  ].flatMap(({ signing, ...key }) => {
    const headers = callbackHeaders(message, signing, NOW);
    return [
      { ...key, headers, body, isGenuine: true },
      { ...key, headers, body: `${body} `, isGenuine: false },
      { ...key, headers: { ...headers, "webhook-timestamp": "1784730000" }, body, isGenuine: false },
    ];
  });
});

const run = async (command: string, args: readonly string[], cwd: string, env = process.env) =>
  (await promisify(execFile)(command, args, { cwd, env, timeout: 500_000 })).stdout;

test("The recipe for Go accepts what jobgate signs, and nothing else", async () => {
  const folder = await testFolder();
  await writeFile(join(folder, "go.mod"), "module receiver\n\ngo 1.21\n");
  await writeFile(join(folder, "receiver.go"), recipe("go"));
  await writeFile(join(folder, "cases.json"), JSON.stringify(cases));
  await writeFile(
    join(folder, "receiver_test.go"),
    `package receiver

import ("encoding/json"; "net/http"; "os"; "testing"; "time")

func TestCases(t *testing.T) {
	var cases []struct { Headers map[string]string; Body, GoKey string; IsGenuine bool }
	text, _ := os.ReadFile("cases.json")
	if err := json.Unmarshal(text, &cases); err != nil || len(cases) == 0 { t.Fatal(err) }
	for i, one := range cases {
		header := http.Header{}
		for name, value := range one.Headers { header.Set(name, value) }
		if IsGenuine(header, []byte(one.Body), one.GoKey, time.UnixMilli(${NOW})) != one.IsGenuine { t.Error(i) }
	}
}
`,
  );
  expect(await run("go", ["test", "./..."], folder)).toContain("ok");
});

test("The recipe for Python accepts what jobgate signs, and nothing else", async () => {
  const folder = await testFolder();
  const python = await createVenv(folder);
  await installPackages(python, ["cryptography"], folder);
  await writeFile(join(folder, "receiver.py"), recipe("python"));
  await writeFile(join(folder, "cases.json"), JSON.stringify(cases));
  const program = `import json, receiver
print([receiver.is_genuine(one["headers"], one["body"].encode(), one["key"], ${NOW / 1000}) for one in json.load(open("cases.json"))])`;
  const stdout = await run(python, ["-c", program], folder);
  const expected = cases.map(({ isGenuine }) => (isGenuine ? "True" : "False")).join(", ");
  expect(stdout.trim()).toBe(`[${expected}]`);
});
