import { TOKEN, X402 } from "../config/config-folder.ts";
import { testMistakes } from "../config/mistake-cases.ts";

testMistakes([
  {
    promise: "An API at the listener of a part is a mistake",
    toml: `${X402}${TOKEN}[x402.facilitator_service]
bind_address = "127.0.0.1:8406"
tokens = ["seller-a"]
[[apis]]
name = "weather"
url = "http://localhost:8406/settle" #!`,
    keyPath: "apis[0].url",
    message: /a listener of this jobgate/,
  },
]);
