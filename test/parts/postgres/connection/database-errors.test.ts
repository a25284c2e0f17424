import { DatabaseError } from "pg";
import { describe, expect, test } from "vitest";
import {
  isCollision,
  isOperationsFault,
  isRefusal,
  LostRace,
} from "../../../../src/parts/postgres/connection/database-errors.ts";

/** Driver error from a server with German `lc_messages`. */
function germanError(severity: "FEHLER" | "FATAL" | "PANIK", code: string): DatabaseError {
  return Object.assign(new DatabaseError("Fehler", 69, "error"), { severity, code });
}

describe("Errors of a server in another language", () => {
  test.each(["22012", "23505", "40001", "40P01", "42P01", "53100", "55P03", "57014", "25P02"])(
    "A refusal by the code %s leaves the connection as it was",
    (code) => {
      expect(isRefusal(germanError("FEHLER", code))).toBe(true);
    },
  );

  test.each(["57P01", "57P02", "57P03", "25006", "25P03", "25P04", "08006", "53300", "58030", "XX000"])(
    "By the code %s the connection is lost or of no use, and with it what came of a COMMIT",
    (code) => {
      expect(isRefusal(germanError("FATAL", code))).toBe(false);
    },
  );

  test("A collision is retried, and an operation that cannot be written is refused alone", () => {
    expect(isCollision(germanError("FEHLER", "40P01"))).toBe(true);
    expect(isOperationsFault(germanError("FEHLER", "23502"))).toBe(true);
    expect(isOperationsFault(germanError("FEHLER", "40P01"))).toBe(false);
  });
});

test("A lost race is a refusal, and a broken connection is not", () => {
  expect(isRefusal(new LostRace("a payment was begun elsewhere meanwhile"))).toBe(true);
  expect(isRefusal(new Error("Connection terminated unexpectedly"))).toBe(false);
  expect(isRefusal(new DatabaseError("without a code", 0, "error"))).toBe(false);
});
