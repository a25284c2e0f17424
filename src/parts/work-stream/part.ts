import type { Part } from "../../part.ts";

/** RPC Work: one stream that carries JobCalls to a runner, and outcomes back. */
export const part: Part = {
  async load() {
    const { workStream } = await import("./work-stream.ts");
    return () => ({ runnerStreams: workStream });
  },
};
