import type { Part } from "../../part.ts";
import { cdpKeys } from "./config.ts";

/** Signs a token for each request to the facilitator of Coinbase's developer platform (CDP). */
export const part: Part = { entries: cdpKeys };
