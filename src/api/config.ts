/** `jobgate/config`: reads a configuration file for the parts that a program embeds. */

export { afterReload, changesThatNeedRestart } from "../config/checked-file.ts";
export type { Config, OperatorConfig } from "../config/config.ts";
export type { LoadConfigResult } from "../config/load-config.ts";
export { type Mistake, mistakeText } from "../config/mistakes.ts";
export type {
  BindAddress,
  IpRange,
  TcpAddress,
} from "../core/network-address.ts";
export { loadConfig } from "../load-config.ts";
