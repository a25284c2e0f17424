export { explore } from "./explorer.ts";
export { PaymentsRun } from "./payments.ts";
