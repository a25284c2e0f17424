// The parts of this build. To delete a part, delete its line here and its folder.
// Every command that reads a configuration loads these faces, so they are small.
export { part as apis } from "./parts/apis/part.ts";
export { part as books } from "./parts/books/part.ts";
export { part as callbacks } from "./parts/callbacks/part.ts";
export { part as callers } from "./parts/callers/part.ts";
export { part as catalogue } from "./parts/catalogue/part.ts";
export { part as cdp } from "./parts/cdp/part.ts";
export { part as facilitatorService } from "./parts/facilitator-service/part.ts";
export { part as failover } from "./parts/failover/part.ts";
export { part as localFacilitator } from "./parts/local-facilitator/part.ts";
export { part as mcp } from "./parts/mcp/part.ts";
export { part as mpp } from "./parts/mpp/part.ts";
export { part as operator } from "./parts/operator/part.ts";
export { part as page } from "./parts/page/part.ts";
export { part as permit2 } from "./parts/permit2/part.ts";
export { part as postgres } from "./parts/postgres/part.ts";
export { part as pricingEngine } from "./parts/pricing-engine/part.ts";
export { part as push } from "./parts/push/part.ts";
export { part as rates } from "./parts/rates/part.ts";
export { part as receipts } from "./parts/receipts/part.ts";
export { part as refunds } from "./parts/refunds/part.ts";
export { part as requestPrices } from "./parts/request-prices/part.ts";
export { part as retention } from "./parts/retention/part.ts";
export { part as shop } from "./parts/shop/part.ts";
export { part as signIn } from "./parts/sign-in/part.ts";
export { part as telemetry } from "./parts/telemetry/part.ts";
export { part as workStream } from "./parts/work-stream/part.ts";
