import { RecordedDisk } from "../../helpers/recorded-disk.ts";
import type { Simulation } from "./simulation.ts";

/** Folder of every file on the disk. No other file system has it. */
export const DISK = "/simulated-disk";
/** How often something goes wrong in a sync or a write of a good disk: a commit has one sync and about ten writes. */
const SYNC_FAILS = 0.004;
const POWER_FAILS_IN_SYNC = 0.002;
const POWER_FAILS_IN_WRITE = 0.0002;
const IS_FULL = 0.0002;
const BAD_DISK = 10;
const LONGEST_FULL_MS = 4_000;
/** A system whose disk fails does not live long: gateways die of it until the power goes. */
const DIES_OF_IT = 0.5;
const LONGEST_LIFE_MS = 1_000;

/** Error of a file operation. */
export class DiskError extends Error {
  override readonly name = "DiskError";
  readonly code: "EIO" | "ENOSPC";

  constructor(code: "EIO" | "ENOSPC") {
    super(code);
    this.code = code;
  }
}

interface DiskParts {
  readonly simulation: Simulation;
  readonly files: ReadonlyMap<string, Buffer>;
  /** Probability that a sync fails. Default: that of a good disk, or of a bad one. */
  readonly syncFailure: number | undefined;
  /** Called when what runs has died of the power or of the disk. */
  onDeath(): void;
}

/**
 * A disk below a file system with a cache. Programs see the cache. A power loss leaves anything of what was not synced:
 * each write, file name and length is kept, lost or torn. After a sync that fails, what it covered is as uncertain, and
 * no later sync writes it, as on Linux.
 */
export class Disk {
  readonly #simulation: Simulation;
  readonly #onDeath: () => void;
  /** How many times more often than on a good disk something goes wrong. */
  readonly #badness: number;
  readonly #syncFailure: number | undefined;
  #medium: RecordedDisk;
  #cache: Map<string, Buffer>;
  #fullUntil = 0;
  /** Changes with each power loss: what was opened before it is gone. */
  powerCycle = 0;

  constructor({ simulation, files, syncFailure, onDeath }: DiskParts) {
    this.#simulation = simulation;
    this.#onDeath = onDeath;
    this.#syncFailure = syncFailure;
    this.#badness = simulation.random("the disk is bad") < 0.3 ? BAD_DISK : 1;
    this.#medium = new RecordedDisk(DISK, files);
    this.#cache = copyOf(files);
  }

  /** The files as programs see them. */
  get files(): ReadonlyMap<string, Buffer> {
    return this.#cache;
  }

  create(path: string): void {
    this.#medium.apply({ kind: "create", path });
    this.#cache.set(path, Buffer.alloc(0));
  }

  remove(path: string): void {
    this.#medium.apply({ kind: "unlink", path });
    this.#cache.delete(path);
  }

  /** @throws DiskError when a part was not written */
  write(path: string, offset: number, data: Uint8Array): void {
    const run = this.#simulation;
    if (run.fault("the power fails during a write", this.#badness * POWER_FAILS_IN_WRITE)) this.#failPower();
    if (run.fault("the disk is full", this.#badness * IS_FULL))
      this.#fullUntil = run.now + run.delay("full", 0, LONGEST_FULL_MS);
    const size = this.#read(path).byteLength;
    const isFull = run.now < this.#fullUntil && !run.isHealed && offset + data.byteLength > size;
    const bytes = Buffer.from(
      isFull ? data.subarray(0, Math.floor(run.random("part") * data.byteLength)) : data,
    );
    this.#medium.apply({ kind: "write", path, offset, bytes });
    if (offset + bytes.byteLength > size) this.#resize(path, offset + bytes.byteLength);
    bytes.copy(this.#read(path), offset);
    if (isFull) throw new DiskError("ENOSPC");
  }

  truncate(path: string, size: number): void {
    this.#medium.apply({ kind: "truncate", path, size });
    this.#resize(path, size);
  }

  /** @throws DiskError when it fails */
  sync(path: string): void {
    const run = this.#simulation;
    if (run.fault("the power fails during a sync", this.#badness * POWER_FAILS_IN_SYNC)) this.#failPower();
    if (run.fault("a sync fails", this.#syncFailure ?? this.#badness * SYNC_FAILS)) {
      const kept = this.#medium.failSync(path);
      // Linux reads the pages again, from the disk, once it needed their memory.
      if (run.random("pages are dropped") < 0.5) this.#cache.set(path, copied(kept, kept.byteLength));
      if (run.fault("the gateway dies of a failed sync", DIES_OF_IT)) this.#die();
      throw new DiskError("EIO");
    }
    this.#syncAll(path);
  }

  /** Makes the names of files durable. */
  syncNames(): void {
    this.#syncAll(DISK);
  }

  losePower(): void {
    this.powerCycle++;
    const files = this.#medium.afterPowerLoss();
    this.#medium = new RecordedDisk(DISK, files);
    this.#cache = copyOf(files);
    const sizes = [...files].map(
      ([path, bytes]) => `${path.slice(DISK.length + 1)} of ${bytes.byteLength} bytes`,
    );
    this.#simulation.say(`the disk has ${sizes.join(", ")}`);
  }

  /** Ends the process that runs, in the middle of what it does. */
  #failPower(): never {
    const run = this.#simulation;
    run.current.isAlive = false;
    this.losePower();
    run.at(0, run.world, this.#onDeath);
    throw new DiskError("EIO");
  }

  #die(): void {
    const run = this.#simulation;
    run.at(run.delay("life on a failed disk", 0, LONGEST_LIFE_MS), run.world, () => {
      if (run.isHealed) return;
      if (run.random("the power goes") < 0.4) this.losePower();
      else this.#die();
      this.#onDeath();
    });
  }

  #syncAll(path: string): void {
    this.#medium.apply({ kind: "sync", path, thread: "" });
    this.#medium.apply({ kind: "synced", path, thread: "" });
  }

  #read(path: string): Buffer {
    const content = this.#cache.get(path);
    if (content === undefined) throw new Error(`there is no file ${path}`);
    return content;
  }

  #resize(path: string, size: number): void {
    this.#cache.set(path, resized(this.#read(path), size));
  }
}

function copyOf(files: ReadonlyMap<string, Buffer>): Map<string, Buffer> {
  return new Map([...files].map(([path, bytes]) => [path, copied(bytes, bytes.byteLength)]));
}

/** Returns a file of another length, with zeros at its end if it is longer, in the same memory if there is enough. */
function resized(bytes: Buffer, size: number): Buffer {
  const { buffer, byteOffset, byteLength } = bytes;
  if (size > buffer.byteLength - byteOffset) return copied(bytes, size);
  return Buffer.from(buffer, byteOffset, size).fill(0, Math.min(size, byteLength));
}

function copied(bytes: Buffer, size: number): Buffer {
  const copy = Buffer.alloc(Math.max(64 * 1024, 2 * size)).subarray(0, size);
  bytes.copy(copy);
  return copy;
}
