import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { getText } from "../../helpers/get-text.ts";
import { startOperator, TOKEN } from "../../helpers/operator.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";

const SOURCES = new URL("../../../src/page/", import.meta.url);
const BUILT = new URL("../../../dist/page/", import.meta.url);
/** Names with their folder: `shared/dom.js`. */
const filesOf = (folder: string, root: URL) =>
  readdirSync(root === SOURCES ? sourceUrl(`${folder}/`) : new URL(`${folder}/`, root))
    .filter((name) => !/\.d\.ts$|\.txt$/.test(name))
    .map((name) => `${folder}/${name}`);
const sourceUrl = (name: string) =>
  new URL(
    name.replace(/^operator\//, "../parts/page/view/").replace(/^shop\//, "../parts/shop/view/"),
    SOURCES,
  );
const FILES = ["operator", "tools", "shared", "shop"].flatMap((folder) => filesOf(folder, SOURCES));
const sourceOf = (name: string) => readFileSync(sourceUrl(name), "utf8");
const pathOf = (name: string) => (name.endsWith(".html") ? "/" : `/page/${name}`);

const jobgate = startBeforeAll(() => startOperator({ token: TOKEN }));

describe("serving", () => {
  test("All files that the page loads have less than 400 KB, uncompressed", () => {
    const files = [...filesOf("operator", BUILT), ...filesOf("shared", BUILT)];
    const bytes = files.map((name) => readFileSync(new URL(name, BUILT)).length);
    expect(bytes.reduce((sum, length) => sum + length, 0)).toBeLessThan(400_000);
  });

  test.each([...filesOf("operator", BUILT), ...filesOf("shared", BUILT)])(
    "%s is served without a token, as it was built, and with every guard",
    async (name) => {
      const { status, headers, body } = await getText(jobgate.url + pathOf(name));
      expect(status).toBe(200);
      expect(body).toBe(readFileSync(new URL(name, BUILT), "utf8"));
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
    },
  );

  test("A browser with a current file gets 304 without a body or length", async () => {
    const first = await getText(`${jobgate.url}/page/operator/page.js`);
    const etag = String(first.headers.etag);
    const again = await getText(`${jobgate.url}/page/operator/page.js`, { "if-none-match": etag });
    expect({ status: again.status, body: again.body, etag: again.headers.etag }).toEqual({
      status: 304,
      body: "",
      etag,
    });
    expect(again.headers["content-length"]).toBeUndefined();
    const other = await getText(`${jobgate.url}/page/operator/page.css`, { "if-none-match": etag });
    expect(other.status).toBe(200);
  });

  test.each([
    "/index.html",
    "/page",
    "/page/",
    "/page/operator/",
    "/page/operator/index.html",
    "/page/operator/LICENSES.txt",
    "/page/operator/page.tsx",
    "/page/operator/../../page-routes.ts",
    "/page/operator/%2e%2e/%2e%2e/page-routes.ts",
    "/page//operator/page.js",
    "/page/shop/page.js",
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
    const served = ["operator", "shared", "shop"].flatMap((folder) => filesOf(folder, BUILT));
    const named = served
      .filter((name) => !name.startsWith("operator/page."))
      .flatMap((name) =>
        [
          ...readFileSync(new URL(name, BUILT), "utf8").matchAll(
            /(?:src|href)="[^"]*\bpage\/([^"]+)"| from "(\.[^"]+)";$/gm,
          ),
        ].map(
          ([, file, module = ""]) =>
            file ?? new URL(module, new URL(name, BUILT)).href.slice(BUILT.href.length),
        ),
      );
    expect(named.length).toBeGreaterThan(20);
    for (const file of named) expect(served).toContain(file);
  });

  test("The HTML has no inline scripts or styles", () => {
    for (const name of FILES.filter((name) => name.endsWith(".html"))) {
      const html = sourceOf(name);
      expect([...html.matchAll(/<script(?![^>]* (?:src=|type="application\/json"))[^>]*>/g)]).toEqual([]);
      expect([...html.matchAll(/<style|\sstyle=|\son\w+=|javascript:/gi)]).toEqual([]);
    }
  });

  test("No script makes code or markup from text, and nothing is loaded from another host", () => {
    for (const name of FILES) {
      const source = sourceOf(name).replace('"http://www.w3.org/2000/svg"', "");
      expect({ name, found: source.match(/(https?:)?\/\/[a-z0-9.-]+\.[a-z]/gi) }).toEqual({
        name,
        found: null,
      });
      if (!/\.(js|tsx?)$/.test(name)) continue;
      const found = source.match(
        /dangerouslySetInnerHTML|innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|setAttribute\("style/g,
      );
      expect({ name, found }).toEqual({ name, found: null });
    }
  });

  test("Tokens and purchases are kept in the tab only", () => {
    for (const name of FILES) {
      const uses = sourceOf(name).match(/localStorage|sessionStorage|indexedDB|document\.cookie/g) ?? [];
      const allowed = {
        "tools/client.ts": "sessionStorage",
        "shop/purchase.js": "sessionStorage",
        "shared/theme.js": "localStorage",
      }[name];
      expect({ name, uses: uses.filter((use) => use !== allowed) }).toEqual({ name, uses: [] });
    }
  });
});
