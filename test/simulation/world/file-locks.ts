import type { Pointer, Sqlite } from "./sqlite-wasm.ts";

/** Levels of SQLite's locks on a file. */
const SHARED = 1;
const RESERVED = 2;
const EXCLUSIVE = 4;

/** Locks on files, by path and holder. Those of holders that are not live any more are gone. */
export class FileLocks<Holder> {
  readonly #isLive: (holder: Holder) => boolean;
  readonly #levels = new Map<string, Map<Holder, number>>();

  constructor(isLive: (holder: Holder) => boolean) {
    this.#isLive = isLive;
  }

  /** Takes a lock of a level, or goes back to one. @returns false when another holder's lock keeps it from that */
  take(path: string, holder: Holder, level: number): boolean {
    const levels = this.#levels.get(path) ?? new Map<Holder, number>();
    this.#levels.set(path, levels);
    const others = this.#othersOf(path, holder);
    const isBlocked =
      level >= EXCLUSIVE
        ? others.length > 0
        : others.some((other) => other > RESERVED || (level >= RESERVED && other >= RESERVED));
    const isRising = level > (levels.get(holder) ?? 0);
    if (isRising && isBlocked) return false;
    levels.set(holder, level);
    return true;
  }

  release(path: string, holder: Holder): void {
    this.#levels.get(path)?.delete(holder);
  }

  isReserved(path: string): boolean {
    return this.#othersOf(path, undefined).some((level) => level >= RESERVED);
  }

  #othersOf(path: string, holder: Holder | undefined): number[] {
    return [...(this.#levels.get(path) ?? [])].flatMap(([other, level]) =>
      other !== holder && this.#isLive(other) && level >= SHARED ? [level] : [],
    );
  }
}

type LockKind = "none" | "shared" | "exclusive";

interface Memory<Holder> {
  readonly regions: Pointer[];
  /** Kinds of locks by their place, of all that use the memory. */
  readonly users: Map<Holder, Map<number, LockKind>>;
}

/** The memory in which connections share an index of the log, and its locks. It is gone with its last user. */
export class SharedMemory<Holder> {
  readonly #wasm: Sqlite["wasm"];
  readonly #isLive: (holder: Holder) => boolean;
  readonly #memories = new Map<string, Memory<Holder>>();

  constructor(wasm: Sqlite["wasm"], isLive: (holder: Holder) => boolean) {
    this.#wasm = wasm;
    this.#isLive = isLive;
  }

  /** Returns a part of the memory; 0 when it is not there and not asked to be made. */
  region(
    path: string,
    user: Holder,
    { region, bytes, extends: isMade }: { region: number; bytes: number; extends: boolean },
  ): Pointer {
    const { regions } = this.#join(path, user);
    while (isMade && regions.length <= region) {
      const pointer = this.#wasm.alloc(bytes);
      this.#wasm.heap8u().fill(0, pointer, pointer + bytes);
      regions.push(pointer);
    }
    return regions[region] ?? 0;
  }

  /** Takes some locks, or gives them back. @returns false when another user's locks keep it from that */
  lock(
    path: string,
    user: Holder,
    { first, count, kind }: { first: number; count: number; kind: LockKind },
  ): boolean {
    const { users } = this.#join(path, user);
    const places = Array.from({ length: count }, (_, i) => first + i);
    const isBlocked = [...users].some(
      ([other, locks]) =>
        other !== user &&
        this.#isLive(other) &&
        places.some((place) => {
          const held = locks.get(place) ?? "none";
          return held === "exclusive" || (held === "shared" && kind === "exclusive");
        }),
    );
    if (kind !== "none" && isBlocked) return false;
    for (const place of places) users.get(user)?.set(place, kind);
    return true;
  }

  leave(path: string, user: Holder): void {
    this.#memories.get(path)?.users.delete(user);
  }

  #join(path: string, user: Holder): Memory<Holder> {
    let memory = this.#memories.get(path);
    if (memory === undefined || ![...memory.users.keys()].some((other) => this.#isLive(other))) {
      for (const pointer of memory?.regions ?? []) this.#wasm.dealloc(pointer);
      memory = { regions: [], users: new Map() };
      this.#memories.set(path, memory);
    }
    if (!memory.users.has(user)) memory.users.set(user, new Map());
    return memory;
  }
}
