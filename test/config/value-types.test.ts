import { testMistakes } from "./mistake-cases.ts";

testMistakes([
  {
    promise: "A store URL with an unknown scheme is a mistake",
    toml: '[store]\nurl = "redis://x" #!',
    keyPath: "store.url",
    message: /"sqlite:PATH" or "postgres/,
  },
]);
