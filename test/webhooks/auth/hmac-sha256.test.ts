import { createHmac } from "node:crypto";
import { describe, expect, it } from "vitest";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { endpoint, named, startWebhooks, UNAUTHORIZED } from "../harness.ts";

/** GitHub's own example. */
const SECRET = "It's a Secret to Everybody";
const BODY = "Hello, World!";
const SIGNATURE = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
const path = "/hooks/hmac";
const sign = (body: string) => createHmac("sha256", SECRET).update(body).digest("hex");

const webhooks = startBeforeAll(() =>
  startWebhooks([endpoint(path, { mode: "hmac-sha256", secrets: named(SECRET) })]),
);

describe("an HMAC signature", () => {
  it("is accepted in each of the three headers, with and without sha256=, in either case", async () => {
    for (const header of ["X-Signature-256", "X-Hub-Signature-256", "X-Webhook-Signature"])
      for (const value of [
        SIGNATURE,
        `sha256=${SIGNATURE}`,
        // signature upper case
        SIGNATURE.toUpperCase(),
        `sha256=${SIGNATURE.toUpperCase()}`,
      ])
        expect([header, value, (await webhooks.post(path, { [header]: value }, BODY)).status]).toEqual([
          header,
          value,
          202,
        ]);
  });

  it("is refused when truncated, too long, not hex, for another body or secret, with another prefix, empty or absent", async () => {
    for (const value of [
      SIGNATURE.slice(0, -2),
      SIGNATURE.slice(0, -1),
      `${SIGNATURE}00`,
      `sha256=${SIGNATURE.slice(0, 32)}`,
      SIGNATURE.replace("7", "g"),
      sign("Hello, World"),
      createHmac("sha256", "other").update(BODY).digest("hex"),
      createHmac("sha1", SECRET).update(BODY).digest("hex"),
      `sha1=${SIGNATURE}`,
      `sha256=sha256=${SIGNATURE}`,
      `sha256= ${SIGNATURE}`,
      `${SIGNATURE}, ${SIGNATURE}`,
      Buffer.from(SIGNATURE, "hex").toString("base64"),
      "sha256=",
      "",
    ])
      expect([value, await webhooks.post(path, { "x-signature-256": value }, BODY)]).toMatchObject([
        value,
        UNAUTHORIZED,
      ]);
    expect(await webhooks.post(path, {}, BODY)).toMatchObject(UNAUTHORIZED);
    expect(await webhooks.post(path, { "x-signature-256": sign(BODY) }, "Hello, World?")).toMatchObject({
      status: 401,
    });
  });

  it("is refused beside a bad one, in any order, and accepted beside a good one", async () => {
    const good = SIGNATURE;
    const bad = good.replace("7", "8");
    for (const [lines, status] of [
      [[`x-signature-256: ${good}`, `x-hub-signature-256: ${bad}`], 401],
      [[`x-signature-256: ${bad}`, `x-hub-signature-256: ${good}`], 401],
      [[`x-webhook-signature: ${bad}`, `x-hub-signature-256: ${good}`], 401],
      [[`x-signature-256: ${good}`, `x-signature-256: ${bad}`], 401],
      [[`x-signature-256: ${bad}`, `x-signature-256: ${good}`], 401],
      [[`x-signature-256: ${good}`, "x-hub-signature-256: "], 401],
      [[`x-signature-256: ${good}`, `x-hub-signature-256: sha256=${good}`], 202],
    ] as const)
      expect([lines, (await webhooks.postLines(path, lines, BODY)).status]).toEqual([lines, status]);
  });

  it("is refused among more than 16, though all are good", async () => {
    const lines = (n: number) => Array.from({ length: n }, () => `x-signature-256: ${SIGNATURE}`);
    expect((await webhooks.postLines(path, lines(16), BODY)).status).toBe(202);
    expect(await webhooks.postLines(path, lines(17), BODY)).toMatchObject(UNAUTHORIZED);
  });

  it("is refused beside one made with another of the secrets", async () => {
    webhooks.use([endpoint(path, { mode: "hmac-sha256", secrets: named("old", SECRET) })]);
    const old = createHmac("sha256", "old").update(BODY).digest("hex");
    expect((await webhooks.postLines(path, [`x-signature-256: ${old}`], BODY)).status).toBe(202);
    expect((await webhooks.postLines(path, [`x-signature-256: ${SIGNATURE}`], BODY)).status).toBe(202);
    const both = [`x-signature-256: ${old}`, `x-hub-signature-256: ${SIGNATURE}`];
    expect(await webhooks.postLines(path, both, BODY)).toMatchObject(UNAUTHORIZED);
  });
});
