import { testMistakes } from "./mistake-cases.ts";

testMistakes([
  {
    promise: "A store URL with an unknown scheme is a mistake",
    toml: '[store]\nurl = "redis://x" #!',
    keyPath: "store.url",
    message: /"sqlite:PATH" or "postgres/,
  },
  {
    promise: "A store URL with several hosts is a mistake",
    toml: '[store]\nurl = "postgres://a:5432,b:5432/jobgate" #!',
    keyPath: "store.url",
    message: /with one host/,
  },
]);
