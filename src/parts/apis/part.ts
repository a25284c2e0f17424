import type { Config } from "../../config/config.ts";
import type { Part } from "../../part.ts";
import { apiJobKeys, apisTable } from "./config.ts";

/** Sells the routes of HTTP APIs: jobgate is the runner of their jobs. */
export const part: Part = {
  table: apisTable,
  entries: apiJobKeys,
  async load(config) {
    const hasApis = ({ parts }: Pick<Config, "parts">) => (apisTable.in({ parts }) ?? []).length > 0;
    if (!hasApis(config)) return undefined;
    const { Apis } = await import("./apis.ts");
    return (host) => new Apis(host);
  },
};
