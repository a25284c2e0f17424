import { beforeAll, describe, expect, it } from "vitest";
import type { WebhookAuth, WebhookSecret } from "../../../src/config/config.ts";
import { endpoint, type Headers, named, UNAUTHORIZED, type WebhooksUnderTest } from "../harness.ts";

export interface SignedSender {
  readonly auth: (secrets: readonly WebhookSecret[]) => WebhookAuth;
  readonly secret: string;
  readonly otherSecret: string;
  /** Signs as the sender does, at a time in Unix seconds. */
  readonly sign: (body: string, secret: string, atSecs: number) => Headers | Promise<Headers>;
  /** The header that holds the signature, as `sign` writes it. */
  readonly signatureHeader: string;
  /** Headers that must be present exactly once. */
  readonly needs: readonly string[];
  /** Seconds; absent when the signature covers no time. */
  readonly toleranceSecs?: number;
}

const NOW_SECS = 1_790_000_000;
const BODY = '{"id":"evt_1","alert":true}';
const PATH = "/hooks/a";

/**
 * Declares the tests that every signing sender must pass.
 * @param given a gateway; its endpoints are replaced
 */
export function describeSignedSender(
  name: string,
  given: () => WebhooksUnderTest,
  sender: SignedSender,
): void {
  const { auth, secret, otherSecret, sign, signatureHeader, needs, toleranceSecs } = sender;

  describe(`${name}: signed requests`, () => {
    let webhooks: WebhooksUnderTest;
    beforeAll(async () => {
      webhooks = given();
      await webhooks.take();
      webhooks.use([
        endpoint(PATH, auth(named(secret))),
        endpoint("/hooks/rotated", auth(named(otherSecret, secret))),
      ]);
      webhooks.now = NOW_SECS * 1000 + 999;
    });
    const post = (headers: Headers, body: string | Uint8Array = BODY) => webhooks.post(PATH, headers, body);

    it("a signed request is accepted, and its body is delivered byte for byte", async () => {
      expect((await post(await sign(BODY, secret, NOW_SECS))).status).toBe(202);
      expect((await webhooks.take()).map(({ body }) => body.toString())).toEqual([BODY]);
    });

    it("each of several secrets is accepted", async () => {
      for (const each of [otherSecret, secret]) {
        const headers = await sign(BODY, each, NOW_SECS);
        expect((await webhooks.post("/hooks/rotated", headers, BODY)).status).toBe(202);
      }
    });

    it("another secret is refused", async () => {
      expect(await post(await sign(BODY, otherSecret, NOW_SECS))).toMatchObject(UNAUTHORIZED);
    });

    it("one changed bit of the body is refused", async () => {
      const headers = await sign(BODY, secret, NOW_SECS);
      for (const byte of [0, 10, BODY.length - 1]) {
        const changed = Buffer.from(BODY);
        changed[byte] = (changed[byte] ?? 0) ^ 1;
        expect([byte, await post(headers, changed)]).toMatchObject([byte, UNAUTHORIZED]);
      }
      expect(await post(headers, `${BODY} `)).toMatchObject(UNAUTHORIZED);
    });

    it("one changed, missing or extra character of the signature is refused", async () => {
      const headers = await sign(BODY, secret, NOW_SECS);
      const signature = headers[signatureHeader] ?? "";
      const middle = signature.length - 20;
      const other = signature[middle] === "4" ? "5" : "4";
      for (const value of [
        `${signature.slice(0, middle)}${other}${signature.slice(middle + 1)}`,
        signature.slice(0, -1),
        `${signature}0`,
        signature.slice(signature.lastIndexOf("=", signature.length - 3) + 1, -1),
        "x",
      ])
        expect([value, await post({ ...headers, [signatureHeader]: value })]).toMatchObject([
          value,
          UNAUTHORIZED,
        ]);
    });

    it("a missing, empty or repeated header is refused", async () => {
      const headers = await sign(BODY, secret, NOW_SECS);
      const lines = Object.entries(headers).map(([header, value]) => `${header}: ${value}`);
      for (const need of needs) {
        const [line = ""] = lines.filter((each) => each.startsWith(`${need}: `));
        expect(line).not.toBe("");
        const others = lines.filter((each) => each !== line);
        for (const bad of [others, [...others, `${need}: `], [...lines, line]])
          expect([bad, await webhooks.postLines(PATH, bad, BODY)]).toMatchObject([bad, UNAUTHORIZED]);
      }
    });

    if (toleranceSecs !== undefined) {
      it("a time outside the tolerance, past or future, is refused, and one at its edge accepted", async () => {
        for (const [offset, status] of [
          [-toleranceSecs - 1, 401],
          [-toleranceSecs, 202],
          [toleranceSecs, 202],
          [toleranceSecs + 1, 401],
        ] as const) {
          const headers = await sign(BODY, secret, NOW_SECS + offset);
          expect([offset, (await post(headers)).status]).toEqual([offset, status]);
        }
      });
    }
  });
}
