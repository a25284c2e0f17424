import { TOKEN } from "./config-folder.ts";
import { testMistakes, x402 } from "./mistake-cases.ts";

testMistakes([
  {
    promise: "An unknown key is a mistake",
    toml: "sevice_id = 1 #!",
    keyPath: "sevice_id",
    message: /not a known key; did you mean service_id\?/,
    suggestion: "service_id",
  },
  {
    promise: "An unknown key in a nested table is a mistake",
    ...x402("facilitator_timeout_sec", "3"),
    message: /did you mean facilitator_timeout_secs/,
    suggestion: "facilitator_timeout_secs",
  },
  {
    promise: "An unknown key that resembles no known one lists them all",
    toml: "[operator]\nzzzzzzzzzzzz = 1 #!",
    keyPath: "operator.zzzzzzzzzzzz",
    message: /this build has no key operator.zzzzzzzzzzzz; expected one of bind_address, token/,
  },
  {
    promise: "A table that no part of this build reads is a mistake",
    toml: "[x402.discounts] #!\npercent = 1",
    keyPath: "x402.discounts",
    message: /^is not a known key: this build has no table x402.discounts; expected one of bind_address, /,
  },
  {
    promise: "An unknown table in an entry of a list is a mistake that names it and the keys of the entry",
    toml: '[[x402.facilitators]]\nurl = "https://a.example"\nauth.header.x-key = "hunter2" #!',
    keyPath: "x402.facilitators[0].auth.header",
    message:
      /^is not a known key: this build has no table x402.facilitators.auth.header; expected one of headers(, \w+)*; did you mean headers\?$/,
    suggestion: "headers",
  },
  {
    promise: "A misspelt table is a mistake that suggests the table",
    toml: "[stoer] #!\nmax_pending = 1",
    keyPath: "stoer",
    message: /^is not a known key: this build has no table stoer; expected one of .*; did you mean store\?$/,
    suggestion: "store",
  },
  {
    promise: "A value of the wrong type is a mistake that says what is expected",
    toml: '[store]\nmax_pending = "many" #!',
    keyPath: "store.max_pending",
    message: /^is "many"; expected an integer from 1 to 1000000000$/,
  },
  {
    promise: "A number out of range is a mistake that says the range",
    toml: "[store]\nmax_pending = 0 #!",
    keyPath: "store.max_pending",
    message: /is 0; expected an integer from 1 to/,
  },
  {
    promise: "A margin that leaves a facilitator no time to settle a metered charge is a mistake",
    toml: "[x402]\nsettle_margin_secs = 9 #!",
    keyPath: "x402.settle_margin_secs",
    message: /is 9; expected an integer from 10 to/,
  },
  {
    promise: "A value instead of a table is a mistake",
    toml: "runner = 3 #!",
    keyPath: "runner",
    message: /an integer; expected a table/,
  },
  {
    promise: "A missing required key is a mistake on the line of its table",
    toml: `[x402] #!\n${TOKEN}`,
    keyPath: "x402.facilitator_url",
    message: /is missing; expected an absolute/,
  },
  {
    promise: "A service id above u64 is a mistake",
    toml: 'service_id = "18446744073709551616" #!',
    keyPath: "service_id",
    message: /2\^64 - 1/,
  },
  {
    promise: "A negative service id is a mistake",
    toml: "service_id = -1 #!",
    keyPath: "service_id",
    message: /is -1; expected an integer from 0/,
  },
  {
    promise: "A negative lease is a mistake",
    toml: "[runner]\nlease_secs = -0.5 #!",
    keyPath: "runner.lease_secs",
    message: /number of seconds/,
  },
]);
