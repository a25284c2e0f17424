import { AsyncLocalStorage } from "node:async_hooks";
import type { Step } from "./explorer.ts";

/** Something that a replica does from beginning to end, such as the answer to one request. */
export interface Task {
  readonly kind: string;
  readonly replica: number;
  /** Number of the payment. */
  readonly payment: number;
  /** For the trace. */
  readonly name: string;
  /** Everything that it was told so far, which decides how it goes on. */
  readonly heard: string[];
  state: "running" | "over" | "dead";
}

/** A way in which the world can answer a task: what it does, and what the task then hears. */
export interface Answer {
  readonly name: string;
  effect?(): void;
  value?(): unknown;
  readonly error?: string;
}

interface Question {
  readonly task: Task;
  readonly text: string;
  /** For the trace. */
  readonly name: string;
  answers(): readonly Answer[];
  resolve(value: unknown): void;
  reject(error: Error): void;
}

/** Sleeps this long are looks at the chain while a facilitator does not answer: each task takes one. */
export const EARLY_LOOK_MS = 1_000_000;

const current = new AsyncLocalStorage<{ readonly tasks: Tasks; readonly task: Task }>();

/** Asks the world for an answer to the running task, which gets it whenever the explored order says so. */
export function ask<T>(text: string, answers: () => readonly Answer[]): Promise<T> {
  const { tasks, task } = running();
  return tasks.ask(task, text, answers);
}

/** The running task. */
export function currentTask(): Task {
  return running().task;
}

function running() {
  const found = current.getStore();
  if (found === undefined) throw new Error("not in a task");
  return found;
}

/** Takes the place of `node:timers/promises`. A pause that nobody else can use is none. */
export function sleep(delayMs: number): Promise<void> {
  if (delayMs < EARLY_LOOK_MS) return Promise.resolve();
  if (currentTask().heard.includes("sleep=over")) return new Promise(() => undefined);
  return ask("sleep", () => [{ name: "over" }]);
}

/** All that is going on. */
export class Tasks {
  readonly #tasks: Task[] = [];
  #questions: Question[] = [];

  /** Nothing waits for an answer. */
  get areOver(): boolean {
    return this.#questions.length === 0;
  }

  /** Runs a function and all that follows from it as a task. */
  run(
    { kind, replica, payment }: Pick<Task, "kind" | "replica" | "payment">,
    work: () => Promise<void>,
  ): void {
    const number = this.#tasks.length + 1;
    const name = `${number}. ${kind} ${payment} at replica ${replica}`;
    const task: Task = { kind, replica, payment, name, heard: [], state: "running" };
    this.#tasks.push(task);
    void current.run({ tasks: this, task }, work).finally(() => {
      if (task.state !== "dead") task.state = "over";
      this.#questions = this.#questions.filter((question) => question.task !== task);
    });
  }

  ask<T>(task: Task, text: string, answers: () => readonly Answer[]): Promise<T> {
    return new Promise((resolve, reject) => {
      const name = `${task.name}: ${text}`;
      this.#questions.push({
        task,
        text,
        name,
        answers,
        resolve: resolve as (value: unknown) => void,
        reject,
      });
    });
  }

  /** A replica dies. What it has sent may still arrive. */
  kill(replica: number): void {
    for (const task of this.#tasks) if (task.replica === replica) task.state = "dead";
    this.#questions = this.#questions.filter(
      ({ task, text }) => task.state !== "dead" || !["sleep", "look", "find"].includes(text),
    );
  }

  steps(): Step[] {
    return this.#questions.flatMap((question) => {
      const lost: Answer[] = question.task.state === "dead" ? [{ name: "never arrives" }] : [];
      return [...question.answers(), ...lost].map((answer) => ({
        name: `${question.name}: ${answer.name}`,
        run: () => this.#answer(question, answer),
      }));
    });
  }

  #answer(question: Question, answer: Answer): void {
    const { task, text, resolve, reject } = question;
    this.#questions = this.#questions.filter((other) => other !== question);
    if (answer.name !== "never arrives") answer.effect?.();
    if (task.state === "dead") return;
    task.heard.push(`${text}=${answer.name}`);
    if (answer.error === undefined) resolve(answer.value?.());
    else reject(new Error(answer.error));
  }

  /** Tells whether a replica that did not die since has heard a word about a payment. */
  hasHeard(payment: number, word: string, replica?: number): boolean {
    return this.#tasks.some(
      (task) =>
        task.state !== "dead" &&
        task.payment === payment &&
        (replica === undefined || task.replica === replica) &&
        task.heard.some((heard) => heard.endsWith(word)),
    );
  }

  /** @param nameOf name of a replica */
  state(nameOf: (replica: number) => number): unknown {
    const waiting = this.#questions
      .filter(({ task }) => task.state === "dead")
      .map(({ task, text }) => `lost ${task.kind} ${task.payment} ${text}`);
    const running = this.#tasks
      .filter(({ state }) => state === "running")
      .map(({ kind, payment, replica, heard }) => `${kind} ${payment}@${nameOf(replica)} ${heard.join()}`);
    return [...waiting, ...running].sort();
  }
}
