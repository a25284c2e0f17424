import { beforeAll, describe, expect, test } from "vitest";
import { auditAccessibility, overflow } from "../helpers/page-audit.ts";
import {
  answerWith,
  deadLetter,
  lineOf,
  logIn,
  openLoggedIn,
  openOperatorPage,
  PHONE,
  scene,
  startSceneBeforeAll,
} from "./operator-page-harness.ts";
import { OPERATOR_TOKEN } from "./operator-page-scene.ts";

startSceneBeforeAll();

const LONG = "1000000.000001 USDC";
/** A channel with all that its row can show. */
const LONG_CHANNEL = {
  id: `0x${"5d".repeat(32)}`,
  state: "CHANNEL_STATE_WITHDRAWING",
  network: "eip155:84532",
  payer: `0x${"ab".repeat(20)}`,
  ...{ deposited: "2", charged: "2", claimed: "2", unclaimed: "2", lost: "2" },
  ...{ deposited_text: LONG, charged_text: LONG, claimed_text: LONG, unclaimed_text: LONG, lost_text: LONG },
  due_since: "2026-01-01T00:00:00Z",
  reason: "the payer withdraws, and the chain shows another deposit than the one that was stored",
};

describe("appearance", () => {
  let callId: number;
  beforeAll(async () => {
    callId = await deadLetter("something to look at");
    await scene.pay("something to look at, paid");
  });

  test.each([
    ["light", 1280],
    ["dark", 1280],
    ["light", 768],
    ["dark", 768],
    ["light", 360],
    ["dark", 360],
  ] as const)(
    "In %s at %i px axe-core has nothing to say of any view, and nothing sticks out",
    async (colorScheme, width) => {
      const page = await openLoggedIn("", {
        colorScheme,
        viewport: { width, height: 844 },
        reducedMotion: "reduce",
      });
      await lineOf(page, callId).waitFor();
      await answerWith(page, "ListRefunds", {
        refunds: [{ call_id: "1", state: "REFUND_STATE_REFUND_FAILED" }],
      });
      const callbacks = [{ id: "1", call_id: "1", state: "CALLBACK_STATE_DEAD", event: "dead_letter" }];
      await answerWith(page, "ListCallbacks", { callbacks });
      await answerWith(page, "ListChannels", { channels: [LONG_CHANNEL] });
      // A list whose runners and reasons are long.
      await page.route("**/ListCalls", async (route) => {
        const { calls = [], ...rest } = await (await route.fetch()).json();
        const long = { subscriber: "gpu-2.worker-with-a-long-name, gpu-3.worker-with-a-long-name" };
        await route.fulfill({
          json: { ...rest, calls: calls.map((call: object) => ({ ...call, ...long })) },
        });
      });
      await answerWith(page, "ListPaymentAlerts", {
        alerts: [{ id: "1", call_id: "1", kind: "PAYMENT_ALERT_KIND_NOT_PAID", amount_text: LONG }],
      });
      await answerWith(page, "ListHeldKeys", {
        keys: [
          { endpoint: "/hooks/alerts", key: "x".repeat(100), call_id: "1", waiting: "1234" },
          {
            endpoint: "/hooks/alerts",
            key: "bob",
            pause: { by: "ada", note: "no ink", refuses_accepts: true },
          },
        ],
      });
      await page.route("**/GetCall", (route) =>
        route.request().postDataJSON().callId === "999999"
          ? route.fulfill({ json: { call: { call_id: "999999" }, callbacks } })
          : route.fallback(),
      );
      const views = [
        ...[
          "",
          "money",
          "jobs",
          `calls/${callId}`,
          "calls/999999",
          "payments",
          "channels",
          "refunds",
          "dead-letters",
          "callbacks",
          "payment-alerts",
          `search?text=${callId}`,
          "endpoints",
          "pausing",
          "held-keys",
          "settings",
        ],
      ];
      for (const view of views) {
        await page.goto(`${scene.gateway.jobgate.operatorUrl}/#/${view}`);
        await page.locator("main :is(table, .call)").first().waitFor();
        const { kept, broken } = await auditAccessibility(page);
        expect({ view, broken }).toEqual({ view, broken: [] });
        expect(kept).toEqual(
          expect.arrayContaining(["color-contrast", "landmark-one-main", "page-has-heading-one"]),
        );
        expect({ view, overflow: await overflow(page) }).toEqual({ view, overflow: 0 });
      }
      await page.goto(`${scene.gateway.jobgate.operatorUrl}/#/calls/${callId}`);
      await page.getByRole("button", { name: /^Drop call/ }).click();
      await page.getByRole("dialog").waitFor();
      expect((await auditAccessibility(page)).broken).toEqual([]);
      await page.keyboard.press("Escape");
      await page.goto(`${scene.gateway.jobgate.operatorUrl}/#/refunds`);
      await page.getByRole("button", { name: /^Decline/ }).click();
      await page.getByRole("dialog").getByLabel("Reason").waitFor();
      expect((await auditAccessibility(page)).broken).toEqual([]);
    },
  );

  test("The login fits a phone and is legible in the dark theme", async () => {
    const page = await openOperatorPage({ ...PHONE, colorScheme: "dark" });
    await page.getByLabel("Token").waitFor();
    expect((await auditAccessibility(page)).broken).toEqual([]);
    expect(await overflow(page)).toBe(0);
  });

  test("At phone width a row is a card: each value has its label beside it, and its buttons fit", async () => {
    const page = await openLoggedIn("dead-letters", PHONE);
    const row = page.locator("tbody tr").first();
    await row.waitFor();
    const cell = row.locator("td", { hasText: "cannot do" });
    expect(
      await cell.evaluate(
        (element) => element.ownerDocument.defaultView?.getComputedStyle(element, "::before").content,
      ),
    ).toBe('"Reason"');
    for (const button of await row.getByRole("button").all()) {
      const box = await button.boundingBox();
      expect(box?.height).toBeGreaterThanOrEqual(40);
      expect((box?.x ?? 999) + (box?.width ?? 0)).toBeLessThanOrEqual(390);
    }
  });

  test("On a phone of 360 by 740 the menu shows the number of dead letters, and six jobs fit below the header", async () => {
    for (let number = 0; number < 6; number++) await scene.pay(`one of six ${number}`);
    const page = await openLoggedIn("jobs", { viewport: { width: 360, height: 740 } });
    const menu = page.getByRole("navigation", { name: "Views" });
    const link = menu.getByRole("link", { name: /^Dead letters ?[1-9]/ });
    const isInSight = async () => {
      const box = await link.boundingBox();
      return box !== null && box.x >= 0 && box.x + box.width <= 360;
    };
    await expect.poll(isInSight).toBe(true);
    const rows = page.locator("tbody tr");
    await expect.poll(() => rows.count()).toBeGreaterThanOrEqual(6);
    const sixth = (await rows.nth(5).boundingBox()) ?? { y: 0, height: 9999 };
    expect(sixth.y + sixth.height).toBeLessThanOrEqual(740);
    expect(await overflow(page)).toBe(0);
    expect((await auditAccessibility(page)).broken).toEqual([]);
  });

  test("Dark and light follow the system until the operator chooses, and the choice stays", async () => {
    const page = await openLoggedIn("settings", { colorScheme: "dark" });
    const ground = () =>
      page
        .locator("body")
        .evaluate((element) => element.ownerDocument.defaultView?.getComputedStyle(element).backgroundColor);
    const dark = await ground();
    await page.emulateMedia({ colorScheme: "light" });
    const light = await ground();
    expect(light).not.toBe(dark);
    await page.getByRole("button", { name: "Theme: as the system" }).click();
    await page.getByRole("button", { name: "Theme: light" }).click();
    await page.reload();
    await page.getByRole("button", { name: "Theme: dark" }).waitFor();
    expect(await ground()).toBe(dark);
  });

  test("Keys of the configuration are shown as the file spells them, under the path of their table", async () => {
    const page = await openOperatorPage();
    await page.route("**/GetConfiguration", async (route) => {
      const { configuration } = await (await route.fetch()).json();
      const runner = { ...configuration.runner, lease_secs: 1.5, token: ["file /run/token", "set"] };
      const push = [{ url: "https://a.example" }, { url: "https://b.example", job_ids: [] }];
      await route.fulfill({ json: { configuration: { ...configuration, runner, push } } });
    });
    await logIn(page, OPERATOR_TOKEN);
    // The link works from the first moment: it is an address.
    await page.getByRole("link", { name: "Settings" }).click();
    for (const [table, key, shown] of [
      ["runner", "lease_secs", "1.5"],
      ["runner", "token", "file /run/token, set"],
      ["push[0]", "url", "https://a.example"],
      ["push[1]", "job_ids", "none"],
    ] as const) {
      const group = page.locator(".group", { has: page.getByRole("heading", { name: table, exact: true }) });
      const fact = group.locator(".facts div", { has: page.getByText(key, { exact: true }) });
      await expect.poll(() => fact.locator("dd").textContent()).toBe(shown);
    }
  });
});
