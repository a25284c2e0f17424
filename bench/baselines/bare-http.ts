import { serveBaseline } from "./serve.ts";

let callId = 0;
await serveBaseline(() => ++callId);
