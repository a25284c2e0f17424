import { expect, it } from "vitest";
import { type Challenge, Challenges } from "../../../src/parts/mpp/challenges.ts";

const START = Date.parse("2026-01-01T00:00:00.500Z");
let now = START;
const config = (...secretKeys: string[]) => ({ realm: "shop", secretKeys, challengeTtlSecs: 60 });
const open = (...secretKeys: string[]) => {
  now = START;
  return new Challenges({ config: config(...secretKeys), clock: () => now });
};
const terms = {
  method: "evm",
  request: "e30",
  digest: "sha-256=:a:",
  opaque: "e30",
  maxSecs: 300,
  runSecs: 0,
};

it("A challenge is its own until any of its parameters is changed", () => {
  const challenges = open("a");
  const challenge = challenges.make(terms);
  expect(challenges.isOwn(challenge)).toBe(true);
  for (const name of Object.keys(challenge)) {
    for (const value of ["x", "", undefined]) {
      const changed = { ...challenge, [name]: value ?? "" } as Challenge;
      expect([name, value, challenges.isOwn(changed)]).toEqual([name, value, false]);
    }
  }
});

it("A challenge expires with the TTL or the offer, whichever is first, and never lacks an end", () => {
  const challenges = open("a");
  const lasts = (maxSecs: number, ms: number) => {
    now = START;
    const challenge = challenges.make({ ...terms, maxSecs });
    now = START + ms;
    return !challenges.hasExpired(challenge);
  };
  // Ends are whole seconds, rounded down.
  expect([lasts(300, 59_499), lasts(300, 59_500)]).toEqual([true, false]);
  expect([lasts(10, 9_499), lasts(10, 9_500)]).toEqual([true, false]);
  const { expires: _, ...endless } = challenges.make(terms);
  expect(challenges.hasExpired(endless)).toBe(true);
  expect(challenges.hasExpired({ ...endless, expires: "tomorrow" })).toBe(true);
});

it("A challenge of a job that is charged after it ran lasts as much longer as its payment must", () => {
  const challenges = open("a");
  const { expires = "" } = challenges.make({ ...terms, maxSecs: 10, runSecs: 360 });
  expect(Date.parse(expires)).toBe(Math.floor((START + 370_000) / 1_000) * 1_000);
});

it("After a rotation challenges of the old secret are accepted, whether it is still configured or not, until they have ended", () => {
  const challenges = open("old");
  const challenge = challenges.make(terms);
  challenges.reload(config("new", "old"));
  now = START + 10 * 60_000;
  expect(challenges.isOwn(challenge)).toBe(true);
  expect(open("old").isOwn(challenges.make(terms))).toBe(false);

  now = START;
  challenges.reload(config("new"));
  expect(challenges.isOwn(challenge)).toBe(true);
  // Another reload does not give a removed secret more time.
  now = START + 30_000;
  challenges.reload(config("newer"));
  now = START + 59_999;
  expect(challenges.isOwn(challenge)).toBe(true);
  now = START + 60_000;
  expect(challenges.isOwn(challenge)).toBe(false);
});

it("A secret that was never configured makes no challenge of its own", () => {
  const challenges = open("a", "b");
  expect(challenges.isOwn(open("b").make(terms))).toBe(true);
  expect(challenges.isOwn(open("c").make(terms))).toBe(false);
});
