import { describeStoreContract } from "../store-contract.ts";
import { openInTempFolder } from "./open-in-temp-folder.ts";

describeStoreContract("The SQLite store", openInTempFolder);
