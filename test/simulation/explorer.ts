/** One thing that can happen next. */
export interface Step {
  /** For the trace. No two steps that can happen at one moment share it. */
  readonly name: string;
  run(): void;
}

/** One run of a system, from its beginning. Equal choices lead to equal runs. */
export interface Run {
  /** Steps that can happen now. None: the run is over. */
  steps(): readonly Step[];
  /** Text that is the same for two runs that can only go on alike. */
  state(): string;
  /** @throws Error that names the broken law */
  check(): void;
}

export interface Explored {
  /** Different states that were reached. */
  readonly states: number;
  readonly steps: number;
}

/** Longer runs are taken for endless. */
const MAX_STEPS = 200;

/**
 * Tries every order in which things can happen, depth first. A run cannot be copied, so each branch repeats its choices from
 * the beginning; a state that was seen before is left there.
 * @param maxStates exploring more is an error, so that nothing is left out unnoticed
 * @throws Error with the trace of the run that broke a law
 */
export async function explore(begin: () => Run, maxStates: number): Promise<Explored> {
  const seen = new Set<string>();
  let steps = 0;
  for (const open: (readonly number[])[] = [[]]; open.length > 0; ) {
    const path = [...(open.pop() ?? [])];
    const run = begin();
    const trace: string[] = [];
    try {
      for (let depth = 0; ; depth++) {
        if (depth > MAX_STEPS) throw new Error(`the run has more than ${MAX_STEPS} steps`);
        const isRepeated = depth < path.length;
        if (!isRepeated) {
          run.check();
          const state = run.state();
          if (seen.has(state)) break;
          seen.add(state);
          if (seen.size > maxStates) throw new Error(`there are more than ${maxStates} states`);
        }
        const next = run.steps();
        if (next.length === 0) break;
        if (!isRepeated) {
          for (let other = next.length - 1; other > 0; other--) open.push([...path, other]);
          path.push(0);
        }
        const step = next[path[depth] ?? 0];
        if (step === undefined) throw new Error("the same choices led to another run");
        trace.push(step.name);
        step.run();
        steps++;
        await settled();
      }
    } catch (error) {
      throw new Error([String(error), ...trace.map((name, i) => `${i + 1}. ${name}`)].join("\n  "), {
        cause: error,
      });
    }
  }
  return { states: seen.size, steps };
}

/** Resolves when every promise that could go on has. */
function settled(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}
