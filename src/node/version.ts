import { createRequire } from "node:module";

/** Of this jobgate, from its package. */
export const { version } = createRequire(import.meta.url)("../../package.json") as { version: string };
