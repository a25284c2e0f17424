import { describe } from "vitest";
import { givenStore } from "../contract/given.ts";
import { describeManyRefusedPayments } from "../contract/refused-payments.ts";
import { openInTempFolder } from "./open-in-temp-folder.ts";

describe("The SQLite store with many rows", () => describeManyRefusedPayments(givenStore(openInTempFolder)));
