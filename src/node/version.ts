import { createRequire } from "node:module";

/** Version of this jobgate, from its package.json. */
export const { version } = createRequire(import.meta.url)("../../package.json") as { version: string };
