/** `jobgate/work-stream`: the method Work of a `RunnerServer`. */

export { workStream } from "./work-stream.ts";
