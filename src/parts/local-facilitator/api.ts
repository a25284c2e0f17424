/** `jobgate/local-facilitator`: settles payments with transactions from the embedding program's own accounts. */

export { LocalFacilitator } from "./local-facilitator.ts";
