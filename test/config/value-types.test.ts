import { testMistakes } from "./mistake-cases.ts";

testMistakes([
  {
    promise: "A store URL with an unknown scheme is a mistake",
    toml: '[store]\nurl = "redis://x" #!',
    keyPath: "store.url",
    message: /"sqlite:PATH", or "postgres/,
  },
  {
    promise: "A store URL whose list of hosts ends in a comma is a mistake",
    toml: '[store]\nurl = "postgres://a:5432,/jobgate" #!',
    keyPath: "store.url",
    message: /empty host in its list/,
  },
]);
