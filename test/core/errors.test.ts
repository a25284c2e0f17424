import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { ERROR_KINDS } from "../../src/core/errors.ts";

const DOC = new URL("../../docs/errors.md", import.meta.url);

/** The table's rows: code, status, retryable. */
function documented(): Map<string, { status: number; retryable: boolean }> {
  const rows = readFileSync(DOC, "utf8").matchAll(/^\| `(\w+)` \| (\d{3}) \| (yes|no) \| \S.* \|$/gm);
  return new Map(
    [...rows].map(([, code, status, retryable]) => [
      code as string,
      { status: Number(status), retryable: retryable === "yes" },
    ]),
  );
}

describe("docs/errors.md", () => {
  it("lists exactly the codes of jobgate, with status and retryable", () => {
    const kinds = Object.entries(ERROR_KINDS).map(([code, { status, retryable }]) => [
      code,
      { status, retryable },
    ]);
    expect(Object.fromEntries(documented())).toEqual(Object.fromEntries(kinds));
  });
});
