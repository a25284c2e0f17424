/** `jobgate/local-facilitator`: settles payments with transactions of the program's own accounts. */

export { LocalFacilitator } from "./local-facilitator.ts";
