import { type ConfigSource, loadConfigWith, loadStorePlaceWith } from "./config/load-config.ts";
import { partKeys, storeTables } from "./load-parts.ts";

const BUILD = partKeys();

/** Reads and checks a configuration for this build, including the keys of its parts. */
export const loadConfig = (source: ConfigSource) => loadConfigWith(BUILD, source);

/** Reads the place of the store, for commands that read the store while another process serves it. */
export const loadStorePlace = (file: Parameters<typeof loadStorePlaceWith>[1]) =>
  loadStorePlaceWith(storeTables(), file);
