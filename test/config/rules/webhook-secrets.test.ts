import { expect, test } from "vitest";
import { loadFiles } from "../config-folder.ts";
import { ENDPOINT, header, testMistakes } from "../mistake-cases.ts";

const AT = "webhooks.endpoints[0]";
const KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const PRIVATE_KEY =
  "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg==";
const keyed = (auth: string, secret: string) => ({
  toml: `${ENDPOINT}auth = "${auth}"\nsecret = "${secret}" #!`,
  keyPath: `${AT}.secret`,
});

testMistakes([
  ...["github", "stripe", "slack", "shopify", "standard-webhooks", "svix", "url-token"].map((auth) => ({
    promise: `auth ${auth} needs a secret`,
    toml: `${header(ENDPOINT, "[[webhooks.endpoints]]")}auth = "${auth}"`,
    keyPath: `${AT}.secret`,
    message: /is missing/,
  })),
  {
    promise: "secret and secrets together are a mistake",
    toml: `${ENDPOINT}auth = "github"\nsecret = "hunter2"\nsecrets = ["hunter2"] #!`,
    keyPath: `${AT}.secrets`,
    message: /together with secret; expected one of the two/,
  },
  {
    promise: "secrets without auth are a mistake",
    toml: `${ENDPOINT}secrets = ["hunter2"] #!`,
    keyPath: `${AT}.secrets`,
    message: /auth is "none"/,
  },
  {
    promise: "An empty list of secrets is a mistake",
    toml: `${ENDPOINT}auth = "github"\nsecrets = [] #!`,
    keyPath: `${AT}.secrets`,
    message: /expected 1 to 8/,
  },
  {
    promise: "More than 8 secrets are a mistake",
    toml: `${ENDPOINT}auth = "github"\nsecrets = [${'"hunter2", '.repeat(9)}] #!`,
    keyPath: `${AT}.secrets`,
    message: /has 9 entries; expected 1 to 8 secrets/,
  },
  {
    promise: "An empty secret in the list is a mistake",
    toml: `${ENDPOINT}auth = "github"\nsecrets = ["hunter2", ""] #!`,
    keyPath: `${AT}.secrets[1]`,
    message: /an empty string; expected a secret, or a table/,
  },
  {
    promise: "An unset variable in the list is a mistake",
    toml: `${ENDPOINT}auth = "github"\nsecrets = [{ name = "a", secret = "env:EMPTY" }] #!`,
    keyPath: `${AT}.secrets[0].secret`,
    message: /EMPTY is empty/,
  },
  {
    promise: "A secret without a name in a table is a mistake",
    toml: `${ENDPOINT}auth = "github"\nsecrets = [{ secret = "hunter2" }] #!`,
    keyPath: `${AT}.secrets[0].name`,
    message: /is missing/,
  },
  {
    promise: "An unknown key in the table of a secret is a mistake",
    toml: `${ENDPOINT}auth = "github"\nsecrets = [{ name = "a", secrte = "hunter2" }] #!`,
    keyPath: `${AT}.secrets[0].secrte`,
    message: /did you mean secret\?/,
    suggestion: "secret",
  },
  {
    promise: "Two secrets with one name are a mistake",
    toml: `${ENDPOINT}auth = "github"\nsecrets = [{ name = "a", secret = "hunter2" }, { name = "a", secret = "hunter3" }] #!`,
    keyPath: `${AT}.secrets[1].name`,
    message: /name of another secret/,
  },
  {
    promise: "A bearer secret in the list that cannot be in a header is a mistake",
    toml: `${ENDPOINT}auth = "bearer"\nsecrets = ["good", "hunter2 "] #!`,
    keyPath: `${AT}.secrets[1]`,
    message: /cannot be sent in a header/,
  },
  ...["hunter2", "whsec_", "whsec_hunter2!", "whpk_aGVsbG8=", "whsec_aaaaa"].map((secret) => ({
    promise: `Standard Webhooks refuses a ${secret.slice(0, 6)} key of ${secret.length} characters`,
    ...keyed("standard-webhooks", secret),
    message: /expected whsec_ and base64, or whpk_/,
  })),
  {
    promise: "The sender's private key is a mistake",
    ...keyed("svix", PRIVATE_KEY),
    message: /private key, which only the sender may have/,
  },
  ...["a/b", "a b", "ä", "%41", "..", "a?b"].map((secret) => ({
    promise: `${secret} cannot be a token in a path`,
    ...keyed("url-token", secret),
    message: /a path segment/,
  })),
  {
    promise: "A path in the place of another endpoint's token is a mistake",
    toml: `${ENDPOINT}auth = "url-token"\nsecret = "0123456789abcdef"\n[[webhooks.endpoints]]\njob_id = 1\npath = "/hooks/a/b" #!`,
    keyPath: "webhooks.endpoints[1].path",
    message: /where the token of webhooks.endpoints\[0\] is/,
  },
]);

test("Shared and public Standard Webhooks keys are accepted with their prefix", async () => {
  for (const key of [KEY, "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="]) {
    const { ok } = await loadFiles(
      `service_id = 1\n${ENDPOINT}auth = "standard-webhooks"\nsecret = "${key}"`,
    );
    expect(ok).toBe(true);
  }
});

test("A short shared Standard Webhooks key is a warning", async () => {
  const warnings = async (bytes: number) => {
    const key = `whsec_${Buffer.alloc(bytes, 1).toString("base64")}`;
    const loaded = await loadFiles(`service_id = 1\n${ENDPOINT}auth = "svix"\nsecret = "${key}"`);
    return loaded.ok && loaded.warnings.map(({ keyPath, message }) => `${keyPath} ${message}`);
  };
  expect(await warnings(23)).toEqual([`${AT}.secret is 23 bytes long; expected 24 random ones or more`]);
  expect(await warnings(24)).toEqual([]);
});

test.each(["url-token", "hmac-sha256", "github", "bearer", "api-key"])(
  "A short secret of auth %s is a warning",
  async (auth) => {
    const loaded = (secret: string) =>
      loadFiles(`service_id = 1\n${ENDPOINT}auth = "${auth}"\nsecret = "${secret}"`);
    const short = await loaded("abc");
    expect(short.ok && short.warnings.map(({ keyPath, message }) => `${keyPath} ${message}`)).toEqual([
      `${AT}.secret has 3 characters and is the only protection of this path; expected 32 random characters or more`,
    ]);
    const long = await loaded("0123456789abcdef");
    expect(long.ok && long.warnings).toEqual([]);
  },
);
