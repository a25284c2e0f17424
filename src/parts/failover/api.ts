/** `jobgate/failover`: the facilitators of a configuration that has several. */

export { SeveralFacilitators } from "./several-facilitators.ts";
