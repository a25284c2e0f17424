import { readdirSync, readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { getText } from "../helpers/get-text.ts";
import { type OperatorUnderTest, startOperator, TOKEN } from "../operator/harness.ts";

const FOLDER = new URL("../../src/page/", import.meta.url);
const FILES = readdirSync(FOLDER).filter((name) => !name.endsWith(".d.ts"));
const sourceOf = (name: string) => readFileSync(new URL(name, FOLDER), "utf8");
const pathOf = (name: string) => (name === "index.html" ? "/" : `/page/${name}`);

let jobgate: OperatorUnderTest;
beforeAll(async () => {
  jobgate = await startOperator({ token: TOKEN });
});
afterAll(() => jobgate?.stop());

describe("serving", () => {
  test.each(FILES)("%s is served without a token, as it is, and with every guard", async (name) => {
    const { status, headers, body } = await getText(jobgate.url + pathOf(name));
    expect(status).toBe(200);
    expect(body).toBe(sourceOf(name));
    const types = { html: "text/html", css: "text/css", js: "text/javascript", svg: "image/svg+xml" };
    expect(headers["content-type"]).toContain(types[name.split(".").at(-1) as keyof typeof types]);
    expect(headers).toMatchObject({
      "x-content-type-options": "nosniff",
      "referrer-policy": "no-referrer",
      "cross-origin-opener-policy": "same-origin",
      "cross-origin-resource-policy": "same-origin",
      "cache-control": "no-cache",
    });
    const policy = new Map(
      String(headers["content-security-policy"])
        .split("; ")
        .map((directive) => [directive.split(" ")[0], directive.split(" ").slice(1).join(" ")]),
    );
    expect(Object.fromEntries(policy)).toEqual({
      "default-src": "'none'",
      "script-src": "'self'",
      "style-src": "'self'",
      "connect-src": "'self'",
      "img-src": "'self' data:",
      "base-uri": "'none'",
      "form-action": "'none'",
      "frame-ancestors": "'none'",
      "require-trusted-types-for": "'script'",
      "trusted-types": "'none'",
    });
  });

  test("A browser with a current file gets 304 without a body or length", async () => {
    const first = await getText(`${jobgate.url}/page/page.js`);
    const etag = String(first.headers.etag);
    const again = await getText(`${jobgate.url}/page/page.js`, { "if-none-match": etag });
    expect({ status: again.status, body: again.body, etag: again.headers.etag }).toEqual({
      status: 304,
      body: "",
      etag,
    });
    expect(again.headers["content-length"]).toBeUndefined();
    const other = await getText(`${jobgate.url}/page/page.css`, { "if-none-match": etag });
    expect(other.status).toBe(200);
  });

  test.each([
    "/index.html",
    "/page",
    "/page/",
    "/page/index.html",
    "/page/api.d.ts",
    "/page/../page-routes.ts",
    "/page/%2e%2e/page-routes.ts",
    "/page//page.js",
  ])("%s is not served as one of the page's files", async (path) => {
    expect((await getText(jobgate.url, {}, path)).status).toBe(404);
  });

  test("The page's files accept only GET and HEAD", async () => {
    const response = await fetch(jobgate.url, { method: "POST", body: "x" });
    expect({ status: response.status, allow: response.headers.get("allow") }).toEqual({
      status: 405,
      allow: "GET",
    });
  });
});

describe("the files", () => {
  test("Every file that they name exists", () => {
    const named = FILES.flatMap((name) => [
      ...[...sourceOf(name).matchAll(/(?:src|href)="\/page\/([^"]+)"/g)].map(([, file]) => file),
      ...(name.endsWith(".js")
        ? [...sourceOf(name).matchAll(/^import .* from "\.\/([^"]+)";$/gm)].map(([, file]) => file)
        : []),
    ]);
    expect(named.length).toBeGreaterThan(30);
    for (const file of named) expect(FILES).toContain(file);
  });

  test("The HTML has no inline scripts or styles", () => {
    const html = sourceOf("index.html");
    expect([...html.matchAll(/<script(?![^>]* src=)[^>]*>/g)]).toEqual([]);
    expect([...html.matchAll(/<style|\sstyle=|\son\w+=|javascript:/gi)]).toEqual([]);
  });

  test("No script makes code or markup from text, and nothing is loaded from another host", () => {
    for (const name of FILES) {
      const source = sourceOf(name).replace('"http://www.w3.org/2000/svg"', "");
      expect({ name, found: source.match(/(https?:)?\/\/[a-z0-9.-]+\.[a-z]/gi) }).toEqual({
        name,
        found: null,
      });
      if (!name.endsWith(".js")) continue;
      const found = source.match(
        /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|setAttribute\("style/g,
      );
      expect({ name, found }).toEqual({ name, found: null });
    }
  });

  test("The token is kept in the tab only", () => {
    for (const name of FILES) {
      const uses = sourceOf(name).match(/localStorage|sessionStorage|indexedDB|document\.cookie/g) ?? [];
      const allowed = { "session.js": "sessionStorage", "theme.js": "localStorage" }[name];
      expect({ name, uses: uses.filter((use) => use !== allowed) }).toEqual({ name, uses: [] });
    }
  });
});
