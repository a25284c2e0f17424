import { type ConfigSource, loadConfigWith, loadStorePlaceWith } from "./config/load-config.ts";
import { partKeys, storeTables } from "./load-parts.ts";

const BUILD = partKeys();

/** Reads and checks a configuration for this build, with what its parts bring. */
export const loadConfig = (source: ConfigSource) => loadConfigWith(BUILD, source);

/** Reads where the store is, for commands that look at it beside the process that serves it. */
export const loadStorePlace = (file: Parameters<typeof loadStorePlaceWith>[1]) =>
  loadStorePlaceWith(storeTables(), file);
