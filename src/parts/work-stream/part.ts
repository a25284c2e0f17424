import type { Part } from "../../part.ts";

/** Work: one stream that carries JobCalls to a runner, and its outcomes. */
export const part: Part = {
  async load() {
    const { workStream } = await import("./work-stream.ts");
    return () => ({ runnerStreams: workStream });
  },
};
