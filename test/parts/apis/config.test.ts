import { TOKEN, X402 } from "../../config/config-folder.ts";
import { testMistakes } from "../../config/mistake-cases.ts";

const API = `${X402}${TOKEN}
[[apis]]
name = "weather"
url = "http://127.0.0.1:8000"
[[jobs]]
route = "GET /weather/{city}"
api = "weather"
price = "$0.01"
mode = "public_paid"
job_index = 7`;

testMistakes([
  {
    promise: "A job of another service with the index of an API's job is a mistake",
    toml: `${API} #!\n[[jobs]]\nservice_id = 99\njob_index = 7\nprice = "$0.01"\nmode = "public_paid"`,
    keyPath: "jobs[0].job_index",
    message: /is 7, as in jobs\[1\]/,
  },
  {
    promise: "A webhook with the index of an API's job is a mistake",
    toml: `${API} #!\n[webhooks]\n[[webhooks.endpoints]]\npath = "/hooks/a"\njob_id = 7`,
    keyPath: "jobs[0].job_index",
    message: /is 7, as in webhooks\.endpoints\[0\]/,
  },
]);
